"""`warpmeter up`: broker, engine, consumer, agent, scheduler and page on one host, from one command."""

import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final
from urllib.parse import urlsplit

from warpmeter import launch, log, migrate, tansu, topics
from warpmeter.consumers import status
from warpmeter.consumers.ledger import LedgerError
from warpmeter.settings import Agent, Kafka, Metrics, Reports, Scheduler, Settings, Store, Traces
from warpmeter.store import ClickHouseError, connect, reason
from warpmeter.up import logs
from warpmeter.up.folder import EMBEDDED_TOPICS, Folder, Running, UpError
from warpmeter.up.supervisor import Part, Supervisor

WRITER: Final = "warpmeter_writer"
CHECK_EVERY_S: Final = 0.2
STOP_WITHIN_S: Final = 15.0  # ingest reads out and drains
TRIM_EVERY_S: Final = 60.0
MEASURED: Final = ("agent", "ingest", "engine", "scheduler", "web")
"""Parts with metrics of their own."""
DEMO: Final = ("--hosts", "64", "--gpus", "8", "--interval", "5s", "--backfill", "1h")


@dataclass(frozen=True)
class Plan:
    """What `up` was asked for: an existing bus or store in place of the embedded one, the demo, and the page."""

    folder: Folder
    settings: Settings
    embedded_bus: bool
    embedded_store: bool
    demo: bool
    broker_port: int
    web: bool = True

    @property
    def read_dsn(self) -> str:
        """The store, for who only reads: of the embedded one without the write token."""
        store, engine = self.settings.store, self.settings.engine
        return f"http://127.0.0.1:{engine.port}" if self.embedded_store else store.dsn

    def pending(self) -> list[str]:
        """Spans that must land before tables change; those of an in-memory broker ended with it."""
        return [] if self.embedded_bus else status.pending(self.settings)

    def busy(self) -> str | None:
        """What holds a change of the tables up: consumers elsewhere that land in the same store."""
        return None if self.embedded_bus else status.busy(self.settings)


def plan(settings: Settings, data: Path, bootstrap: str | None, dsn: str | None, demo: bool, broker_port: int) -> Plan:
    """The settings of all parts. One partition a topic and a short session, as an in-memory broker needs it."""
    folder = Folder(data)
    kafka, ingest, kept = settings.kafka, settings.ingest, settings.store
    engine = replace(settings.engine, data=folder.engine, write_token=secrets.token_urlsafe(24))
    if bootstrap is None:
        kafka = replace(kafka, bootstrap_servers=f"127.0.0.1:{broker_port}", **EMBEDDED_TOPICS)
        ingest = replace(ingest, session_timeout_s=6.0, ledger_dir=folder.ledger, read_out=True)
    else:
        kafka = replace(kafka, bootstrap_servers=bootstrap)
    if dsn is None:
        kept = replace(kept, dsn=f"http://{WRITER}:{engine.write_token}@127.0.0.1:{engine.port}")
        ingest = replace(ingest, batch_age_s=min(ingest.batch_age_s, 2.0))
    else:
        kept = replace(kept, dsn=dsn)
    others = [name for name in settings.agent.outputs if name not in ("kafka", "stdout")]  # which is the log here
    sockets, traces = settings.agent.kineto_socket_dir, settings.traces
    if sockets == Agent().kineto_socket_dir:
        sockets = folder.kineto
    if traces.url == Traces().url:
        traces = replace(traces, url=str(folder.traces))
    reports = settings.reports
    if reports.url == Reports().url:
        reports = replace(reports, url=str(folder.reports))
    # Tansu does not answer a fetch that waits when something comes.
    wait_s = settings.agent.command_wait_s if bootstrap is not None else 0.5
    agent = replace(
        settings.agent, spool_dir=folder.spool, outputs=("kafka", *others), kineto_socket_dir=sockets,
        command_wait_s=wait_s,
    )  # fmt: skip
    scheduler = settings.scheduler
    if scheduler.data == Scheduler().data:
        scheduler = replace(scheduler, data=folder.scheduler)
    ports = _free_metrics_ports(settings)
    merged = replace(
        settings, kafka=kafka, store=kept, ingest=ingest, engine=engine, agent=agent, metrics=ports, traces=traces,
        scheduler=scheduler, reports=reports,
        log=replace(settings.log, format="json"),
    )  # fmt: skip
    return Plan(folder, merged, bootstrap is None, dsn is None, demo, broker_port)


