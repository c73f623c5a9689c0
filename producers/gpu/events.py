"""Listening for XIDs: a thread of its own waits on NVML's event set, so an event has its time, not that of a tick."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from warpmeter.producers.counters import UINT32_MAX
from warpmeter.producers.gpu import nvml
from warpmeter.producers.gpu.nvml import Event, Handle, Problem

WAIT_MS: Final = 200
"""One wait; so long does the end of a session take at most."""
AFTER_ERROR_S: Final = 1.0
"""NVML gives an error at once, and for as long as a GPU is lost."""
STOP_TIMEOUT_S: Final = 5.0
WAITING_MAX: Final = 256
"""Events that wait to be published; a storm beyond is counted and dropped."""


@dataclass(frozen=True)
class Raised:
    """An XID. `ts`: UTC seconds. `index`, `uuid`: of the whole GPU; the instances are those of a MIG instance."""

    ts: float
    index: int
    uuid: str
    code: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    bus_id: str = ""


@dataclass(frozen=True)
class Heard:
    """A GPU that is listened to."""

    index: int
    uuid: str
    bus_id: str


class Listener:
    """Listens to the GPUs of one NVML session after another. `take` is for the thread of another source."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._set: nvml.EventSet | None = None
        self._heard: dict[int, Heard] = {}
        self._known: set[str] = set()
        self._broken = False
        self._waiting: deque[Raised] = deque()
        self._stop = threading.Event()  # of the present thread; each has its own
        self._thread: threading.Thread | None = None
        self._ended: threading.Thread | None = None
        self.deaf: Mapping[str, Problem] = {}
        """GPUs that cannot be listened to, by uuid."""
        self.dropped = 0

    def listen(self, gpus: Mapping[str, tuple[int, Handle]]) -> None:
        """To these GPUs: index and handle by uuid; those that are listened to already are let be.

        A set with a lost GPU may give nothing but that error, so it is made anew of the GPUs that are left.
        """
        if self._broken:
            self.close()
        self.deaf = {uuid: why for uuid, why in self.deaf.items() if uuid in gpus}
        for uuid, (index, handle) in gpus.items():
            if uuid not in self._known and uuid not in self.deaf:
                self._add(uuid, index, handle)
        if self._thread is None and self._heard:
            self._start()

    def _add(self, uuid: str, index: int, handle: Handle) -> None:
        self._set = self._set or nvml.EventSet()
        why = self._set.add(handle)
        if why is None:
            self._known.add(uuid)
            self._heard = {**self._heard, nvml.address(handle): Heard(index, uuid, nvml.bus_id(handle))}
        else:
            self.deaf = {**self.deaf, uuid: why}

    def _start(self) -> None:
        assert self._set is not None
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stop, self._set), name="gpu-events-wait", daemon=True
        )
        self._thread.start()

    def leave(self, uuid: str) -> None:
        """A lost GPU: it is registered anew when it is found again. What it has to say till then is still heard."""
        self._known.discard(uuid)

    def take(self) -> list[Raised]:
        """What came since the last take."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken

    @property
    def stuck(self) -> bool:
        """A wait of its last thread has not returned."""
        return self._ended is not None and self._ended.is_alive()

    def close(self) -> None:
        """Ends the thread with the session, or leaves it behind when its wait does not return."""
        self._stop.set()
        self._ended, self._thread = self._thread, None
        if self._ended is not None:
            self._ended.join(STOP_TIMEOUT_S)
        if self._set is not None and not self.stuck:
            self._drain(self._set)
            self._set.free()
        self._set, self._heard, self._known, self.deaf, self._broken = None, {}, set(), {}, False

    def _run(self, stop: threading.Event, events: nvml.EventSet) -> None:
        while not stop.is_set():
            got = events.wait(WAIT_MS)
            if isinstance(got, Event):
                self._put(got)
            elif got is not None:
                self._broken = not got.library_down
                if got.library_down or stop.wait(AFTER_ERROR_S):
                    return

    def _drain(self, events: nvml.EventSet) -> None:
        """What waits in a set is not lost with it."""
        for _ in range(WAITING_MAX):
            if not isinstance(got := events.wait(0), Event):
                return
            self._put(got)

    def _put(self, event: Event) -> None:
        heard = self._heard.get(event.address)
        if heard is None:
            return
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(
            Raised(
                self._now(),
                heard.index,
                heard.uuid,
                min(event.code, UINT32_MAX),  # NVML has 64 bits for it, a row 32
                event.gpu_instance,
                event.compute_instance,
                heard.bus_id,
            )
        )
