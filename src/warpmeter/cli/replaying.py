"""`warpmeter replay`: what would change, hour by hour, a question, and a bar while it works."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from warpmeter.cli import common
from warpmeter.settings import Settings
from warpmeter.up.folder import Folder

if TYPE_CHECKING:
    from warpmeter.consumers.replay.compare import Hour, Standing
    from warpmeter.consumers.replay.hours import Range
    from warpmeter.consumers.replay.load import Counted
    from warpmeter.consumers.replay.run import Outcome


@dataclass(frozen=True)
class Wish:
    """What the command was asked for."""

    topics: Sequence[str]
    wanted: "Range"
    allow_loss: bool = False
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False


def hours(since: str, until: str) -> "Range":
    """The whole hours from one time to another, as people say them; ends with exit status 2 where those are none."""
    from warpmeter.consumers.replay.hours import said, widened

    start, end = common.moment(since), common.moment(until)
    try:
        wanted = widened(start, end)
    except ValueError as error:
        common.fail(str(error), 2)
    if (wanted.start, wanted.end) != (start, end):
        note(f"widened to whole hours, which the rollups have: {said(wanted.start)} to {said(wanted.end)}")
    return wanted


def note(text: str) -> None:
    """One line for a person, on stderr."""
    common.err.print(text, markup=False, highlight=False, soft_wrap=True)


class Watch:
    """Tells a person on stderr: a bar on a terminal, a line a stage elsewhere."""

    def __init__(self, yes: bool, quiet: bool = False) -> None:
        self._yes, self._quiet = yes, quiet
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=common.err, transient=True,
        )  # fmt: skip
        self._task: TaskID | None = None

    @contextmanager
    def shown(self) -> Iterator["Watch"]:
        """Show the bar while inside."""
        with self._bar if common.err.is_terminal else _nothing():
            yield self

    def stage(self, what: str, steps: int = 0) -> None:
        """A line, and a new bar."""
        if common.err.is_terminal:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=steps or None)
        else:
            print(what, file=sys.stderr, flush=True)

    def step(self, steps: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bar.advance(self._task, steps)

    def confirm(self, hours: Sequence["Hour"], counted: "Counted") -> bool:
        """Show what would change and ask, unless told to go on."""
        if self._yes:
            return True
        self._bar.stop()
        _print_hours("before", hours)
        rows = sum(hour.in_table for hour in hours)
        sure = typer.confirm(
            f"Delete {rows:,} rows and their rollups, and land {counted.within:,} messages again?", err=True
        )
        if sure:
            self._bar.start()
        return sure


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def refuse_within_up(settings: Settings, data: Path, dry_run: bool) -> None:
    """End when ingest is a part of the `up` that serves this store: it is started again whenever it stops."""
    found = common.running(data)
    if found is None or dry_run or "ingest" not in found.parts or settings.store.dsn != found.write_dsn:
        return
    dsn = f"chdb://{Folder(data.resolve()).engine}"
    bus = "its embedded broker forgets all messages when it stops: only a Kafka of yours has them still"
    if not found.embedded_bus:
        bus = f"the messages are on {found.bootstrap_servers}"
    common.fail(f"ingest of `warpmeter up` is at work: stop `up`, then run the same replay with --store {dsn} ; {bus}")


def run(settings: Settings, wish: Wish) -> bool:
    """Replay topic after topic; whether all was done. Raises ReplayError, TailError, clients' errors."""
    from warpmeter.consumers.replay.run import Asked, replay
    from warpmeter.tail import topic_named

    if not (wish.yes or wish.dry_run or sys.stdin.isatty()):
        common.fail("--yes goes on without a question, --dry-run says what would change", 2)
    outcomes: list[Outcome] = []
    for name in dict.fromkeys(topic_named(each, settings.kafka.topic_prefix).name for each in wish.topics):
        topic = topic_named(name, settings.kafka.topic_prefix)
        with Watch(wish.yes).shown() as watch:
            outcomes.append(replay(settings, Asked(topic, wish.wanted, wish.allow_loss, wish.dry_run), watch))
        if not wish.as_json:
            _print(outcomes[-1], wish.dry_run)
    if wish.as_json:
        common.print_json([as_json(outcome) for outcome in outcomes])
    return wish.dry_run or all(outcome.done for outcome in outcomes)


def as_json(outcome: "Outcome") -> dict[str, Any]:
    """An outcome for programs: the table's names with underscores, times in ISO 8601."""
    return {
        "topic": outcome.topic,
        "from": outcome.start,
        "to": outcome.end,
        "done": outcome.done,
        "rows": outcome.rows,
        "messages": outcome.messages,
        "refused": outcome.rejected,
        "before": [dict(zip(_names(_BEFORE), _before(hour), strict=True)) for hour in outcome.hours],
        "after": [dict(zip(_names(_AFTER), _after(hour), strict=True)) for hour in outcome.after],
        "left_out": list(outcome.left_out),
        "finished": list(outcome.finished),
    }


_BEFORE = ("hour", "in the table", "of them twice", "in its rollups", "in the topic", "would be lost")
_AFTER = ("hour", "in the table", "in its rollups")


def _names(columns: Sequence[str]) -> list[str]:
    return [column.replace(" ", "_") for column in columns]


def _before(hour: "Hour") -> Sequence[Any]:
    twice = hour.in_table - hour.different
    return common.said(hour.start), hour.in_table, twice, hour.in_rollups, hour.staged, hour.lost


def _after(hour: "Standing") -> Sequence[Any]:
    return common.said(hour.start), hour.in_table, hour.in_rollups


def _print_hours(title: str, hours: Sequence["Hour"]) -> None:
    shown = [_before(hour) for hour in hours if hour.in_table or hour.staged or hour.in_rollups]
    common.print_table(title, _BEFORE, shown)


def _print(outcome: "Outcome", dry_run: bool) -> None:
    for finished in outcome.finished:
        note(f"{'unfinished' if dry_run else 'finished'}: {finished}")
    if outcome.after:
        common.print_table("now", _AFTER, [_after(hour) for hour in outcome.after if hour.in_table or hour.in_rollups])
    elif outcome.hours:
        _print_hours("", outcome.hours)
    if outcome.left_out:
        note(f"left out, for ingest lands rows of them meanwhile: {', '.join(outcome.left_out)}")
    what = "would land" if dry_run else "landed" if outcome.done else "nothing was changed; would land"
    said = f"{outcome.topic}: {what} {outcome.rows:,} rows"
    if outcome.messages or outcome.rejected:
        said += f" of {outcome.messages:,} messages; {outcome.rejected:,} of the range were refused"
    note(said)
