"""Questions that need not wait for each other, asked of the store at once."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_threads: Final = ThreadPoolExecutor(8, "beside")
"""Of the process: each thread has a client of the store's, which takes a while to make."""


def beside(ask: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Ask on a thread of the process; `result()` is the answer, or raises what asking raised."""
    return _threads.submit(ask, *args, **kwargs)
