"""`warpmeter doctor`: what this host, the bus and the store lack, and what to do about each."""

import ctypes
import gzip
import os
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from warpmeter import acls, authorizer, bus, topics
from warpmeter.acls import Component
from warpmeter.cli import servers
from warpmeter.cli.finding import LARGEST_PAGE, PROBE_TIMEOUT_S, Finding, Verdict
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Kafka, Settings, Store, default_data

OLDEST_SERVER: Final = (25, 8)
SKEW_S: Final = 1.0
LOW_DISK_BYTES: Final = 1 << 30
STA_UNSYNC: Final = 0x0040
HIDDEN: Final = ", by who may; a login is not shown topics that it may not describe"
NO_KAFKA: Final = "not asked: agent.outputs has no kafka"
OF_THE_STORE: Final = frozenset({"clickhouse", "cluster", "store disk", "tables", "ingest", "replays", "scheduler"})


Check = Callable[[Settings], Finding]


def examine(settings: Settings, *parts: str) -> Iterator[Finding]:
    """Run every check, or those of `parts` (`PARTS`, or components that run nowhere); one that breaks is a finding of
    its own, never the end."""
    wanted = frozenset().union(*(PARTS.get(part, _BUS) for part in parts))
    for name, check in _checks(parts).items():
        if parts and name not in wanted:
            continue
        if name in OF_THE_STORE and "kafka" not in settings.agent.outputs:
            yield Finding(name, "ok", f"{NO_KAFKA}, so nothing of this host goes to a store")
            continue
        try:
            yield check(settings)
        except Exception as error:  # noqa: BLE001 - the edge: whatever a check meets is what it found
            yield Finding(name, "failed", f"{type(error).__name__}: {error}", "report this: the check itself broke")
    if not parts or "agent" in parts:
        yield from system(settings)
        yield from scrapes(settings)


def _checks(parts: Sequence[str]) -> dict[str, Check]:
    """All of them; those that judge only what a part needs are told which."""
    return {**CHECKS, "disk": partial(disk, parts=parts), "topics": partial(topic_table, parts=parts)}


def python(settings: Settings) -> Finding:
    """The interpreter."""
    seen = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("python", "ok", f"{seen} ({sys.executable})")


def kernel(settings: Settings) -> Finding:
    """Pressure stall information, which kernels before 4.20 and some distributions lack."""
    if (settings.agent.root / "proc/pressure/cpu").exists():
        return Finding("kernel", "ok", f"{os.uname().release}, pressure stall information is on")
    return Finding(
        "kernel", "warning", f"{os.uname().release} without /proc/pressure: psi_* columns stay NULL",
        "boot with psi=1, or a kernel with CONFIG_PSI",
    )  # fmt: skip


def permissions(settings: Settings) -> Finding:
    """Whether other users' processes can be read: their environment (job ids) and their I/O."""
    hidden = 0
    for folder in (settings.agent.root / "proc").glob("[0-9]*"):
        try:
            (folder / "environ").open("rb").close()
        except PermissionError:
            hidden += 1
        except OSError:
            continue
    if not hidden:
        return Finding("permissions", "ok", "every process's environment and I/O can be read")
    from warpmeter.producers.jobs.source import HELP_ROOT

    remedy = "run the agent as root, or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH; a container may forbid it"
    return Finding(
        "permissions", "warning", f"environment and I/O of {hidden} of the processes are hidden",
        HELP_ROOT if os.geteuid() == 0 else remedy,
    )  # fmt: skip


def clock(settings: Settings) -> Finding:
    """Whether the kernel's clock is disciplined (adjtimex(2))."""
    buffer = ctypes.create_string_buffer(512)
    libc = ctypes.CDLL(None)
    libc.adjtimex(ctypes.byref(buffer))
    status = ctypes.c_int.from_buffer(buffer, 5 * 8).value  # struct timex: modes (padded), 4 longs, then status
    if not status & STA_UNSYNC:
        return Finding("clock", "ok", "the kernel says that it is synchronised")
    return Finding(
        "clock", "warning", "the kernel says that its clock is not synchronised",
        "run chrony or systemd-timesyncd: samples of hosts with skewed clocks do not line up",
    )  # fmt: skip


