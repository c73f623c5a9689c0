"""`warpmeter replay`: what would change, hour by hour, a question, and a bar while it works."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from warpmeter.cli import common
from warpmeter.settings import Settings

if TYPE_CHECKING:
    from warpmeter.consumers.replay.compare import Hour
    from warpmeter.consumers.replay.load import Counted
    from warpmeter.consumers.replay.run import Outcome
    from warpmeter.up.folder import Running


@dataclass(frozen=True)
class Wish:
    """What the command was asked for; times as people say them."""

    topics: Sequence[str]
    since: str
    until: str
    allow_loss: bool = False
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False


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
        _print_hours(hours)
        rows = sum(hour.in_table for hour in hours)
        sure = typer.confirm(
            f"Delete {rows} rows and their rollups, and land {counted.messages} messages again?", err=True
        )
        if sure:
            self._bar.start()
        return sure


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def refuse_within_up(settings: Settings, found: "Running | None", dry_run: bool) -> None:
    """End when ingest is a part of the `up` that serves this store: it is started again whenever it stops."""
    if found is not None and not dry_run and "ingest" in found.parts and settings.store.dsn == found.write_dsn:
        common.fail(
            "ingest of `warpmeter up` is at work: stop `up`, then replay with --store chdb://<its data folder>/engine; "
            "its embedded broker forgets all messages when it stops: only a Kafka of yours has them still"
        )


def run(settings: Settings, wish: Wish) -> bool:
    """Replay topic after topic; whether all was done. Raises ReplayError, TailError, ValueError, clients' errors."""
    from warpmeter.consumers.replay.hours import said, widened
    from warpmeter.consumers.replay.run import Asked, replay
    from warpmeter.tail import topic_named

    if not (wish.yes or wish.dry_run or sys.stdin.isatty()):
        common.fail("--yes goes on without a question, --dry-run says what would change", 2)
    now = time.time()
    start, end = moment(wish.since, now), moment(wish.until, now)
    wanted = widened(start, end)
    if (wanted.start, wanted.end) != (start, end):
        common.err.print(
            f"widened to whole hours, which the rollups have: {said(wanted.start)} to {said(wanted.end)}",
            highlight=False,
        )
    outcomes: list[Outcome] = []
    for name in dict.fromkeys(topic_named(each, settings.kafka.topic_prefix).name for each in wish.topics):
        topic = topic_named(name, settings.kafka.topic_prefix)
        with Watch(wish.yes).shown() as watch:
            outcomes.append(replay(settings, Asked(topic, wanted, wish.allow_loss, wish.dry_run), watch))
        if not wish.as_json:
            _print(outcomes[-1], wish.dry_run)
    if wish.as_json:
        common.print_json(outcomes)
    return wish.dry_run or all(outcome.done for outcome in outcomes)


def moment(text: str, now: float) -> float:
    """A time as the other commands take it, `now` and `-2h` besides, in seconds since the epoch; raises ValueError."""
    from warpmeter import clock

    return now if text == "now" else clock.moment(text.removeprefix("-"), now)


def _print_hours(hours: Sequence["Hour"]) -> None:
    from warpmeter.consumers.replay.hours import said

    shown = [
        (said(h.start), h.in_table, h.in_table - h.different, h.in_rollups, h.staged, h.lost)
        for h in hours
        if h.in_table or h.staged or h.in_rollups
    ]
    columns = ("hour", "in the table", "of them twice", "in its rollups", "in the topic", "would be lost")
    common.print_table("", columns, shown)


def _print(outcome: "Outcome", dry_run: bool) -> None:
    for finished in outcome.finished:
        verb = "unfinished" if dry_run else "finished"
        common.err.print(f"{verb}: {finished}", highlight=False)
    if outcome.hours:
        _print_hours(outcome.hours)
    what = "would land" if dry_run else "landed" if outcome.done else "nothing was changed; would land"
    rows = sum(hour.staged for hour in outcome.hours)
    common.err.print(
        f"{outcome.topic}: {what} {rows} rows of {outcome.messages} messages; {outcome.rejected} were refused",
        highlight=False,
    )
