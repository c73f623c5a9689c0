"""The crash script's plans: the same for the same seed, and of faults that can happen."""

import pytest

from tests.crash import plan
from tests.crash.faults import KINDS, SLOTS

HOUR_S = 3600.0


def said(seed: int, seconds: float) -> list[str]:
    return [str(fault) for fault in plan.make(seed, seconds)]


def test_a_seed_is_one_sequence_of_faults_and_a_longer_run_begins_with_it() -> None:
    assert said(7, 600) == said(7, 600)
    assert said(7, 1200)[: len(said(7, 600))] == said(7, 600)
    assert said(7, 600) != said(8, 600)


@pytest.mark.parametrize("seed", range(5))
def test_an_hour_has_every_kind_of_fault_and_between_one_and_four_consumers(seed: int) -> None:
    faults = plan.make(seed, HOUR_S)
    assert all(plan.counts(faults)[kind.name] > 0 for kind in KINDS)
    up = {0, 1}
    for fault in faults:
        assert not fault.injection.joined & up
        assert fault.injection.left <= up
        up = (up | fault.injection.joined) - fault.injection.left
        assert 1 <= len(up) <= SLOTS


def test_a_victim_has_one_fault_at_a_time() -> None:
    until: dict[str, float] = {}
    for fault in plan.make(3, HOUR_S):
        for thing, busy_s in fault.injection.busy.items():
            assert until.get(thing, 0.0) <= fault.at_s + 0.01, str(fault)
            until[thing] = fault.at_s + busy_s


def test_steps_are_in_the_order_in_which_they_are_due() -> None:
    due = plan.steps(plan.make(1, 600))
    assert [step.at_s for step in due] == sorted(step.at_s for step in due)
    assert sum(step.first for step in due) == len(plan.make(1, 600))
