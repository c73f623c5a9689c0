"""Agents as processes, and everything that they published."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.brokers import Tansu
from tests.brokers.process import free_ports
from tests.wait import until
from warpmeter import bus, launch, topics
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Agent, Kafka, Log, Metrics, Settings
from warpmeter.wire import unpack


@dataclass(frozen=True)
class Read:
    """One message of the bus, decoded. `at`: its timestamp, UTC seconds, from when it was handed to the producer."""

    topic: str
    key: bytes
    headers: Mapping[str, bytes]
    rows: Sequence[Any]
    at: float = 0.0


class Reader:
    """Reads every topic of a prefix from the beginning, without a group (which takes seconds to form)."""

    def __init__(self, kafka: Kafka) -> None:
        self._prefix = f"{kafka.topic_prefix}."
        self._consumer: Consumer = bus.consumer(kafka, "none")
        self.messages: list[Read] = []
        until(lambda: len(self._partitions()) >= len(TOPICS), "the topics to be known to the broker")
        self._consumer.assign(self._partitions())

    def _partitions(self) -> list[TopicPartition]:
        known = self._consumer.list_topics(timeout=30).topics
        return [
            TopicPartition(name, partition, OFFSET_BEGINNING)
            for name, topic in known.items()
            if name.startswith(self._prefix)
            for partition in topic.partitions
        ]

    def poll(self) -> None:
        """Read what there is now; comes back also while more and more comes in."""
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline and (message := self._consumer.poll(0.3)) is not None:
            assert message.error() is None, message.error()
            name, value, key = message.topic(), message.value(), message.key()
            assert isinstance(name, str)
            assert isinstance(value, bytes)
            assert isinstance(key, bytes)
            topic = name.removeprefix(self._prefix)
            headers: dict[str, Any] = dict(message.headers() or [])
            self.messages.append(Read(topic, key, headers, unpack(TOPICS[topic], value), message.timestamp()[1] / 1000))

    def rows(self, topic: str) -> list[Any]:
        """Rows of one topic read so far, in order."""
        return [row for message in self.messages if message.topic == topic for row in message.rows]

    def wait(self, condition: Callable[["Reader"], object], what: str, within_s: float = 60.0) -> None:
        """Read until `condition(self)` holds."""

        def holds() -> object:
            self.poll()
            return condition(self)

        until(holds, what, within_s)

    def close(self) -> None:
        """Let go."""
        self._consumer.close()


def settings(folder: Path, kafka: Kafka, **agent: Any) -> Settings:
    """An agent that ticks five times a second, serves no metrics and samples no stacks of what else runs here."""
    often: dict[str, Any] = {
        "host": "gpu01", "interval_s": 0.2, "device_interval_s": 0.2, "job_interval_s": 0.2,
        "job_event_interval_s": 1.0, "health_interval_s": 1.0, "spool_dir": folder / "spool", "gpu": False,
        "kineto": False, "stacks": False,
    }  # fmt: skip
    return Settings(
        kafka=kafka, agent=Agent(**{**often, **agent}), log=Log(format="json"), metrics=Metrics(agent_port=0)
    )


@contextmanager
def running(
    asked: Settings, *arguments: str, log: Path | None = None, module: str = "warpmeter.producers"
) -> Iterator[subprocess.Popen[bytes]]:
    """An agent, killed at the end if it still runs; `log`: where all its output goes."""
    with (log or Path("/dev/null")).open("ab") as file:
        process = launch.spawn(module, asked, arguments, file)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)


class Watched:
    """An agent with a clock that can be set and a second's patience with its broker, and what it says of itself."""

    def __init__(self, asked: Settings, folder: Path) -> None:
        self.port = free_ports(1)[0]
        self.settings = replace(asked, metrics=Metrics(agent_port=self.port))
        self.log = folder / "agent.log"
        self._off = folder / "clock"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The process, killed in the end if it still runs."""
        before = self._starts()
        with running(self.settings, str(self._off), log=self.log, module="tests.real.agent_child") as process:
            until(lambda: self._starts() > before, "the agent to start")
            yield process

    def _starts(self) -> int:
        """How often it said that it started: one that is started again has said so before."""
        return self.log.read_text().count("agent_started") if self.log.exists() else 0

    def set_clock(self, off_s: float) -> None:
        """Its clock is off by so much from now on."""
        fresh = self._off.with_suffix(".new")
        fresh.write_text(str(off_s))
        fresh.replace(self._off)

    def metric(self, name: str) -> float:
        """One of its own metrics; waits for its page, for no answer is no 0."""
        page = ""

        def answers() -> str:
            nonlocal page
            page = metrics_page(self.port)
            return page

        until(answers, "the agent's own metrics")
        return value_of(page, name)

    def dropped(self, why: str) -> float:
        """Messages that its spool lost."""
        return self.metric(f'warpmeter_spool_dropped_messages_total{{why="{why}"}}')

    def acknowledged(self, topic: str) -> float:
        """Messages of a topic that the broker has."""
        return self.metric(f'warpmeter_shipper_messages_total{{topic="{topic}"}}')

    @property
    def spooled(self) -> float:
        """Bytes that wait on its disk."""
        return self.metric("warpmeter_spool_bytes")


@contextmanager
def frozen(broker: Tansu) -> Iterator[None]:
    """Connections stand, nothing is answered; then everything is."""
    assert broker._process is not None
    os.kill(broker._process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker._process.pid, signal.SIGCONT)


def output(asked: Settings, *arguments: str, timeout_s: float = 150.0) -> subprocess.CompletedProcess[str]:
    """Run an agent to its end and return what it printed."""
    script = (
        "import pickle, sys; from warpmeter import launch;"
        "launch.become('warpmeter.producers', pickle.load(sys.stdin.buffer), sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        input=pickle.dumps(asked),
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def json_rows(text: str) -> dict[str, list[dict[str, Any]]]:
    """Rows as JSON lines, by topic; lines of the log are left out."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in map(json.loads, text.splitlines()):
        if "type" in row:
            found.setdefault(row["topic"], []).append(row)
    return found


