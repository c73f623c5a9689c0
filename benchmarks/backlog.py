"""Memory of the consumer over a large backlog: 10 million rows over 10 topics of 12 partitions, read by one process.

There are fewer topics than that, so the backlog lies under as many prefixes as it takes; one loop subscribes to all of
them, which is the product's but for its list of topics. The process's own memory is read from the kernel each 20 ms
above what it had before it joined the group, and the bytes in open batches from its metric; also the engine's growth,
rows a second and how large the batches were. On Apache Kafka where Java and Maven are, else on the embedded broker.
"""

import argparse
import gc
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

import psutil

from tests.brokers import Broker, KafkaCluster, KafkaMissingError, Tansu
from tests.engine import TOKEN, WRITER, EngineServer
from warpmeter import bus, log, migrate, store, topics, wire
from warpmeter.clock import SystemClock
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.broker import connect
from warpmeter.consumers.flight import Ports
from warpmeter.consumers.ledger import Ledger
from warpmeter.consumers.ledger.file import FileLedger
from warpmeter.consumers.ledger.kafka import KafkaLedger
from warpmeter.consumers.letters import MemoryLetters
from warpmeter.consumers.loop import OPEN_BYTES, Loop
from warpmeter.consumers.sink import Landed, Result
from warpmeter.consumers.sink.clickhouse import ClickHouse
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Ingest, Kafka, Log, Settings, Store
from warpmeter.simulate.fleet import Fleet
from warpmeter.simulate.simulation import Simulation

MIB: Final = 1 << 20
LIMIT_MIB: Final = 768
PARTITIONS: Final = 12
PATIENCE_S: Final = 120.0
SHARES: Final = {"gpu-samples": 0.9, "host-samples": 0.1}
"""Of a prefix's rows: eight GPUs a message; hosts, one row a message, cost memory by the message."""


@dataclass(frozen=True)
class Source:
    """One topic of the backlog."""

    prefix: str
    topic: Topic

    @property
    def full(self) -> str:
        """Its name on the broker."""
        return self.topic.full_name(self.prefix)


def sources(count: int) -> list[Source]:
    """So many topics: those of `SHARES` under one prefix after the other."""
    names = list(SHARES)
    return [Source(f"backlog{n // len(names)}", TOPICS[names[n % len(names)]]) for n in range(count)]


def messages(topic: Topic, rows: int) -> Iterator[wire.Envelope]:
    """Messages of a simulated fleet, of the first few ticks over and over, `rows` rows in all."""
    ticks = islice(Simulation(Fleet(hosts=500, faults_per_hour=0), 1_800_000_000.0), 20)
    pool = [envelope for tick in ticks for envelope in tick.envelopes if envelope.topic == topic.name]
    left = rows
    for envelope in cycle(pool):
        if left <= 0:
            return
        left -= envelope.rows
        yield envelope


def fill(servers: str, name: str, prefix: str, rows: int) -> int:
    """Make the topic and its backlog, in a process of its own, for its memory is not ingest's; rows that it has."""
    source = Source(prefix, TOPICS[name])
    kafka = Kafka(bootstrap_servers=servers, topic_prefix=source.prefix, partitions=PARTITIONS)
    topics.ensure(kafka, [source.topic])
    producer, sent = bus.producer(kafka, {"queue.buffering.max.kbytes": 1 << 18}), 0
    for number, envelope in enumerate(messages(source.topic, rows)):
        sent += envelope.rows
        while True:
            try:
                producer.produce(
                    source.full, envelope.value, envelope.key, number % PARTITIONS, headers=list(envelope.headers)
                )
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return sent


class Watch:
    """Memory of this process, of the engine, and bytes in open batches, every 20 ms from a thread of its own."""

    def __init__(self, engine: int) -> None:
        self._us, self._engine = psutil.Process(), psutil.Process(engine)
        self._from = self._us.memory_info().rss, self._engine.memory_info().rss
        self.grown = self.engine_grown = self.open = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._done.wait(0.02):
            self.grown = max(self.grown, self._us.memory_info().rss - self._from[0])
            self.engine_grown = max(self.engine_grown, self._engine.memory_info().rss - self._from[1])
            self.open = max(self.open, int(next(iter(OPEN_BYTES.collect())).samples[0].value))

    def close(self) -> None:
        """Stop watching."""
        self._done.set()
        self._thread.join()


