"""The same work on many files in worker processes, with a bound on memory: a result or a reason for each file."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.resource_tracker import ensure_running
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from threading import Thread, current_thread, main_thread
from types import FrameType
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


def _serve(pipe: Connection, task: Task[Result], counters: Any) -> None:
    """A worker's life: a file's index and name come in, its result goes out, until nobody asks any more."""
    Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            index, file = pipe.recv()
        except EOFError:
            return
        pipe.send(_attempt(task, file, partial(_count, counters, index)))


def _end_with_parent() -> None:
    """A worker that is in the midst of a file does not see that its parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _count(counters: Any, index: int, done: int, whole: int) -> None:
    counters[2 * index], counters[2 * index + 1] = done, whole


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: a worker that is half started would end with a traceback of its own.

    Workers begin, and stay, deaf to it: the parent ends them. The mask that they inherit does not keep the interrupt
    from this thread: the kernel hands it to any thread, and Python then raises it in the main one.
    """
    ensure_running()  # started together with the first worker, multiprocessing's tracker would lift the mask
    held: list[tuple[int, FrameType | None]] = []
    main = current_thread() is main_thread()
    before = signal.getsignal(signal.SIGINT)
    if main:
        signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if main:
            signal.signal(signal.SIGINT, before)
        if held and callable(before):
            before(*held[0])


@dataclass
class _Worker:
    """A process, the end of its pipe that is ours, and the file that it is at."""

    process: SpawnProcess
    pipe: Connection
    index: int | None = None

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


class _Pool(Generic[Result]):
    """Worker processes with a pipe each, one file at a time, so results never pile up unread.

    Not concurrent.futures: all its workers write to one pipe that its parent holds open as well, so a worker that is
    killed within a result leaves the parent waiting for the rest for ever.
    """

    def __init__(self, files: Sequence[str], task: Task[Result], told: Callable[[int, int, int], None]) -> None:
        self._files, self._task, self._told = files, task, told
        self._context = multiprocessing.get_context("spawn")  # forking a process with threads may hang
        self._counters = RawArray("q", 2 * len(files))
        self._most = processes(files)
        self._waiting = list(range(len(files)))
        self._workers: list[_Worker] = []

    def results(self) -> Iterator[tuple[int, Result | Failed]]:
        try:
            while self._waiting or self._at_work():
                self._hand_out()
                for worker in self._heard():
                    index = worker.index
                    assert index is not None
                    try:
                        found = worker.pipe.recv()
                    except (EOFError, OSError):
                        yield from self._lost(worker, index)
                    else:
                        worker.index = None
                        yield index, found
                self._tell()
        finally:
            for worker in self._workers:
                worker.end()

    def _at_work(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.index is not None]

    def _hand_out(self) -> None:
        """Work for all that have none; one more process while there is more to do than hands."""
        while self._waiting and len(self._at_work()) < self._most:
            idle = next((worker for worker in self._workers if worker.index is None), None) or self._start()
            idle.index = self._waiting.pop(0)
            with suppress(OSError):  # killed while it had nothing to do: told as the loss of this file
                idle.pipe.send((idle.index, self._files[idle.index]))

    def _start(self) -> _Worker:
        with _uninterrupted():
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_serve, args=(theirs, self._task, self._counters), daemon=True)
            process.start()
            theirs.close()  # its death is then the end of the pipe
            worker = _Worker(process, ours)
            self._workers.append(worker)
        return worker

    def _heard(self) -> list[_Worker]:
        ready = wait([worker.pipe for worker in self._at_work()], POLL_S)
        return [worker for worker in self._workers if worker.pipe in ready]

    def _lost(self, worker: _Worker, index: int) -> Iterator[tuple[int, Failed]]:
        """A worker was killed. Where it was not alone, others may have taken the memory: its file is tried alone."""
        worker.end()
        self._workers.remove(worker)
        if self._most == 1:
            file = self._files[index]
            yield index, Failed(file, f"{file}: the process that read it was killed, most likely for want of memory")
        else:
            self._most = 1
            self._waiting.append(index)

    def _tell(self) -> None:
        for index in range(len(self._files)):
            done, whole = self._counters[2 * index : 2 * index + 2]
            if whole:
                self._told(index, done, whole)
