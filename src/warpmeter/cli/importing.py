"""`warpmeter stacks import`: what other profilers wrote, onto the bus as rows of `stack-samples`."""

import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as KafkaMessage
from rich.markup import escape
from rich.progress import track
from rich.status import Status

from warpmeter.captures.asking import Sender
from warpmeter.cli import common
from warpmeter.registry import RegistryError
from warpmeter.schemas.generated.stack_samples_pb2 import Envelope
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka
from warpmeter.stacks import NAME_BYTES, Unit, Weighed, identity
from warpmeter.stacks import fitted as shortened
from warpmeter.stacks.profile import CUT, DEEPEST, Profile, StacksError, Who, clean
from warpmeter.stacks.reading import Format, read
from warpmeter.topics import Missing, check

StackSample = Envelope.StackSample
TOPIC: Final = TOPICS["stack-samples"]
ROWS: Final = 1000
BYTES: Final = 200_000
"""Of a message; one row has at most half a MiB, so it stays below the topic's limit."""
FRAME_BYTES: Final = 512
TAKEN_S: Final = 60.0
GIVEN_UP_S: Final = 5.0
EARLIEST, LATEST = 1_577_836_800.0, 4_102_444_800.0  # 2020 to 2100, as the table takes it
LONGEST_MS: Final = 2**32 - 1
HINTS: Final = 4
"""So many commands are printed that show what was imported."""


class NotTakenError(Exception):
    """The bus did not take all of it; the message says how much and what to do."""

    exit_status = 1


@dataclass(frozen=True)
class Whose:
    """Of whom the profiles are, as the rows say it; `at` (seconds since the epoch) None: as the file tells."""

    host: str
    job_id: str = ""
    rank: int | None = None
    at: float | None = None
    source: str | None = None


@dataclass(frozen=True)
class Weights:
    """How a file's numbers are meant: in which unit, or as samples so often a second."""

    unit: Unit | None = None
    hertz: float | None = None


@dataclass(frozen=True)
class Imported:
    """One file, and what its rows have in common."""

    file: str
    format: Format
    source: str
    at: float
    duration_s: float
    profile: Profile

    @property
    def rows(self) -> int:
        """One for each stack of each thread."""
        return sum(len(part.stacks) for part in self.profile.parts)


def imported(path: Path, whose: Whose, weights: Weights) -> Imported:
    """Read a file; raises StacksError, OSError."""
    kind, found = read(path, weights.unit)
    try:
        profile = _weighed(kind, found, weights)
    except ValueError as error:
        raise StacksError(f"{path}: {error}") from None
    at = whose.at if whose.at is not None else profile.at
    at = path.stat().st_mtime - profile.duration_s if at is None else at
    if not EARLIEST <= at < LATEST:
        raise StacksError(
            f"{path}: it is of {common.said(at) if 0 < at < 1e11 else at}: say with --at when it was taken"
        )
    return Imported(
        clean(str(path)), kind, f"import:{whose.source or _name(path)}", round(at, 3), profile.duration_s, profile
    )


def all_of(paths: Sequence[Path], whose: Whose, weights: Weights) -> list[Imported]:
    """Read all files, saying on a terminal which it is at; raises as `imported` does."""
    with common.err.status("Reading") as status:
        return [_shown(path, status, whose, weights) for path in paths]


def _shown(path: Path, status: Status, whose: Whose, weights: Weights) -> Imported:
    status.update(f"Reading {escape(str(path))}")
    return imported(path, whose, weights)


def _weighed(kind: Format, found: Profile, weights: Weights) -> Profile:
    if weights.hertz is not None:
        return found.at_rate(weights.hertz)
    if weights.unit in (None, found.unit):
        return found
    if kind == "folded":
        return found.weighed_in(weights.unit)
    raise ValueError(f"it is weighed in {found.unit}, not in {weights.unit}")


def _name(path: Path) -> str:
    """The file's name without its endings: `run7.pprof.gz` is `run7`."""
    name = path.name.split(".")[0][:100]
    return clean(name) if name else "file"


def rows(found: Imported, whose: Whose) -> Iterator[StackSample]:
    """Its rows. They always carry their frames: an import remembers nothing."""
    period_ms = min(round(found.duration_s * 1000), LONGEST_MS)
    common_ = StackSample(
        host=whose.host,
        ts=found.at,
        period_ms=period_ms,
        sampled_ms=period_ms,
        source=found.source,
        job_id=whose.job_id,
        rank=whose.rank,
        unit=found.profile.unit,
    )
    for who, stack in found.profile.stacks():
        yield _row(common_, who, stack)


def _row(common_: StackSample, who: Who, stack: Weighed) -> StackSample:
    frames = fitted(stack.frames)
    row = StackSample()
    row.CopyFrom(common_)
    row.pid, row.process = who.pid, shortened(who.process, NAME_BYTES)
    row.tid, row.thread = who.tid, shortened(who.thread, NAME_BYTES)
    row.stack, row.samples, row.weight = identity(frames), stack.samples, stack.weight
    row.frames.extend(frames)
    return row


def fitted(frames: Sequence[str]) -> tuple[str, ...]:
    """Frames that fit into a message: of a recursion without end the innermost ones, of endless names the beginning."""
    kept = frames if len(frames) <= DEEPEST else (CUT, *frames[1 - DEEPEST :])
    return tuple(shortened(text, FRAME_BYTES) for text in kept)