class Counting(ClickHouse):
    """The sink, noting how large each batch was."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.rows: list[int] = []

    def insert(self, batch: Batch) -> Result:
        found = super().insert(batch)
        if isinstance(found, Landed):
            self.rows.append(batch.kept_rows)
        return found


@dataclass(frozen=True)
class Found:
    """One run."""

    rows: int
    took_s: float
    batches: Sequence[int]
    grown: int
    engine_grown: int
    open: int


def ingest(
    broker: Broker, settings: Store, engine: EngineServer, folder: Path, which: Sequence[Source], sent: int
) -> Found:
    """The whole backlog of `sent` rows through one loop; given up when nothing lands for `PATIENCE_S`."""
    options = Ingest(group="backlog", session_timeout_s=30.0)
    consumer_of, consumer = connect(Kafka(bootstrap_servers=broker.bootstrap_servers), options)
    names = {source.full: source.topic for source in which}
    sink = Counting(partial(store.client, settings), names, {name: topic.table for name, topic in names.items()})
    ledger: Ledger = KafkaLedger(consumer) if broker.keeps_commit_metadata else FileLedger(folder, "backlog")
    ports = Ports(consumer_of, ledger, sink, sink, MemoryLetters(), SystemClock())
    with ThreadPoolExecutor(1) as worker, closing(Watch(engine.process.pid)) as watch:
        loop = Loop(ports, options, names, worker, "bench")
        while not loop.partitions:
            loop.step()
        began = heard = time.perf_counter()
        landed = 0
        while sum(sink.rows) < sent and time.perf_counter() - heard < PATIENCE_S:
            loop.step()
            if len(sink.rows) > landed:
                landed, heard = len(sink.rows), time.perf_counter()
        took_s = time.perf_counter() - began
        loop.drain(60.0)
        return Found(sum(sink.rows), took_s, sink.rows, watch.grown, watch.engine_grown, watch.open)


def report(found: Found, sent: int, broker: Broker) -> bool:
    """One table; whether all bounds hold."""
    ordered = sorted(found.batches)
    budget, poll = Ingest().budget_bytes, Ingest().budget_bytes // 2
    inside = found.rows == sent and found.grown <= LIMIT_MIB * MIB and found.open <= budget + poll
    spread = ", ".join(f"{ordered[int(len(ordered) * share)]:,}" for share in (0.1, 0.5, 0.9))
    lines = (
        ("rows sent, landed", f"{sent:,}, {found.rows:,}"),
        ("rows/s", f"{found.rows / found.took_s:,.0f}"),
        ("memory above the idle process, at most", f"{found.grown / MIB:,.0f} MiB of {LIMIT_MIB}"),
        ("bytes in open batches, at most", f"{found.open / MIB:,.0f} MiB of {budget / MIB:.0f} and a poll"),
        ("engine's growth, at most", f"{found.engine_grown / MIB:,.0f} MiB"),
        ("inserts; rows of one (p10, p50, p90)", f"{len(ordered)}; {spread}"),
        ("all within bounds", "yes" if inside else "NO"),
    )
    print(f"backlog on {broker.name}")
    for name, value in lines:
        print(f"{name:42}{value:>40}")
    return inside


def started(folder: Path, embedded: bool) -> Broker:
    """Apache Kafka if this machine can run it."""
    if not embedded:
        try:
            return KafkaCluster(folder)
        except KafkaMissingError as missing:
            print(f"{missing}: on the embedded broker instead", file=sys.stderr)
    return Tansu(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", action="store_true", help="on the embedded broker, whatever there is")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--topics", type=int, default=10)
    asked = parser.parse_args()
    log.setup(Log(level="error"), "bench")
    gc.set_threshold(100_000, 20, 100)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = started(folder / "broker", asked.embedded)
        stack.callback(broker.close)
        engine = stack.enter_context(closing(EngineServer(folder / "engine")))
        settings = replace(Settings().store, dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{engine.port}")
        with store.connect(settings, database="default") as client:
            migrate.apply(client, settings)
        which = sources(asked.topics)
        prefixes = asked.topics / len(SHARES)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as filler:
            shares = [int(asked.rows / prefixes * SHARES[source.topic.name]) for source in which]
            made = [
                filler.submit(fill, broker.bootstrap_servers, source.topic.name, source.prefix, rows)
                for source, rows in zip(which, shares, strict=True)
            ]
            sent = sum(each.result() for each in made)
        found = ingest(broker, settings, engine, folder / "ledger", which, sent)
        sys.exit(0 if report(found, sent, broker) else 1)


if __name__ == "__main__":
    main()
