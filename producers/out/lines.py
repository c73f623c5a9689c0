"""JSON lines on standard output: written from a thread of their own, since a pipe can be full for ever."""

import errno
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Final

from google.protobuf.message import Message

from warpmeter import log
from warpmeter.clock import Clock
from warpmeter.producers.out.drops import Drops
from warpmeter.producers.source import Health

MOST_ROWS: Final = 10_000
"""Rows that wait for a slow reader: minutes of one host. Then the oldest go."""
STALL_S: Final = 10.0
FULL_POLL_MS: Final = 200
DROPPED: Final = {
    "full": "rows dropped so far: the reader of standard output is too slow",
    "refused": "rows dropped so far: standard output could not be written",
}
Format = Callable[[str, Message], str]


class Lines:
    """An Output that writes each row as one line."""

    name: Final = "output/stdout"

    def __init__(self, line: Format, clock: Clock, descriptor: int | None = None) -> None:
        self._line, self._clock = line, clock
        self._descriptor = sys.stdout.fileno() if descriptor is None else descriptor
        self._queue: deque[tuple[str, Sequence[Message]]] = deque()
        self._waiting, self._closing, self.gone = 0, False, False
        self._busy_since: float | None = None
        self._why = ""
        self._drops = Drops(self.name, DROPPED, clock)
        self._some = Condition()
        self._thread = Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Queue the rows of one tick."""
        with self._some:
            self._queue.append((topic, rows))
            self._waiting += len(rows)
            while self._waiting > MOST_ROWS and len(self._queue) > 1:
                dropped = len(self._queue.popleft()[1])
                self._waiting -= dropped
                self._drops.add("full", dropped)
            self._some.notify()

    def pump(self) -> bool:
        """Nothing: the thread does it all."""
        return False

    def health(self) -> tuple[Health, list[Health]]:
        """Not ok while nobody reads, or nothing can be written."""
        since = self._busy_since
        if since is not None and (waited := self._clock.monotonic() - since) > STALL_S:
            return Health("", "failed", f"nobody has read standard output for {waited:.0f} s"), []
        if self._why:
            return Health("", "gone" if self.gone else "failed", self._why), []
        return Health("", "ok"), self._drops.told()

    def close(self, timeout_s: float) -> None:
        """Write what is queued."""
        with self._some:
            self._closing = True
            self._some.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.get("agent").warning("rows_not_written", output=self.name, count=self._waiting)

    def _run(self) -> None:
        while (tick := self._next()) is not None:
            topic, rows = tick
            if self.gone:  # for good: the descriptor may be another file's by now
                self._drops.add("refused", len(rows))
            else:
                self._bring_out(topic, rows)
            self._busy_since = None

    def _bring_out(self, topic: str, rows: Sequence[Message]) -> None:
        try:
            self._write("".join(f"{self._line(topic, row)}\n" for row in rows).encode())
            self._why = ""
        except OSError as error:
            self.gone = error.errno in (errno.EPIPE, errno.EBADF)
            self._refused("its reader is gone" if self.gone else f"standard output: {error.strerror}", len(rows))
        except Exception as error:  # noqa: BLE001 - the edge of this thread: what follows may be better
            self._refused(f"a row of {topic} cannot be written: {error!r}", len(rows))

    def _next(self) -> tuple[str, Sequence[Message]] | None:
        with self._some:
            self._some.wait_for(lambda: self._queue or self._closing)
            if not self._queue:
                return None
            tick = self._queue.popleft()
            self._waiting -= len(tick[1])
            self._busy_since = self._clock.monotonic()
            return tick

    def _write(self, left: bytes) -> None:
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
                self._busy_since = self._clock.monotonic()
            except BlockingIOError:  # somebody else made the terminal or pipe non-blocking
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll(FULL_POLL_MS)

    def _refused(self, why: str, rows: int) -> None:
        self._drops.add("refused", rows)
        self._why = why
