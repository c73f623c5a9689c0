"""Poison among good messages, on real brokers and the real engine: good ones land, bad ones are in the dead letters."""

import hashlib
import math
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_bench import Bench, make_bench
from tests.ingest_process import GPUS, HOSTS, T0, IngestProcess
from warpmeter import bus, wire
from warpmeter.consumers import status
from warpmeter.schemas.generated import gpu_samples_pb2, host_samples_pb2

pytestmark = pytest.mark.long

Headers = list[tuple[str, bytes]]
Row = gpu_samples_pb2.Envelope.GpuSample
TYPE: Final = ("type", b"GpuSample")
MIB: Final = 1 << 20
GOOD: Final[Mapping[str, Any]] = {"host": "poison", "ts": T0, "period_ms": 1000, "gpu": 1, "uuid": "GPU-1"}


@dataclass(frozen=True)
class Poison:
    """One bad message, and what its dead letter's reason must tell."""

    value: bytes | None
    headers: Headers | None
    reason: str


def said(value: bytes | None, rows: int, reason: str) -> Poison:
    """With the headers of a good message."""
    return Poison(value, [TYPE, ("rows", b"%d" % rows)], reason)


def wrong(reason: str, **fields: Any) -> Poison:
    """A well-formed message between whose two good rows one has a value that is not allowed."""
    rows = [Row(**GOOD), Row(**{**GOOD, **fields}), Row(**GOOD)]
    return said(wire.pack(GPUS, "poison", rows).value, 3, reason)


VALUE: Final = wire.pack(GPUS, "poison", [Row(**GOOD), Row(**GOOD)]).value
HOST: Final = wire.pack(
    HOSTS,
    "poison",
    [host_samples_pb2.Envelope.HostSample(host="poison", ts=1.8e9, agent_version="1", uptime_s=361, cores=2000)],
)
NOISE: Final = random.Random(3).randbytes(2000)

