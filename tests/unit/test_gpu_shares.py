"""Which part of a GPU each of its jobs has."""

import random

import pytest

from warpmeter.producers.gpu.nvml import GpuProcess, Use
from warpmeter.producers.gpu.shares import largest_remainder, shares

MIB = 1 << 20


def use(sm: float) -> Use:
    """A process that used the multiprocessors so much, in per cent."""
    return Use(sm, 0.0, 0.0, 0.0)


def test_one_job_has_it_all_and_none_has_none() -> None:
    assert shares(["a"], {1: "a"}, [GpuProcess(1, None)], None) == [1000]
    assert shares([], {}, [GpuProcess(1, MIB)], {}) == []


def test_by_what_the_processes_did() -> None:
    processes = [GpuProcess(1, 900 * MIB), GpuProcess(2, MIB), GpuProcess(3, MIB), GpuProcess(9, MIB)]
    jobs = {1: "a", 2: "b", 3: "b"}
    assert shares(["a", "b"], jobs, processes, {1: use(10), 2: use(20), 3: use(10), 9: use(60)}) == [250, 750]
    assert shares(["a", "b"], jobs, processes, {2: use(5)}) == [0, 1000]  # the other did nothing


def test_by_memory_where_nothing_was_done_or_nobody_tells() -> None:
    processes = [GpuProcess(1, 300 * MIB), GpuProcess(2, 100 * MIB)]
    for uses in (None, {}, {1: use(0), 2: use(0)}):
        assert shares(["a", "b"], {1: "a", 2: "b"}, processes, uses) == [750, 250]


def test_in_equal_parts_where_nothing_is_known() -> None:
    processes = [GpuProcess(1, None), GpuProcess(2, 100 * MIB), GpuProcess(3, 5 * MIB), GpuProcess(4, 5 * MIB)]
    jobs = {1: "a", 2: "b", 3: "c", 4: "c"}
    assert shares(["a", "b", "c"], jobs, processes, None) == [334, 333, 333]


@pytest.mark.parametrize("seed", range(20))
def test_parts_sum_to_the_whole_and_are_next_to_the_exact_ones(seed: int) -> None:
    dice = random.Random(seed)
    weights = [dice.choice((0.0, 1.0, dice.random(), dice.random() * 1e6)) for _ in range(dice.randint(1, 40))] + [1e-9]
    parts = largest_remainder(weights)
    assert sum(parts) == 1000
    total = sum(weights)
    assert all(abs(part - weight * 1000 / total) < 1 for part, weight in zip(parts, weights, strict=True))
