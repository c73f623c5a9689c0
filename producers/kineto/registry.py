"""Who can be traced: the processes that poll, by their pid on the host; one registry for all sockets.

Pure but for `Chains`, which it asks who descends from whom. Used from several threads: every method takes the lock.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final, Literal

from warpmeter.producers.kineto.wire import ACTIVITIES, Poll

SILENT_S: Final = 60.0
"""A process that has not polled for so long is gone, or cannot be reached; it polls every 5 s."""
PROCESSES_MAX: Final = 4096
"""More on one host is a flood."""

Chains = Callable[[int], Sequence[int]]
"""A process's pid and those of its ancestors, by the host's numbers; empty when it is no more."""


@dataclass(frozen=True)
class Sender:
    """Who sent a datagram, by the kernel's word; pid 0 when it cannot be seen from the agent's pid namespace."""

    pid: int
    uid: int


@dataclass
class Client:
    """One process that polls. `pid` is the host's, `own_pid` what it calls itself. Times are monotonic seconds."""

    pid: int
    own_pid: int
    uid: int
    job: int
    chain: Sequence[int]
    since: float
    seen: float
    tracing: bool = False
    wanted: str = field(default="", repr=False)
    fetched: float | None = None
    """When it took the last configuration that was wanted of it."""


Offer = Literal["taken", "busy", "unknown"]


class Registry:
    """Processes by pid. `monotonic` tells the time."""

    def __init__(self, chains: Chains, monotonic: Callable[[], float]) -> None:
        self._chains, self._monotonic = chains, monotonic
        self._lock = Lock()
        self._clients: dict[int, Client] = {}

    def polled(self, sender: Sender, poll: Poll) -> str | None:
        """A process asked: what is wanted of it, '' for nothing; None when it may not register.

        The kernel's word counts. Who sends from where the agent cannot see its pid (another pid namespace, as an agent
        in a container without the host's) is taken at its own word.
        """
        pid = sender.pid or poll.pids[0]
        with self._lock:
            now = self._monotonic()
            client = self._clients.get(pid)
            if client is None or client.uid != sender.uid or client.own_pid != poll.pids[0]:
                client = self._registered(pid, sender.uid, poll, now)
            if client is None:
                return None
            client.seen, client.tracing = now, poll.tracing
            if not client.wanted or not poll.kinds & ACTIVITIES:
                return ""
            text, client.wanted, client.fetched = client.wanted, "", now
            return text

    def _registered(self, pid: int, uid: int, poll: Poll, now: float) -> Client | None:
        if len(self._clients) >= PROCESSES_MAX:
            self._forget(now)
        if len(self._clients) >= PROCESSES_MAX:
            return None
        chain = self._chains(pid) or poll.pids
        client = Client(pid, poll.pids[0], uid, poll.job, chain, now, now)
        self._clients[pid] = client
        return client

    def forget_silent(self) -> list[int]:
        """Drop those that do not poll any more; their pids."""
        with self._lock:
            return self._forget(self._monotonic())

    def _forget(self, now: float) -> list[int]:
        silent = [pid for pid, client in self._clients.items() if now - client.seen > SILENT_S]
        for pid in silent:
            del self._clients[pid]
        return silent

    def clients(self) -> list[Client]:
        """All of them, as they are now, by pid."""
        with self._lock:
            return [replace(self._clients[pid]) for pid in sorted(self._clients)]

    def client(self, pid: int) -> Client | None:
        """The process with that pid on the host, as it is now; None for one that does not poll."""
        with self._lock:
            found = self._clients.get(pid)
            return None if found is None else replace(found)

    def among(self, pids: Iterable[int]) -> list[Client]:
        """Those that are, or descend from, one of these processes (a launcher stands for those that it started)."""
        wanted = set(pids)
        return [client for client in self.clients() if not wanted.isdisjoint(client.chain)]

    def of_job(self, job: int) -> list[Client]:
        """Those that gave this number as their job's (SLURM_JOB_ID; 0 without one)."""
        return [client for client in self.clients() if client.job == job]

    def offer(self, pid: int, text: str) -> Offer:
        """Let a process have a configuration at its next poll.

        `busy`: it has not taken the last one, or traces; what it makes of one that it took shows at its next poll.
        """
        with self._lock:
            client = self._clients.get(pid)
            if client is None:
                return "unknown"
            if client.wanted or client.tracing or client.fetched == client.seen:
                return "busy"
            client.wanted, client.fetched = text, None
            return "taken"

    def finished(self, pid: int) -> None:
        """Its trace is whole, so it is free again, though its last poll was one at work."""
        with self._lock:
            if (client := self._clients.get(pid)) is not None:
                client.tracing = False

    def withdraw(self, pid: int) -> bool:
        """Take back what a process has not taken yet; whether there was something."""
        with self._lock:
            client = self._clients.get(pid)
            had = client is not None and bool(client.wanted)
            if client is not None:
                client.wanted = ""
            return had
