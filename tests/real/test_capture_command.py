"""`warpmeter capture` and `captures` against a real scheduler on a real broker, and agents that answer over it."""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Tansu
from tests.real.up import warpmeter
from tests.scheduler_process import Agents, SchedulerProcess
from tests.wait import until
from warpmeter import topics
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Command
from warpmeter.settings import Kafka, Log, Metrics, Scheduler, Settings, Store

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


class Storing(Agents):
    """Agents whose traces are files in `store`."""

    store: Path

    def event(self, command: Command, pid: int, state: str) -> Event:
        found = super().event(command, pid, state)
        file = self.store / f"{command.capture_id}-{command.host}-{pid}.json"
        file.write_text("{}")
        found.url, found.bytes, found.sha256 = str(file), 2, hashlib.sha256(b"{}").hexdigest()
        return found


@dataclass
class World:
    """A scheduler, and what the commands are started with."""

    kafka: Kafka
    folder: Path
    agents: list[Agents]

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "WARPMETER_KAFKA__TOPIC_PREFIX": self.kafka.topic_prefix,
            "WARPMETER_KAFKA__BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "WARPMETER_SCHEDULER__ANALYSE": "false",
        }
        return {**os.environ, **own}

    def run(self, *words: str, within_s: float = 180) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            warpmeter(*words), env=self.environment, capture_output=True, text=True, timeout=within_s, check=False
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(warpmeter(*words), env=self.environment, stdout=subprocess.PIPE, text=True)

    def known(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("captures", "list", "--json").stdout)
        return found


@pytest.fixture
def world(tansu: Tansu, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    kafka = Kafka(bootstrap_servers=tansu.bootstrap_servers, topic_prefix=topic_prefix, partitions=3)
    settings = Settings(
        kafka=kafka, store=Store(dsn="http://127.0.0.1:1"), log=Log(format="json"), metrics=Metrics(scheduler_port=0),
        scheduler=Scheduler(group=topic_prefix, analyse=False, data=tmp_path / "scheduler"),
    )  # fmt: skip
    topics.ensure(kafka)
    Storing.store = tmp_path / "store"
    Storing.store.mkdir()
    with ExitStack() as stack:
        able = stack.enter_context(closing(Storing(kafka, ["h0", "h1"], [1, 2])))
        slow = stack.enter_context(closing(Agents(kafka, ["slow"], [5], captures=False)))
        stack.enter_context(closing(SchedulerProcess(settings, tmp_path / "scheduler.log"))).until_active()
        yield World(kafka, tmp_path, [able, slow])


def test_a_capture_is_asked_for_followed_fetched_listed_and_ended(world: World) -> None:
    done = world.run(
        "capture", "--host", "h0", "--host", "h1", "-d", "1s", "--json", "--output", str(world.folder / "o")
    )
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    states = [each["state"] for each in events]  # an agent's first word may come before the scheduler's
    assert ("requested" in states, states[-1]) == (True, "ended")
    assert sum(each["state"] == "captured" for each in events) == 4
    assert len(list((world.folder / "o").iterdir())) == 4
    name = events[0]["capture_id"]

    done = world.run("capture", "--host", "h0", "--host", "gone")
    assert done.returncode == 1
    assert "agent_away" in done.stdout
    assert "captured" in done.stdout

    going = world.start("capture", "--host", "slow", "--every", "10m", "--json")
    asked = json.loads(going.communicate(timeout=120)[0])["capture_id"]
    assert going.returncode == 0
    until(lambda: _standing(world, asked) == ("running", "accepted"), "its one rank to take it")
    detached = world.start("captures", "detach", asked, "--json")
    until(lambda: b"detach" in world.run("tail", "capture-requests", "--no-follow").stdout.encode(), "it to be asked")
    world.agents[1].finish()
    ended = json.loads(detached.communicate(timeout=180)[0])
    assert (ended["state"], ended["reason"], ended["ranks"][0]["state"]) == ("ended", "", "captured")

    assert [each["capture_id"] for each in world.known()][::2] == [name, asked]
    assert world.run("captures", "show", name).returncode == 0
    fetched = world.run("captures", "show", asked, "--output", str(world.folder / "p"))
    assert (fetched.returncode, "could not be fetched" in fetched.stderr + fetched.stdout) == (1, False)
    assert "lies on slow" in fetched.stderr
    assert world.run("captures", "show", "nosuch").returncode == 1


def _standing(world: World, asked: str) -> tuple[str, str]:
    """State of a capture and of its first rank, as `captures list` tells."""
    shown = next((each for each in world.known() if each["capture_id"] == asked), None)
    if shown is None:
        return "", ""
    return shown["state"], shown["ranks"][0]["state"] if shown["ranks"] else ""


def test_ctrl_c_leaves_it_and_cancel_ends_it(world: World) -> None:
    process = world.start("capture", "--host", "slow", "--json")
    assert process.stdout is not None
    name = json.loads(process.stdout.readline())["capture_id"]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    done = world.run("captures", "cancel", name, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["state"], found["reason"]) == (0, "ended", "cancelled_by_request"), done.stderr
    again = world.run("captures", "cancel", name, "--json")
    assert (again.returncode, json.loads(again.stdout)["state"]) == (0, "ended")


def test_without_a_scheduler_it_ends_and_takes_its_request_back(
    tansu: Tansu, topic_prefix: str, tmp_path: Path
) -> None:
    world = World(Kafka(bootstrap_servers=tansu.bootstrap_servers, topic_prefix=topic_prefix), tmp_path, [])
    topics.ensure(world.kafka)
    done = world.run("capture", "--host", "h0")
    assert (done.returncode, "no scheduler answers" in done.stderr) == (1, True)
    said = world.run("tail", "capture-requests", "--no-follow", "--json").stdout
    assert [json.loads(line)["row"]["action"] for line in said.splitlines()] == ["start", "cancel"]
