"""`warpmeter dead-letters`: what could not be stored, why, and again."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.common import explained
from warpmeter.cli.options import Data, Dsn, Json
from warpmeter.settings import Settings

if TYPE_CHECKING:
    from warpmeter.consumers.replay.letterbox import Wanted
    from warpmeter.consumers.replay.letters import Replayed

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})

Topic = Annotated[
    str | None, typer.Option("--topic", help="Only those of this topic.", autocompletion=complete.topic_names)
]
Reason = Annotated[str | None, typer.Option("--reason", help="Only those whose reason holds this text.")]
Since = Annotated[str | None, typer.Option("--since", help="Refused since: 2h, or 2026-01-31T12:00 (UTC).")]
All = Annotated[bool, typer.Option("--all", help="Also those that were replayed.")]


@app.callback()
def main() -> None:
    """Messages that could not be stored: list them, look at one, replay them after the cause is mended."""


@app.command("list")
def list_command(
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    replayed: All = False,
    each: Annotated[bool, typer.Option("--each", help="Single letters instead of counts by reason.")] = False,
    number: Annotated[int, typer.Option("-n", help="With --each: so many at most.")] = 100,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """How many there are of each topic and reason, or (--each) one by one, the newest first."""
    from warpmeter.consumers.replay import letterbox

    settings = common.settings(data, store={"dsn": store})
    with _explained():
        wanted = _wanted(settings, Chosen(topic, reason, since, replayed))
    with _explained(), _client(settings) as client:
        if each:
            letters = letterbox.letters(client, wanted, number)
            rows = [(x.place, common.said(x.ts), x.key, x.bytes, x.reason, common.said(x.replayed_at)) for x in letters]
            _show(as_json, letters, ("letter", "refused at", "key", "bytes", "reason", "replayed at"), rows)
        else:
            groups = letterbox.groups(client, wanted)
            found = [
                (g.topic, g.messages, g.bytes, common.said(g.first_at), common.said(g.last_at), g.reason, g.example)
                for g in groups
            ]
            _show(as_json, groups, ("topic", "messages", "bytes", "first at", "last at", "reason", "example"), found)


@app.command()
def show(
    letter: Annotated[str, typer.Argument(help="TOPIC/PARTITION/OFFSET, as list gives it.")],
    raw: Annotated[bool, typer.Option("--raw", help="Write the message's bytes to stdout, and nothing else.")] = False,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """One letter: why it was refused, its key and headers, its bytes, and its rows as far as they decode."""
    from warpmeter.cli import letters as showing
    from warpmeter.consumers.replay import letterbox

    settings = common.settings(data, store={"dsn": store})
    with _explained(), _client(settings) as client:
        found = letterbox.one(client, *letterbox.parsed(letter, settings.kafka.topic_prefix))
        (content,) = letterbox.contents(client, [found])
    if raw:
        sys.stdout.buffer.write(content.value)
        return
    told = showing.told(found, content, settings.kafka.topic_prefix)
    common.print_json(told) if as_json else showing.show(told)


@app.command()
def replay(
    letters: Annotated[list[str] | None, typer.Argument(help="TOPIC/PARTITION/OFFSET; none takes all chosen.")] = None,
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    replayed: All = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would land.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Ask the store again, after its cause was mended, and land what it takes now. Rows that are there are left out,
    so nothing lands twice, however often. Exit status 1 when some are still refused."""
    settings = common.writable(common.settings(data, store={"dsn": store}), data)
    with _explained():
        chosen = _places(settings, letters or [], Chosen(topic, reason, since, replayed))
        if not (yes or dry_run) and not _sure(settings, chosen):
            raise typer.Exit(1)
        done = _replay(settings, chosen, dry_run)
    _print(done, dry_run, as_json)
    raise typer.Exit(int(bool(done.refused)))


@dataclass(frozen=True)
class Chosen:
    """The filters, as they were given."""

    topic: str | None
    reason: str | None
    since: str | None
    replayed: bool


def _explained() -> Any:
    from warpmeter.consumers.replay.errors import ReplayError
    from warpmeter.store import ClickHouseError
    from warpmeter.tail import TailError

    return explained(ClickHouseError, ReplayError, TailError, ValueError)


def _client(settings: Settings) -> Any:
    from contextlib import closing

    from warpmeter.store import connect

    return closing(connect(settings.store))


def _wanted(settings: Settings, chosen: Chosen) -> "Wanted":
    from warpmeter.consumers.replay.letterbox import Wanted
    from warpmeter.tail import topic_named

    prefix = settings.kafka.topic_prefix
    name = None if chosen.topic is None else topic_named(chosen.topic, prefix).full_name(prefix)
    since = None if chosen.since is None else common.moment(chosen.since)
    return Wanted(name, chosen.reason, since, None, chosen.replayed)


def _places(settings: Settings, letters: list[str], chosen: Chosen) -> list["Wanted"]:
    """One selection for all, or one for each letter that is named (also when it was replayed before)."""
    from warpmeter.consumers.replay.letterbox import Wanted, one, parsed

    if not letters:
        return [_wanted(settings, chosen)]
    with _client(settings) as client:
        found = [one(client, *parsed(place, settings.kafka.topic_prefix)) for place in letters]
    return [Wanted(each.topic, place=(each.uuid, each.partition, each.offset), replayed=True) for each in found]


def _sure(settings: Settings, chosen: list["Wanted"]) -> bool:
    from warpmeter.consumers.replay.letterbox import groups

    with _client(settings) as client:
        count = sum(group.messages for wanted in chosen for group in groups(client, wanted))
    if not sys.stdin.isatty():
        common.fail("nothing was changed: --yes goes on without a question, --dry-run says what would land", 2)
    return typer.confirm(f"Ask the store about {count} letters, and land those that it takes now?", err=True)


def _replay(settings: Settings, chosen: list["Wanted"], dry_run: bool) -> "Replayed":
    from warpmeter.cli.replaying import Watch
    from warpmeter.consumers.replay.letters import Replayed, replay

    done = Replayed()
    with Watch(True).shown() as watch:
        for wanted in chosen:
            found = replay(settings, wanted, watch, dry_run)
            done = Replayed(
                done.landed + found.landed, done.there + found.there, done.refused + found.refused,
                done.rows + found.rows, done.finished + found.finished,
            )  # fmt: skip
    return done


def _print(done: "Replayed", dry_run: bool, as_json: bool) -> None:
    if as_json:
        refused = [{"letter": letter.place, "reason": why} for letter, why in done.refused]
        common.print_json(
            {
                "landed": [letter.place for letter in done.landed],
                "there": [letter.place for letter in done.there],
                "refused": refused,
                "rows": done.rows,
                "finished": done.finished,
            }
        )
        return
    if done.refused:
        rows = [(letter.place, why) for letter, why in done.refused[:50]]
        common.print_table("still refused", ("letter", "reason"), rows)
    would = "would land" if dry_run else "landed"
    common.err.print(
        f"{would} {len(done.landed)} letters with {done.rows} rows; {len(done.there)} were in the tables already, "
        f"{len(done.refused)} are refused" + (f"; {done.finished} of an interrupted replay" if done.finished else ""),
        highlight=False,
        soft_wrap=True,
    )


def _show(as_json: bool, found: list[Any], columns: tuple[str, ...], rows: list[Any]) -> None:
    if as_json:
        common.print_json(found)
    else:
        common.print_table("", columns, rows)