def metrics_page(port: int) -> str:
    """An agent's own metrics, '' while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response:
            return str(response.read().decode())
    except OSError:
        return ""


def metric(port: int, name: str) -> float:
    """One of them, 0 while there is none."""
    return value_of(metrics_page(port), name)


def value_of(page: str, name: str) -> float:
    """One of the metrics of a page, 0 where it is not on it."""
    lines = (line for line in page.splitlines() if line.startswith(f"{name} "))
    return float(next(lines, f"{name} 0").split()[1])


LATE: Final = 'warpmeter_source_late_ticks_total{source="host"}'
"""Ticks that the host source skipped, being late: as `metric` reads it."""


def skipped(times: Sequence[float], period_s: float) -> int:
    """Ticks that are missing between these; none may be doubled, out of order or off the period's multiples."""
    steps = [(after - before) / period_s for before, after in pairwise(times)]
    assert all(step > 0.5 and abs(step - round(step)) * period_s < 2e-3 for step in steps), times
    return sum(round(step) - 1 for step in steps)


def with_topics(servers: str, prefix: str) -> Kafka:
    """The topics of a prefix of its own, made, one partition each."""
    kafka = Kafka(bootstrap_servers=servers, topic_prefix=prefix, partitions=1)
    topics.ensure(kafka)
    return kafka


def at(kafka: Kafka, servers: str) -> Kafka:
    """The same topics at another address."""
    return replace(kafka, bootstrap_servers=servers)


def killed_after(script: str, asked: Settings, word: str, then: Callable[[], None]) -> None:
    """Run a Python script that gets the settings on standard input; when it printed `word` and `then` ran, kill it."""
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(pickle.dumps(asked))
        process.stdin.close()
        assert process.stdout.readline().strip() == word.encode()
        then()
    finally:
        process.kill()
        process.wait(60)
