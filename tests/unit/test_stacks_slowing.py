"""Whether sampling slows a process down, by its own count of steps."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from warpmeter.producers.stacks import slowing as module
from warpmeter.producers.stacks.backoff import Backoff, Cost
from warpmeter.producers.stacks.rotation import Target
from warpmeter.producers.stacks.slowing import Slowing

TURNS = ((60.0, 50.0), (20.0, 10.0))
"""Seconds ago."""
COUNTS = """
import sys, time
from warpmeter.hook import warpmeter_steps as memory
steps, now = memory.Steps(), time.monotonic()
at, slow = now - 100, float(sys.argv[1])
for ago, rate in ((60, 20), (50, slow), (20, 20), (10, slow), (0, 20)):
    while at < now - ago:
        memory.monotonic_ns = lambda: int(at * 1e9)
        steps.step()
        at += 1 / rate
print(now, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent looks in another thread, and waits for it no longer than it can; a busy machine takes longer."""
    monkeypatch.setattr(module, "WITHIN_S", 60.0)


@pytest.fixture
def counting(request: pytest.FixtureRequest) -> Iterator[tuple[Target, float]]:
    """A process that counted steps: so many a second in two turns, else 20; and what is now."""
    line = [sys.executable, "-c", COUNTS, str(request.param)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Target(process.pid, 1, "train.py", "job", 0), float(process.stdout.readline())
        process.kill()


@pytest.mark.parametrize("counting", [10.0], indirect=True)
def test_what_is_slower_in_two_turns_is_slowed_and_held_back(counting: tuple[Target, float]) -> None:
    target, now = counting
    slowing, backoff = Slowing("/proc"), Backoff(19, 60.0)
    lost = [slowing.of([(target, now - since, now - until)])[target.key] for since, until in TURNS]
    assert lost[0] == 0  # once may be chance
    assert lost[1] == pytest.approx(500, abs=40)
    for permille in lost:
        backoff.took(target.key, Cost(slowed_permille=permille))
    assert backoff.rate(target.key) == 9
    assert "% of its steps while it was sampled" in backoff.told()[0][1]


@pytest.mark.parametrize("counting", [20.0], indirect=True)
def test_what_goes_on_as_before_is_not(counting: tuple[Target, float]) -> None:
    target, now = counting
    slowing = Slowing("/proc")
    lost = [slowing.of([(target, now - since, now - until)])[target.key] for since, until in TURNS]
    assert max(lost) <= 40


def test_who_counts_no_steps_or_is_gone_tells_nothing() -> None:
    own, gone = Target(os.getpid(), 1, "x", "job", None), Target(2**22, 1, "x", "job", None)
    assert Slowing("/proc").of([(own, 0.0, 10.0), (gone, 0.0, 10.0)]) == {}
