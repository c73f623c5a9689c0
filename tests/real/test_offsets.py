"""What Kafka's own tools do to the group, on real Apache Kafka: ingest stores nothing twice, counts what is left out,
and what it says to do is what helps."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import TopicPartition

from tests.brokers import KafkaCluster, tools
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_bench import HALTED, Bench, make_bench
from tests.ingest_process import GPUS, Feed, make_anew
from tests.wait import until
from warpmeter import bus
from warpmeter.cli import doctor
from warpmeter.consumers import status
from warpmeter.consumers.audit.run import audit
from warpmeter.consumers.ledger import Declared, Settled, encode
from warpmeter.consumers.span import Partition, Span

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SLOW_S: Final = 120.0
OTHER: Final = "5f1c7a1e-0000-4000-8000-000000000000"
COMMAND: Final = re.compile(r"kafka-consumer-groups\.sh --bootstrap-server \S+ [^;]+ --to-offset (\d+) --execute")
SEVERAL: Final = re.compile(r"echo [^;]+ --from-file offsets\.csv --execute")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@dataclass
class Corner:
    """A bench whose GPU topic has one partition, and the tool."""

    at: Bench
    kafka: KafkaCluster

    @property
    def group(self) -> str:
        return self.at.settings.ingest.group

    @property
    def where(self) -> Partition:
        return Partition(GPUS.full_name(self.at.settings.kafka.topic_prefix), 0)

    @property
    def life(self) -> str:
        admin = bus.admin(self.at.settings.kafka)
        ids, _ = status.described(admin, [self.where.topic])
        return ids[self.where.topic]

    def tool(self, *arguments: str) -> str:
        """The tool, as somebody would use it on this group."""
        return tools.consumer_groups(self.kafka.bootstrap_servers, "--group", self.group, *arguments)

    def reset(self, *how: str) -> str:
        """Reset the offset of the topic, once the group is empty."""
        until(lambda: status.group_members(self.at.settings) == 0, "the group to be empty", SLOW_S)
        return self.tool("--reset-offsets", "--topic", self.where.topic, *how, "--execute")

    def commit(self, entry: Declared | Settled) -> None:
        """Put a record of ingest's own into the group, as a restored backup would."""
        until(lambda: status.group_members(self.at.settings) == 0, "the group to be empty", SLOW_S)
        with closing(bus.consumer(self.at.settings.kafka, self.group)) as nobody:
            offset, metadata = encode(entry)
            nobody.commit(
                offsets=[TopicPartition(self.where.topic, self.where.number, offset, metadata)], asynchronous=False
            )

    def lands(self, messages: int = 10) -> None:
        """Feed and ingest: all of it lands once and is settled."""
        self.at.feed.good(messages)
        self.ingests(self.at.feed.sent)
        self.at.once()

    def ingests(self, rows: int) -> None:
        """Ingest until so many rows are in, and settled."""
        with closing(self.at.start()) as process:
            self.at.table.reaches(rows, process, within_s=SLOW_S)
            until(lambda: status.pending(self.at.settings) == [], "all to be settled", SLOW_S)
            process.stop(20)

    def halts(self) -> str:
        """Start ingest: it ends with what it says; nothing has changed in the table."""
        before = self.at.table.rows()
        with closing(self.at.start()) as process:
            assert process.ended(SLOW_S) == HALTED, process.said()
            said = process.said()
        assert self.at.table.rows() == before
        assert "halted: somebody must act" in said
        return said

    def do(self, said: str, otherwise: str = "") -> int:
        """Do what it says, word by word, with the offset that it names for that, or for what matches `otherwise`."""
        until(lambda: status.group_members(self.at.settings) == 0, "the group to be empty", SLOW_S)
        command = COMMAND.search(said)
        other = re.search(otherwise, said) if otherwise else command
        assert command is not None
        assert other is not None
        offset = other[other.re.groups]
        self.paste(command[0].replace(f"--to-offset {command[1]}", f"--to-offset {offset}"))
        return int(offset)

    def paste(self, command: str) -> str:
        """Run what a message says, in a shell."""
        return tools.pasted(command, self.at.log.parent)


