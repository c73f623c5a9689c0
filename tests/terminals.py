"""A program in a pseudo-terminal: what it writes, what is typed, its size, and whether it leaves it as it was."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.signals import tell

ESCAPES: Final = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|[()][A-B0-2]|[PX^_\]].*?(\x1b\\|\x07)|[=>NOM78])", re.S)
ALTERNATE, PLAIN = b"\x1b[?1049h", b"\x1b[?1049l"
SHOWN_CURSOR: Final = b"\x1b[?25h"


class Terminal:
    """`argv` as the leader of a terminal of `columns` x `lines`. Close it."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], columns: int = 100, lines: int = 30) -> None:
        self._ours, theirs = pty.openpty()
        self.said = b""
        self._looked = 0
        self.resize(columns, lines)
        self.before = termios.tcgetattr(theirs)
        self._kept = theirs
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(env), start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def resize(self, columns: int, lines: int) -> None:
        """Another size, as when a window is pulled; the kernel tells the program."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def vanish(self) -> None:
        """As when a connection breaks or the window is closed."""
        os.close(self._kept)
        os.close(self._ours)
        self._kept = self._ours = -1

    def type(self, text: str) -> None:
        """As from the keyboard."""
        os.write(self._ours, text.encode())

    def read(self, within_s: float = 0.0) -> None:
        """Take what was written, waiting so long for the first of it."""
        while select.select([self._ours], [], [], within_s)[0]:
            try:
                self.said += os.read(self._ours, 65536)
            except OSError:  # nobody has the other end any more
                return
            within_s = 0.0

    def until(self, text: str, within_s: float = 120.0) -> None:
        """Wait until that was written since the last time that something was waited for, whatever its colours."""
        deadline = time.monotonic() + within_s
        while text not in self.words(self._looked):
            over = time.monotonic() > deadline or self.process.poll() is not None
            assert not over, f"no {text!r}: {self.words(-4000)}"
            self.read(0.2)
        self._looked = len(self.said)

    def words(self, since: int = 0) -> str:
        """What was written, without what steers the terminal."""
        return ESCAPES.sub(b"", self.said[since:]).decode(errors="replace")

    def ended(self, within_s: float = 60.0) -> int:
        """Wait for its end; the exit status."""
        deadline = time.monotonic() + within_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on: {self.words(-4000)}"
            self.read(0.1)
        self.read()
        return self.process.returncode

    def restored(self) -> bool:
        """Whether the terminal is as it was: its modes, the ordinary screen, the cursor."""
        modes: list[Any] = termios.tcgetattr(self._kept)
        screen = self.said.rfind(PLAIN) > self.said.rfind(ALTERNATE)
        return modes == self.before and screen and self.said.rfind(SHOWN_CURSOR) > self.said.rfind(b"\x1b[?25l")

    def kill(self, number: int) -> None:
        """A signal, once it can hear it."""
        tell(self.process, number)

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for descriptor in (self._ours, self._kept):
            if descriptor >= 0:
                os.close(descriptor)
