"""Clocks of ranks from the ends of their collectives: right within what is told, whatever the clocks show."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.jobs import BEGIN, FalseClock, Job
from warpmeter.analysis.job.clocks import Clock, clocks
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.offsets import Line

SECOND = 1_000_000_000


def steps(job: Job, number: int, *, seed: int = 0, uneven: int = 100_000, late_end: int = 3_000) -> Job:
    """So many steps of ten collectives, ranks uneven at random, ends apart at random."""
    chance = random.Random(seed)
    for step in range(number):
        job.step(step)
        for turn in range(10):
            for rank in range(job.size):
                job.compute(rank, 900_000 + chance.randint(0, uneven))
            ends = {rank: chance.randint(0, late_end) for rank in range(job.size)}
            job.meet("all_reduce", elements=1_000 * (1 + turn % 3), transfer=30_000, late_ends=ends)
    return job


def worst(clock: Clock, extract: RankExtract, right: FalseClock) -> float:
    """How far its collectives' ends are from where they truly were, at most."""
    shown = extract.collectives.end - BEGIN
    true = (shown - right.offset) / (1 + right.drift)
    return float(np.abs(clock.line.moved(extract.collectives.end) - BEGIN - true).max(initial=0))


def held(job: Job, right: dict[int, FalseClock]) -> list[Clock]:
    """The clocks found, each shown to be right within its uncertainty."""
    extracts = job.extracts()
    found = clocks(extracts)
    for clock, extract in zip(found, extracts, strict=True):
        if clock.reference != extracts[0].rank:
            continue  # of another clock than that which is right
        assert worst(clock, extract, right.get(extract.rank, FalseClock())) <= max(clock.uncertainty_ns, 1)
    return found


def test_clocks_that_are_right_are_found_so() -> None:
    found = held(steps(Job(3), 5), {})
    assert [clock.reference for clock in found] == [0, 0, 0]
    assert max(abs(clock.offset_ns) for clock in found) < 5_000
    assert [clock.drift_ppb for clock in found] == [0, 0, 0]
    assert [clock.matched for clock in found] == [0, 50, 50]


@pytest.mark.parametrize("offset", [-3_600 * SECOND, -SECOND, -7, 40_000, SECOND, 86_400 * SECOND])
def test_an_offset_is_found_however_far_off_the_clock_is(offset: int) -> None:
    right = {1: FalseClock(offset)}
    found = held(steps(Job(2, right), 8), right)
    assert found[1].offset_ns == pytest.approx(offset, abs=3_000)
    assert found[1].matched == 80


