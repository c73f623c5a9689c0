"""Bytes between the event loop and the threads in which the engine works, in bounded memory both ways."""

import asyncio
import os
import queue
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Final

CHUNK: Final = 1 << 20


class Feed:
    """A body on its way to a worker thread: the loop `put`s, the thread iterates. At most `depth` chunks wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, depth: int = 4) -> None:
        self._loop = loop
        self._free = asyncio.Semaphore(depth)
        self._chunks: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()

    async def put(self, chunk: bytes) -> None:
        """Hand over a chunk; waits while the thread is behind."""
        await self._free.acquire()
        self._chunks.put(chunk)

    def end(self) -> None:
        """No more chunks."""
        self._chunks.put(None)

    def fail(self, error: BaseException) -> None:
        """The body broke off: the thread's iteration raises `error`."""
        self._chunks.put(error)

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._chunks.get()) is not None:
            if isinstance(chunk, BaseException):
                raise chunk
            self._loop.call_soon_threadsafe(self._free.release)
            yield chunk


class Outlet:
    """The writing end of a pipe, closed by exactly one: the thread that takes it, or whoever gives up before that.

    A descriptor closed twice, or used after it was closed, would be some other request's by then.
    """

    def __init__(self, descriptor: int) -> None:
        self._left = [descriptor]

    def take(self) -> int:
        """The descriptor, which is the caller's to close from now on. Raises IndexError when it was given up."""
        return self._left.pop()

    def give_up(self) -> None:
        """Close it, unless it was taken."""
        with suppress(IndexError):
            os.close(self._left.pop())


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def read_pipe(descriptor: int) -> AsyncIterator[bytes]:
    """What comes out of a pipe, in chunks of up to 1 MiB, until all its writers are closed."""
    os.set_blocking(descriptor, False)
    while True:
        try:
            chunk = os.read(descriptor, CHUNK)
        except BlockingIOError:
            await _readable(descriptor)
            continue
        if not chunk:
            return
        yield chunk
