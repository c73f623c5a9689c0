"""Captures of real PyTorch through an agent: a command on the bus, a trace in the store that the analysis reads."""

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kineto_host import Host
from tests.real import agents
from tests.real.agents import Reader
from tests.real.test_captures_agent import asked, kafka, reader, send, sockets
from tests.torchpython import torch_python
from tests.wait import until
from warpmeter.settings import Kafka, Settings

__all__ = ["asked", "kafka", "reader", "sockets"]
pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
SCRIPT = str(Path(__file__).parents[1] / "training.py")


@contextmanager
def training(sockets: Path, traces: Path, *arguments: str, **variables: str) -> Iterator[int]:
    """A model that trains, and its pid."""
    given = {"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": str(sockets), "KINETO_ONDEMAND_TRACE_DIR": str(traces)}
    traces.mkdir(exist_ok=True)
    process = subprocess.Popen([torch_python(), SCRIPT, "200", *arguments], env={**os.environ, **given, **variables})
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait(30)


def events(url: str) -> list[dict[str, Any]]:
    """All that a stored trace holds."""
    found: list[dict[str, Any]] = json.loads(gzip.decompress(Path(url).read_bytes()))["traceEvents"]
    return found


def captured(reader: Reader, capture_id: str) -> Any:
    """The event of the trace, or of its failure."""

    def final(reader: Reader) -> list[Any]:
        states = ("captured", "failed")
        return [e for e in reader.rows("capture-events") if e.capture_id == capture_id and e.state in states]

    reader.wait(final, "a final state", 120)
    return final(reader)[0]


def test_a_command_on_the_bus_becomes_a_trace_that_the_analysis_reads(
    asked: Settings, kafka: Kafka, reader: Reader, sockets: Path, tmp_path: Path
) -> None:
    run = {"TORCHELASTIC_RUN_ID": "train", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    with training(sockets, tmp_path / "traces", **run) as pid, agents.running(asked, log=tmp_path / "agent.log"):
        looks = 0

        def seen(reader: Reader) -> bool:
            nonlocal looks
            looks += 1
            send(kafka, "look", sequence=100 + looks, job_id="train")
            return any(e.pid == pid and e.rank == 1 and not e.reason for e in reader.rows("capture-events"))

        reader.wait(seen, "PyTorch to register", 120)
        what = {"stacks": True, "memory": True, "shapes": True, "flops": True, "warmup_s": 5, "job_id": "train"}
        start = time.time() + 13
        send(
            kafka,
            "start",
            capture_id="by-time",
            start_at=start,
            deadline_at=start + 90,
            **{**what, "duration_ms": 2000},
        )
        by_time = captured(reader, "by-time")
        send(
            kafka,
            "start",
            capture_id="by-step",
            iterations=5,
            iteration_roundup=10,
            deadline_at=time.time() + 110,
            **what,
        )
        by_step = captured(reader, "by-step")
    assert (by_time.state, by_time.reason, by_time.rank) == ("captured", "", 1), by_time
    assert by_time.traced_from == pytest.approx(start, abs=0.5)
    assert by_time.traced_until - by_time.traced_from == pytest.approx(2.0, abs=0.5)
    kinds = {event.get("cat") for event in events(by_time.url)}
    assert {"cpu_op", "python_function"} <= kinds
    assert "kineto#889" in by_time.why or "cpu_instant_event" in kinds
    assert (by_step.state, by_step.reason) == ("captured", ""), by_step
    stepped = [event for event in events(by_step.url) if str(event.get("name")).startswith("Optimizer.step#")]
    assert len(stepped) == pytest.approx(5, abs=1)
    done = subprocess.run([sys.executable, "-m", "warpmeter", "analyze", by_step.url, "--json"], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with Host(tmp_path).listening() as found:
        yield found


def test_failures_of_real_processes_have_their_reasons(host: Host) -> None:
    """One that is killed at work, one without steps, one that a second request meets at work."""
    with (
        training(host.sockets, host.traces) as killed,
        training(host.sockets, host.traces, "--no-steps") as without,
    ):
        until(lambda: len(host.registry.clients()) == 2, "both to register", 120)
        host.desk.take(host.command("start", 90, start_in_s=13, pids=[killed], warmup_s=5))
        host.desk.take(host.command("start", 90, capture_id="steps", iterations=5, pids=[without], warmup_s=5))
        until(lambda: (found := host.registry.client(killed)) is not None and found.tracing, "it to be at work", 100)
        host.desk.take(host.command("start", 90, start_in_s=13, capture_id="second", pids=[killed], warmup_s=5))
        os.kill(killed, 9)
        ended = {event.capture_id: (event.state, event.reason) for event in host.ended(3, 100)}
    assert ended == {
        "cap": ("failed", "process_ended"), "second": ("failed", "busy"), "steps": ("captured", "no_step"),
    }  # fmt: skip
