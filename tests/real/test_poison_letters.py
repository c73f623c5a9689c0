"""The way out for poison is away, or refuses: nothing is lost, nothing spins, and what had to be cut says so."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_bench import Bench
from tests.ingest_process import GPUS, Feed, Table, settings_for
from tests.real.test_poison import MIB, allow, await_letters, letters
from tests.wait import until
from warpmeter import topics
from warpmeter.consumers.letters import CUT_HEADER, DEAD
from warpmeter.consumers.message import HEADERLESS
from warpmeter.schemas.topics import TOPICS

ROOM: Final = {"message.max.bytes": str(24 * MIB)}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture
def at(kafka: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Bench:
    """A corner without a topic for dead letters."""
    settings = settings_for(kafka, engine, topic_prefix, tmp_path)
    soon = {"topic.metadata.propagation.max.ms": "1000"}  # a topic that is missing is said to be so after that
    settings = replace(settings, kafka=replace(settings.kafka, partitions=1, options=soon))
    topics.ensure(settings.kafka, [topic for topic in TOPICS.values() if topic is not DEAD])
    feed = Feed(replace(settings, kafka=replace(settings.kafka, options=ROOM | soon)), topic_prefix)
    return Bench(settings, feed, Table(engine, topic_prefix), tmp_path / "ingest.log")


def make_dead_letters(at: Bench, most_bytes: int | None = None) -> None:
    """The topic for dead letters, with a limit of an operator's when one is given."""
    topics.ensure(at.settings.kafka, [DEAD])
    if most_bytes is not None:
        allow(at, DEAD.full_name(at.settings.kafka.topic_prefix), most_bytes)


@pytest.mark.kafka
def test_without_a_topic_for_them_all_waits_and_goes_on_when_it_is_made(at: Bench) -> None:
    at.feed.good(20)
    at.feed.raw(b"\xff", [])
    at.feed.good(20)
    with closing(at.start(topics=("gpu-samples", "dead-letters"))) as process:
        until(lambda: "cannot insert now, nothing is lost" in process.said(), "the missing topic", within_s=60)
        assert at.table.rows() == 0
        make_dead_letters(at)
        at.table.reaches(at.feed.sent, process, within_s=60)
        await_letters(at, {"poison": (0, 20)}, process)
        assert len(letters(at)) == 1
        assert process.stop() == 0
    at.once()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("dead_letters_limit", "size"),
    [(100_000, 300_000), (24 * MIB, 17 * MIB)],
    ids=["the topic's limit was lowered", "above the client's own limit"],
)
def test_a_letter_that_is_refused_for_its_size_is_cut_and_says_so(
    at: Bench, dead_letters_limit: int, size: int
) -> None:
    make_dead_letters(at, dead_letters_limit)
    allow(at, GPUS.full_name(at.settings.kafka.topic_prefix), 24 * MIB)
    value, small = random.Random(5).randbytes(size), [b"\xff\xff", b"\xfe\xfe"]
    at.feed.good(20)
    for each in (small[0], value, small[1]):
        at.feed.raw(each, [])
        at.feed.flush()
    at.feed.good(20)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process, within_s=60)
        await_letters(at, {"small": (0, 20), "large": (0, 21), "small too": (0, 22)}, process)
        assert process.stop() == 0
    at.once()
    one, large, other = letters(at)
    assert (one.size, other.size) == (2, 2)
    assert CUT_HEADER not in {*one.headers, *other.headers}
    assert size / 8 < large.size < size
    assert large.headers[CUT_HEADER] == str(size)
    assert f"{large.size} of {size} bytes are here" in large.reason
    assert "do not parse" in large.reason


@pytest.mark.kafka
@pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat here (Debian: apt-get install kcat)")
def test_a_header_whose_name_is_not_utf8_stops_nothing(at: Bench) -> None:
    make_dead_letters(at)
    at.feed.good(20)
    name = GPUS.full_name(at.settings.kafka.topic_prefix)
    line = [b"kcat", b"-P", b"-b", at.settings.kafka.bootstrap_servers.encode(), b"-t", name.encode()]
    subprocess.run([*line, b"-H", b"na\xff\xfeme=x", b"-H", b"type=GpuSample"], input=b"poison", check=True, timeout=30)
    at.feed.good(20)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process, within_s=60)
        await_letters(at, {"poison": (0, 20)}, process)
        assert process.stop() == 0
    at.once()
    assert [(letter.reason, letter.size) for letter in letters(at)] == [(HEADERLESS, len(b"poison"))]