def _folders(settings: Settings, parts: Sequence[str]) -> list[Path]:
    """Where these settings keep something on this host: the spool, the ledger, what the scheduler makes, an `up`."""
    from warpmeter.up.folder import Folder

    ledger, made, data = settings.ingest.ledger_dir, settings.scheduler.data, settings.engine.data
    found = [settings.agent.spool_dir] if _runs("agent", parts) and "kafka" in settings.agent.outputs else []
    found += [ledger] if _runs("ingest", parts) and ledger is not None else []
    found += [made] if "scheduler" in parts or (not parts and made.exists()) else []
    return found + ([data] if not parts and (data != default_data() or Folder(data).running() is not None) else [])


def _runs(part: str, parts: Sequence[str]) -> bool:
    return not parts or part in parts


def disk(settings: Settings, parts: Sequence[str] = ()) -> Finding:
    """Room in the folders that these settings use on this host; the store's own disks are another check."""
    wanted = _folders(settings, parts)
    if not wanted:
        return Finding("disk", "ok", "not asked: these settings keep nothing in a folder of this host")
    found = {next(path for path in (folder, *folder.parents) if path.exists()) for folder in wanted}
    free = {folder: shutil.disk_usage(folder).free for folder in sorted(found)}
    seen = "; ".join(f"{size >> 20} MiB free at {folder}" for folder, size in free.items())
    if min(free.values()) > LOW_DISK_BYTES:
        return Finding("disk", "ok", seen)
    return Finding("disk", "warning", seen, "make room: on a full disk the spool drops samples, and inserts wait")


def broker(settings: Settings) -> Finding:
    """Whether Kafka answers."""
    if "kafka" not in settings.agent.outputs:
        return Finding("broker", "ok", NO_KAFKA)
    where = settings.kafka.bootstrap_servers
    try:
        with bus.asking(settings.kafka) as admin:
            found = admin.list_topics(timeout=PROBE_TIMEOUT_S)
    except KafkaException as error:
        own = where == Kafka().bootstrap_servers
        remedy = "`warpmeter up` brings one" if own else "mend that; every part says the same of it until then"
        return Finding("broker", "failed", bus.said(error, settings.kafka), remedy)
    return Finding("broker", "ok", f"{where}: {len(found.brokers)} broker(s), {len(found.topics)} topics")


def _needed(settings: Settings, parts: Sequence[str]) -> list[Topic] | None:
    """The topics that `parts` have to do with; None for all."""
    rights = acls.needs(settings)
    if not parts or any(part not in rights for part in parts):
        return None
    names = {right.name for each, held in rights.items() if each in parts for right in held if right.kind == "topic"}
    return [topic for topic in TOPICS.values() if topic.full_name(settings.kafka.topic_prefix) in names] or None


def topic_table(settings: Settings, parts: Sequence[str] = ()) -> Finding:
    """Whether the topics, or those that `parts` need, are there as they should be."""
    if "kafka" not in settings.agent.outputs:
        return Finding("topics", "ok", NO_KAFKA)
    wanted = _needed(settings, parts)
    try:
        differences = topics.check(settings.kafka, wanted, PROBE_TIMEOUT_S)
    except topics.ForbiddenError:
        return _unread(settings, wanted)
    except topics.TopicsError as error:
        return Finding("topics", "failed", str(error), "see broker")
    if differences:
        gone = any(isinstance(each, topics.Missing) for each in differences)
        return Finding(
            "topics", "failed" if gone else "warning", "; ".join(str(each) for each in differences),
            "warpmeter topics --create" + (HIDDEN if gone and bus.secured(settings.kafka) else ""),
        )  # fmt: skip
    copies = topics.copies(settings.kafka, wanted, PROBE_TIMEOUT_S)
    if copies.behind:
        return Finding("topics", "warning", str(copies), "start the broker that is away; wait for one that was started")
    if copies.risky:
        return Finding("topics", "warning", str(copies), "one broker that ends for good takes its messages with it")
    return Finding("topics", "ok", "all there, as configured" + (f"; {copies}" if str(copies) else ""))


