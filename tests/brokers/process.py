"""Child processes of the tests: they end with the test run, whatever ends it."""

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# Below the ports that the kernel hands to clients (32768 and up): a broker that is down keeps its port.
PORTS = range(20000, 32000)


def free_ports(count: int) -> list[int]:
    """`count` different ports of 127.0.0.1 that nothing listens on now."""
    ports = (port for port in random.SystemRandom().sample(PORTS, len(PORTS)) if _is_free(port))
    return [next(ports) for _ in range(count)]


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
