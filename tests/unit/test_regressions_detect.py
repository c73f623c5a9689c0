"""What is said to be worse: planted changes are found where they are, clean series give the stated rate of alarms."""

from collections.abc import Callable

import numpy as np
import pytest

from warpmeter.regressions.detect import FALSE_ALARMS, Change, change_point, past_of, worse_runs

Noise = Callable[[np.random.Generator, int], "np.ndarray[tuple[int], np.dtype[np.float64]]"]
RUNS = 24
NOISES: dict[str, tuple[Noise, float]] = {
    "normal": (lambda rng, n: rng.normal(size=n), 3 * FALSE_ALARMS),
    "laplace": (lambda rng, n: rng.laplace(size=n) / 2**0.5, 15 * FALSE_ALARMS),
    "t3": (lambda rng, n: rng.standard_t(3, size=n) / 3**0.5, 15 * FALSE_ALARMS),
}
"""With the rate of false alarms that docs/regressions.md states for each."""


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("spread", [0.01, 0.05])
def test_clean_runs_are_seldom_said_to_be_worse(noise: str, spread: float) -> None:
    draw, most = NOISES[noise]
    rng = np.random.default_rng(7)
    alarms = [len(worse_runs(1.2 * (1 + spread * draw(rng, RUNS)), up=True)) for _ in range(150)]
    assert sum(alarms) / (150 * (RUNS - 4)) <= most


@pytest.mark.parametrize("follows", [0.0, 0.5])
@pytest.mark.parametrize("windows", [15, 60, 200])
def test_clean_windows_are_not_said_to_change_though_each_is_like_the_one_before(follows: float, windows: int) -> None:
    rng = np.random.default_rng(11)
    alarms = 0
    for _ in range(100):
        noise = rng.normal(size=windows + 30)
        for at in range(1, len(noise)):
            noise[at] += follows * noise[at - 1]
        alarms += change_point(0.8 * (1 + 0.1 * noise[30:]), up=False) is not None
    assert alarms <= 1  # of 100; docs/regressions.md: 5 of 1,000


@pytest.mark.parametrize("up", [True, False])
def test_a_run_that_is_worse_is_found_and_those_after_it_with_it(up: bool) -> None:
    rng = np.random.default_rng(3)
    figures = 100 * (1 + 0.01 * rng.normal(size=16))
    figures[10:] *= 1.2 if up else 0.8
    found = worse_runs(figures, up)
    assert [(each.at, each.since, each.past.runs) for each in found] == [(at, 10, 10) for at in range(10, 16)]
    assert found[0].past.middle == pytest.approx(100, rel=0.01)
    assert not worse_runs(figures, not up)


def test_a_run_that_was_odd_hides_no_later_one() -> None:
    figures = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 3.0, 1.0, 1.01, 1.3]
    assert [each.at for each in worse_runs(figures, up=True)] == [6, 9]


def test_a_past_in_which_it_once_got_better_is_held_against_by_what_it_is_now() -> None:
    figures = [2.0, 2.02, 1.99, 2.01, 2.0, 1.98, 1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.25]
    assert [each.at for each in worse_runs(figures, up=True)] == [12]


def test_what_stays_worse_for_long_is_what_it_is() -> None:
    figures = [1.0 + 0.001 * (at % 3) for at in range(6)] + [1.5 + 0.001 * (at % 3) for at in range(40)]
    assert max(each.at for each in worse_runs(figures, up=True)) == 6 + 20


def test_too_few_runs_and_small_changes_tell_nothing() -> None:
    assert past_of([1.0, 1.0, 1.0]) is None
    assert not worse_runs([1.0, 1.0, 1.0, 2.0], up=True)
    assert not worse_runs([1.0] * 10 + [1.04], up=True)
    assert [each.at for each in worse_runs([1.0] * 10 + [1.06], up=True)] == [10]


@pytest.mark.parametrize(("at", "windows"), [(30, 60), (9, 24), (150, 200)])
def test_the_place_of_a_change_within_a_run_is_found(at: int, windows: int) -> None:
    rng = np.random.default_rng(5)
    values = 0.5 * (1 + 0.03 * rng.normal(size=windows))
    values[at:] *= 1.4
    found = change_point(values, up=True)
    assert isinstance(found, Change)
    assert abs(found.at - at) <= 1
    assert [found.before, found.after] == pytest.approx([0.5, 0.7], rel=0.03)
    assert change_point(values, up=False) is None


def test_what_passed_is_no_change_and_of_several_the_last_counts() -> None:
    steady, slow, slower = [1.0, 1.01, 0.99] * 10, [1.5, 1.49, 1.51] * 10, [2.0, 2.01, 1.99] * 10
    assert change_point(steady + slow + steady, up=True) is None
    found = change_point(steady + slow + slower, up=True)
    assert found is not None
    assert (found.at, found.after) == (60, 2.0)


def test_what_comes_and_goes_is_no_change() -> None:
    assert change_point(([1.0] * 5 + [3.0]) * 20, up=True) is None
    assert change_point([1.0] * 100, up=True) is None
