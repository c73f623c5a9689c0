"""Captures through an agent: commands off the bus, events back onto it, kills in between."""

import gzip
import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.brokers import Tansu
from tests.brokers.process import free_ports
from tests.kineto_client import asking
from tests.real import agents
from tests.real.agents import Reader
from tests.signals import SLACK_S, tell
from tests.wait import until
from warpmeter import bus, topics
from warpmeter.producers.kineto.captures import CaptureCommand
from warpmeter.producers.kineto.commands import partition_of
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Settings, Traces
from warpmeter.wire import pack

PARTITIONS = 4
COMMANDS = TOPICS["capture-commands"]
TRAINING = {"TORCHELASTIC_RUN_ID": "train", "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "0"}


@pytest.fixture
def kafka(tansu: Tansu, topic_prefix: str) -> Kafka:
    made = Kafka(bootstrap_servers=tansu.bootstrap_servers, topic_prefix=topic_prefix, partitions=PARTITIONS)
    topics.ensure(made)
    return made


@pytest.fixture
def sockets() -> Iterator[Path]:
    with TemporaryDirectory(prefix="kineto-") as made:
        yield Path(made)


@pytest.fixture
def asked(kafka: Kafka, sockets: Path, tmp_path: Path) -> Settings:
    """An agent that takes captures."""
    made = agents.settings(tmp_path, kafka, kineto=True, rpc=False, kineto_socket_dir=sockets)
    return replace(made, traces=Traces(url=str(tmp_path / "store")))


@pytest.fixture
def reader(kafka: Kafka) -> Iterator[Reader]:
    with closing(Reader(kafka)) as made:
        yield made


def send(kafka: Kafka, action: str, **more: Any) -> None:
    """A command to the host of the test, as the scheduler sends it."""
    now = time.time()
    row = CaptureCommand(**{
        "host": "gpu01", "ts": now, "capture_id": "cap", "sequence": 1, "action": action, "expires_at": now + 30,
        "deadline_at": now + 120, "duration_ms": 100, "warmup_s": 1, **more,
    })  # fmt: skip
    envelope = pack(COMMANDS, row.host, [row])
    producer = bus.producer(kafka)
    producer.produce(COMMANDS.full_name(kafka.topic_prefix), envelope.value, envelope.key, headers=[*envelope.headers])
    assert producer.flush(30) == 0


def reached(reader: Reader, *states: str) -> bool:
    """Whether the events so far tell these states, in this order."""
    found = iter(event.state for event in reader.rows("capture-events"))
    return all(state in found for state in states)


def known(reader: Reader, kafka: Kafka, pid: int) -> None:
    """Look again and again until the process is seen without a complaint."""
    looks = 0

    def seen(reader: Reader) -> bool:
        nonlocal looks
        looks += 1
        send(kafka, "look", sequence=100 + looks, job_id="train")
        return any(event.state == "seen" and event.pid == pid for event in reader.rows("capture-events"))

    reader.wait(seen, "the process to be seen", 120)


def test_a_command_becomes_a_trace_in_the_store_and_events_also_when_the_agent_is_killed_meanwhile(
    asked: Settings, kafka: Kafka, reader: Reader, sockets: Path, tmp_path: Path
) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    assert partition_of(b"gpu01", PARTITIONS) != 0
    with asking(sockets, traces, 1, TRAINING, poll_s=0.2) as (pid,):
        with agents.running(asked, log=tmp_path / "agent.log"):
            known(reader, kafka, pid)
            send(kafka, "start", job_id="train", start_at=time.time() + 8)
            reader.wait(lambda r: reached(r, "accepted"), "the capture to be accepted")
        with agents.running(asked, log=tmp_path / "agent.log"):
            reader.wait(lambda r: reached(r, "accepted", "captured"), "the trace", 120)
    (event,) = [event for event in reader.rows("capture-events") if event.state == "captured"]
    assert (event.capture_id, event.host, event.pid, event.rank, event.job_id) == ("cap", "gpu01", pid, 3, "train")
    assert json.loads(gzip.decompress(Path(event.url).read_bytes()))["traceEvents"]
    assert sum(event.state == "accepted" for event in reader.rows("capture-events")) == 1
    keys = {message.key for message in reader.messages if message.topic == "capture-events"}
    assert keys == {b"cap"}


def test_an_agent_that_was_away_does_not_start_what_has_expired(
    asked: Settings, kafka: Kafka, reader: Reader, sockets: Path, tmp_path: Path
) -> None:
    with asking(sockets, tmp_path, 1, TRAINING, poll_s=0.2) as (pid,):
        send(kafka, "start", capture_id="old", pids=[pid], expires_at=time.time() + 0.1)
        time.sleep(0.1)
        with agents.running(asked, log=tmp_path / "agent.log") as process:
            known(reader, kafka, pid)
            began = time.monotonic()
            tell(process)
            assert process.wait(30) == 0
            assert time.monotonic() - began < 5 + SLACK_S
    assert not [event for event in reader.rows("capture-events") if event.capture_id == "old"]
    assert "a command came too late" in (tmp_path / "agent.log").read_text()


def test_an_agent_answers_on_dynologs_port_and_says_what_it_cannot_open(
    asked: Settings, reader: Reader, sockets: Path, tmp_path: Path
) -> None:
    port = free_ports(1)[0]
    abstract, taken = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    taken.bind(str(sockets / "dynolog"))
    both = True
    try:
        abstract.bind(b"\0dynolog\0")
    except OSError:  # another has it, which is as good unless it lets go before the agent comes
        both = False
    offering = replace(asked, agent=replace(asked.agent, rpc=True, rpc_port=port))
    with taken, abstract, agents.running(offering, log=tmp_path / "agent.log"):
        until(lambda: _status(port) == {"status": 1}, "an answer", 60)
        reader.wait(lambda r: [row for row in r.rows("source-health") if row.source == "kineto"], "its health", 60)
    (row, *_) = [row for row in reader.rows("source-health") if row.source == "kineto"]
    assert (row.subject, row.state) == ("", "failed")
    taken_there = row.why.count("does dynolog or another agent run")
    assert taken_there == 2 or (taken_there == 1 and not both), row.why


def _status(port: int) -> object:
    with suppress(OSError, ValueError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        text = b'{"fn":"getStatus"}'
        connection.sendall(struct.pack("=i", len(text)) + text)
        return json.loads(connection.recv(100)[4:])
    return None