def batches(told: Iterable[StackSample]) -> Iterator[list[StackSample]]:
    """Rows by messages."""
    batch, size = list[StackSample](), 0
    for row in told:
        length = row.ByteSize()
        if batch and (len(batch) == ROWS or size + length > BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch


class _Sending:
    """Messages on their way, and what became of them."""

    def __init__(self, kafka: Kafka) -> None:
        self._where = kafka.bootstrap_servers
        quiet = {"log_level": 0}  # what matters of librdkafka's lines comes with each message
        self._sender = Sender(kafka, "stacks", {"message.timeout.ms": int(TAKEN_S * 1000), **quiet})
        self._problems, self._put, self._taken = list[str](), 0, 0

    def put(self, host: str, batch: list[StackSample]) -> None:
        """Hand one over, waiting while there is no room; raises NotTakenError."""
        until = time.monotonic() + TAKEN_S
        while True:
            self._check()
            try:
                self._sender.put(TOPIC, host, batch, partial(self._delivered, len(batch)))
            except BufferError:
                if time.monotonic() > until:
                    raise self._error("no answer") from None
                self._sender.poll(0.2)
            except (KafkaException, RegistryError) as error:
                raise self._error(str(error)) from error
            else:
                self._put += len(batch)
                return

    def end(self) -> None:
        """Wait until the broker has all of it; raises NotTakenError."""
        until = time.monotonic() + TAKEN_S + 5
        while self._taken < self._put and time.monotonic() < until:
            self._check()
            self._sender.poll(0.1)
        self._check()
        if self._taken < self._put:
            raise self._error("no answer")

    def given_up(self) -> NotTakenError:
        """What is to be said where nobody wants to wait any longer; what is on its way arrives first."""
        self._sender.flush(GIVEN_UP_S)
        error = self._error("it was interrupted")
        error.exit_status = 130
        return error

    def _delivered(self, count: int, error: KafkaError | None, _: KafkaMessage) -> None:
        if error is None:
            self._taken += count
        else:
            self._problems.append(error.str())

    def _check(self) -> None:
        if self._problems:
            raise self._error(self._problems[0])

    def _error(self, why: str) -> NotTakenError:
        left = "nothing was imported"
        if self._taken:
            left = f"{self._taken:,} rows it has, and they count: import again under another --source and ask for that"
        return NotTakenError(f"Kafka at {self._where} did not take all of it ({why}); {left}")


def send(kafka: Kafka, found: Sequence[Imported], whose: Whose) -> None:
    """All rows of all files, acknowledged; raises NotTakenError, TopicsError, KafkaException.

    A broker that makes topics as it is asked for them would take rows that nobody stores, so the topic must be there.
    """
    if any(isinstance(each, Missing) for each in check(kafka, [TOPIC])):
        name = TOPIC.full_name(kafka.topic_prefix)
        raise NotTakenError(
            f"Kafka at {kafka.bootstrap_servers} has no topic {name}: `warpmeter topics --create` makes it"
        )
    sending = _Sending(kafka)
    told = (row for each in found for row in rows(each, whose))
    total = sum(each.rows for each in found)
    shown = track(told, "Sending", total, console=common.err, disable=not common.err.is_terminal, transient=True)
    try:
        for batch in batches(shown):
            sending.put(whose.host, batch)
        sending.end()
    except KeyboardInterrupt:
        raise sending.given_up() from None


def warn_of_old(found: Sequence[Imported], keeps_days: int) -> None:
    """Say which are older than what the store keeps; the hours' sums of them stay longer."""
    for each in found:
        if each.at < time.time() - keeps_days * 86_400:
            common.err.print(
                f"warpmeter: {each.file} is of {common.said(each.at)}, and the store keeps such rows for {keeps_days} "
                "days: then its hours alone are there; --at says another time",
                markup=False, highlight=False, soft_wrap=True,
            )  # fmt: skip


def document(each: Imported) -> dict[str, object]:
    """One file, as `--json` tells it."""
    told = asdict(replace(each, profile=Profile(each.profile.unit, ())))
    del told["profile"]
    weight = each.profile.weight
    return {**told, "at": common.said(each.at), "rows": each.rows, "weight": weight, "unit": each.profile.unit}


def show(found: Sequence[Imported], whose: Whose, dry: bool) -> None:
    """What was sent, or would be."""
    common.print_table(
        "Would send" if dry else "Sent",
        ["File", "Format", "Source", "Taken at", "Seconds", "Rows", "Weight", "Unit"],
        [
            [
                each.file, each.format, each.source, common.said(each.at), f"{each.duration_s:.3f}", f"{each.rows:,}",
                f"{each.profile.weight:,}", each.profile.unit,
            ]
            for each in found
        ],
    )  # fmt: skip
    for words in () if dry else _asked_for(found, whose):
        common.err.print(f"In a few seconds: {words}", markup=False, highlight=False, soft_wrap=True)


def _asked_for(found: Sequence[Imported], whose: Whose) -> Iterator[str]:
    """Commands that show it: a graph is of one source and unit, over all files that have them."""
    kinds: dict[tuple[str, Unit], list[Imported]] = {}
    for each in found:
        kinds.setdefault((each.source, each.profile.unit), []).append(each)
    job = f" --job {shlex.quote(whose.job_id)}" if whose.job_id else ""
    for (source, unit), files in list(kinds.items())[:HINTS]:
        weighed = "" if unit == "microseconds" else f" --unit {unit}"
        since = common.said(min(each.at for each in files))
        until = common.said(max(each.at + max(each.duration_s, 1) for each in files) + 1)
        yield (
            f"warpmeter flame{job} --host {shlex.quote(whose.host)} --source {shlex.quote(source)}{weighed} "
            f"--since {since} --until {until}"
        )
    if len(kinds) > HINTS:
        yield f"the same with each --source of the {len(kinds) - HINTS} others"
