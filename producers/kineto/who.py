"""Ask the agent of this host which processes are registered with it: over the sockets that these ask on, too."""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from warpmeter.producers.kineto import wire
from warpmeter.producers.kineto.endpoint import ABSTRACT, NAME

TIMEOUT_S: Final = 2.0


@dataclass(frozen=True)
class Registered:
    """How many processes are registered, and the pids of the first of them, by the host's numbers."""

    count: int
    pids: tuple[int, ...]


def of_pid(folder: Path, pid: int, timeout_s: float = TIMEOUT_S) -> Registered | None:
    """That process, by its number on the host, and those below it; None when no agent answers."""
    return _ask(folder, wire.Question(pid, own=False), timeout_s)


def below_me(folder: Path, timeout_s: float = TIMEOUT_S) -> Registered | None:
    """This process and those below it, from whatever container it asks; None when no agent answers."""
    return _ask(folder, wire.Question(os.getpid(), own=True), timeout_s)


def listens(folder: Path) -> bool:
    """Whether somebody reads the socket in `folder`, which is then to be the KINETO_IPC_SOCKET_DIR of processes."""
    return _listened(str(folder / NAME))


def listens_abstract() -> bool:
    """Whether somebody reads the abstract name, in this network namespace."""
    return _listened(ABSTRACT)


def _listened(address: str | bytes) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def _ask(folder: Path, asked: wire.Question, timeout_s: float) -> Registered | None:
    """In the folder, else by the abstract name. dynolog, which does not know the question, answers neither."""
    own = folder / f"warpmeter-{uuid4()}"
    for address, mine in ((str(folder / NAME), str(own)), (ABSTRACT, b"\0" + own.name.encode())):
        with suppress(OSError, wire.WireError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
            asking.settimeout(timeout_s)
            try:
                asking.bind(mine)
                asking.connect(address)
                asking.send(wire.question(asked))
                return Registered(*wire.answered(asking.recv(wire.DATAGRAM_MAX)))
            finally:
                own.unlink(missing_ok=True)
    return None
