"""`warpmeter tail`: what travels on a topic, decoded; the integrator's first look.

Partitions are assigned, not subscribed to: no group is made, nothing is committed, no other reader is disturbed.
"""

import base64
import itertools
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import methodcaller
from typing import Any, Final

from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage
from google.protobuf.message import DecodeError, Message

from warpmeter import bus, rows, wire
from warpmeter.clock import moment
from warpmeter.registry import FramingError, unframed
from warpmeter.schemas.metrics import of_topic
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Kafka
from warpmeter.stopping import stopping
from warpmeter.terminal import printable

TIMEOUT_S: Final = 5.0
NEWEST: Final = 10
GROUP: Final = "tail"  # of the prefix; librdkafka wants a name, nothing joins it or commits to it
LOOK_BACK_S: Final = 300.0


class TailError(Exception):
    """The topic cannot be read; the message says why and what to do."""


@dataclass(frozen=True)
class Wanted:
    """What to show of `topic` (its name, with or without the prefix).

    `host`: only messages with this key. `since`: from this time on, `15m` or an ISO time; without it the newest 10
    messages come first (with `host`: of the five minutes before). `follow`: go on with what comes. `number`: end
    after so many rows.
    """

    topic: str
    host: str | None = None
    since: str | None = None
    follow: bool = True
    number: int | None = None


@dataclass(frozen=True)
class Shape:
    """How rows are shown: lines for people, or JSON lines; `si`: measured fields by SI name and value."""

    as_json: bool = False
    si: bool = False


@dataclass(frozen=True)
class Seen:
    """One message: where it is, and its rows, or the `problem` that keeps it from being read."""

    topic: Topic
    partition: int
    offset: int
    ts: float | None
    key: str
    value: bytes
    rows: tuple[Message, ...] = ()
    problem: str = ""


def topic_named(name: str, prefix: str) -> Topic:
    """The topic called `gpu-samples`, `gpu_samples` or `<prefix>.gpu-samples`; raises TailError, naming them all."""
    short = name.removeprefix(f"{prefix}.").replace("_", "-")
    if short not in TOPICS:
        raise TailError(f"there is no topic {name!r}; topics are: {', '.join(TOPICS)}")
    return TOPICS[short]


def tail(kafka: Kafka, wanted: Wanted, shape: Shape) -> None:
    """The command: print to stdout until Ctrl-C, the end, or a reader that has gone; raises TailError."""
    with stopping() as stop:
        try:
            for line in itertools.islice(_lines(read(kafka, wanted, stop), shape), wanted.number):
                print(line, flush=True)
        except BrokenPipeError:  # `| head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read(kafka: Kafka, wanted: Wanted, stop: threading.Event) -> Iterator[Seen]:
    """The messages, until `stop` is set or, without `follow`, until the end; raises TailError."""
    topic = topic_named(wanted.topic, kafka.topic_prefix)
    since = None if wanted.since is None else _moment(wanted.since)
    with _Reader(kafka, topic, wanted.host) as reader:
        if since is not None:
            reader.start_at(since)
            yield from (
                seen
                for seen in reader.messages(stop, until_end=not wanted.follow)
                if seen.ts is None or seen.ts >= since  # a later offset may be of an earlier time
            )
            return
        reader.start_before_end()
        newest = deque(reader.messages(stop, until_end=True), NEWEST)
        yield from sorted(newest, key=lambda seen: (seen.ts or 0.0, seen.partition, seen.offset))
        if wanted.follow:
            yield from reader.messages(stop, until_end=False)


def _moment(text: str) -> float:
    try:
        return moment(text, time.time())
    except ValueError as error:
        raise TailError(str(error)) from None


def _lines(messages: Iterable[Seen], shape: Shape) -> Iterator[str]:
    for seen in messages:
        yield from json_lines(seen, shape.si) if shape.as_json else lines(seen, shape.si)


def decode(topic: Topic, message: KafkaMessage) -> Seen:
    """A message as it came: what cannot be read becomes a `problem`, never an exception."""
    kind, at_ms = message.timestamp()
    value = message.value() or b""
    partition, offset = message.partition(), message.offset()
    seen = Seen(
        topic,
        -1 if partition is None else partition,
        -1 if offset is None else offset,
        None if kind == TIMESTAMP_NOT_AVAILABLE else at_ms / 1000,
        (_bytes(message.key())).decode(errors="replace"),
        _bytes(value),
    )
    try:
        # Not message.headers(): the interpreter's quick path overlooks the error that confluent-kafka leaves behind for
        # a header's name that is not UTF-8.
        given = dict(methodcaller("headers")(message) or {})
    except SystemError:
        return replace(seen, problem="its headers cannot be read: the name of one is not UTF-8")
    headers = {name: _bytes(header).decode(errors="replace") for name, header in given.items()}
    found, problem = _rows(topic, seen.value, headers)
    return Seen(topic, seen.partition, seen.offset, seen.ts, seen.key, seen.value, found, problem)


def _rows(topic: Topic, value: bytes, headers: Mapping[str, str]) -> tuple[tuple[Message, ...], str]:
    if not value:
        return (), "no value (a tombstone)"
    if headers.get("type", topic.message) != topic.message:
        return (), f"of type {headers['type']}, not {topic.message}"
    try:
        found = tuple(wire.unpack(topic, unframed(value)))
    except (DecodeError, FramingError) as error:
        return (), f"corrupt: {str(error) or 'no Envelope'}"
    if headers.get("rows", str(len(found))) != str(len(found)):
        return found, f"says {headers['rows']} rows and has {len(found)}"
    return found, "" if found else "corrupt: no rows"


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


