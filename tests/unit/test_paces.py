"""What a step takes in jobs that count theirs: real processes below the hook, read as the agent reads them."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_steps import job, running
from warpmeter.hook import warpmeter_steps as memory
from warpmeter.producers.kineto.steps import Step, latest
from warpmeter.producers.paces import MetricSample, PaceSource, Stepping
from warpmeter.producers.source import Attribution, Interpreter, JobTree, Sample
from warpmeter.settings import Agent

__all__ = ["job"]
STEP = "import time; from torch.optim import step"


def source(*pids: int) -> PaceSource:
    """Of one job whose processes these are; one runs no Python any more."""
    attribution = Attribution()
    there = (*pids, 1 << 22)
    attribution.trees = [JobTree("job", 3, pids[0], there, tuple(Interpreter(pid, 7, "python3") for pid in there))]
    return PaceSource(Agent(host="ant"), attribution)


def sample(raw: Any, ts: float) -> Sample[Any]:
    return Sample(ts, ts, 30.0, raw)


def test_the_last_step_of_real_processes_is_found_and_those_without_are_left_alone(job: Path) -> None:
    with running(f"{STEP}\nfor _ in range(3): step(); time.sleep(0.15)", job) as counts, running(STEP, job) as none:
        asked = source(counts.pid, none.pid)
        (found,) = asked.read().values()
        assert (found.job_id, found.rank, found.pid, found.step.count) == ("job", 3, counts.pid, 3)
        assert asked.read() == {(counts.pid, 7): found}  # by the descriptor that is known


def test_a_row_is_the_mean_of_the_steps_since_the_read_before() -> None:
    asked = source(5)

    def at(count: int, when: float) -> dict[tuple[int, int], Stepping]:
        return {(5, 7): Stepping("job", 3, 5, Step(count, when))}

    assert not asked.parse(sample(at(10, 100.0), 1e9), None).rows
    (row,) = asked.parse(sample(at(16, 103.0), 1e9 + 30), sample(at(10, 100.0), 1e9)).rows
    assert isinstance(row, MetricSample)
    assert (row.host, row.source, row.name, row.value, row.period_ms) == (
        "ant",
        "paces",
        "job_step_seconds",
        0.5,
        30_000,
    )
    assert dict(row.labels) == {"job_id": "job", "pid": "5", "rank": "3"}
    assert not asked.parse(sample(at(16, 103.0), 1e9 + 60), sample(at(16, 103.0), 1e9 + 30)).rows  # it stands still
    assert not asked.parse(sample(at(1, 1.0), 1e9 + 60), sample(at(16, 103.0), 1e9 + 30)).rows


@pytest.mark.parametrize("text", [b"", bytes(memory.SIZE), memory.MAGIC + b"\xff" * (memory.SIZE - 8)])
def test_memory_that_holds_anything_gives_no_step(text: bytes) -> None:
    assert latest(text) is None
