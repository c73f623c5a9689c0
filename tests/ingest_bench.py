"""One test's corner of a broker and an engine: topics, hosts and a group of its own, and what must hold at its end."""

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.brokers import Broker
from tests.brokers.process import free_ports
from tests.engine import EngineServer
from tests.ingest_process import GPUS, Feed, IngestProcess, Table, make_topics, settings_for
from tests.wait import until
from warpmeter.consumers.broker import connect
from warpmeter.settings import Metrics, Settings

HALTED: Final = 78


@dataclass
class Bench:
    """One test's corner: topics, hosts and group of its own."""

    settings: Settings
    feed: Feed
    table: Table
    log: Path

    def start(self, **ingest: Any) -> IngestProcess:
        """A consumer of the group, with other settings where named."""
        return IngestProcess(replace(self.settings, ingest=replace(self.settings.ingest, **ingest)), self.log)

    def once(self, topic: Any = GPUS) -> None:
        """Every row that was sent is in once, in the raw table, the rollup and the book of spans."""
        assert (self.table.rows(topic), self.table.distinct(topic)) == (self.feed.sent, self.feed.sent)
        if topic is GPUS:  # an insert's rows are seen a moment before what is made of them
            until(lambda: self.table.rolled_up() >= self.feed.sent, "the rows to be rolled up")
            assert self.table.rolled_up() == self.feed.sent

    def spans_meet(self) -> None:
        """No gap and no overlap between the spans of each partition of the topic as it is now."""
        name = GPUS.full_name(self.settings.kafka.topic_prefix)
        broker, consumer = connect(self.settings.kafka, self.settings.ingest)
        with closing(consumer):
            life = broker.topic_ids([name])[name]
        rows = self.table.query(
            f"SELECT partition, first, last FROM ingest_batches WHERE topic_uuid = '{life}' ORDER BY partition, first"
        )
        assert rows
        for one, other in pairwise(rows):
            assert one[0] != other[0] or other[1] == one[2] + 1, (one, other)


def make_bench(broker: Broker, engine: EngineServer, prefix: str, folder: Path, partitions: int = 3) -> Bench:
    """Topics and group under `prefix`, logs in `folder`."""
    settings = settings_for(broker, engine, prefix, folder)
    settings = replace(settings, kafka=replace(settings.kafka, partitions=partitions))
    make_topics(settings)
    return Bench(settings, Feed(settings, prefix), Table(engine, prefix), folder / "ingest.log")


def bench_behind(broker: Broker, engine: EngineServer, prefix: str, folder: Path, port: int) -> Bench:
    """The same into the engine behind `port`; its host and the port of its metrics are its own too."""
    made = make_bench(broker, engine, prefix, folder)
    behind = replace(made.settings.store, dsn=made.settings.store.dsn.replace(str(engine.port), str(port)))
    named = replace(made.settings.agent, host=prefix)
    metrics = Metrics(ingest_port=free_ports(1)[0])
    return replace(made, settings=replace(made.settings, store=behind, agent=named, metrics=metrics))
