"""When a lost GPU or driver is looked for again, and by what name a GPU that gives nothing goes."""

from warpmeter.producers.gpu.nvml import NOT_LISTED, Problem
from warpmeter.producers.gpu.reader import LONGEST_WAIT_S, Backoff, absentees

LOST, DENIED, FAILED = Problem(15), Problem(4), Problem(999)


class Ticking:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def attempts(clock: Ticking, backoff: Backoff, seconds: int) -> list[float]:
    """Times of the attempts when each fails, asked once a second."""
    made = []
    for _ in range(seconds):
        if backoff.due():
            made.append(clock.now)
            backoff.failed()
        clock.now += 1
    return made


def test_waits_double_up_to_a_minute() -> None:
    clock = Ticking()
    backoff = Backoff(clock)
    assert attempts(clock, backoff, 250) == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


def test_after_success_it_starts_small() -> None:
    clock = Ticking()
    backoff = Backoff(clock)
    attempts(clock, backoff, 100)
    backoff.reset()
    assert backoff.due()
    assert attempts(clock, backoff, 5) == [100, 101, 103]


def test_a_wait_can_be_given() -> None:
    clock = Ticking()
    backoff = Backoff(clock)
    backoff.failed(LONGEST_WAIT_S)
    clock.now = LONGEST_WAIT_S - 0.1
    assert not backoff.due()
    clock.now = LONGEST_WAIT_S
    assert backoff.due()


def test_an_index_that_fails_is_the_missing_gpu() -> None:
    assert absentees(["GPU-f"], {}, {"gpu 5": LOST}) == {"GPU-f": LOST}
    assert absentees(["GPU-f"], {"GPU-f": LOST}, {"gpu 5": LOST}) == {"GPU-f": LOST}


def test_an_index_that_always_failed_keeps_its_name() -> None:
    before = {"gpu 3": DENIED}
    assert absentees([], {}, before) == before
    assert absentees(["GPU-f"], before, before | {"gpu 5": LOST}) == {"GPU-f": LOST, "gpu 3": DENIED}


def test_a_gpu_that_is_not_listed_is_gone() -> None:
    assert absentees(["GPU-f"], {}, {}) == {"GPU-f": NOT_LISTED}
    assert absentees(["GPU-f"], {"GPU-f": LOST}, {}) == {"GPU-f": LOST}
    assert absentees(["GPU-f"], {"GPU-f": FAILED}, {}) == {"GPU-f": NOT_LISTED}
