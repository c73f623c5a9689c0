"""The real ingest process for tests: on a real broker, into a real engine over HTTP."""

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from tests.brokers import Broker
from tests.brokers.process import tail
from tests.engine import DATABASE, TOKEN, WRITER, EngineServer
from tests.signals import SLACK_S, tell
from tests.wait import until
from warpmeter import bus, launch, migrate, store, topics, wire
from warpmeter.schemas.generated import gpu_samples_pb2, host_samples_pb2
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Ingest, Kafka, Log, Metrics, Settings, Store

GPUS: Final = TOPICS["gpu-samples"]
HOSTS: Final = TOPICS["host-samples"]
SESSION_S: Final = 1.0
T0: Final = 3_800_000_000
"""In 2090: rows of a past time would be removed by their times to live on the day on which that is over."""


def store_settings(engine: EngineServer) -> Store:
    """The DSN of a part that may write."""
    return Store(dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{engine.port}", database=DATABASE)


def migrated(engine: EngineServer) -> EngineServer:
    """The engine with all tables."""
    settings = store_settings(engine)
    with store.connect(settings, database="default") as client:
        migrate.apply(client, settings)
    return engine


def settings_for(broker: Broker, engine: EngineServer, prefix: str, folder: Path, **ingest: Any) -> Settings:
    """Settings of one test: topics and group of its own, quick batches, the ledger that the broker allows."""
    ledger_dir = None if broker.keeps_commit_metadata else folder / "ledger"
    return Settings(
        kafka=Kafka(bootstrap_servers=broker.bootstrap_servers, topic_prefix=prefix, partitions=3),
        store=store_settings(engine),
        log=Log(format="json"),
        metrics=Metrics(ingest_port=0),
        ingest=replace(
            Ingest(group=prefix, batch_age_s=0.3, session_timeout_s=SESSION_S, settle_after_s=0.6),
            **{"ledger_dir": ledger_dir, **ingest},
        ),
    )


class IngestProcess:
    """`python -m warpmeter.consumers`, as a child."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.settings = settings
        self.log = log
        self._from = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self.process = launch.spawn("warpmeter.consumers", settings, log=output)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def ready(self) -> "IngestProcess":
        """Wait until it holds partitions."""
        until(lambda: "partitions taken" in self.said() or self.process.poll() is not None, "the group to form", 120)
        return self

    def stop(self, within_s: float = 5.0 + SLACK_S) -> int:
        """SIGTERM; its exit status."""
        tell(self.process)
        return self.process.wait(within_s)

    def close(self) -> None:
        """End it if it runs; for `closing`."""
        if self.process.poll() is None:
            self.kill()

    def ended(self, within_s: float = 120.0) -> int:
        """The exit status once it ends by itself."""
        return self.process.wait(within_s)

    def said(self) -> str:
        """What it logged since it was started."""
        with self.log.open() as file:
            file.seek(self._from)
            return file.read()

    def __str__(self) -> str:
        return tail(self.log)


class Feed:
    """Numbered samples onto a topic; `sent` counts rows."""

    def __init__(self, settings: Settings, tag: str) -> None:
        self.kafka = settings.kafka
        self.tag = tag
        self.sent = 0
        self._producer = bus.producer(settings.kafka, {"linger.ms": 5})

    def good(self, messages: int, rows: int = 4, topic: Topic = GPUS, hosts: int = 7) -> None:
        """Messages of `rows` samples each, every row with a time of its own."""
        for _ in range(messages):
            self.put(self.envelope(rows, topic, hosts))
        self.flush()

    def envelope(self, rows: int, topic: Topic = GPUS, hosts: int = 7) -> wire.Envelope:
        """The next message."""
        host = f"{self.tag}-{self.sent // rows % hosts}"
        numbers = range(self.sent, self.sent + rows)
        self.sent += rows
        if topic is GPUS:
            sample = gpu_samples_pb2.Envelope.GpuSample
            made: Sequence[Any] = [
                sample(
                    host=host,
                    ts=T0 + n * 0.05,
                    period_ms=1000,
                    gpu=n % 8,
                    uuid=f"GPU-{n % 8}",
                    sm_active_permille=n % 1000,
                )
                for n in numbers
            ]
        else:
            made = [host_samples_pb2.Envelope.HostSample(host=host, ts=T0 + n * 0.05, period_ms=1000) for n in numbers]
        return wire.pack(topic, host, made)

    def put(self, envelope: wire.Envelope, headers: list[tuple[str, bytes]] | None = None) -> None:
        """One message, with its own headers unless others are given."""
        name = TOPICS[envelope.topic].full_name(self.kafka.topic_prefix)
        self._producer.produce(
            name, envelope.value, envelope.key, headers=list(envelope.headers if headers is None else headers)
        )
        self._producer.poll(0)

    def raw(self, value: bytes | None, headers: Iterable[tuple[str, bytes]] = (), topic: Topic = GPUS) -> None:
        """A message of any bytes."""
        self._producer.produce(topic.full_name(self.kafka.topic_prefix), value, b"raw", headers=list(headers))

    def flush(self) -> None:
        """Wait for the broker's acknowledgement of all."""
        assert self._producer.flush(60) == 0, "the broker does not acknowledge"

    @property
    def producer(self) -> Producer:
        """The producer underneath."""
        return self._producer


class Table:
    """What one test's hosts have in the engine."""

    def __init__(self, engine: EngineServer, tag: str) -> None:
        self._engine = engine
        self._tag = tag

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        with closing(self._engine.client()) as client:
            return [tuple(row) for row in client.query(sql, {"tag": f"{self._tag}-%"}).result_rows]

    def value(self, sql: str) -> Any:
        """The one value of a query."""
        return self.query(sql)[0][0]

    def rows(self, topic: Topic = GPUS) -> int:
        """Rows in the raw table."""
        return int(self.value(f"SELECT count() FROM {topic.table} WHERE host LIKE {{tag:String}}"))

    def distinct(self, topic: Topic = GPUS) -> int:
        """Different rows in the raw table."""
        return int(self.value(f"SELECT uniqExact(host, ts) FROM {topic.table} WHERE host LIKE {{tag:String}}"))

    def rolled_up(self) -> int:
        """GPU samples that the minute rollup counts."""
        return int(self.value("SELECT sum(samples) FROM gpu_heatmap_1m WHERE host LIKE {tag:String}"))

    def reaches(self, rows: int, process: IngestProcess, topic: Topic = GPUS, within_s: float = 120.0) -> None:
        """Wait until that many rows are in."""
        deadline = time.monotonic() + within_s
        while (found := self.rows(topic)) < rows:
            assert process.process.poll() is None, f"ingest ended with {process.process.returncode}: {process}"
            assert time.monotonic() < deadline, f"{found} of {rows} rows of {topic.name}: {process}"
            time.sleep(0.05)


def make_topics(settings: Settings) -> None:
    """All topics, as the product makes them."""
    topics.ensure(settings.kafka)
    until(lambda: not topics.check(settings.kafka), "every node to know the topics")


def make_anew(settings: Settings, topic: Topic = GPUS) -> None:
    """Delete a topic and make it again, once the broker has forgotten it: it tells of it for a moment after."""
    name, admin = topic.full_name(settings.kafka.topic_prefix), bus.admin(settings.kafka)
    for future in admin.delete_topics([name]).values():
        future.result()
    until(lambda: name not in admin.list_topics(timeout=30).topics, "the topic to be gone")
    make_topics(settings)
