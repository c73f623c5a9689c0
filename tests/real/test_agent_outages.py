"""The agent as a process whose broker, disk, files, clock or life fail; what the topics hold afterwards."""

import random
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import KafkaCluster, Tansu
from tests.real import agents
from tests.real.agents import Reader, Watched
from tests.wait import until
from warpmeter import bus, wire
from warpmeter.clock import SystemClock
from warpmeter.producers.segment import HEADER
from warpmeter.producers.shipper import WINDOW
from warpmeter.producers.spool import Bounds, Spool
from warpmeter.schemas.generated.host_samples_pb2 import Envelope
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka

PERIOD_S = 0.2
LONG_S = 90.0
HOUR_S = 3600.0
NUMBERED = 1_700_000_000
"""Where the times of numbered samples begin, long before those that an agent measures."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Tansu]:
    """An embedded broker of this test's own, which it may stop and freeze."""
    with closing(Tansu(tmp_path / "tansu")) as broker:
        yield broker


def samples(reader: Reader, topic: str = "host-samples") -> list[float]:
    """Times of the messages of a topic, in the order of the bus; of devices those of NICs and disks, one source's."""
    firsts = [message.rows[0] for message in reader.messages if message.topic == topic]
    return [row.ts for row in firsts if topic != "device-samples" or row.kind in ("nic", "disk")]


def missing(times: Sequence[float], period_s: float = PERIOD_S) -> int:
    """Ticks between the first and the last that are not there; fails when one comes twice or out of order."""
    assert all(later > sooner + period_s / 2 for sooner, later in pairwise(times)), "twice, or out of order"
    return round((times[-1] - times[0]) / period_s) + 1 - len(times)


def late_ticks(agent: Watched, source: str) -> int:
    """Ticks that a source skipped because the machine was busy: nothing that delivery could lose."""
    return round(agent.metric(f'warpmeter_source_late_ticks_total{{source="{source}"}}'))


def late_in_all(agent: Watched) -> int:
    """Ticks that the two sources that never rest have skipped so far."""
    return late_ticks(agent, "host") + late_ticks(agent, "devices")


def read_on(reader: Reader, agent: Watched) -> None:
    """Until the spool is empty and something newer came than what waited."""
    until(lambda: agent.spooled == 0, "the spool to be sent", LONG_S)
    reader.wait(lambda r: len(samples(r)) >= agent.acknowledged("host-samples") - 1, "what was sent", LONG_S)
    count = len(samples(reader))
    reader.wait(lambda r: len(samples(r)) > count + 1, "samples after it", LONG_S)


def assert_all_there(reader: Reader, agent: Watched) -> None:
    """Every tick once, in order, of the two sources that never rest."""
    assert missing(samples(reader)) <= late_ticks(agent, "host")
    assert missing(samples(reader, "device-samples")) <= late_ticks(agent, "devices")


def health(reader: Reader, subject: str) -> list[tuple[str, int]]:
    """What the shipper said of one subject: states with their counts."""
    rows = [row for row in reader.rows("source-health") if row.source == "shipper" and row.subject == subject]
    return [(row.state, row.count) for row in rows]


def test_a_broker_that_is_away_at_the_start_gets_every_tick(own: Tansu, topic_prefix: str, tmp_path: Path) -> None:
    own.stop()
    there = Kafka(bootstrap_servers=own.bootstrap_servers, topic_prefix=topic_prefix, partitions=1)
    agent = Watched(agents.settings(tmp_path, there), tmp_path)
    with agent.running():
        began = SystemClock().now()
        until(lambda: agent.spooled > 2500, "messages in the spool", LONG_S)
        own.start()
        with closing(Reader(agents.with_topics(own.bootstrap_servers, topic_prefix))) as reader:
            read_on(reader, agent)
            assert_all_there(reader, agent)
            late = late_ticks(agent, "host")
    assert samples(reader)[0] < began + 1 + late * PERIOD_S


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_a_broker_that_is_killed_and_later_stopped_gets_every_tick(tmp_path: Path, topic_prefix: str) -> None:
    """Apache Kafka; connections are cut, what is in flight gets no answer, and its log outlives the process."""
    with closing(KafkaCluster(tmp_path / "kafka", 1)) as cluster:
        kafka = agents.with_topics(cluster.bootstrap_servers, topic_prefix)
        agent = Watched(agents.settings(tmp_path, kafka), tmp_path)
        with agent.running(), closing(Reader(kafka)) as before:
            before.wait(lambda r: len(samples(r)) > 3, "samples", LONG_S)
            for end in (cluster.kill, cluster.stop):
                end(0)
                until(lambda: agent.spooled > 6000, "messages in the spool", LONG_S)
                cluster.start(0)
                until(lambda: agent.spooled == 0, "the spool to be sent", LONG_S)
            with closing(Reader(kafka)) as reader:
                read_on(reader, agent)
                assert_all_there(reader, agent)


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_the_loss_of_the_leading_node_of_three_costs_no_tick(
    kafka3: KafkaCluster, topic_prefix: str, tmp_path: Path
) -> None:
    there = agents.with_topics(kafka3.bootstrap_servers, topic_prefix)
    agent = Watched(agents.settings(tmp_path, there), tmp_path)
    with agent.running(), closing(Reader(there)) as reader:
        reader.wait(lambda r: len(samples(r)) > 3, "samples", LONG_S)
        leader = _leader(there)
        kafka3.kill(leader)
        try:
            count = agent.acknowledged("host-samples")
            until(lambda: agent.acknowledged("host-samples") > count + 20, "another node to lead", LONG_S)
        finally:
            kafka3.start(leader)
        until(lambda: agent.spooled == 0, "the spool to be sent", LONG_S)
        with closing(Reader(there)) as anew:
            read_on(anew, agent)
            assert_all_there(anew, agent)


