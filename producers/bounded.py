"""Calls that may hang in the kernel, bounded in time: what hangs keeps its own thread, and nobody else waits for it."""

from collections.abc import Callable, Iterable
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Final, Generic, TypeVar

Result = TypeVar("Result")

MOST_STUCK: Final = 32
"""Threads that may be stuck at once; what is asked for beyond counts as not answered."""


class Helper(Generic[Result]):
    """A thread that does one piece of work at a time, for somebody who does not wait for ever."""

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[Callable[[], Result] | None] = SimpleQueue()
        self._done = Event()
        self._done.set()
        self._result: Result | OSError | None = None
        Thread(target=self._loop, name=name, daemon=True).start()

    def start(self, work: Callable[[], Result]) -> None:
        """Begin; the helper must not be busy. `work` may raise OSError."""
        self._done.clear()
        self._work.put(work)

    def wait(self, seconds: float) -> bool:
        """Whether the work is done, at the latest after so long."""
        return self._done.wait(max(0.0, seconds))

    def result(self) -> Result | OSError:
        """What the last work gave, or the OSError that it raised."""
        if self._result is None:
            raise RuntimeError("no work was done yet")
        return self._result

    def close(self) -> None:
        """Let the thread end once its work is done."""
        self._work.put(None)

    def _loop(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                self._result = work()
            except OSError as error:
                self._result = error
            except Exception as error:  # noqa: BLE001 - the edge of this thread; the asker hears of it
                self._result = OSError(repr(error))
            self._done.set()


class Pool(Generic[Result]):
    """Asks many things in turn. What does not answer in time is stuck, and not asked again until it does."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[Helper[Result]] = []
        self._stuck: dict[str, Helper[Result]] = {}

    def ask(
        self, keys: Iterable[str], work: Callable[[str], Result], grace_s: float, timeout_s: float
    ) -> dict[str, Result | OSError]:
        """`work` of each key; a key that is missing in the answer was not done.

        The next one is asked after `grace_s` at the latest, and all that hang are waited for until `timeout_s`.
        """
        self._reclaim()
        deadline = monotonic() + timeout_s
        answers: dict[str, Result | OSError] = {}
        waiting: dict[str, Helper[Result]] = {}
        for key in keys:
            if key in self._stuck or len(self._stuck) + len(waiting) >= MOST_STUCK:
                continue
            helper = self._idle.pop() if self._idle else Helper(self._name)
            helper.start(partial(work, key))
            waiting[key] = helper
            self._collect(key, waiting, answers, grace_s)
        for key in list(waiting):
            self._collect(key, waiting, answers, deadline - monotonic())
        self._stuck |= waiting
        return answers

    def close(self) -> None:
        """Let all threads end; those that are stuck end when what holds them does."""
        for helper in (*self._idle, *self._stuck.values()):
            helper.close()

    def _collect(
        self, key: str, waiting: dict[str, Helper[Result]], answers: dict[str, Result | OSError], seconds: float
    ) -> None:
        if waiting[key].wait(seconds):
            helper = waiting.pop(key)
            answers[key] = helper.result()
            self._idle.append(helper)

    def _reclaim(self) -> None:
        """What was stuck and answered since is old news: only its thread is of use."""
        for key in [key for key, helper in self._stuck.items() if helper.wait(0)]:
            self._idle.append(self._stuck.pop(key))
