"""How the time of some work grows with its size: a ratio within one run, whatever the machine."""

from collections.abc import Callable
from time import thread_time

TIMES = 16


def growth(work: Callable[[int], object], size: int) -> float:
    """The CPU time of `work(size)` over 16 times that of a sixteenth: about 1 where linear, 16 where quadratic."""
    small, large = [], []
    for _ in range(5):
        small.append(_seconds(work, size // TIMES))
        large.append(_seconds(work, size))
    return min(large) / min(small) / TIMES


def _seconds(work: Callable[[int], object], size: int) -> float:
    began = thread_time()
    work(size)
    return thread_time() - began
