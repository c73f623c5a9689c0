"""The sockets that Kineto's clients look for: an abstract name, and a file in a folder that containers can mount.

Both at once, with one registry behind them. Whatever comes that is no datagram of Kineto is counted and not answered.
"""

import array
import os
import selectors
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

from warpmeter import log, selfmetrics
from warpmeter.producers.kineto import wire
from warpmeter.producers.kineto.registry import Registry, Sender

NAME: Final = "dynolog"
"""What Kineto's client sends to, in both kinds of addresses."""
ABSTRACT: Final = b"\0" + NAME.encode() + b"\0"
"""The client counts the NUL behind the name as part of it."""
MODE: Final = 0o666
"""Processes of all users send to it; who they are, the kernel says."""
CREDENTIALS: Final = struct.Struct("=iII")
"""`struct ucred`: pid, uid, gid."""
AT_ONCE: Final = 256
"""Datagrams read from one socket before the other gets its turn."""
LOOK_S: Final = 0.5
FOLDER_MAX: Final = 107 - len("/dynoconfigclient") - 36
"""Bytes of the folder's path: each client makes a socket there whose name ends in a UUID; the kernel takes 107."""
SHARED: Final = 0o1777
"""Processes of all users make a socket of their own in the folder, and remove nobody else's."""
FORGET_S: Final = 5.0

DATAGRAMS = selfmetrics.counter("warpmeter_kineto_datagrams_total")
CLIENTS = selfmetrics.gauge("warpmeter_kineto_processes")
logger = log.get("kineto")


class TakenError(Exception):
    """Another daemon listens there; the message says where and what to do."""


@dataclass(frozen=True)
class Received:
    """One datagram and who sent it. `address` is empty for a sender without one, who cannot be answered."""

    data: bytes
    address: bytes | str
    sender: Sender | None
    whole: bool


def abstract_socket() -> socket.socket:
    """The abstract one, of this network namespace; raises TakenError."""
    return _bound(ABSTRACT, "@dynolog (abstract)")


def folder_socket(folder: Path) -> socket.socket:
    """The one in a folder (KINETO_IPC_SOCKET_DIR), which any user may send to; a dead daemon's file is replaced.

    Raises TakenError where another listens, or where the folder cannot be used.
    """
    path = folder / NAME
    if (length := len(os.fsencode(folder))) > FOLDER_MAX:
        raise TakenError(
            f"{folder} has {length} bytes, and with more than {FOLDER_MAX} processes cannot make their sockets there: "
            "set agent.kineto_socket_dir to a shorter path"
        )
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            folder.chmod(SHARED)
        _remove_dead(path)
        made = _bound(str(path), str(path))
        path.chmod(MODE)
    except OSError as error:
        raise TakenError(
            f"cannot use {folder}: {error.strerror}; set agent.kineto_socket_dir to a folder that this user may write"
        ) from error
    return made


