"""Child processes of the tests: they end with the test run, whatever ends it."""

import fcntl
import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

# Below the ports that the kernel hands to clients (32768 and up): a broker that is down keeps its port.
PORTS = range(20000, 32000)
_ours: set[int] = set()


def free_ports(count: int) -> list[int]:
    """`count` different ports of 127.0.0.1 that nothing listens on now, and that no other test was or is given.

    Between the choice of a port and its use lie seconds, and a broker that is down listens on none: neither another
    test of this process nor one of another gets it meanwhile.
    """
    ports = (port for port in random.SystemRandom().sample(PORTS, len(PORTS)) if _take(port))
    return [next(ports) for _ in range(count)]


def _take(port: int) -> bool:
    """Whether it is ours from now on: until this process ends it holds a lock of the byte that the port stands for."""
    if port in _ours:
        return False
    try:
        fcntl.lockf(_taken(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _ours.add(port)  # whether it is free or not: who listens there now may do so again
    return _is_free(port)


@cache
def _taken() -> IO[bytes]:
    """The file of the locks, this user's own; open to the end, for the first close would let go of all of them."""
    return (Path(tempfile.gettempdir()) / f"warpmeter-test-ports-{os.getuid()}").open("ab")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def spawn(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start `command`, output to `log`, in its own session (a terminal's Ctrl-C goes to pytest alone).

    Call it from the main thread: the kernel kills the child when the thread that started it ends.
    """
    setpriv = shutil.which("setpriv")
    guard = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    with log.open("ab") as output:
        return subprocess.Popen(
            [*guard, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            start_new_session=True,
        )


def send(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal, unless it has ended."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


def tail(log: Path, lines: int = 15) -> str:
    """The log's last lines, for an error message."""
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
