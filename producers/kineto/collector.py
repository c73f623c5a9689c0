"""From the order on: wait for a process's file and bring it into the trace store, on a thread of its own.

What a process's mounts do (a file system of its own that hangs) holds up nothing but this thread, which is left to
itself when the capture is over.
"""

import time
from collections.abc import Callable
from threading import Event, Semaphore, Thread
from typing import BinaryIO, Final, Literal

from warpmeter import log
from warpmeter.producers.kineto.captures import Failure
from warpmeter.producers.kineto.files import Folder, RefusedError, UnreachableError
from warpmeter.producers.kineto.upload import Stored, StoreError, TooLargeError, no_room

LOOK_S: Final = 0.25
AGAIN_S: Final = 2.0
DISCARD_S: Final = 600.0
"""A file that nobody wants any more is waited for so long, to remove it."""
UNKNOWN_ROOM: Final = 1 << 62
AT_ONCE: Final = Semaphore(2)
"""Traces of a host that are packed at once: the cores are the job's."""

Put = Callable[[BinaryIO, Callable[[], bool]], Stored]
"""Bring a file into the store; the second says whether to give up. Raises what `upload` raises."""
State = Literal["absent", "under way"] | Stored | Failure
logger = log.get("kineto")


class Collector:
    """One file. For other threads: `state`, what came of it so far; `free_bytes`, the room where the process writes."""

    def __init__(self, opened: Callable[[], Folder], name: str, limit: int, put: Put) -> None:
        """`opened`: opens the process's folder, or raises UnreachableError; `limit`: bytes that the file may have."""
        self.state: State = "absent"
        self.free_bytes = UNKNOWN_ROOM
        self._opened, self._name, self._limit, self._put = opened, name, limit, put
        self._folder: Folder | None = None
        self._patience_s = 0.0
        self._ready, self._over, self._discard = Event(), Event(), Event()

    def start(self) -> "Collector":
        """Begin to look."""
        Thread(target=self._run, name="kineto-file", daemon=True).start()
        return self

    def problem(self, within_s: float) -> Failure | None:
        """Why its folder is of no use; None when it is open."""
        if not self._ready.wait(max(0.0, within_s)):
            return Failure("file_refused", "the folder for traces does not answer: is its file system away?")
        return self.state if isinstance(self.state, Failure) else None

    def leave(self) -> None:
        """Look no more, and leave the file where it is: the next agent takes it up."""
        self._over.set()

    def discard(self, still_comes: bool) -> None:
        """Nobody wants the file any more: remove what there is of it, or, if it still comes, when it comes."""
        self._patience_s = DISCARD_S if still_comes else 0.0
        self._discard.set()

    def _run(self) -> None:
        try:
            self._folder = self._opened()
            self._ready.set()
            while not self._over.is_set() and not self._discard.is_set():
                found = self._look(self._folder)
                if found is not None:
                    self.state = found
                    return
                self._over.wait(LOOK_S)
            self._wait_to_remove(self._folder)
        except UnreachableError as error:
            self.state = Failure("process_ended" if error.ended else "file_refused", str(error))
        except Exception as error:
            logger.error("collecting a trace broke", error=repr(error), exc_info=error)
            self.state = Failure("upload_failed", repr(error))
        finally:
            self._ready.set()
            if self._folder is not None:
                self._folder.close()

    def _look(self, folder: Folder) -> Stored | Failure | None:
        """What came of the file; None while it is not there. What is done with is removed."""
        try:
            self.free_bytes = folder.free_bytes()
            with folder.read(self._name) as (file, size):
                self.state = "under way"
                found = self._too_large(size) if size > self._limit else self._stored(file)
        except FileNotFoundError:
            return None
        except RefusedError as error:
            found = Failure("file_refused", f"{error}; it is not read")
        except OSError as error:
            found = Failure("file_refused", f"the trace cannot be read: {error}")
        folder.remove(self._name)
        return found

    def _too_large(self, size: int) -> Failure:
        return Failure("too_large", f"the trace has {size} bytes, and may have {self._limit}; trace for a shorter time")

    def _stored(self, file: BinaryIO) -> Stored | Failure:
        """Tried again while the store fails and there is time."""
        while True:
            try:
                with AT_ONCE:
                    return self._put(file, self._given_up)
            except TooLargeError as error:
                return Failure("too_large", str(error))
            except StoreError as error:
                return Failure("upload_failed", str(error))
            except Exception as error:  # noqa: BLE001 - every store has its own ways to fail
                if no_room(error):
                    return Failure("disk_full", f"the trace store has no room: {error}")
                logger.warning("the trace store does not take a trace", error=repr(error))
                if self._over.wait(AGAIN_S) or self._given_up():
                    return Failure("upload_failed", f"the trace store did not take the trace: {error!r}")
                file.seek(0)

    def _given_up(self) -> bool:
        return self._over.is_set() or self._discard.is_set()

    def _wait_to_remove(self, folder: Folder) -> None:
        """Whole or not: what a process left that was killed at work goes, too, when nothing comes any more."""
        until = time.monotonic() + self._patience_s
        while not self._over.is_set() and time.monotonic() < until and not folder.has(self._name):
            self._over.wait(LOOK_S)
        if not self._over.is_set():
            folder.remove(self._name, f"{self._name}.tmp")