def _leader(kafka: Kafka) -> int:
    """The place in its cluster of the node that leads the host samples."""
    name = TOPICS["host-samples"].full_name(kafka.topic_prefix)
    return bus.admin(kafka).list_topics(name, timeout=30).topics[name].partitions[0].leader - 1


@pytest.mark.long
@pytest.mark.parametrize("why", ["full", "age"])
def test_of_an_outage_longer_than_the_spool_holds_the_oldest_go_and_are_told(
    own: Tansu, topic_prefix: str, tmp_path: Path, why: str
) -> None:
    kafka = agents.with_topics(own.bootstrap_servers, topic_prefix)
    bound = {"spool_max_bytes": 12_000} if why == "full" else {"spool_max_age_s": 3.0}
    agent = Watched(agents.settings(tmp_path, kafka, **bound), tmp_path)
    with agent.running(), closing(Reader(kafka)) as reader:
        reader.wait(lambda r: len(samples(r)) > 3, "samples", LONG_S)
        at_first = late_in_all(agent)  # some of them before the first sample
        with agents.frozen(own):
            until(lambda: agent.dropped(why) > 5, "messages to be dropped", LONG_S)
        read_on(reader, agent)
        all_told = lambda r: health(r, f"lost/{why}")[-1:] == [("failed", agent.dropped(why))]  # noqa: E731
        reader.wait(all_told, "all that was lost to be told", LONG_S)
        lost, late, of_host = agent.dropped(why), late_in_all(agent), late_ticks(agent, "host")
    gone = missing(samples(reader)) + missing(samples(reader, "device-samples"))
    assert gone - (late - at_first) > 0
    assert gone - late <= lost
    times = samples(reader)
    holes = [later - sooner for sooner, later in pairwise(times) if later - sooner > 2 * PERIOD_S]
    assert 1 <= len(holes) <= 1 + of_host  # the oldest went, in one piece


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of its own."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.long
def test_a_full_disk_keeps_what_is_on_it_and_counts_what_it_refuses_also_over_a_kill(
    own: Tansu, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = agents.with_topics(own.bootstrap_servers, topic_prefix)
    agent = Watched(agents.settings(tmp_path, kafka), tmp_path)
    with small_disk(tmp_path / "spool", "16k"), closing(Reader(kafka)) as reader:
        with agents.frozen(own), agent.running() as process:
            until(lambda: agent.dropped("disk") > 3, "the disk to be full", LONG_S)
            spooled, lost = agent.spooled, agent.dropped("disk")
            process.kill()
            process.wait(60)
        assert spooled > 2000
        with agent.running():
            read_on(reader, agent)
            # Until the spool was sent the disk was full for this one, too; then there was room.
            more = agent.dropped("disk")
            reader.wait(
                lambda r: health(r, "lost/disk")[-1:] > [("failed", int(lost + more) - 1)], "what was lost", LONG_S
            )
            assert agent.dropped("disk") == more
    times = samples(reader)
    assert missing(times) > 0  # what the disk refused, and what was in memory at the kill
    assert missing(samples(reader, "device-samples")) > 0


def numbered(folder: Path, count: int) -> None:
    """A spool with `count` messages whose times number them."""
    spool = Spool(folder / "spool", Bounds(256 << 20, 24 * HOUR_S), SystemClock())
    for number in range(count):
        row = Envelope.HostSample(host="gpu01", ts=NUMBERED + number, period_ms=1000)
        assert spool.append(wire.pack(TOPICS["host-samples"], "gpu01", [row]))
    spool.close()


def numbers(reader: Reader) -> list[int]:
    """The numbers that arrived, in their order."""
    return [round(ts - NUMBERED) for ts in samples(reader) if ts < NUMBERED + 1_000_000]


def distinct(reader: Reader) -> set[tuple[str, bytes]]:
    """Messages that differ."""
    return {(message.topic, b"".join(row.SerializeToString() for row in message.rows)) for message in reader.messages}


@pytest.mark.long
def test_kills_while_a_full_spool_is_sent_lose_nothing_and_send_twice_at_most_the_window(
    own: Tansu, topic_prefix: str, tmp_path: Path
) -> None:
    """Three kills at random moments of the recovery; downstream a message that came twice is two equal rows."""
    kafka = agents.with_topics(own.bootstrap_servers, topic_prefix)
    count, kills, chance = 8_000, 3, random.Random(5)
    numbered(tmp_path, count)
    agent = Watched(agents.settings(tmp_path, kafka), tmp_path)
    with closing(Reader(kafka)) as reader:
        for _ in range(kills):
            with agent.running() as process:
                goal = min(count, len(numbers(reader)) + chance.randrange(1, 2 * WINDOW))
                reader.wait(lambda r, goal=goal: len(numbers(r)) >= goal, "a part of the spool", LONG_S)  # type: ignore[misc]
                process.kill()
                process.wait(60)
        with agent.running():
            read_on(reader, agent)
    first = list(dict.fromkeys(samples(reader)))
    assert first == sorted(first)
    assert [ts - NUMBERED for ts in first[:count]] == list(range(count))
    assert len(reader.messages) - len(distinct(reader)) <= kills * WINDOW


def test_corrupt_files_lose_what_is_corrupt_and_tell_how_much(own: Tansu, topic_prefix: str, tmp_path: Path) -> None:
    kafka = agents.with_topics(own.bootstrap_servers, topic_prefix)
    numbered(tmp_path, 3000)
    (file,) = (tmp_path / "spool").glob("*.spool")
    chance, content = random.Random(7), bytearray(file.read_bytes())
    for _ in range(20):
        content[chance.randrange(HEADER.size, len(content))] ^= 1 + chance.randrange(255)
    file.write_bytes(content[:-10])  # and cut
    agent = Watched(agents.settings(tmp_path, kafka), tmp_path)
    with agent.running(), closing(Reader(kafka)) as reader:
        read_on(reader, agent)
        lost = 3000 - len(numbers(reader))
        reader.wait(lambda r: ("failed", lost) in health(r, "lost/corrupt"), "how many are lost", LONG_S)
    arrived = numbers(reader)
    assert arrived == sorted(set(arrived))
    assert 1 <= lost <= 21


def test_a_clock_that_is_stepped_stops_nothing_floods_nothing_and_is_told(
    own: Tansu, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = agents.with_topics(own.bootstrap_servers, topic_prefix)
    agent = Watched(agents.settings(tmp_path, kafka), tmp_path)
    offs = [0.0, -2 * HOUR_S, 30 * HOUR_S, 0.0]
    with agent.running(), closing(Reader(kafka)) as reader:
        for number, off in enumerate(offs):
            agent.set_clock(off)
            # The agent looks at its clock once a second: two steps between two looks are one to it.
            reader.wait(lambda r, number=number: number == 0 or _told(r, number), "the step to be told", LONG_S)  # type: ignore[misc]
            count = len(samples(reader))
            reader.wait(lambda r, count=count: len(samples(r)) >= count + 5, "samples", LONG_S)  # type: ignore[misc]
        late = late_ticks(agent, "host")
    near = [min(offs, key=lambda off, ts=ts: abs(ts - off - samples(reader)[0])) for ts in samples(reader)]  # type: ignore[misc]
    assert [off for off, _ in _runs(near)] == offs
    for off, times in _runs(near, samples(reader)):
        assert missing(times) <= late, off
    steps = [later - sooner for sooner, later in pairwise(offs)]
    for number, step in enumerate(steps, 1):
        (first, *_) = _told(reader, number)
        assert f"{'back' if step < 0 else 'ahead'} by {abs(step) // 1000:.0f}" in first.why


def _told(reader: Reader, number: int) -> list[Any]:
    """What was said of that step of the clock, the first being 1."""
    rows = [row for row in reader.rows("source-health") if row.source == "clock" and row.state == "failed"]
    return [row for row in rows if row.count == number]


def _runs(offs: Sequence[float], times: Sequence[float] = ()) -> list[tuple[float, list[float]]]:
    """Neighbours of one offset together, with their times."""
    runs: list[tuple[float, list[float]]] = []
    for off, ts in zip(offs, times or offs, strict=True):
        if not runs or runs[-1][0] != off:
            runs.append((off, []))
        runs[-1][1].append(ts)
    return runs


@pytest.mark.long
def test_a_clock_that_is_stepped_in_an_outage_drops_nothing(own: Tansu, topic_prefix: str, tmp_path: Path) -> None:
    """The spool's age is 24 hours by default; the clock goes three days ahead, and back."""
    kafka = agents.with_topics(own.bootstrap_servers, topic_prefix)
    agent = Watched(agents.settings(tmp_path, kafka), tmp_path)
    with agent.running(), closing(Reader(kafka)) as reader:
        reader.wait(lambda r: len(samples(r)) > 3, "samples", LONG_S)
        with agents.frozen(own):
            until(lambda: agent.spooled > 2000, "messages in the spool", LONG_S)
            for off, more in ((72 * HOUR_S, 2000), (-72 * HOUR_S, 4000)):
                agent.set_clock(off)
                until(lambda more=more: agent.spooled > 2000 + more, "more of them", LONG_S)  # type: ignore[misc]
        read_on(reader, agent)
        assert (agent.dropped("age"), agent.dropped("full")) == (0, 0)
        late = late_ticks(agent, "host")
    times = samples(reader)
    ticks = sum(abs(later - sooner - PERIOD_S) < PERIOD_S / 2 for sooner, later in pairwise(times))
    assert ticks >= len(times) - 3 - late