def _unread(settings: Settings, wanted: Sequence[Topic] | None) -> Finding:
    """Of a login that may not read settings of topics: as far as it sees, whether those that it needs are there."""
    seen = "not asked: this login may not read the topics' settings"
    if wanted is None:
        return Finding("topics", "ok", seen)
    if missing := topics.missing(settings.kafka, wanted, PROBE_TIMEOUT_S):
        return Finding("topics", "failed", f"{', '.join(missing)}: missing", "warpmeter topics --create" + HIDDEN)
    return Finding("topics", "ok", f"{seen}; the {len(wanted)} that it needs are there")


def rights(settings: Settings, component: Component) -> Finding:
    """Whether the login of these settings has the rights that a component needs on Kafka; it takes no others to ask."""
    if component == "agent" and "kafka" not in settings.agent.outputs:
        return Finding("rights agent", "ok", NO_KAFKA)
    name, who = f"rights {component}", bus.login(settings.kafka)
    try:
        lacks = authorizer.mine(settings.kafka, acls.needs(settings)[component])
    except authorizer.AclsError as error:
        return Finding(name, "failed", str(error), "see broker")
    if not lacks:
        return Finding(name, "ok", f"{who} lacks none")
    return Finding(
        name, "failed", f"{who} lacks: {'; '.join(str(each) for each in lacks)}",
        f"warpmeter acls --principal {component}=User:NAME --create, by who may grant",
    )  # fmt: skip


def tables(settings: Settings) -> Finding:
    """Whether the store has the tables of this version."""
    try:
        from warpmeter import migrate, store
    except ModuleNotFoundError:
        return Finding("tables", "ok", "not asked: only the agent is installed here, which does not need it")
    try:
        with store.connect(settings.store, database="default") as client:
            steps = migrate.plan(client, settings.store)
            new = not migrate.recorded(client, settings.store)
            left = migrate.half_done(client, settings.store)
    except store.ClickHouseError as error:
        return servers.unanswered("tables", error)
    except migrate.MigrationError as error:
        return Finding("tables", "failed", str(error), "ingest waits until then")
    if left is not None:
        seen = f"a migration stands half done, or is at work ({left} began it): ingest does not insert"
        return Finding("tables", "failed", seen, "warpmeter migrate, unless it is at work")
    if new:
        seen = f"database {settings.store.database} has no tables of warpmeter: ingest cannot start"
        return Finding("tables", "failed", seen, "warpmeter migrate")
    if steps:
        seen = f"{len(steps)} steps are to be done: {', '.join(step.name for step in steps[:3])}"
        return Finding("tables", "warning", seen, "warpmeter migrate, with ingest stopped")
    return Finding("tables", "ok", "as this version wants them")


def ingest(settings: Settings) -> Finding:
    """Whether ingest may begin where the group is: as it asks itself before it stores anything."""
    try:
        from warpmeter.consumers import status
        from warpmeter.consumers.start import Tool, remedy
    except ModuleNotFoundError:
        return Finding("ingest", "ok", "not asked: only the agent is installed here, which does not need it")
    found = status.refusals(settings)
    if isinstance(found, str):
        return Finding("ingest", "warning", f"cannot tell whether it may begin: {found}", "see the checks above")
    if found.refused and found.running:
        seen = f"it runs, and {len(found.refused)} partition(s) are not where the tables are, each time one looks"
        return Finding("ingest", "warning", seen, "see its log; look again when it is stopped")
    if found.refused:
        seen = f"it halts as it starts: {len(found.refused)} partition(s) are not where the tables are"
        return Finding("ingest", "failed", seen, remedy(found.refused, Tool.of(settings)))
    if found.moved:
        seen = f"it runs; {len(found.moved)} partition(s) not compared with the tables: the group went on, each time"
        return Finding("ingest", "ok", seen)
    return Finding("ingest", "ok", "may begin where the group is" + (f"; {found.running} run" if found.running else ""))


