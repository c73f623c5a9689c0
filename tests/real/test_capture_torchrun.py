"""One command captures all ranks of a real job: `warpmeter run -- torchrun`, an agent, a scheduler, and `capture`."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.brokers import Tansu
from tests.real import agents
from tests.real.up import free_port, warpmeter
from tests.scheduler_process import SchedulerProcess
from tests.torchpython import torch_python
from tests.wait import until
from warpmeter import topics
from warpmeter.settings import Kafka, Metrics, Scheduler, Settings, Store, Traces

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
RANKS = 4
LATE = (0, 1)
"""A machine with more to do may miss the start of a round; the next one is further ahead."""
SAME_STEP_S = 0.5
"""Ranks that wait for each other are at the same step for so long at the most; they are asked seconds apart."""
TOGETHER_S = 0.020
"""Traces begin within this."""


@dataclass
class World:
    """A host with its agent, and a scheduler."""

    settings: Settings
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What the commands, and the job, are started with."""
        own = {
            "WARPMETER_KAFKA__TOPIC_PREFIX": self.settings.kafka.topic_prefix,
            "WARPMETER_KAFKA__BOOTSTRAP_SERVERS": self.settings.kafka.bootstrap_servers,
            "WARPMETER_AGENT__KINETO_SOCKET_DIR": str(self.settings.agent.kineto_socket_dir),
            "WARPMETER_AGENT__HOST": self.settings.agent.host,
            "WARPMETER_SCHEDULER__ANALYSE": "false",
            "TMPDIR": str(self.folder),
        }
        return {**os.environ, **own}

    def capture(self, *words: str, statuses: Sequence[int] = (0,)) -> list[dict[str, Any]]:
        """Events of a capture that is followed to its end."""
        line = warpmeter("capture", *words, "--json")
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode in statuses, (done.stdout, done.stderr)
        return [json.loads(each) for each in done.stdout.splitlines()]


@pytest.fixture
def world(tansu: Tansu, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    kafka = Kafka(bootstrap_servers=tansu.bootstrap_servers, topic_prefix=topic_prefix, partitions=3)
    topics.ensure(kafka)
    with ExitStack() as stack:
        sockets = Path(stack.enter_context(TemporaryDirectory(prefix="kineto-")))
        agent = agents.settings(tmp_path, kafka, kineto=True, rpc=False, kineto_socket_dir=sockets)
        settings = replace(
            agent, traces=Traces(url=str(tmp_path / "store")), store=Store(dsn="http://127.0.0.1:1"),
            metrics=Metrics(agent_port=0, scheduler_port=0),
            scheduler=Scheduler(group=topic_prefix, analyse=False, data=tmp_path / "scheduler"),
        )  # fmt: skip
        stack.enter_context(closing(SchedulerProcess(settings, tmp_path / "scheduler.log"))).until_active()
        stack.enter_context(agents.running(settings, log=tmp_path / "agent.log"))
        until((sockets / "dynolog").exists, "the agent to listen")
        yield World(settings, tmp_path)


@contextmanager
def job(
    world: World, line: Sequence[str], registered: str, options: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A command below `warpmeter run`, once it has said that so many registered; ended when left."""
    said = world.folder / f"said{len(options)}"
    with said.open("wb") as file:
        ours = warpmeter("run", *options, "--", *line)
        process = subprocess.Popen(ours, env=world.environment, cwd=ROOT, stderr=file, stdout=subprocess.DEVNULL)
        try:
            until(lambda: registered in said.read_text() or process.poll() is not None, f"{registered}", 300)
            assert process.poll() is None, said.read_text()
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)
            print(said.read_text())  # should it have failed


def test_one_command_captures_all_ranks_at_one_time(world: World) -> None:
    torchrun = [torch_python(), "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    where = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    line = [*torchrun, *where, "-m", "tests.training_ranks", "900"]
    with job(world, line, f"{RANKS + 1} processes registered"):
        output = world.folder / "output"
        events = world.capture("--host", "gpu01", "--duration", "1s", "--output", str(output))
        captured = {event["rank"]: event for event in events if event["state"] == "captured"}
        assert sorted(captured) == list(range(RANKS))
        begins = [event["traced_from"] for event in captured.values()]
        assert max(begins) - min(begins) < TOGETHER_S, begins
        by_steps = world.capture("--host", "gpu01", "--iterations", "4")
        begins = [event["traced_from"] for event in by_steps if event["state"] == "captured" and not event["reason"]]
        assert len(begins) == RANKS
        assert max(begins) - min(begins) < SAME_STEP_S, begins
    done = subprocess.run(warpmeter("analyze", str(output), "--json"), capture_output=True, timeout=240, check=True)
    assert sorted(rank["rank"] for rank in json.loads(done.stdout)["ranks"]) == list(range(RANKS))


def test_a_continuous_capture_that_costs_too_much_or_whose_cost_nobody_counts_ends_by_itself(world: World) -> None:
    line = [torch_python(), "-m", "tests.training_hard", "900"]
    with job(world, line, "1 process registered") as counted, job(world, line, "1 process registered", ["--no-steps"]):
        what = ("--every", "20s", "--duration", "1s", "--stacks", "--shapes", "--max-slowdown", "0.05", "--wait")
        events = world.capture("--host", "gpu01", "--pid", str(counted.pid), *what, statuses=LATE)
        assert (events[-1]["state"], events[-1]["reason"]) == ("ended", "slowdown"), events[-1]
        captured = [event for event in events if event["state"] == "captured"][-1]
        assert captured["slowdown_permille"] > 50
        assert f"{captured['slowdown_permille'] / 10:g} % of the steps a second" in events[-1]["why"]
        counted.send_signal(signal.SIGTERM)
        counted.wait(120)
        events = world.capture("--host", "gpu01", *what, statuses=LATE)  # of all that ask: the other one
        assert (events[-1]["state"], events[-1]["reason"]) == ("ended", "unmeasured"), events[-1]
        captured = [event for event in events if event["state"] == "captured"][-1]
        assert captured["slowdown_permille"] is None
        assert "warpmeter run" in events[-1]["why"]
