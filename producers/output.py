"""Rows as text: JSON lines for programs, SI units for people; and what `--once` and `--dry-run` do with rows."""

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final, TextIO

from google.protobuf.message import Message

from warpmeter.producers.health import OK
from warpmeter.producers.out.names import renamed
from warpmeter.producers.source import Health
from warpmeter.quantity import bare_name, quantity
from warpmeter.rows import as_json, fields
from warpmeter.rows import text as word
from warpmeter.schemas.metrics import of_topic
from warpmeter.schemas.topics import TOPICS

IDENTITY: Final = ("kind", "device", "gpu", "uuid", "source", "subject", "name", "job_id", "event", "pid", "state")
"""Fields that say what a row is about, for people."""


def json_line(topic: str, row: Message, dynolog: bool = False) -> str:
    """One row as a line of JSON: topic, type of the row, and its fields; `dynolog`: by its names, the rest in SI."""
    known = fields(row)
    shown = renamed(topic, row, known.items()) if dynolog else known
    return as_json({"topic": topic, "type": TOPICS[topic].message, **shown})


def text(topic: str, row: Message) -> str:
    """One row for people: what it is about, for a state that is not ok why, then its known metrics with units."""
    known = fields(row)
    about = " ".join(f"{name}={word(known[name])}" for name in IDENTITY if known.get(name) not in (None, ""))
    why = f": {known['why']}" if known.get("why") and known.get("state") != "ok" else ""
    return "\n".join([f"{topic} {about}{why}".rstrip(), *_metrics(topic, known)])


def _metrics(topic: str, known: Mapping[str, Any]) -> Iterator[str]:
    for metric in of_topic(topic):
        if (value := known.get(metric.column)) not in (None, []):
            yield f"  {bare_name(metric):32} {quantity(value * metric.factor, metric.unit)}"


class Printer:
    """Prints every row, as JSON lines or for people."""

    def __init__(self, as_json: bool, file: TextIO | None = None, dynolog: bool = False) -> None:
        self._format = partial(json_line, dynolog=dynolog) if as_json else text
        self._file = file or sys.stdout
        self._lock = Lock()

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Print the rows of one tick together."""
        lines = "".join(f"{self._format(topic, row)}\n" for row in rows)
        with self._lock:
            self._file.write(lines)
            self._file.flush()


class Tally:
    """An output that counts rows by topic and says so now and then, for `--dry-run`."""

    name: Final = "output/none"
    gone: Final = False

    def __init__(self, every_s: float = math.inf) -> None:
        self.rows: Counter[str] = Counter()
        self._every_s, self._shown = every_s, time.monotonic()
        self._lock = Lock()

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Count the rows of one tick."""
        with self._lock:
            self.rows[topic] += len(rows)

    def pump(self) -> bool:
        """Print the counts when that is due."""
        if time.monotonic() - self._shown >= self._every_s:
            self._shown = time.monotonic()
            with self._lock:
                counts = dict(self.rows)
            print("rows so far:", *(f"{topic}={count}" for topic, count in counts.items()), flush=True)
        return False

    def health(self) -> tuple[Health, list[Health]]:
        """It has no trouble."""
        return OK, []

    def close(self, timeout_s: float) -> None:
        """Nothing waits."""


class Collector:
    """Keeps the rows of sources by topic, for `--once`; of their health the board has the last word."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Message]] = {}
        self._lock = Lock()

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Keep these rows behind the topic's earlier ones."""
        with self._lock:
            self._rows.setdefault(topic, []).extend(rows)

    def print_to(self, printer: Printer) -> None:
        """Print what was kept, in the order of the topic table."""
        with self._lock:
            for topic in TOPICS:
                if topic != "source-health" and (rows := self._rows.get(topic)):
                    printer.publish(topic, rows)