class _Reader:
    """A consumer without a group on all partitions of one topic."""

    def __init__(self, kafka: Kafka, topic: Topic, host: str | None) -> None:
        self._kafka, self._topic, self._host = kafka, topic, host
        self._name = topic.full_name(kafka.topic_prefix)
        extra: bus.Options = {
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,  # a person waits
            "log_level": 0,
        }
        self._complaints: list[KafkaError] = []
        self._partitions: list[int] = []
        try:
            self._consumer = Consumer(
                bus.options(kafka, bus.CONSUMER, {"group.id": kafka.group(GROUP)}, extra),
                error_cb=self._complaints.append,
            )
        except KafkaException as error:
            raise TailError(f"kafka.options cannot be used: {error.args[0].str()}") from error

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def start_at(self, since: float) -> None:
        """Read from the first message of a time (seconds since the epoch) on; raises TailError."""
        with self._explained():
            asked = [TopicPartition(self._name, each, int(since * 1000)) for each in self._found_partitions()]
            found = bus.patiently(lambda: self._consumer.offsets_for_times(asked, timeout=TIMEOUT_S))
            self._assign([(each.partition, each.offset if each.offset >= 0 else OFFSET_END) for each in found])

    def start_before_end(self) -> None:
        """Read from where the newest messages must be: any of the partitions might hold them all."""
        if self._host is not None:
            return self.start_at(time.time() - LOOK_BACK_S)
        with self._explained():
            self._assign([(each, self._before_end(each)) for each in self._found_partitions()])

    def messages(self, stop: threading.Event, until_end: bool) -> Iterator[Seen]:
        """Messages as they come; with `until_end` until every partition's end has been seen."""
        ends: set[int] = set()
        while not stop.is_set() and not (until_end and len(ends) == len(self._partitions)):
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                seen = decode(self._topic, message)
                if self._host in (None, seen.key):
                    yield seen
            elif error.code() == KafkaError._PARTITION_EOF:
                ends.add(message.partition() or 0)
            elif not error.retriable():
                raise TailError(f"cannot read {self._name}: {self._refusal(error)}")

    def _refusal(self, error: KafkaError) -> str:
        of_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        right = f"Describe on group {self._kafka.group(GROUP)}" if of_group else f"Read on topic {self._name}"
        return bus.refusal(error, self._kafka, right)

    def _found_partitions(self) -> list[int]:
        found = self._consumer.list_topics(self._name, timeout=TIMEOUT_S).topics[self._name]
        if found.error is not None and found.error.code() in bus.FORBIDDEN:
            raise TailError(bus.forbidden(self._kafka, f"Read on topic {self._name}"))
        if found.error is not None or not found.partitions:
            raise TailError(
                f"there is no topic {self._name} at {self._kafka.bootstrap_servers}, or it may not be read; "
                "`warpmeter topics --create` makes it, kafka.topic_prefix names it"
            )
        return sorted(found.partitions)

    def _before_end(self, partition: int) -> int:
        place = TopicPartition(self._name, partition)
        low, high = bus.patiently(lambda: self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_S))
        return int(max(low, high - NEWEST))

    def _assign(self, places: Iterable[tuple[int, int]]) -> None:
        assigned = [TopicPartition(self._name, partition, offset) for partition, offset in places]
        self._partitions = [each.partition for each in assigned]
        self._consumer.assign(assigned)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            why = bus.said(error, self._kafka, bus.complaint(self._complaints), f"Read on topic {self._name}")
            raise TailError(f"cannot read {self._name}: {why}") from error


# How a row is shown.

_FIRST: Final = ("host", "ts", "period_ms")
_EMPTY: Final[tuple[object, ...]] = ("", [], {})


def lines(seen: Seen, si: bool = False) -> Iterator[str]:
    """One line a row for people: time, host, then every field that is known, with its unit.

    With `si` measured fields have their SI names and bare values, as in SQL. Nothing in it steers a terminal.
    """
    if seen.problem:
        where = f"{seen.topic.name}[{seen.partition}]@{seen.offset}"
        yield printable(f"{_clock(seen.ts)} {seen.key or '-'} {where} {seen.problem}; {len(seen.value)} bytes", keep="")
    metrics = {metric.column: metric for metric in of_topic(seen.topic.name)}
    for row in seen.rows:
        values = _known(row)
        show = rows.without_unit if si else rows.with_unit
        told = ((name, value) for name, value in values.items() if name not in _FIRST and value not in _EMPTY)
        known = " ".join(show(metrics.get(name), name, value) for name, value in told)
        yield printable(f"{_clock(values.get('ts'))} {values.get('host', seen.key)} {known}", keep="")


def json_lines(seen: Seen, si: bool = False) -> Iterator[str]:
    """One JSON object a row: topic, partition, offset, timestamp, key, and `row` as it was sent.

    With `si`, measured fields have their SI names and values. A message that cannot be read has `problem` and
    `value` (base64) instead.
    """
    where: dict[str, Any] = {
        "topic": seen.topic.name,
        "partition": seen.partition,
        "offset": seen.offset,
        "timestamp": seen.ts,
        "key": seen.key,
    }
    if seen.problem:
        yield json.dumps(where | {"problem": seen.problem, "value": base64.b64encode(seen.value).decode()})
    metrics = {metric.column: metric for metric in of_topic(seen.topic.name)} if si else {}
    for row in seen.rows:
        values = dict(rows.in_si(metrics.get(name), name, value) for name, value in _known(row).items())
        yield rows.as_json(where | {"row": values})


def _known(row: Message) -> dict[str, Any]:
    return {name: value for name, value in rows.fields(row).items() if value is not None}


def _clock(ts: float | None) -> str:
    if ts is None:
        return "-"
    return datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