def clickhouse(settings: Settings) -> Finding:
    """Whether the store answers, is new enough, and shares our clock."""
    try:
        from warpmeter import store
    except ModuleNotFoundError:
        return Finding("clickhouse", "ok", "not asked: only the agent is installed here, which does not need it")
    try:
        with store.connect(settings.store, database="default") as client:
            version, skew = client.query("SELECT version(), toFloat64(now64(3))").result_rows[0]
    except store.ClickHouseError as error:
        own = settings.store.dsn == Store().dsn
        remedy = "`warpmeter up` and `warpmeter engine` bring one" if own else "mend that, or correct store.dsn"
        return Finding("clickhouse", "failed", store.reason(error).splitlines()[0], remedy)
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SERVER:
        return Finding("clickhouse", "failed", version, "upgrade to 25.8 or newer: inline schemas and their settings")
    return _skew("clickhouse", f"version {version}", skew)


def _skew(name: str, seen: str, theirs: float) -> Finding:
    skew = theirs - time.time()
    if abs(skew) < SKEW_S:
        return Finding(name, "ok", seen)
    return Finding(name, "warning", f"{seen}; its clock differs by {skew:+.1f} s", "synchronise both clocks (NTP)")


def replays(settings: Settings) -> Finding:
    """Whether a replay deleted rows and did not bring them back yet."""
    try:
        from warpmeter import store
        from warpmeter.consumers.replay.staging import Staging
    except ModuleNotFoundError:
        return Finding("replays", "ok", "not asked: only the agent is installed here, which does not need it")
    try:
        with store.connect(settings.store, database="default") as client:
            found = [each for each in Staging(client, settings.store).found() if each.stage != "loading"]
    except store.ClickHouseError as error:
        return servers.unanswered("replays", error)
    if not found:
        return Finding("replays", "ok", "none was interrupted")
    return Finding(
        "replays", "failed", "; ".join(str(each) for each in found),
        "bring each to its end: the same command again, or " + "; ".join(each.command for each in found),
    )  # fmt: skip


def gpus(settings: Settings) -> Finding:
    """Whether NVML answers, and how many GPUs it sees."""
    from warpmeter.producers.gpu.reader import Reader
    from warpmeter.producers.source import SourceError

    try:
        found = Reader(1.0, time.monotonic).read()
    except SourceError as error:
        verdict: Verdict = "warning" if error.state == "unsupported" else "failed"
        return Finding("nvml", verdict, str(error), "install NVIDIA's driver, if this host has a GPU")
    if found.absent:
        gone = "; ".join(f"{gpu}: {problem}" for gpu, problem in found.absent)
        return Finding(
            "nvml", "failed", f"{len(found.gpus)} GPUs, gone: {gone}", "see dmesg for XID errors; reset or reboot"
        )
    return Finding("nvml", "ok", f"{len(found.gpus)} GPUs and MIG instances")


def jobs(settings: Settings) -> Finding:
    """Which expression makes a process a job here, and why."""
    from warpmeter.producers.jobs.pattern import pattern_in_force

    pattern = pattern_in_force(settings.agent)
    return Finding("jobs", "ok", f"{pattern.text} ({pattern.why})")


def system(settings: Settings) -> Iterator[Finding]:
    """Of each source of the system: whether it can be read, and what it lacks."""
    from warpmeter.cli import system_checks

    yield from system_checks.system(settings)


