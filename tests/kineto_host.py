"""A host's part of captures in this process: the socket folder, the registry and the desk, without agent and bus."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Event, Thread
from typing import Any

from tests.wait import until
from warpmeter.clock import SystemClock
from warpmeter.producers.kineto import endpoint
from warpmeter.producers.kineto.captures import CaptureCommand
from warpmeter.producers.kineto.desk import CaptureEvent, Desk, Surroundings
from warpmeter.producers.kineto.endpoint import Endpoint
from warpmeter.producers.kineto.journal import Journal, file_of
from warpmeter.producers.kineto.registry import Registry
from warpmeter.producers.kineto.service import chain
from warpmeter.producers.source import JobTree
from warpmeter.settings import Agent, Settings, Traces


class Host:
    """A host called `name`; `trees`: its jobs' process trees, for a test to set. Events gather in `events`."""

    def __init__(self, base: Path, name: str = "gpu01", **traces: Any) -> None:
        """`base`: where its folders are, `traces` (of the processes) and `store`; that of sockets has a short path."""
        self.sockets, self.traces, self.store = Path(mkdtemp(prefix="kineto-")), base / "traces", base / "store"
        self.traces.mkdir(parents=True, exist_ok=True)
        self.settings = Settings(
            agent=Agent(host=name, kineto_socket_dir=self.sockets, spool_dir=base / "spool"),
            traces=replace(Traces(url=str(self.store)), **traces),
        )
        self.registry = Registry(partial(chain, "/proc"), time.monotonic)
        self.trees: Sequence[JobTree] = ()
        self.events: list[CaptureEvent] = []
        self.desk = self.new_desk()

    def new_desk(self) -> Desk:
        """As after a restart of the agent."""
        around = Surroundings(self.settings, self.registry, SystemClock(), lambda _: self.trees)
        return Desk(around, Journal(file_of(self.settings.agent.spool_dir)), self.events.extend)

    @contextmanager
    def listening(self) -> Iterator["Host"]:
        """Its endpoint at work."""
        stop = Event()
        served = Endpoint([endpoint.folder_socket(self.sockets)], self.registry, time.monotonic)
        thread = Thread(target=served.run, args=(stop,))
        thread.start()
        try:
            yield self
        finally:
            stop.set()
            thread.join()
            served.close()
            self.desk.close()
            rmtree(self.sockets)

    def command(
        self, action: str, within_s: float = 90.0, start_in_s: float | None = None, **more: Any
    ) -> CaptureCommand:
        """A command for this host, as the scheduler writes it."""
        now = time.time()
        if start_in_s is not None:
            more["start_at"] = now + start_in_s
        return CaptureCommand(**{
            "host": self.settings.agent.host, "ts": now, "capture_id": "cap", "sequence": 1, "action": action,
            "expires_at": now + 10, "deadline_at": now + within_s, "duration_ms": 100, "warmup_s": 1, **more,
        })  # fmt: skip

    def registered(self, pids: Sequence[int]) -> None:
        """Wait until these have asked."""
        until(lambda: {client.pid for client in self.registry.clients()} >= set(pids), "the processes to register", 120)

    def ended(self, count: int = 1, within_s: float = 120.0) -> list[CaptureEvent]:
        """Let the desk work until so many processes are in a final state; their last events."""

        def final() -> list[CaptureEvent]:
            self.desk.tick()
            return [event for event in self.events if event.state in ("captured", "failed", "cancelled")]

        until(lambda: len(final()) >= count, f"{count} final states: {self.events}", within_s)
        return final()