KINDS: Final[Mapping[str, Poison]] = {
    "truncated": said(VALUE[:-3], 2, "do not parse"),
    "truncated between rows": said(VALUE[: len(VALUE) // 2], 2, "holds 1"),
    "random": said(NOISE, 2, "parse"),
    "text": said(b'{"host": "a", "gpu_util": 0.5}', 1, "parse"),
    "empty": said(b"", 1, "without rows"),
    "null": said(None, 1, "tombstone"),
    "zeros": said(bytes(64), 1, "parse"),
    "wrong type": Poison(HOST.value, HOST.headers, "HostSample"),
    "wrong type that claims to be right": said(HOST.value, 1, "PROTOBUF"),
    "wrong type that claims nothing": Poison(HOST.value, None, "fields that a GpuSample does not have"),
    "rows that it does not hold": said(VALUE, 3, "holds 2"),
    "rows that are no number": Poison(VALUE, [TYPE, ("rows", b"\xff")], "holds 2"),
    "another version of the envelope": said(VALUE + wire.field(2, b"checksum"), 2, "another field"),
    "another version of the row, by its header": Poison(VALUE, [("type", b"GpuSampleV2"), ("rows", b"2")], "V2"),
    "a row cut inside": said(wire.field(1, Row(**GOOD).SerializeToString()[:-2]), 1, "Cannot read all data"),
    "a length of 4 TiB": said(wire.field(1, b"\x0a" + wire.varint(4 << 40) + b"host"), 1, "do not parse"),
    "a row of noise": said(wire.field(1, NOISE[:90]), 1, "Code"),
    "no host": wrong("host_given", host=""),
    "a ratio above one": wrong("ratios_to_1000_permille", sm_active_permille=1001),
    "a time before 2020": wrong("time_2020_to_2100", ts=1.5e9),
    "a time after 2100": wrong("time_2020_to_2100", ts=4.2e9),
    "a time that is none": wrong("Code", ts=math.nan),
    "a time without end": wrong("Code", ts=math.inf),
    "a number that the column cannot hold": wrong("Could not convert value '300'", gpu=300),
    "10 MiB of noise": said(random.Random(4).randbytes(10 * MIB), 2, "parse"),
    "10 MiB of empty rows": said(b"\x0a\x00" * (5 * MIB), 5 * MIB, "too short"),
}

# What looks odd and is good: what stands behind one row's bytes, and the headers.
FINE: Final[Mapping[str, tuple[bytes, Headers]]] = {
    "a field of a later version": (wire.field(900, b"new"), [TYPE, ("rows", b"1")]),
    "no headers": (b"", []),
    "headers of others beside ours": (b"", [("traceparent", b"00"), TYPE, ("rows", b"1")]),
}


def fine(tag: str, kind: str) -> bytes:
    """The value of a message that looks odd, of a host of its own."""
    row = Row(**{**GOOD, "host": f"fine-{tag}-{kind}"})
    return wire.field(1, row.SerializeToString() + FINE[kind][0])


@dataclass
class Letter:
    """A row of `dead_letters`, the bytes as their digest."""

    partition: int
    offset: int
    reason: str
    size: int
    digest: str
    headers: Mapping[str, str]


def letters(at: Bench) -> list[Letter]:
    """All dead letters of the test's GPU topic."""
    name = GPUS.full_name(at.settings.kafka.topic_prefix)
    found = at.table.query(
        "SELECT partition, offset, reason, length(value), lower(hex(SHA256(value))), headers "
        f"FROM dead_letters FINAL WHERE topic = '{name}' ORDER BY partition, offset"
    )
    return [Letter(*row) for row in found]


def lettered(at: Bench) -> set[tuple[int, int]]:
    """Partition and offset of each dead letter of the test's GPU topic."""
    name = GPUS.full_name(at.settings.kafka.topic_prefix)
    return set(at.table.query(f"SELECT partition, offset FROM dead_letters WHERE topic = '{name}'"))


def await_letters(at: Bench, places: Mapping[str, tuple[int, int]], process: IngestProcess) -> None:
    """Wait until the message at each of these places is in the dead letters."""
    deadline = time.monotonic() + 120
    wanted = {place: name for name, place in places.items()}
    while missing := wanted.keys() - lettered(at):
        assert process.process.poll() is None, f"ingest ended with {process.process.returncode}: {process}"
        assert time.monotonic() < deadline, f"no letter of {[wanted[place] for place in missing]}: {process}"
        time.sleep(0.1)


def digest(value: bytes | None) -> str:
    return hashlib.sha256(value or b"").hexdigest()


class Sender:
    """Sends poison and notes where the broker put it."""

    def __init__(self, at: Bench) -> None:
        self._name = GPUS.full_name(at.settings.kafka.topic_prefix)
        self._feed = at.feed
        self.places: dict[str, tuple[int, int]] = {}

    def send(self, name: str, value: bytes | None, headers: Headers | None) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, f"{name}: {error}"
            self.places[name] = (int(message.partition() or 0), int(message.offset() or 0))

        self._feed.producer.produce(self._name, value, b"poison", headers=list(headers or []), on_delivery=delivered)
        self._feed.flush()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


def with_large_messages(at: Bench) -> None:
    """What an operator does who wants 12 MiB on the source topic; the dead letters' limit is above that as it is."""
    allow(at, GPUS.full_name(at.settings.kafka.topic_prefix), 12 * MIB)


def allow(at: Bench, topic: str, most_bytes: int) -> None:
    """Set a topic's `max.message.bytes`."""
    change = ConfigEntry("max.message.bytes", str(most_bytes), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin = bus.admin(at.settings.kafka)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


@dataclass
class Ran:
    """What one run of ingest over all kinds of poison left behind."""

    places: Mapping[str, tuple[int, int]]
    letters: list[Letter]
    at: Bench


@pytest.fixture(scope="module")
def ran(broker: Broker, engine: EngineServer, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every kind among good messages, through one process."""
    at = make_bench(broker, engine, f"p{random.SystemRandom().randrange(1 << 32):x}", tmp_path_factory.mktemp("ingest"))
    if broker.keeps_commit_metadata:
        with_large_messages(at)
    sender = Sender(at)
    for name, poison in KINDS.items():
        at.feed.good(20)
        sender.send(name, poison.value, poison.headers)
    for name, (_, headers) in FINE.items():
        sender.send(name, fine(at.feed.tag, name), headers)
    at.feed.good(20)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        await_letters(at, {name: sender.places[name] for name in KINDS}, process)
        assert process.stop() == 0
    return Ran(sender.places, letters(at), at)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_in_the_dead_letters_with_its_place_reason_and_bytes(ran: Ran, kind: str) -> None:
    found = [letter for letter in ran.letters if (letter.partition, letter.offset) == ran.places[kind]]
    assert len(found) == 1
    poison = KINDS[kind]
    assert poison.reason in found[0].reason
    assert (found[0].size, found[0].digest) == (len(poison.value or b""), digest(poison.value))
    given = {name: value.decode(errors="backslashreplace") for name, value in poison.headers or []}
    assert found[0].headers == given


def test_nothing_else_is_in_the_dead_letters_and_every_good_row_is_in_once(ran: Ran) -> None:
    assert len(ran.letters) == len(KINDS)
    ran.at.once()
    ran.at.spans_meet()
    assert status.pending(ran.at.settings) == []


def test_of_a_message_with_one_bad_row_no_row_is_in(ran: Ran) -> None:
    assert ran.at.table.value("SELECT count() FROM gpu_samples WHERE host = 'poison'") == 0


@pytest.mark.parametrize("kind", FINE)
def test_what_looks_odd_and_is_good_is_in_its_table(ran: Ran, kind: str) -> None:
    host = f"fine-{ran.at.feed.tag}-{kind}"
    assert ran.at.table.value(f"SELECT count() FROM gpu_samples WHERE host = '{host}'") == 1
