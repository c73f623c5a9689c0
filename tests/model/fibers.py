"""Functions that run a stretch at a time: a thread each, of which only one runs, and only while it is told to."""

import threading
from collections.abc import Callable
from typing import ClassVar


class Crash(BaseException):
    """The process ends here; nothing in it may catch this."""


class _Carrier(threading.Thread):
    """A thread that carries one fiber after the other: starting one takes ten times as long as a whole stretch."""

    idle: ClassVar[list["_Carrier"]] = []

    def __init__(self) -> None:
        super().__init__(daemon=True, name="fiber")
        self.go, self.back = threading.Lock(), threading.Lock()
        self.go.acquire()
        self.back.acquire()
        self.work: Callable[[], None] = lambda: None
        self.start()

    def run(self) -> None:
        while True:
            self.go.acquire()
            self.work()
            self.idle.append(self)
            self.back.release()


class Fiber:
    """`function`, from one `pause` to the next at each `resume`. `at` is where it stands."""

    current: ClassVar["Fiber | None"] = None

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._carrier: _Carrier | None = None
        self._killed = False
        self.done = False
        self.at = "start"
        self.error: BaseException | None = None

    def resume(self) -> None:
        """Let it go on to its next pause or its end."""
        if self.done:
            return
        before, Fiber.current = Fiber.current, self
        if self._carrier is None:
            self._carrier = _Carrier.idle.pop() if _Carrier.idle else _Carrier()
            self._carrier.work = self._run
        carrier = self._carrier
        carrier.go.release()
        carrier.back.acquire()
        Fiber.current = before

    def kill(self) -> None:
        """End it where it stands; whatever it does on its way out touches nothing."""
        self._killed = True
        if self._carrier is None:
            self.done = True
        self.resume()

    def pause(self, at: str) -> None:
        """From within: stand still at `at` until told to go on. Raises Crash when it is killed instead."""
        if not self._killed:
            self.at = at
            assert self._carrier is not None
            self._carrier.back.release()
            self._carrier.go.acquire()
        if self._killed:
            raise Crash

    def _run(self) -> None:
        try:
            self._function()
        except Crash:
            pass
        except BaseException as error:  # noqa: BLE001 - handed to whoever resumes it
            self.error = error
        self.done = True


def pause(at: str) -> None:
    """Stand still here, if a fiber runs this."""
    if Fiber.current is not None:
        Fiber.current.pause(at)
