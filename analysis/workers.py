"""The same work on many files in worker processes, with a bound on memory: a result or a reason for each file."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from threading import Thread
from typing import Any, Final, Generic, TypeVar

from warpmeter.analysis.read import TraceError

Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Bytes done, bytes in all."""
Task = Callable[[str, Progress], Result]

MEMORY: Final = 4 << 30
"""Bytes that all processes together may take."""
BASE: Final = 150 << 20
"""Bytes of a process before it reads anything: the interpreter, numpy, and results that wait to be fetched."""
TIMES: Final = 3
"""Peak bytes of a whole analysis for each byte of text; measured: 1.2, more where nearly all events are small."""
SQUEEZED: Final = 15
"""How many times smaller gzip and zstd make a trace."""
POLL_S: Final = 0.1


@dataclass(frozen=True)
class Failed:
    """A file that gave no result, and why, for a person."""

    file: str
    why: str


def work(
    files: Sequence[str], task: Task[Result], told: Callable[[int, int, int], None] | None = None
) -> Iterator[tuple[int, Result | Failed]]:
    """Each file's index with what `task` made of it, as they are done; `told` hears file index, bytes done, bytes.

    One file is done here; several in as many processes as CPUs and `MEMORY` allow. `task` is a function of a module
    (or a partial of one). Whatever goes wrong with a file is its `Failed`; the others go on.
    """
    hear = told or _nobody
    if len(files) == 1:
        yield 0, _attempt(task, files[0], lambda done, whole: hear(0, done, whole))
        return
    yield from _Pool(files, task, hear).results()


def processes(files: Sequence[str], cpus: int | None = None) -> int:
    """How many files may be under way at once."""
    largest = max(map(_text_bytes, files), default=0)
    fitting = (MEMORY - BASE) // (BASE + TIMES * largest)
    return max(1, min(cpus or len(os.sched_getaffinity(0)), len(files), fitting))


def _text_bytes(file: str) -> int:
    """Size of a file's text, roughly; 0 where it cannot be told (a URL)."""
    try:
        size = Path(file).stat().st_size
    except OSError:
        return 0
    return size * SQUEEZED if file.endswith((".gz", ".zst", ".zstd")) else size


def _nobody(_file: int, _done: int, _whole: int) -> None:
    """Hears nothing."""


def _attempt(task: Task[Result], file: str, progress: Progress) -> Result | Failed:
    """The edge of the work on one file: a fault of ours with it must not take the other files' results along."""
    try:
        return task(file, progress)
    except TraceError as error:
        return Failed(file, str(error))
    except MemoryError:
        return Failed(file, f"{file}: not enough memory; free some, or analyse it alone")
    except Exception as error:
        if os.environ.get("WARPMETER_DEBUG"):
            raise
        said = f"{type(error).__name__}: {error}"
        return Failed(file, f"{file}: fault of warpmeter ({said}); WARPMETER_DEBUG=1 shows where, please report it")


_shared: dict[str, Any] = {}


def _begin(counters: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    Thread(target=_end_with_parent, daemon=True).start()
    _shared["counters"] = counters


def _end_with_parent() -> None:
    """A pool's worker waits for ever for work of a parent that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _job(task: Task[Result], index: int, file: str) -> Result | Failed:
    counters = _shared["counters"]

    def progress(done: int, whole: int) -> None:
        counters[2 * index], counters[2 * index + 1] = done, whole

    return _attempt(task, file, progress)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started here begin with Ctrl-C held back, until `_begin` lets it end them in silence."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


class _Pool(Generic[Result]):
    """Worker processes; at most two files a worker are handed out, so results never pile up unread."""

    def __init__(self, files: Sequence[str], task: Task[Result], told: Callable[[int, int, int], None]) -> None:
        self._files, self._task, self._told = files, task, told
        self._counters = RawArray("q", 2 * len(files))
        self._workers = processes(files)
        self._running: dict[Future[Result | Failed], int] = {}

    def results(self) -> Iterator[tuple[int, Result | Failed]]:
        waiting = list(range(len(self._files)))
        while waiting:
            broken: list[int] = []
            with self._pool() as pool:
                yield from self._drain(pool, waiting, broken)
            waiting = broken + waiting if len(broken) > 1 else waiting
            if len(broken) == 1:
                yield broken[0], self._killed(broken[0])
            self._workers = 1 if broken else self._workers

    def _pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # forking a process with threads may hang
        return ProcessPoolExecutor(self._workers, context, _begin, (self._counters,))

    def _drain(
        self, pool: ProcessPoolExecutor, waiting: list[int], broken: list[int]
    ) -> Iterator[tuple[int, Result | Failed]]:
        """Until nothing is left, or a worker was killed: what was under way then is `broken`."""
        try:
            while (waiting and not broken) or self._running:
                while waiting and not broken and len(self._running) < self._workers + (self._workers > 1):
                    index = waiting.pop(0)
                    with _uninterrupted():
                        future = pool.submit(_job, self._task, index, self._files[index])
                    self._running[future] = index
                for done in wait(self._running, POLL_S, FIRST_COMPLETED).done:
                    index = self._running.pop(done)
                    if isinstance(done.exception(), BrokenProcessPool):
                        broken.append(index)
                    else:
                        yield index, done.result()
                self._tell()
        finally:
            for each in self._running:
                each.cancel()

    def _tell(self) -> None:
        for index in range(len(self._files)):
            done, whole = self._counters[2 * index : 2 * index + 2]
            if whole:
                self._told(index, done, whole)

    def _killed(self, index: int) -> Failed:
        file = self._files[index]
        return Failed(file, f"{file}: the process that read it was killed, most likely for want of memory")