@pytest.fixture
def corner(kafka: KafkaCluster, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Corner:
    at = make_bench(kafka, engine, topic_prefix, tmp_path, partitions=1)
    at.settings = replace(at.settings, ingest=replace(at.settings.ingest, topics=(GPUS.name, "source-health")))
    return Corner(at, kafka)


@pytest.mark.parametrize("how", [("--to-earliest",), ("--shift-by", "-3")], ids=" ".join)
def test_an_offset_set_back_halts_and_what_the_message_says_lets_it_go_on(corner: Corner, how: tuple[str, ...]) -> None:
    corner.lands()
    assert doctor.ingest(corner.at.settings).verdict == "ok"
    corner.reset(*how)
    found = doctor.ingest(corner.at.settings)
    assert found.verdict == "failed"
    assert COMMAND.search(found.remedy)
    said = corner.halts()
    assert "is not ours (no metadata of ours)" in said
    assert "`warpmeter replay`" in said
    assert corner.do(said) == 10
    corner.lands()
    corner.at.spans_meet()


def test_of_three_partitions_set_back_all_are_named_and_one_command_lets_them_go_on(
    kafka: KafkaCluster, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = make_bench(kafka, engine, topic_prefix, tmp_path, partitions=3)
    at.settings = replace(at.settings, ingest=replace(at.settings.ingest, topics=(GPUS.name,), session_timeout_s=45.0))
    corner = Corner(at, kafka)
    at.feed.good(60, hosts=30)
    corner.ingests(at.feed.sent)
    corner.reset("--to-earliest")
    said = corner.halts()
    assert "3 partitions must not begin where the group is" in said
    for number in range(3):
        assert f"{corner.where.topic}[{number}] is not ours" in said
    command = SEVERAL.search(said)
    assert command is not None, said
    left = time.monotonic()
    until(lambda: status.group_members(at.settings) == 0, "who halted to have left the group", 40)
    assert time.monotonic() - left < at.settings.ingest.session_timeout_s / 2
    corner.paste(command[0])
    at.feed.good(30, hosts=30)
    corner.ingests(at.feed.sent)
    at.once()
    at.spans_meet()


@pytest.mark.parametrize("what", ["offsets", "group"])
def test_deleted_offsets_halt_and_what_the_message_says_lets_it_go_on(corner: Corner, what: str) -> None:
    corner.lands()
    until(lambda: status.group_members(corner.at.settings) == 0, "the group to be empty", SLOW_S)
    corner.tool(*(("--delete-offsets", "--topic", corner.where.topic) if what == "offsets" else ("--delete",)))
    said = corner.halts()
    assert "the group has no offset of" in said
    assert corner.do(said) == 10
    corner.lands()
    corner.at.spans_meet()


def test_an_offset_set_forward_is_a_counted_and_published_loss(corner: Corner) -> None:
    corner.lands(10)
    corner.at.feed.good(6)
    left_out = 4
    corner.reset("--shift-by", str(left_out))
    reached = 10 * 4 + (6 - left_out) * 4 + 5 * 4
    corner.at.feed.good(5)
    told = (
        "SELECT why, count FROM source_health WHERE source = 'ingest' "
        f"AND subject = '{corner.where.topic}/{corner.where.number}'"
    )
    with closing(corner.at.start()) as process:
        corner.at.table.reaches(reached, process, within_s=SLOW_S)
        until(lambda: corner.at.table.query(told), "the loss to be published", SLOW_S)
        process.stop(20)
    last = 10 + left_out - 1
    why = f"the group's offset was set forward: offsets 10 to {last} are left out"
    assert corner.at.table.query(told) == [(why, left_out)]
    assert corner.at.table.rows() == corner.at.table.distinct() == reached
    line = next(
        each
        for each in audit(corner.at.settings, looks=1).partitions
        if each.topic == corner.where.topic and each.present
    )
    assert (line.told, line.missing, line.doubled) == (left_out, 0, 0)


def test_the_tool_itself_refuses_while_ingest_runs(corner: Corner) -> None:
    corner.at.feed.good(10)
    with closing(corner.at.start()) as process:
        corner.at.table.reaches(corner.at.feed.sent, process, within_s=SLOW_S)
        said = corner.tool("--reset-offsets", "--topic", corner.where.topic, "--to-earliest", "--execute")
        assert "inactive" in said
        corner.at.feed.good(10)
        corner.at.table.reaches(corner.at.feed.sent, process, within_s=SLOW_S)
        process.stop(20)
    corner.at.once()


def test_a_record_that_is_not_the_tables_halts_and_what_the_message_says_lets_it_go_on(corner: Corner) -> None:
    """A backup of the group's offsets, restored: of an older span, then of a topic that is no more."""
    corner.lands()
    where, life = corner.where, corner.life
    corner.commit(Declared(Span(where.topic, life, 0, 3, 6), time.time()))
    said = corner.halts()
    assert "declared span 3-6" in said
    assert corner.do(said) == 10
    corner.lands()
    corner.commit(Settled(where, life, 5))
    said = corner.halts()
    assert "was set back" in said
    assert corner.do(said) == 20
    corner.lands()
    corner.commit(Settled(where, OTHER, 7))
    said = corner.halts()
    assert "of a deleted topic of the same name" in said
    assert corner.do(said) == 30
    corner.lands()
    corner.at.spans_meet()


@pytest.mark.parametrize("stored", [False, True], ids=["its rows are not there", "its rows are there"])
def test_a_span_that_the_store_may_have_forgotten_halts_and_either_thing_it_says_to_do_is_right(
    corner: Corner, engine: EngineServer, stored: bool
) -> None:
    corner.lands()
    where, life = corner.where, corner.life
    corner.at.feed.good(10)
    if stored:
        corner.ingests(corner.at.feed.sent)
        with engine.client(write=True) as client:
            client.command(f"DELETE FROM ingest_batches WHERE topic_uuid = '{life}' AND first >= 10")
    corner.commit(Declared(Span(where.topic, life, 0, 10, 19), time.time() - 8 * 86_400))
    said = corner.halts()
    assert "10-19 so long ago" in said
    assert corner.do(said, "" if stored else r"and to (\d+) if not") == (20 if stored else 10)
    corner.lands()


def test_a_topic_that_ends_before_the_group_halts_and_made_again_it_is_read_from_its_start(corner: Corner) -> None:
    corner.lands()
    corner.commit(Settled(corner.where, corner.life, 50))
    said = corner.halts()
    assert "ends before offset 50" in said
    assert "warpmeter topics --create" in said
    make_anew(corner.at.settings)
    sent = corner.at.feed.sent
    corner.at.feed = Feed(corner.at.settings, corner.at.feed.tag)
    corner.at.feed.sent = sent
    corner.lands()
