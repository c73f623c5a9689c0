"""Hand the settings to a child process: pickled over an inherited descriptor, so no secret is in argv or environ.

The child is `python -m warpmeter.<part> FD`; a part never reads files or variables by itself, and so never loads
the validation library.
"""

import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final

from warpmeter.settings import Settings

_SETTING: Final = re.compile("WARPMETER_[A-Z]+__")
_GUARD: Final = """import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]))  # PR_SET_PDEATHSIG, which outlives exec
if os.getppid() == int(sys.argv[2]):
    os.execvp(sys.argv[3], sys.argv[3:])"""
"""Becomes the child, once the kernel will tell it that its parent is gone; a child that is late does not begin.

Done by a process of its own, not between fork and exec: there a lock that one of the parent's threads holds (the
engine's, Kafka's) is held for ever.
"""


def _memory_file(settings: Settings) -> int:
    descriptor = os.memfd_create("warpmeter-settings")
    os.write(descriptor, pickle.dumps(settings))
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    return descriptor


def command(module: str, descriptor: int, arguments: Sequence[str] = ()) -> list[str]:
    """The command line of a part."""
    return [sys.executable, "-m", module, str(descriptor), *arguments]


def child(
    line: Sequence[str],
    log: BinaryIO | None = None,
    descriptors: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    death_signal: int = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """A child in its own process group (a terminal's Ctrl-C goes to its parent alone) that dies with its parent.

    `log` takes its stdout and stderr.
    """
    guard = [sys.executable, "-I", "-S", "-c", _GUARD, str(int(death_signal)), str(os.getpid())]
    return subprocess.Popen(
        [*guard, *line],
        pass_fds=descriptors,
        env=environment,
        process_group=0,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )


def spawn(
    module: str, settings: Settings, arguments: Sequence[str] = (), log: BinaryIO | None = None
) -> subprocess.Popen[bytes]:
    """Start a part of warpmeter as a `child` and hand it the settings."""
    descriptor = _memory_file(settings)
    try:
        return child(command(module, descriptor, arguments), log, (descriptor,), _environment())
    finally:
        os.close(descriptor)


def become(module: str, settings: Settings, arguments: Sequence[str] = ()) -> None:
    """Replace this process by a part; does not return."""
    line = command(module, _memory_file(settings), arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(line[0], line, _environment())


def _environment() -> dict[str, str]:
    """Ours without the settings in it: a part has them already, and /proc shows what it was started with."""
    return {name: value for name, value in os.environ.items() if not _SETTING.match(name)}


def received(arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """In the child: the settings behind the descriptor that `arguments` (sys.argv[1:]) name, and the rest.

    Raises SystemExit, with what to do, when the part was started by hand.
    """
    try:
        with os.fdopen(int(arguments[0]), "rb") as file:
            settings = pickle.load(file)
    except (IndexError, ValueError, OSError, pickle.UnpicklingError) as error:
        raise SystemExit("started by hand; use the `warpmeter` command, see `warpmeter --help`") from error
    if not isinstance(settings, Settings):
        raise SystemExit("the descriptor holds no settings; use the `warpmeter` command")
    return settings, list(arguments[1:])
