"""HTTP that is over in time: a socket's own timeout starts again with every byte, so a slow sender goes on for ever."""

import io
import socket
import time
from http.client import HTTPResponse
from typing import Any


class _UntilThen(io.RawIOBase):
    """What comes of a socket until `seconds` from now; then TimeoutError."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._sock, self._file = sock, sock.makefile("rb", buffering=0)  # the file keeps the socket open
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is over")
        self._sock.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class TimelyResponse(HTTPResponse):
    """A response that has come, headers and all, within the socket's timeout; that is what is left of it afterwards."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_UntilThen(sock, sock.gettimeout() or 0.0))
