"""`warpmeter capture` and `captures`: ask for a capture over the bus, follow what comes of it, fetch its traces."""

import getpass
import hashlib
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from warpmeter import rows, tail
from warpmeter.captures import wishes
from warpmeter.captures.asking import Asker, NotTakenError, request
from warpmeter.captures.progress import Progress
from warpmeter.captures.ranks import Event
from warpmeter.captures.reading import Events, ReadingError
from warpmeter.captures.wishes import Request
from warpmeter.cli import common
from warpmeter.cli.captured import COLUMNS, LIST, lines, listed
from warpmeter.settings import Kafka, Scheduler, Settings, Traces
from warpmeter.terminal import printable

SCHEDULER_S: Final = 30.0
"""A scheduler that runs takes a request at once; one that has just died is followed by another within seconds."""
SLACK_S: Final = 30.0
STORE_S: Final = 10
WAIT_S: Final = 0.2
CHUNK: Final = 1 << 20
CONTINUE: Final = "it goes on without this command: `warpmeter captures show {0}` tells, `captures cancel {0}` ends it"


class CaptureError(Exception):
    """A capture cannot be asked for or followed; the message says why and what to do."""


def me() -> str:
    """Who asks: this user, at this host."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        name = "unknown"
    return f"{name}@{socket.gethostname()}"


def patience_s(asked: Request, limits: Scheduler, step_s: float | None = None) -> float:
    """After so long without a word on a capture, nobody is at work on it any more. `step_s`: of its job, if known."""
    round_s = wishes.deadline(asked, limits.look_s + wishes.lead_s(asked), limits, step_s)
    analysis_s = limits.analyse_s if limits.analyse else 0.0
    return 2 * limits.resolve_s + round_s + analysis_s + asked.interval_s + SLACK_S


@dataclass
class Follower:
    """Asks, and follows. `hear` is called with every event of the capture, `tick` a few times a second."""

    settings: Settings
    hear: Callable[[Event], None]
    tick: Callable[[], None] = lambda: None

    def ask(self, asked: Request, wait: bool, until_begun_s: float = SCHEDULER_S) -> None:
        """Write the request, and with `wait` follow to the end. Raises CaptureError, NotTakenError, KafkaException,
        ReadingError.
        """
        if not wait:
            self._send(asked)
            return
        with closing(Events(self.settings.kafka)) as events:
            for _ in events.start(None, lambda: True):
                pass  # nothing that was before
            self._send(asked)
            self._follow(asked, events, until_begun_s)

    def _send(self, asked: Request) -> None:
        Asker(self.settings.kafka, "capture").ask(asked)

    def _follow(self, asked: Request, events: Events, until_begun_s: float) -> None:
        began = heard = time.monotonic()
        begun, patience = False, patience_s(asked, self.settings.scheduler)
        while True:
            for message in events.read(WAIT_S):
                event = message if isinstance(message, Event) else Event()
                if event.capture_id != asked.capture_id:
                    continue
                begun, heard = True, time.monotonic()
                self.hear(event)
                if event.step_us:
                    patience = max(patience, patience_s(asked, self.settings.scheduler, wishes.step_s(event.step_us)))
                if event.state == "ended" and not event.sequence:
                    return
            self.tick()
            now = time.monotonic()
            if not begun and now >= began + until_begun_s:
                self._give_up(asked)
            if now >= heard + patience:
                raise CaptureError(
                    f"nothing was heard of {asked.capture_id} for {patience:.0f} s: does a scheduler run "
                    "(`warpmeter schedule`, or `warpmeter up`)?"
                )

    def _give_up(self, asked: Request) -> None:
        """Nobody answers: take a new capture back, for nobody waits for it any more."""
        if asked.action == "start":
            self._send(request("cancel", me(), asked.capture_id))
        raise CaptureError(
            "no scheduler answers: start one (`warpmeter schedule`; `warpmeter up` has one); the request is taken back"
        )


@dataclass(frozen=True)
class Shown:
    """How people see a capture: `event` is called with each that was taken, `tick` a few times a second."""

    event: Callable[[Event], None] = lambda _: None
    tick: Callable[[], None] = lambda: None


@contextmanager
def shown(progress: Progress, as_json: bool) -> Iterator[Shown]:
    """A table that changes on a terminal, else lines; JSON lines for programs."""
    if as_json:
        yield Shown(lambda event: print(rows.as_json(rows.fields(event)), flush=True))
    elif not common.err.is_terminal:
        yield Shown(lambda event: common.err.print(_line(event), markup=False, highlight=False, soft_wrap=True))
    else:
        with Live(_table(progress), console=common.err, transient=True, auto_refresh=False) as live:
            yield Shown(tick=lambda: live.update(_table(progress), refresh=True))


def _line(event: Event) -> str:
    who = " ".join(part for part in (event.host, f"pid {event.pid}" if event.HasField("pid") else "") if part)
    rank = f" rank {event.rank}" if event.HasField("rank") else ""
    said = f"{event.reason}: {event.why}" if event.reason else event.why or event.url
    return printable(f"{common.said(event.ts)} {who}{rank} {event.state} {said}".replace("  ", " ").rstrip())


def _table(progress: Progress) -> Table:
    table = Table(title=f"{progress.capture_id}: {_standing(progress)}", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for line in lines(progress):
        table.add_row(*(common.cell(each) for each in line))
    return table


def _standing(progress: Progress) -> str:
    starts = max(progress.start_at.values(), default=0.0) - time.time()
    if progress.ended is None and starts > 0:
        return f"{len(progress.ranks)} processes trace in {starts:.0f} s"
    return progress.summary()


def capture(settings: Settings, asked: Request, wait: bool, as_json: bool, output: Path | None) -> int:
    """Ask, and with `wait` follow, show and fetch; the exit status. Raises as Follower.ask does."""
    progress = Progress(asked.capture_id, asked)
    if not wait:
        Follower(settings, progress.hear).ask(asked, False)
        _asked(asked, as_json)
        return 0
    try:
        with shown(progress, as_json) as show:

            def hear(event: Event) -> None:
                progress.hear(event)
                show.event(event)

            Follower(settings, hear, show.tick).ask(asked, True)
    except KeyboardInterrupt:
        common.err.print(CONTINUE.format(asked.capture_id), markup=False, highlight=False, soft_wrap=True)
        return 130
    if not as_json:
        print_one(progress)
    return int(not (fetched(progress, settings.traces, output) and progress.whole))


def _asked(asked: Request, as_json: bool) -> None:
    if as_json:
        print(rows.as_json({"capture_id": asked.capture_id}))
        return
    print(asked.capture_id)
    common.err.print(CONTINUE.format(asked.capture_id), markup=False, highlight=False, soft_wrap=True)


def print_one(progress: Progress) -> None:
    """Its ranks, what is odd, and how it stands."""
    common.print_table(progress.capture_id, COLUMNS, lines(progress))
    for why in progress.warnings.values():
        common.err.print(f"[yellow]![/] {escape(printable(why))}", highlight=False, soft_wrap=True)
    common.err.print(printable(progress.summary()), markup=False, highlight=False, soft_wrap=True)


def fetched(progress: Progress, traces: Traces, output: Path | None) -> bool:
    """Copy its traces into a folder, checked against their sums; whether all came. None: nothing is to be copied."""
    if output is None:
        return True
    output.mkdir(parents=True, exist_ok=True)
    whole = True
    for event in progress.captured:
        name = event.url.rpartition("/")[2]
        try:
            if name in ("", ".", ".."):
                raise CaptureError("its address names no file")
            _copy(event, traces, output / name)
        except Exception as error:  # noqa: BLE001 - every store has its own ways to fail
            whole = False
            common.err.print(printable(_why_not(event, error)), markup=False, highlight=False, soft_wrap=True)
    return whole


def _copy(event: Event, traces: Traces, to: Path) -> None:
    part, digest = to.with_name(f"{to.name}.part"), hashlib.sha256()
    try:
        with _opened(event.url, traces) as source, part.open("wb") as out:
            while block := source.read(CHUNK):
                digest.update(block)
                out.write(block)
        if event.sha256 and digest.hexdigest() != event.sha256:
            raise CaptureError("it is not what was stored: its checksum differs")
        shutil.move(part, to)
    finally:
        part.unlink(missing_ok=True)


def _opened(url: str, traces: Traces) -> Any:
    if "://" not in url or url.startswith("file://"):
        return Path(url.removeprefix("file://")).open("rb")
    import fsspec

    opened: BinaryIO = fsspec.open(url, "rb", **traces.options).open()
    return opened


def _why_not(event: Event, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and event.host != socket.gethostname():
        return (
            f"{event.url} lies on {event.host}, and cannot be had here: set traces.url of all agents to a shared "
            "folder, or to a URL such as s3://bucket/traces"
        )
    return f"{event.url} could not be fetched: {error}"


# What is there.


def known(kafka: Kafka, since: str, capture_id: str | None = None) -> list[Progress]:
    """Captures that were asked for since then, by what the bus still holds (15 days); the newest last.

    Raises TailError.
    """
    found: dict[str, Progress] = {}
    for row in _rows(kafka, "capture-requests", since):
        if isinstance(row, Request) and capture_id in (None, row.capture_id):
            found.setdefault(row.capture_id, Progress(row.capture_id)).ask(row)
    for row in _rows(kafka, "capture-events", since) if found else ():
        if isinstance(row, Event) and row.capture_id in found:
            found[row.capture_id].hear(row)
    return sorted(found.values(), key=lambda each: each.request.ts if each.request is not None else 0.0)


def _rows(kafka: Kafka, topic: str, since: str) -> Iterator[object]:
    for seen in tail.read(kafka, tail.Wanted(topic, since=since, follow=False), threading.Event()):
        yield from seen.rows


def one(settings: Settings, capture_id: str) -> Progress:
    """One capture, by the bus, or by the store where the bus has forgotten it.

    Raises CaptureError where there is none, TailError.
    """
    if found := known(settings.kafka, "20d", capture_id):
        return found[0]
    if (kept := _stored(settings, capture_id)) is None:
        raise CaptureError(f"there is no capture {capture_id!r}; `warpmeter captures list` shows them")
    return kept


def _stored(settings: Settings, capture_id: str) -> Progress | None:
    from warpmeter.captures import stored
    from warpmeter.store import ClickHouseError, connect, reason

    try:
        with connect(settings.store, patience_s=STORE_S) as client:
            return stored.progress(client, capture_id)
    except ClickHouseError as error:
        why = f"there is no capture {capture_id!r} on the bus, and the store, which knows older ones, does not answer"
        raise CaptureError(f"{why}: {reason(error)}") from error


def show_list(captures: list[Progress], as_json: bool) -> None:
    """All of them, a line each."""
    if as_json:
        common.print_json([each.document() for each in captures])
    else:
        common.print_table("", LIST, list(listed(captures)))


def end(settings: Settings, capture_id: str, action: str, wait: bool, as_json: bool) -> int:
    """Cancel it, or let it end after the round that goes on; the exit status. Raises as `one` and Follower.ask do."""
    progress = one(settings, capture_id)
    if progress.ended is None:
        asked = request(action, me(), capture_id)
        waits = Request() if progress.request is None else progress.request
        follower = Follower(settings, progress.hear)
        if wait:
            follower.ask(asked, True, patience_s(waits, settings.scheduler))
        else:
            follower.ask(asked, False)
    if as_json:
        common.print_json(progress.document())
    else:
        print_one(progress)
    return 0


EXPECTED: Final = (CaptureError, NotTakenError, ReadingError, tail.TailError)
