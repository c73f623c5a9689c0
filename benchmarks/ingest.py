"""Rows a second from the broker into the GPU table with all its rollups, beside two things it is measured by:

- the same bytes inserted from memory, in batches of the same size, into the same tables: what the store can take;
- a plain consumer that decodes each message and inserts rows through clickhouse-connect: what one writes first.

`--ablate` compares with the same consumer without ledger and tokens instead: the same loop over the same topic, its
ledger a dictionary, its inserts without a token and not deduplicated. All in one run, taking turns, the order swapped
from turn to turn, from a real broker into one real engine process over HTTP whose tables are emptied before each run.
Printed: the medians of the runs, and of the ratios within a turn, with the interval that holds the median with 95 %
confidence (from ranks); by time, and by the CPU time of consumer and engine, which a busy machine disturbs less.
"""

import argparse
import gc
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

import psutil
from confluent_kafka import Consumer, TopicPartition

from tests.brokers import Broker, KafkaCluster, Tansu
from tests.engine import TOKEN, WRITER, EngineServer
from warpmeter import bus, log, migrate, store, topics, wire
from warpmeter.clock import SystemClock
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.broker import connect
from warpmeter.consumers.flight import Ports
from warpmeter.consumers.ledger import Ledger, MemoryLedger
from warpmeter.consumers.ledger.file import FileLedger
from warpmeter.consumers.ledger.kafka import KafkaLedger
from warpmeter.consumers.letters import MemoryLetters
from warpmeter.consumers.loop import Loop
from warpmeter.consumers.sink import Result
from warpmeter.consumers.sink.clickhouse import ClickHouse, insert_settings
from warpmeter.consumers.span import Partition
from warpmeter.schemas.topics import TOPICS, row_type
from warpmeter.settings import Ingest, Kafka, Log, Settings, Store
from warpmeter.simulate.fleet import Fleet
from warpmeter.simulate.simulation import Simulation

GPUS: Final = TOPICS["gpu-samples"]
BATCH_BYTES: Final = Ingest().batch_bytes

ALWAYS: Final = ("host", "ts", "period_ms", "gpu", "uuid", "model", "job_ids")
OPTIONAL: Final = [field.name for field in row_type(GPUS.envelope).fields if field.name not in ALWAYS]


@dataclass(frozen=True)
class Ground:
    """Where all contenders run."""

    broker: Broker
    store: Store
    folder: Path
    messages: Sequence[wire.Envelope]
    engine: psutil.Process
    filled: set[str] = field(default_factory=set)

    @property
    def rows(self) -> int:
        """Rows of all messages."""
        return sum(message.rows for message in self.messages)

    def cpu_s(self) -> float:
        """CPU time so far, of this process and of the engine's."""
        engine = self.engine.cpu_times()
        return time.process_time() + float(engine.user) + float(engine.system)

    def empty(self) -> None:
        """Empty all tables, which also forgets the tokens they have seen, so that every run finds the same."""
        with store.connect(self.store) as client:
            filled = client.query(
                "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' "
                "AND total_rows > 0 AND name NOT LIKE 'schema_%'"
            ).result_rows
            for (name,) in filled:
                client.command(f"TRUNCATE TABLE {name} SYNC")

    def topic(self, name: str, messages: Sequence[wire.Envelope]) -> Kafka:
        """A topic with `messages`, under a prefix of its own; the one that is there already is taken as it is."""
        kafka = Kafka(bootstrap_servers=self.broker.bootstrap_servers, topic_prefix=name, partitions=1)
        return kafka if name in self.filled else self._filled(name, messages)

    def _filled(self, name: str, messages: Sequence[wire.Envelope]) -> Kafka:
        self.filled.add(name)
        kafka = Kafka(bootstrap_servers=self.broker.bootstrap_servers, topic_prefix=name, partitions=1)
        topics.ensure(kafka, [GPUS])
        producer = bus.producer(kafka, {"queue.buffering.max.kbytes": 1 << 20, "queue.buffering.max.messages": 0})
        for message in messages:
            producer.produce(GPUS.full_name(name), message.value, message.key, headers=list(message.headers))
            producer.poll(0)
        producer.flush()
        return kafka


