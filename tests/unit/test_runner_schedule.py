"""Ticks: on UTC's whole multiples, absolute, never caught up in a burst, whatever the clock does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.producers.schedule import Schedule

UTC = 1_800_000_000.0


class FakeClock:
    """Two clocks that move together; UTC can be stepped."""

    def __init__(self, utc: float = UTC) -> None:
        self.passed, self.offset = 5000.0, utc - 5000.0

    def now(self) -> float:
        """UTC."""
        return self.passed + self.offset

    def monotonic(self) -> float:
        """Never steps."""
        return self.passed

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.passed += seconds


def next_tick(schedule: Schedule, clock: FakeClock) -> float:
    """Wait for the next tick and begin it; its time."""
    clock.sleep(schedule.wait_s())
    return schedule.tick().ts


def test_the_first_tick_is_the_next_whole_multiple() -> None:
    clock = FakeClock(UTC + 0.3)
    schedule = Schedule(1.0, clock)
    assert schedule.wait_s() == pytest.approx(0.7)
    assert next_tick(schedule, clock) == UTC + 1


def test_a_slow_read_does_not_shift_what_follows() -> None:
    clock = FakeClock()
    schedule = Schedule(1.0, clock)
    times = []
    for _ in range(5):
        times.append(next_tick(schedule, clock))
        clock.sleep(0.8)
    assert times == [UTC + second for second in range(1, 6)]


def test_a_tick_that_begins_late_carries_its_planned_time() -> None:
    clock = FakeClock()
    schedule = Schedule(1.0, clock)
    clock.sleep(1.4)
    tick = schedule.tick()
    assert (tick.ts, tick.late) == (UTC + 1, 0)


def test_a_tick_missed_by_over_half_a_period_is_skipped_for_the_next() -> None:
    clock = FakeClock()
    schedule = Schedule(1.0, clock)
    next_tick(schedule, clock)
    clock.sleep(1.6)
    clock.sleep(schedule.wait_s())
    tick = schedule.tick()
    assert (tick.ts, tick.late) == (UTC + 3, 1)
    assert clock.now() == UTC + 3


def test_missed_ticks_are_counted_and_not_caught_up() -> None:
    clock = FakeClock()
    schedule = Schedule(1.0, clock)
    next_tick(schedule, clock)
    clock.sleep(4.3)
    clock.sleep(schedule.wait_s())
    late = schedule.tick()
    assert (late.ts, late.late) == (UTC + 5, 3)
    assert next_tick(schedule, clock) == UTC + 6


@pytest.mark.parametrize("step", [3600.0, -3600.0, 0.25, -0.4, 86_400.37])
def test_after_a_step_of_the_clock_ticks_tell_the_new_time_and_fall_in_line(step: float) -> None:
    clock = FakeClock()
    schedule = Schedule(1.0, clock)
    next_tick(schedule, clock)
    clock.offset += step
    for _ in range(10):
        began = clock.monotonic()
        ts = next_tick(schedule, clock)
        assert abs(ts - clock.now()) <= 0.5
        assert ts == int(ts)
        assert 0.85 < clock.monotonic() - began < 1.15
    assert ts == pytest.approx(clock.now(), abs=1e-6)


@given(period=st.sampled_from([0.1, 0.5, 1.0, 2.0, 10.0]), naps=st.lists(st.floats(0, 30), max_size=30))
def test_times_are_whole_multiples_and_only_go_forward(period: float, naps: list[float]) -> None:
    clock = FakeClock(UTC + 0.123)
    schedule = Schedule(period, clock)
    last = 0.0
    for nap in naps:
        ts = next_tick(schedule, clock)
        assert ts > last
        assert ts / period == pytest.approx(round(ts / period), abs=1e-3)
        assert abs(clock.now() - ts) <= period * 0.51
        last = ts
        clock.sleep(nap)


@given(naps=st.lists(st.floats(0, 5), min_size=1, max_size=40))
def test_ticks_and_skipped_ticks_make_up_the_time_that_passed(naps: list[float]) -> None:
    clock = FakeClock()
    schedule = Schedule(1.0, clock)
    ticks = late = 0
    for nap in naps:
        clock.sleep(schedule.wait_s())
        late += schedule.tick().late
        ticks += 1
        clock.sleep(nap)
    passed = clock.now() - UTC - naps[-1]
    assert ticks + late == pytest.approx(passed, abs=1.0)
