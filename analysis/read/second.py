"""A second process for half of the chunks of a long file: both go through all of it, each decodes its own.

It is started as an interpreter of its own, not by multiprocessing: a script that calls `read` is not run once more, and
no engine or thread of the caller is copied.
"""

import gc
import os
import pickle
import subprocess
import sys
from multiprocessing import parent_process
from pathlib import Path
from typing import Final

from warpmeter.analysis.read.files import File, TraceError
from warpmeter.analysis.read.reader import Reader, Share, UnsoundError
from warpmeter.analysis.read.tables import Tables
from warpmeter.analysis.read.text import Window

WORTHWHILE_BYTES: Final = 160 << 20
"""Text from which on half of the decoding takes longer than to start an interpreter."""
PACKED: Final = 8
"""Times that a packed trace is longer than its file, at least."""
_START: Final = "import sys; sys.path[:] = sys.argv[2:]; from warpmeter.analysis.read import second; second.main()"


def worthwhile(path: str) -> bool:
    """Whether the file is long and local, a processor is free for it, and this is no worker of something larger."""
    if "://" in path or parent_process() is not None or not sys.executable or len(os.sched_getaffinity(0)) < 2:
        return False
    file = Path(path)
    if not file.is_file():
        return False
    return file.stat().st_size * (1 if path.endswith(".json") else PACKED) >= WORTHWHILE_BYTES


class Second:
    """The process that decodes the second half. As a context: it is gone at the end."""

    def __init__(self, path: str) -> None:
        command = [sys.executable, "-P", "-c", _START, path, *sys.path]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> "Second":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def tables(self) -> Tables:
        """Its half; `UnsoundError` if it did not come to its end, for whatever reason."""
        assert self._process.stdout is not None
        try:
            half = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            raise UnsoundError from error
        assert isinstance(half, Tables)
        return half


def main() -> None:
    """The second process: its tables go to standard output; exit status 1 where the file cannot be shared."""
    gc.disable()
    path = sys.argv[1]
    file, tables = File(path), Tables()
    try:
        Reader(path, Window(file.blocks()), tables, Share(1, 2)).run()
    except (TraceError, UnsoundError):
        sys.exit(1)  # the first one finds the same, and tells it
    tables.join_pieces()
    pickle.dump(tables, sys.stdout.buffer, protocol=5)
    sys.stdout.buffer.flush()
