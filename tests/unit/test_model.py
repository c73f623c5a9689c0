"""The loop in a world that does its worst: whatever happens in whatever order, nothing is lost and nothing is twice.

Two to three processes, three partitions of two topics, a store that lands inserts in parts and forgets, a group with
Kafka's rules. A process stands still at every call it makes of that world, in its loop and in its worker, and the
schedule says who goes on, how far, and what befalls it there: so a crash, a lost session or a lost reply can fall on
any call. `test_a_crash_at_every_call` then takes each schedule that hypothesis finds and repeats it once a call, with
a crash in that place.

`HYPOTHESIS_PROFILE=long` (see CONTRIBUTING.md) searches for minutes.
"""

from collections.abc import Sequence

import pytest
from hypothesis import given

from tests.model.schedule import Action, schedules, short_schedules
from tests.model.small import small_windows
from tests.model.truth import run, run_with_a_crash
from tests.profiles import model


@pytest.mark.long
@pytest.mark.timeout(0)
@model(examples=250)
@given(schedules)
def test_whatever_happens_nothing_is_lost_and_nothing_is_twice(schedule: Sequence[Action]) -> None:
    with small_windows():
        run(schedule)


@pytest.mark.timeout(0)
@model(examples=6)
@given(short_schedules)
def test_a_crash_at_every_call(schedule: Sequence[Action]) -> None:
    """Before the call is the same as after the one before it: between two calls nobody sees what a process does."""
    with small_windows():
        calls = run(schedule).calls
        for call in range(calls):
            run_with_a_crash(schedule, call)