def scrapes(settings: Settings) -> Iterator[Finding]:
    """Of each endpoint that the agent is to scrape: whether it answers, and with what."""
    from warpmeter.producers.scrape.probe import probe
    from warpmeter.producers.source import SourceError

    for scrape in settings.agent.scrape:
        name = f"scrape {scrape.name}"
        try:
            seen, whole = probe(settings.agent.host, scrape)
        except SourceError as error:
            yield Finding(name, "failed", str(error), f"start it, or mend [[agent.scrape]] {scrape.name!r}")
            continue
        remedy = "" if whole else "narrow it with allow or deny, or raise max_series"
        yield Finding(name, "ok" if whole else "warning", seen, remedy)


def page(settings: Settings) -> Finding:
    """Whether the agent's values can be scraped: it serves them, or could."""
    listen, port = settings.metrics.listen, settings.metrics.agent_port
    if "prometheus" not in settings.agent.outputs:
        return Finding("prometheus", "ok", "not asked: agent.outputs has no prometheus")
    near = "127.0.0.1" if listen in ("", "0.0.0.0", "::") else listen
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a neighbour: no proxy stands between
    try:
        with opener.open(f"http://{near}:{port}/metrics", timeout=PROBE_TIMEOUT_S) as response:
            text = response.read(LARGEST_PAGE).decode(errors="replace")
    except OSError as error:
        if isinstance(getattr(error, "reason", error), ConnectionRefusedError):
            return Finding("prometheus", "ok", f"{near}:{port} is free; no agent serves it now")
        return Finding("prometheus", "failed", f"{near}:{port}: {error}", "see metrics.listen and metrics.agent_port")
    count = sum(line.startswith("warpmeter_") for line in text.splitlines())
    if not count:
        seen = f"{near}:{port} is somebody else's"
        return Finding("prometheus", "failed", seen, "set metrics.agent_port to a free port")
    return Finding("prometheus", "ok", f"{near}:{port} serves {count} series")


def otlp(settings: Settings) -> Finding:
    """Whether the OTLP receiver takes an export, an empty one."""
    if "otlp" not in settings.agent.outputs:
        return Finding("otlp", "ok", "not asked: agent.outputs has no otlp")
    try:
        from warpmeter.producers.out.exporter import Peer
    except ModuleNotFoundError as error:
        return Finding("otlp", "failed", f"{error.name} is not installed", "install warpmeter[agent]")
    peer = Peer(settings.agent)
    answer = peer.post(gzip.compress(b""))
    if 200 <= answer.status < 300:
        return Finding("otlp", "ok", f"{peer.shown} takes exports")
    remedy = "start it, or correct agent.otlp_url" if not answer.status else "see agent.otlp_url and agent.otlp_headers"
    return Finding("otlp", "failed", f"{peer.shown}: {answer.why}", remedy)


CHECKS: Final[dict[str, Check]] = {
    "python": python,
    "kernel": kernel,
    "permissions": permissions,
    "clock": clock,
    "disk": disk,
    "nvml": gpus,
    "jobs": jobs,
    "prometheus": page,
    "otlp": otlp,
    "broker": broker,
    "topics": topic_table,
    "clickhouse": clickhouse,
    "cluster": servers.cluster,
    "store disk": servers.disks,
    "tables": tables,
    "ingest": ingest,
    "replays": replays,
    "scheduler": servers.scheduler,
    "web": servers.page,
}
_HOST: Final = frozenset({"python", "clock", "disk"})
_BUS: Final = frozenset({"broker", "topics"})
_STORE: Final = frozenset({"clickhouse", "cluster", "store disk", "tables"})
PARTS: Final[dict[str, frozenset[str]]] = {
    "agent": _HOST | _BUS | {"kernel", "permissions", "nvml", "jobs", "prometheus", "otlp"},
    "ingest": _HOST | _BUS | _STORE | {"ingest", "replays"},
    "scheduler": _HOST | _BUS | _STORE | {"scheduler"},
    "web": _HOST | _BUS | _STORE | {"web"},
    "replay": _BUS | _STORE | {"replays"},
    "check": _BUS | _STORE | {"ingest", "replays", "scheduler"},
    "kafka": _BUS,
    "store": _STORE | {"replays"},
}
"""What matters where a part runs. Of components among them the rights of their login on Kafka are asked as well."""
