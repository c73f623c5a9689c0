"""The profiling part of an agent: the endpoint, dynolog's port, the commands and the desk, a thread each."""

import secrets
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final

from google.protobuf.message import Message

from warpmeter import log, retention
from warpmeter.clock import Clock
from warpmeter.producers import files
from warpmeter.producers.gpu import pause
from warpmeter.producers.jobs.process import parse_stat
from warpmeter.producers.kineto import endpoint, journal, rpc
from warpmeter.producers.kineto.captures import CaptureCommand
from warpmeter.producers.kineto.commands import Commands
from warpmeter.producers.kineto.desk import Desk, Surroundings
from warpmeter.producers.kineto.registry import Registry
from warpmeter.producers.runner import named
from warpmeter.producers.source import Attribution, Health
from warpmeter.settings import Agent, Settings

BUSY_S: Final = 0.25
IDLE_S: Final = 0.5
AGAIN_S: Final = 5.0
REOPEN_S: Final = 30.0
"""What could not be opened is tried again so often: another daemon may have gone."""
CHAIN_MAX: Final = 64

Publish = Callable[[str, Sequence[Message]], None]
logger = log.get("kineto")


def chain(proc: str, pid: int) -> tuple[int, ...]:
    """A process and its ancestors, by the host's numbers; empty when it is no more."""
    found: list[int] = []
    with suppress(OSError, ValueError):
        while pid > 0 and pid not in found and len(found) < CHAIN_MAX:
            above = parse_stat(files.read(f"{proc}/{pid}/stat")).ppid
            found.append(pid)
            pid = above
    return tuple(found)


@dataclass(frozen=True)
class Door:
    """One thing that is opened, and read by a thread until it stops: `open` gives what to run, or raises."""

    name: str
    open: Callable[[], Callable[[Event], None]]


class Profiling:
    """Starts with `start`, ends with `stop`; `health` is how it fares. `publish` takes rows of a topic."""

    name: Final = "kineto"

    def __init__(self, settings: Settings, attribution: Attribution, publish: Publish, clock: Clock) -> None:
        """Touches nothing yet. Raises KafkaException for refused options."""
        agent = settings.agent
        self._settings, self._clock = settings, clock
        self._registry = Registry(partial(chain, files.below(agent.root, "proc")), clock.monotonic)
        self._stop, self._threads = Event(), list[Thread]()
        self._orders: SimpleQueue[CaptureCommand] = SimpleQueue()
        self._doors = [*_doors(settings, self._registry, clock)]
        self._problems: dict[str, str] = {}
        self._tried_at = float("-inf")
        around = Surroundings(settings, self._registry, clock, lambda pids: attribution.look(pids))
        self._desk = partial(Desk, around, journal.Journal(journal.file_of(agent.spool_dir)), partial(publish, EVENTS))
        self._commands = Commands(settings.kafka, agent, self._orders.put) if "kafka" in agent.outputs else None

    def start(self) -> None:
        """Open what can be opened, and begin."""
        self._open()
        if self._commands is not None:
            self._thread("kineto-orders", self._commands.run)
            self._thread("kineto-desk", self._work)
            if retention.is_folder(self._settings.traces):
                self._thread("kineto-retention", partial(retention.run, self._settings.traces))

    def watch(self) -> None:
        """From the main thread, about once a second: open what could not be opened before."""
        if self._doors and self._clock.monotonic() - self._tried_at >= REOPEN_S:
            self._open()

    def health(self) -> tuple[Health, list[Health]]:
        """Whether processes can register at all, and what else is in the way."""
        problems = dict(self._problems)
        if self._commands is not None and self._commands.why:
            problems["commands"] = self._commands.why
        if problems.keys() >= SOCKETS:
            return Health("", "failed", "; ".join(problems[name] for name in sorted(SOCKETS))), []
        return Health("", "ok"), [Health(name, "failed", why) for name, why in problems.items()]

    def stopping(self) -> None:
        """Ask all threads to end; does not wait."""
        self._stop.set()

    def stop(self, timeout_s: float) -> None:
        """End all threads, or leave those to themselves that hang."""
        self._stop.set()
        until = self._clock.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - self._clock.monotonic()))

    def _open(self) -> None:
        self._tried_at = self._clock.monotonic()
        for door in list(self._doors):
            try:
                run = door.open()
            except (endpoint.TakenError, rpc.RpcError, OSError) as error:
                if door.name not in self._problems:
                    logger.warning("profiling cannot be offered", what=door.name, why=str(error))
                self._problems[door.name] = str(error)
                continue
            self._doors.remove(door)
            self._problems.pop(door.name, None)
            self._thread(f"kineto-{door.name}", run)

    def _thread(self, name: str, run: Callable[[Event], None]) -> None:
        thread = Thread(target=named, args=(name, partial(self._held, name, run), self._stop), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _held(self, name: str, run: Callable[[Event], None], stop: Event) -> None:
        """The edge of a thread: one that breaks is told, and begins anew."""
        while not stop.is_set():
            try:
                run(stop)
            except Exception as error:
                logger.error("profiling broke", thread=name, error=repr(error), exc_info=error)
                self._problems[name] = repr(error)
                stop.wait(AGAIN_S)

    def _work(self, stop: Event) -> None:
        """The desk's thread: commands as they come, and a look at what is under way."""
        desk = self._desk()
        try:
            while not stop.is_set():
                with suppress(Empty):
                    desk.take(self._orders.get(timeout=BUSY_S if desk.busy else IDLE_S))
                desk.tick()
        finally:
            desk.close()


EVENTS: Final = "capture-events"
SOCKETS: Final = frozenset({"abstract", "folder"})


def _doors(settings: Settings, registry: Registry, clock: Clock) -> Sequence[Door]:
    agent = settings.agent

    def served(opened: Callable[[], object]) -> Callable[[], Callable[[Event], None]]:
        return lambda: _running(endpoint.Endpoint([opened()], registry, clock.monotonic))  # type: ignore[list-item]

    doors = [
        Door("abstract", served(endpoint.abstract_socket)),
        Door("folder", served(partial(endpoint.folder_socket, agent.kineto_socket_dir))),
    ]
    return [*doors, Door("rpc", partial(_rpc, agent, registry, clock))] if agent.rpc else doors


def _running(served: endpoint.Endpoint) -> Callable[[Event], None]:
    def run(stop: Event) -> None:
        served.run(stop)
        served.close()

    return run


def _rpc(agent: Agent, registry: Registry, clock: Clock) -> Callable[[Event], None]:
    """Raises RpcError, OSError for a certificate that cannot be read."""
    file = pause.file_of(agent.spool_dir)
    counters = rpc.Counters(
        lambda seconds: pause.ask(file, seconds, clock.now()), partial(file.unlink, missing_ok=True)
    )
    door = rpc.Door(agent.rpc_address, agent.rpc_port, _tls(agent), agent.rpc_token)
    return rpc.Server(door, rpc.Dynolog(registry, counters, partial(secrets.token_hex, 8))).run


def _tls(agent: Agent) -> ssl.SSLContext | None:
    if agent.rpc_tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(agent.rpc_tls_certificate, agent.rpc_tls_key)
    return context
