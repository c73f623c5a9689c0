"""A site for captures: bus, ingest, scheduler, and agents that bring traces of their own into the store."""

import gzip
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.brokers import Tansu
from tests.engine.template import with_tables
from tests.ingest_process import IngestProcess, settings_for
from tests.scheduler_process import Agents, SchedulerProcess
from tests.tables import land, row
from warpmeter import topics
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Command
from warpmeter.settings import Kafka, Metrics, Scheduler, Settings, Traces

JOB: Final = "team/4711 ü"
TRACE: Final = gzip.compress(os.urandom(3 << 20))
SUM: Final = hashlib.sha256(TRACE).hexdigest()


class Storing(Agents):
    """Agents that bring a trace into the store; `outside`: and say that it lies elsewhere."""

    def __init__(self, kafka: Kafka, store: Path) -> None:
        self._store, self.outside = store, False
        super().__init__(kafka, ["h0", "h1"], [1, 2])

    def event(self, command: Command, pid: int, state: str) -> Event:
        event = super().event(command, pid, state)
        event.job_id = command.job_id
        if state == "captured":
            path = self._store / ("../secret" if self.outside else "job") / f"{command.host}_{pid}.json.gz"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(TRACE)
            event.url, event.bytes, event.sha256 = str(path), len(TRACE), SUM
        return event


@dataclass(frozen=True)
class Site:
    """h0 and h1 have agents, each with processes 1 and 2 of JOB; h2 runs it too, and its agent is away."""

    settings: Settings
    agents: Storing


@contextmanager
def running(tansu: Tansu, folder: Path) -> Iterator[Site]:
    """All of it, in a folder."""
    store = folder / "traces"
    store.mkdir()
    with ExitStack() as stack:
        engine = stack.enter_context(closing(with_tables(folder / "engine")))
        base = settings_for(tansu, engine, f"web{time.time_ns()}", folder)
        settings = replace(
            base, traces=Traces(url=str(store)), metrics=Metrics(ingest_port=0, scheduler_port=0, web_port=0),
            scheduler=Scheduler(
                group=f"{base.kafka.topic_prefix}-s", analyse=False, look_s=15, grace_s=10, data=folder / "scheduler"
            ),
        )  # fmt: skip
        with closing(engine.client(write=True)) as client:
            land(client, "job-events", [_runs(host) for host in ("h0", "h1", "h2")])
        topics.ensure(settings.kafka)
        stack.enter_context(closing(IngestProcess(settings, folder / "ingest.log"))).ready()
        stack.enter_context(closing(SchedulerProcess(settings, folder / "scheduler.log"))).until_active()
        yield Site(settings, stack.enter_context(closing(Storing(settings.kafka, store))))


def _runs(host: str) -> Any:
    now = time.time()
    return row(
        "job-events", host=host, ts=now, period_ms=600_000, job_id=JOB, event="running", pid=1, rank=int(host[1:]),
        name="train.py", user="ann", started_at=now - 100,
    )  # fmt: skip
