"""PCIe throughput where nothing better gives it: NVML's call blocks for 20 ms a direction, so a thread makes it.

Between two ticks every such GPU is measured once. A measurement is taken once: it was made in the interval that the
tick's sample stands for, or it is not published.
"""

import threading
import time
from dataclasses import dataclass
from typing import Final

from warpmeter.producers.gpu.calls import Prepared
from warpmeter.producers.gpu.nvml import TIMEOUT, Numbers, Problem
from warpmeter.producers.gpu.table import Call

Result = tuple[Call, Numbers | Problem]

STOP_TIMEOUT_S: Final = 5.0
STUCK_S: Final = 0.5
"""A call that takes 20 ms hangs when it takes this long."""


@dataclass(eq=False)
class _Job:
    uuid: str
    prepared: Prepared
    result: Result | None = None

    def take(self) -> Result | None:
        """What was measured since the last take."""
        got, self.result = self.result, None
        return got


class Throughput:
    """The calls of all GPUs that need them; its thread exists only when there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: list[_Job] = []
        self._tick = threading.Event()
        self._calling_since: float | None = None
        self._stop = threading.Event()  # of the present thread; each has its own
        self._thread: threading.Thread | None = None
        self._ended: threading.Thread | None = None

    def join(self, uuid: str, prepared: Prepared) -> None:
        """Measure this from the next tick on."""
        with self._lock:
            self._jobs.append(_Job(uuid, prepared))
        if self._thread is None:
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stop,), name="gpu-pcie-throughput", daemon=True
            )
            self._thread.start()

    def leave(self, uuid: str) -> None:
        """Measure nothing of this GPU any more."""
        with self._lock:
            self._jobs = [job for job in self._jobs if job.uuid != uuid]

    def take(self, uuid: str) -> list[Result]:
        """What was measured since the last take; an unsupported call is told once and made no more."""
        if self._thread is None:
            return []
        with self._lock:
            mine = [job for job in self._jobs if job.uuid == uuid]
            results = [result for job in mine if (result := self._result(job)) is not None]
            ended = {call for call, got in results if isinstance(got, Problem) and got.state == "unsupported"}
            self._jobs = [job for job in self._jobs if job not in mine or job.prepared.call not in ended]
        return results

    def _result(self, job: _Job) -> Result | None:
        got = job.take()
        if got is None and self._calling_since is not None and time.monotonic() - self._calling_since > STUCK_S:
            return job.prepared.call, TIMEOUT
        return got

    def tick(self) -> None:
        """Starts the round whose results the next tick takes."""
        self._tick.set()

    @property
    def stuck(self) -> bool:
        """A call of its last thread has not returned."""
        return self._ended is not None and self._ended.is_alive()

    def close(self) -> None:
        """Ends the thread, or leaves it behind when its call does not return."""
        self._stop.set()
        self._tick.set()
        self._ended, self._thread = self._thread, None
        if self._ended is not None:
            self._ended.join(STOP_TIMEOUT_S)

    def _run(self, stop: threading.Event) -> None:
        while self._tick.wait() and not stop.is_set():
            self._tick.clear()
            with self._lock:
                jobs = list(self._jobs)
            for job in jobs:
                if stop.is_set():
                    return
                self._calling_since = time.monotonic()
                got = job.prepared.read()
                with self._lock:
                    self._calling_since, job.result = None, (job.prepared.call, got)