def _port_taken(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _free_metrics_ports(settings: Settings) -> Metrics:
    """The usual ports of the parts' own metrics, or free ones where another process has them."""
    ports = settings.metrics
    taken: dict[str, Any] = {
        name: _free_port()
        for name in (f"{part}_port" for part in MEASURED)
        if (port := getattr(ports, name)) and _port_taken(port, ports.listen)
    }
    return replace(ports, **taken)


def refuse_taken_ports(asked: Plan) -> None:
    """Raises UpError for a port that another process has."""
    wanted, web, local = [], asked.settings.web, "127.0.0.1"
    if asked.embedded_bus:
        wanted.append((asked.broker_port, local, "the broker", "--broker-port"))
    if asked.embedded_store:
        wanted.append((asked.settings.engine.port, local, "ClickHouse's HTTP protocol", "--http-port"))
    if asked.web:
        wanted.append((web.port, web.listen, "the page", "--web-port"))
    for port, host, what, option in wanted:
        if _port_taken(port, host):
            raise UpError(f"port {port} for {what} is in use by another process; choose another with {option}")


class _Stop:
    """Signals: the first asks to stop, the second stops at once."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is the library's
        if self._supervisor.stopping:
            self._supervisor.kill()
        self._supervisor.stopping = True


def _answers(url: str) -> Callable[[], bool]:
    def ready() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=1) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    return ready


def _accepts(address: str) -> Callable[[], bool]:
    def ready() -> bool:
        where = urlsplit(address)
        try:
            with socket.create_connection((where.hostname, where.port), timeout=1):
                return True
        except OSError:
            return False

    return ready


def _spawn(asked: Plan, name: str, module: str, arguments: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    with logs.open_log(asked.folder.logs / f"{name}.log") as file:
        return launch.spawn(module, asked.settings, arguments, file)


def _web(asked: Plan) -> Part:
    """It only asks, so it never has the right to write."""
    reading = replace(asked.settings, store=replace(asked.settings.store, dsn=asked.read_dsn))
    reading = replace(reading, engine=replace(reading.engine, write_token=""))
    as_reader = replace(asked, settings=reading)
    return Part("web", partial(_spawn, as_reader, "web", "warpmeter.web"), _accepts(reading.web.address))


def _broker(asked: Plan) -> Part:
    def start() -> subprocess.Popen[bytes]:
        with logs.open_log(asked.folder.logs / "broker.log") as file:
            return launch.child(
                tansu.command(asked.broker_port), file, environment=tansu.environment(), death_signal=signal.SIGKILL
            )

    return Part(
        "broker",
        start,
        ready=lambda: tansu.ready(asked.broker_port),
        after_start=lambda: ensure_topics(asked.settings.kafka),
        stop_signal=signal.SIGINT,  # on SIGTERM it waits for open connections
    )


def _engine(asked: Plan) -> Part:
    return Part(
        "engine",
        lambda: _spawn(asked, "engine", "warpmeter.engine"),
        ready=_answers(f"http://127.0.0.1:{asked.settings.engine.port}/ping"),
        after_start=lambda: migrate_store(asked.settings.store, asked.pending, asked.busy),
    )


def ensure_topics(kafka: Kafka) -> None:
    """Create the topics that are missing; raises UpError when they cannot be."""
    try:
        topics.ensure(kafka)
    except topics.TopicsError as error:
        raise UpError(f"cannot prepare the topics: {error}") from error


def migrate_store(
    store: Store,
    pending: Callable[[], list[str]] = migrate.nothing_pending,
    busy: Callable[[], str | None] = lambda: None,
) -> None:
    """Bring the tables up to date; raises UpError when they cannot be, also while spans are `pending`."""
    try:
        with connect(store, database="default") as client:
            migrate.apply(client, store, pending, busy=busy)
    except (migrate.MigrationError, ClickHouseError, LedgerError) as error:
        raise UpError(f"cannot prepare the tables: {reason(error)}") from error


def _parts(asked: Plan) -> tuple[list[Part], list[Part]]:
    """What must be there first, and what then works on it."""
    base = [_broker(asked)] * asked.embedded_bus + [_engine(asked)] * asked.embedded_store
    # An idempotent producer and a consumer's position do not outlive the log of an in-memory broker.
    needs = ("broker",) * asked.embedded_bus
    ports = asked.settings.metrics
    # Ready only when it can be stopped: what was acknowledged before must be read out.
    ready = _answers(f"http://{ports.listen}:{ports.ingest_port}/metrics") if ports.ingest_port else lambda: True
    ingest = partial(_spawn, asked, "ingest", "warpmeter.consumers")
    agent = partial(_spawn, asked, "agent", "warpmeter.producers")
    work = [
        Part("ingest", ingest, ready, stop_within_s=STOP_WITHIN_S, needs=needs),
        Part("agent", agent, needs=needs),
        Part("scheduler", partial(_spawn, asked, "scheduler", "warpmeter.scheduler"), needs=needs),
    ]
    work += [_web(asked)] * asked.web
    if asked.demo:
        fleet = (*DEMO, "--resume", str(asked.folder.root / "simulated"))  # a later start sends no instant twice
        work.append(Part("simulate", partial(_spawn, asked, "simulate", "warpmeter.simulate", fleet), needs=needs))
    return base, work


def _prepare_existing(asked: Plan) -> None:
    """Topics and tables of a Kafka or ClickHouse that is not ours; ours get them at each of their starts."""
    if not asked.embedded_bus:
        ensure_topics(asked.settings.kafka)
    if not asked.embedded_store:
        migrate_store(asked.settings.store, asked.pending, asked.busy)


def _announce(asked: Plan, supervisor: Supervisor, started_at: float) -> None:
    settings = asked.settings
    asked.folder.announce(
        Running(
            pid=os.getpid(),
            started_at=started_at,
            bootstrap_servers=settings.kafka.bootstrap_servers,
            embedded_bus=asked.embedded_bus,
            dsn=asked.read_dsn,
            write_dsn=settings.store.dsn,
            database=settings.store.database,
            metrics_ports={part: getattr(settings.metrics, f"{part}_port") for part in MEASURED},
            parts=dict(supervisor.pids),
            web=settings.web.address if asked.web else "",
        )
    )


def _announced(asked: Plan, supervisor: Supervisor, started_at: float) -> bool:
    """Announce what changed; False on a full disk, where it is tried again."""
    try:
        _announce(asked, supervisor, started_at)
    except OSError:
        return False
    return True


def run(asked: Plan, on_started: Callable[[Plan], None]) -> None:
    """Run until a signal; `on_started` is called once everything is up.

    Raises UpError, with one line for the user, when a part cannot start or has stopped for good.
    """
    asked.folder.prepare()
    lock = asked.folder.lock()
    refuse_taken_ports(asked)
    logger = log.get("up")
    supervisor = Supervisor(logger, lambda name: logs.last_words(asked.folder.logs / f"{name}.log"))
    _Stop(supervisor)
    started_at = time.time()
    try:
        base, work = _parts(asked)
        supervisor.start(base)
        _prepare_existing(asked)
        if not supervisor.stopping:
            supervisor.start(work)
        try:
            _announce(asked, supervisor, started_at)
        except OSError as error:
            raise UpError(f"cannot write to {asked.folder.root}: {error.strerror}; make room") from error
        if not supervisor.stopping:
            on_started(asked)
        _watch(asked, supervisor, started_at)
    finally:
        supervisor.stop()
        asked.folder.withdraw()
        os.close(lock)


def _watch(asked: Plan, supervisor: Supervisor, started_at: float) -> None:
    trimmed, known = time.monotonic(), dict(supervisor.pids)
    while not supervisor.stopping:
        time.sleep(CHECK_EVERY_S)
        supervisor.check()
        if known != supervisor.pids and _announced(asked, supervisor, started_at):
            known = dict(supervisor.pids)
        if time.monotonic() - trimmed > TRIM_EVERY_S:
            trimmed = time.monotonic()
            for name in known:
                logs.trim(asked.folder.logs / f"{name}.log")