def _bound(address: bytes | str, shown: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        made.bind(address)
    except OSError as error:
        made.close()
        raise TakenError(
            f"cannot listen for PyTorch processes at {shown}: {error.strerror}; does dynolog or another agent run on "
            "this host? Stop it, or set agent.kineto = false"
        ) from error
    return made


def _remove_dead(path: Path) -> None:
    """Remove a socket that nobody reads; leaves everything else for `bind` to refuse."""
    with suppress(OSError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def receive(from_socket: socket.socket) -> Received | None:
    """The next datagram, None when there is none now. Descriptors that came along are closed."""
    size = wire.DATAGRAM_MAX + 1
    space = socket.CMSG_SPACE(CREDENTIALS.size) + socket.CMSG_SPACE(array.array("i").itemsize * 8)
    try:
        data, ancillary, flags, address = from_socket.recvmsg(size, space)
    except BlockingIOError:
        return None
    sender = None
    for level, kind, content in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_CREDENTIALS and len(content) == CREDENTIALS.size:
            pid, uid, _ = CREDENTIALS.unpack(content)
            sender = Sender(pid, uid)
        if kind == socket.SCM_RIGHTS:
            _close_all(content)
    return Received(data, address or b"", sender, not flags & socket.MSG_TRUNC)


def _close_all(content: bytes) -> None:
    descriptors = array.array("i")
    descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


def answer(registry: Registry, received: Received, bound: bytes | str = b"") -> bytes | None:
    """What to reply, None when nothing. Raises wire.WireError on what no client of Kineto sends.

    `bound`: the address that it came to. A client whose folder is written otherwise (over a link) gets no answer: it
    compares the path that answers with its KINETO_IPC_SOCKET_DIR, and where they differ it ends its whole process.
    """
    if not received.whole:
        raise wire.WireError("too long")
    if isinstance(received.address, str) and isinstance(bound, str):
        theirs = received.address.rpartition("/")[0]
        if not bound.startswith(theirs):
            raise wire.WireError(f"KINETO_IPC_SOCKET_DIR is {theirs!r} there, and the agent's socket is {bound!r}")
    if received.sender is None or not received.address:
        raise wire.WireError("a sender that cannot be answered")
    match wire.parse(received.data):
        case wire.Context(_, _, job):
            return wire.context_reply(len(registry.of_job(job)))
        case wire.Poll() as poll:
            text = registry.polled(received.sender, poll)
            if text is None:
                raise wire.WireError("more processes than can be")
            return wire.poll_reply(text)
        case wire.Question(pid, own):
            known = received.sender.pid if own and received.sender.pid else pid
            return wire.question_reply([client.pid for client in registry.among([known])])


class Endpoint:
    """The sockets, read by one thread. `close` after `run` has returned."""

    def __init__(self, sockets: list[socket.socket], registry: Registry, monotonic: Callable[[], float]) -> None:
        self._sockets, self._registry, self._monotonic = sockets, registry, monotonic
        self._forgotten_at = monotonic()
        self._odd = 0
        self._told_at = float("-inf")

    def run(self, stop: Event) -> None:
        """Answer until `stop`."""
        with selectors.DefaultSelector() as selector:
            for each in self._sockets:
                selector.register(each, selectors.EVENT_READ)
            while not stop.is_set():
                for key, _ in selector.select(LOOK_S):
                    self._serve(key.fileobj)  # type: ignore[arg-type]
                self._tidy()

    def _serve(self, ready: socket.socket) -> None:
        bound = ready.getsockname()
        for _ in range(AT_ONCE):
            received = receive(ready)
            if received is None:
                return
            try:
                reply = answer(self._registry, received, bound)
            except wire.WireError as error:
                self._count_odd(str(error), received.sender)
                continue
            DATAGRAMS.labels("answered").inc()
            if reply is not None:
                with suppress(OSError):  # gone meanwhile, or it does not read: it polls again
                    ready.sendto(reply, received.address)

    def _count_odd(self, why: str, sender: Sender | None) -> None:
        """Once a minute in the log: who floods must not fill it."""
        DATAGRAMS.labels("ignored").inc()
        self._odd += 1
        if self._monotonic() - self._told_at >= 60.0:
            self._told_at = self._monotonic()
            pid = sender.pid if sender is not None else 0
            logger.warning("ignored datagrams that are none of Kineto", why=why, pid=pid, count=self._odd)

    def _tidy(self) -> None:
        if self._monotonic() - self._forgotten_at < FORGET_S:
            return
        self._forgotten_at = self._monotonic()
        if gone := self._registry.forget_silent():
            logger.info("processes are silent", pids=gone)
            self._sweep()
        CLIENTS.set(len(self._registry.clients()))

    def _sweep(self) -> None:
        """Remove what processes that were killed left in the folder."""
        for each in self._sockets:
            if isinstance(address := each.getsockname(), str) and address:
                for left in Path(address).parent.glob("dynoconfigclient*"):
                    _remove_dead(left)

    def close(self) -> None:
        """Give the addresses back."""
        for each in self._sockets:
            address = each.getsockname()
            each.close()
            if isinstance(address, str) and address:
                with suppress(OSError):
                    Path(address).unlink()
