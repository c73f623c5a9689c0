"""A clock that is set is told; one that is slewed is not."""

import pytest

from tests.clock import FakeClock
from warpmeter.producers.steps import STANDS_S, StepWatch


@pytest.mark.parametrize(("step", "words"), [(-7200.0, "back by 7200.000 s"), (0.6, "ahead by 0.600 s")])
def test_a_step_is_told_once_with_its_size_and_stands_for_a_while(step: float, words: str) -> None:
    clock = FakeClock()
    watch = StepWatch(clock)
    clock.sleep(1)
    assert watch.look()[0] == 0
    clock.step(step)
    clock.sleep(1)
    moved, health = watch.look()
    assert moved == pytest.approx(step)
    assert (health.state, health.count) == ("failed", 1)
    assert words in health.why
    clock.sleep(STANDS_S - 1)
    assert watch.look()[0] == 0
    assert watch.look()[1].state == "failed"
    clock.sleep(2)
    assert watch.look()[1].state == "ok"


def test_a_clock_that_is_slewed_is_not_stepped_however_far_it_goes() -> None:
    clock = FakeClock()
    watch = StepWatch(clock)
    for _ in range(3600):
        clock.sleep(1)
        clock.step(0.1)
        assert watch.look()[1].state == "ok"


def test_steps_are_counted() -> None:
    clock = FakeClock()
    watch = StepWatch(clock)
    for number in (1, 2, 3):
        clock.step(-3600)
        assert watch.look()[1].count == number