@pytest.mark.parametrize("drift", [-200e-6, -30e-6, 12e-6, 100e-6])
def test_a_clock_that_runs_faster_is_followed(drift: float) -> None:
    right = {1: FalseClock(5 * SECOND, drift)}
    job = Job(2, right)
    for step in range(60):
        job.host(0, SECOND // 5)
        job.host(1, SECOND // 5)
        steps(job, 1, seed=step)
    found = held(job, right)
    assert found[1].drift_ppb == pytest.approx(drift * 1e9, abs=500)
    assert found[1].matched == 600


def test_ends_that_always_differ_are_within_what_is_told() -> None:
    """A part that is the same every time cannot be seen, but it is no longer than a transfer."""
    job = Job(2)
    for _ in range(40):
        job.compute(0, 500_000)
        job.compute(1, 500_000)
        job.meet(transfer=40_000, late_ends={1: 25_000})
    found = held(job, {})
    assert found[1].uncertainty_ns >= 25_000


def test_long_transfers_do_not_blur_the_clocks() -> None:
    job = Job(2)
    for _ in range(20):
        job.compute(0, 500_000)
        job.compute(1, 500_000)
        job.meet(transfer=10_000_000, late_ends={1: 20_000})
    assert held(job, {})[1].uncertainty_ns <= 250_000


def test_captures_that_begin_at_different_steps_are_matched() -> None:
    right = {1: FalseClock(SECOND // 3)}
    job = Job(2, right)
    chance = random.Random(4)
    for step in range(30):
        for _ in range(5):
            job.compute(0, 1_000_000 + chance.randint(0, 50_000))
            job.meet(absent=[1] if step < 7 else [0] if step > 24 else [])
    found = held(job, right)
    assert found[1].matched == 18 * 5


def test_collectives_that_the_profiler_lost_do_not_matter() -> None:
    chance = random.Random(5)
    right = {1: FalseClock(-2 * SECOND, 20e-6), 2: FalseClock(SECOND)}
    job = Job(3, right)
    for _ in range(300):
        for rank in range(3):
            job.compute(rank, 200_000 + chance.randint(0, 100_000))
        job.meet(absent=[rank for rank in range(3) if chance.random() < 0.2])
    found = held(job, right)
    assert all(clock.reference == 0 for clock in found)


def test_without_names_of_groups_streams_are_taken_for_them() -> None:
    right = {1: FalseClock(123_456_789)}
    found = held(steps(Job(2, right, told=False), 5), right)
    assert found[1].matched == 50


@pytest.mark.parametrize("offset", [1_200_000, -7 * SECOND])
def test_numbers_of_steps_tell_even_steps_apart(offset: int) -> None:
    """Nothing in the ends tells one step from the next."""
    right = {1: FalseClock(offset)}
    job = steps(Job(2, right), 12, uneven=0, late_end=0)
    held(job, right)


def test_even_steps_without_numbers_are_matched_as_many_as_can_be() -> None:
    right = {1: FalseClock(-7 * SECOND)}
    job = Job(2, right)
    for _ in range(30):
        job.compute(0, 500_000)
        job.compute(1, 400_000)
        job.meet()
    assert held(job, right)[1].matched == 30


def test_clocks_far_apart_are_compared_without_steps_too() -> None:
    right, chance = {1: FalseClock(86_400 * SECOND)}, random.Random(9)
    job = Job(2, right)
    for _ in range(1_500):
        job.compute(0, 100_000 + chance.randint(0, 100_000))
        job.compute(1, 100_000 + chance.randint(0, 100_000))
        job.meet(transfer=20_000)
    assert held(job, right)[1].matched == 1_500


def test_ranks_are_joined_through_others() -> None:
    """Ranks 0 and 3 share no group: 0-1 and 2-3 do, and 1-2."""
    right = {1: FalseClock(SECOND), 2: FalseClock(-SECOND), 3: FalseClock(5)}
    job = Job(4, right)
    for name, ranks in (("a", (0, 1)), ("b", (1, 2)), ("c", (2, 3))):
        job.group(name, ranks)
    chance = random.Random(6)
    for _ in range(30):
        for name in ("a", "b", "c"):
            for rank in range(4):
                job.compute(rank, 300_000 + chance.randint(0, 90_000))
            job.meet("all_gather", group=name)
    found = held(job, right)
    assert [clock.through for clock in found] == [None, 0, 1, 2]
    assert found[3].uncertainty_ns == 3 * found[1].uncertainty_ns


def test_ranks_that_never_meet_have_clocks_of_their_own() -> None:
    job = Job(4)
    job.group("left", (0, 1))
    job.group("right", (2, 3))
    for _ in range(10):
        for rank in range(4):
            job.compute(rank, 300_000)
        job.meet(group="left")
        job.meet(group="right")
    assert [clock.reference for clock in held(job, {})] == [0, 0, 2, 2]


def test_a_pipeline_is_joined_by_its_transfers() -> None:
    right = {1: FalseClock(-SECOND), 2: FalseClock(SECOND // 2)}
    job = Job(3, right)
    chance = random.Random(7)
    for _ in range(40):
        for rank in range(3):
            job.compute(rank, 400_000 + chance.randint(0, 200_000))
        job.send(0, 1)
        job.send(1, 2)
    found = held(job, right)
    assert [clock.through for clock in found] == [None, 0, 1]


def test_gloo_on_cpus_is_compared_too() -> None:
    right = {1: FalseClock(SECOND), 2: FalseClock(-9_999_999)}
    found = held(steps(Job(3, right, backend="gloo"), 5), right)
    assert [clock.matched for clock in found] == [0, 50, 50]


def test_a_rank_without_collectives_is_alone() -> None:
    job = steps(Job(2), 3)
    alone = Job(3)
    alone.compute(2, 1_000_000)
    found = clocks([*job.extracts(), *alone.extracts([2])])
    assert [clock.reference for clock in found] == [0, 0, 2]


def test_lines_lead_from_clock_to_clock() -> None:
    first, second = Line(100, 1e-4, 1_000), Line(-40, -2e-4, 500)
    times = np.array([0, 5_000_000, 10_000_000], np.int64)
    assert np.abs(first.then(second).moved(times) - second.moved(first.moved(times))).max() <= 1


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(2, 4),
    number=st.integers(3, 12),
    offsets=st.lists(st.integers(-(10**12), 10**12), min_size=4, max_size=4),
    drifts=st.lists(st.floats(-100e-6, 100e-6), min_size=4, max_size=4),
    lost=st.floats(0, 0.3),
)
def test_any_clocks_are_right_within_what_is_told(
    seed: int, size: int, number: int, offsets: list[int], drifts: list[float], lost: float
) -> None:
    right = {rank: FalseClock(offsets[rank], drifts[rank]) for rank in range(1, size)}
    job, chance = Job(size, right), random.Random(seed)
    for step in range(number):
        job.step(step)
        for _ in range(8):
            for rank in range(size):
                job.compute(rank, 300_000 + chance.randint(0, 400_000))
            ends = {rank: chance.randint(0, 10_000) for rank in range(size)}
            job.meet(
                chance.choice(["all_reduce", "all_gather", "reduce_scatter"]),
                transfer=chance.randint(20_000, 200_000),
                late_ends=ends,
                absent=[rank for rank in range(size) if chance.random() < lost],
            )
    held(job, right)