@dataclass(frozen=True)
class Cost:
    """What one run cost: rows a second, and microseconds of CPU a row, of consumer and engine together."""

    rows_per_s: float
    cpu_us: float


class Meter:
    """Measures one run, from here to `cost`."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._began, self._cpu_s = time.perf_counter(), ground.cpu_s()

    def cost(self, rows: int) -> Cost:
        """Of so many rows."""
        took_s, cpu_s = time.perf_counter() - self._began, self._ground.cpu_s() - self._cpu_s
        return Cost(rows / took_s, cpu_s / rows * 1e6)


def made(rows: int) -> list[wire.Envelope]:
    """GPU samples of a simulated fleet of 200 hosts with 8 GPUs each."""
    fleet = Simulation(Fleet(hosts=200, faults_per_hour=0), 1_800_000_000.0)
    envelopes = (envelope for tick in fleet for envelope in tick.envelopes if envelope.topic == GPUS.name)
    return list(islice(envelopes, rows // 8))


def batches(messages: Sequence[wire.Envelope]) -> Iterator[bytes]:
    """Bodies of inserts as ingest makes them."""
    values: list[bytes] = []
    size = 0
    for message in messages:
        values.append(message.value)
        size += len(message.value)
        if size >= BATCH_BYTES:
            yield wire.joined(values)
            values, size = [], 0
    if values:
        yield wire.joined(values)


def from_memory(ground: Ground, name: str) -> Cost:
    """The same bytes, already joined, inserted one batch after the other."""
    bodies = list(batches(ground.messages))
    with store.connect(ground.store) as client:
        meter = Meter(ground)
        for number, body in enumerate(bodies):
            settings = insert_settings(GPUS) | {"insert_deduplication_token": f"{name}/0/{number}-{number}"}
            client.raw_insert(GPUS.table, insert_block=body, settings=settings, fmt="ProtobufList")
        return meter.cost(ground.rows)


class Untokened(ClickHouse):
    """Inserts without a token: at least once, as consumers without a ledger do."""

    def insert(self, batch: Batch) -> Result:
        return self._put((self._client, GPUS.table), batch.span.topic, batch.kept_payloads, {"insert_deduplicate": "0"})


def _ledger(ground: Ground, name: str, consumer: Consumer, exact: bool) -> Ledger:
    if not exact:
        return MemoryLedger()
    return KafkaLedger(consumer) if ground.broker.keeps_commit_metadata else FileLedger(ground.folder, name)


def ingested(ground: Ground, name: str, exact: bool = True) -> Cost:
    """Ingest, from the moment that it holds the partition until the last row is in and settled."""
    kafka = ground.topic("bench", ground.messages)
    ingest = Ingest(group=name, session_timeout_s=6.0)
    broker, consumer = connect(kafka, ingest)
    full = GPUS.full_name("bench")
    kind = ClickHouse if exact else Untokened
    sink = kind(partial(store.client, ground.store), {full: GPUS}, {full: GPUS.table})
    ports = Ports(broker, _ledger(ground, name, consumer, exact), sink, sink, MemoryLetters(), SystemClock())
    with ThreadPoolExecutor(1) as worker:
        loop = Loop(ports, ingest, {full: GPUS}, worker, "bench")
        while not loop.partitions:
            loop.step()
        meter = Meter(ground)
        while loop.read(Partition(full, 0)) < len(ground.messages):
            loop.step()
        if not loop.drain(600.0):
            raise SystemExit("ingest did not finish")
        return meter.cost(ground.rows)


def plain(ground: Ground, name: str, share: int = 10) -> Cost:
    """A consumer that decodes each message and inserts rows, 20,000 at a time; on 1/`share`."""
    messages = ground.messages[: len(ground.messages) // share]
    kafka = ground.topic("plain", messages)
    done, rows = 0, []
    with closing(bus.consumer(kafka, name)) as consumer, store.connect(ground.store) as client:
        consumer.assign([TopicPartition(GPUS.full_name("plain"), 0, 0)])
        meter = Meter(ground)
        while done < len(messages):
            for message in consumer.consume(1000, 1.0):
                done += 1
                rows += [_values(row) for row in wire.unpack(GPUS, message.value() or b"")]
            if len(rows) >= 20_000 or done == len(messages):
                client.insert(GPUS.table, rows, column_names=[*ALWAYS, *OPTIONAL])
                rows = []
        return meter.cost(sum(message.rows for message in messages))


def _values(row: Any) -> list[object]:
    """A row as clickhouse-connect takes it."""
    given = [getattr(row, name) if row.HasField(name) else None for name in OPTIONAL]
    when = datetime.fromtimestamp(row.ts, UTC)
    return [row.host, when, row.period_ms, row.gpu, row.uuid, row.model, list(row.job_ids), *given]


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The ranks around the median that hold the true one with at least this confidence; all, when they are few."""
    ordered, count = sorted(values), len(values)
    for drop in range(count // 2, 0, -1):
        outside = 2 * sum(math.comb(count, below) for below in range(drop)) / 2**count
        if 1 - outside >= confidence:
            return ordered[drop], ordered[-drop - 1]
    return ordered[0], ordered[-1]


Contender = Callable[[Ground, str], Cost]


def contenders(ablate: bool) -> Mapping[str, Contender]:
    """What takes turns; the first is the one that the others are divided by."""
    if ablate:
        return {"ingest": ingested, "without ledger and tokens": partial(ingested, exact=False)}
    return {"ingest": ingested, "same bytes from memory": from_memory, "plain consumer": plain}


def told(values: Sequence[float], form: str) -> str:
    """Median and interval."""
    low, high = interval(values)
    return f"{statistics.median(values):{form}} ({low:{form}} to {high:{form}})"


def report(found: Mapping[str, Sequence[Cost]]) -> None:
    """One table."""
    ours = found["ingest"]
    print(f"{'':28}{'rows/s (95 %)':>34}{'ingest / it (95 %)':>24}{'CPU us a row':>22}{'it / ingest by CPU':>24}")
    for name, costs in found.items():
        pairs = list(zip(ours, costs, strict=True))
        speed = told([cost.rows_per_s for cost in costs], ",.0f")
        cpu = told([cost.cpu_us for cost in costs], ".1f")
        ratios = "" if name == "ingest" else told([mine.rows_per_s / its.rows_per_s for mine, its in pairs], ".3f")
        by_cpu = "" if name == "ingest" else told([its.cpu_us / mine.cpu_us for mine, its in pairs], ".3f")
        print(f"{name:28}{speed:>34}{ratios:>24}{cpu:>22}{by_cpu:>24}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ablate", action="store_true", help="compare with ledger and tokens off")
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka instead of the embedded broker")
    parser.add_argument("--rows", type=int, help="a run; default 600,000, with --ablate 1,000,000")
    parser.add_argument("--turns", type=int, help="default 7, with --ablate 15 pairs")
    asked = parser.parse_args()
    log.setup(Log(level="error"), "bench")
    gc.set_threshold(100_000, 20, 100)
    turns = asked.turns or (15 if asked.ablate else 7)
    rows = asked.rows or (1_000_000 if asked.ablate else 600_000)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(closing((KafkaCluster if asked.kafka else Tansu)(folder / "broker")))
        engine = stack.enter_context(closing(EngineServer(folder / "engine")))
        settings = replace(Settings().store, dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{engine.port}")
        with store.connect(settings, database="default") as client:
            migrate.apply(client, settings)
        ground = Ground(broker, settings, folder, made(rows), psutil.Process(engine.process.pid))
        found: dict[str, list[Cost]] = {name: [] for name in contenders(asked.ablate)}
        for turn in range(-1, turns):
            order = list(enumerate(contenders(asked.ablate).items()))
            for number, (name, contender) in order if turn % 2 else reversed(order):
                ground.empty()
                cost = contender(ground, f"turn{turn}x{number}")
                if turn >= 0:  # the first turn warms up
                    found[name].append(cost)
    size = sum(len(message.value) for message in ground.messages)
    what = f"{ground.rows:,} rows of {size / ground.rows:.0f} bytes a run, {turns} turns of all contenders"
    print(f"{what} on {broker.name}, engine over HTTP")
    report(found)


if __name__ == "__main__":
    main()
