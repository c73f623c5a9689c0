"""What `warpmeter doctor` says of the servers beside ingest: a cluster of stores, the scheduler, the page."""

import ssl
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from warpmeter import bus
from warpmeter.cli.finding import LARGEST_PAGE, PROBE_TIMEOUT_S, Finding
from warpmeter.settings import Settings

AGENT_ALONE: Final = "not asked: only the agent is installed here, which does not need it"
LATE_S: Final = 60
"""So far behind a replica may be before anybody should look."""
SHOWN: Final = 3
LITTLE: Final = 0.15
TOO_LITTLE: Final = 0.05
"""Of a disk of the store, the share that is free."""
ACCESS_DENIED: Final = 497
DISKS: Final = "SELECT hostName(), name, free_space, total_space FROM {source} WHERE total_space > 0"
REPLICAS: Final = """
SELECT hostName() AS host, table, is_readonly, active_replicas, total_replicas, absolute_delay,
    if(is_readonly, zookeeper_exception, last_queue_update_exception) AS why
FROM clusterAllReplicas({cluster}, system.replicas) WHERE database = {{database:String}}
"""
VERSIONS: Final = "SELECT hostName(), version() FROM clusterAllReplicas({cluster}, system.one)"
SERVERS: Final = "SELECT shard_num, host_name FROM system.clusters WHERE cluster = {cluster:String}"


class Replica(NamedTuple):
    """One table of one server, as `system.replicas` has it."""

    host: str
    table: str
    readonly: int
    active: int
    total: int
    delay_s: int
    why: str


class Disk(NamedTuple):
    """One disk of one server, as `system.disks` has it; bytes."""

    host: str
    name: str
    free: int
    total: int

    def __str__(self) -> str:
        return (
            f"{self.host} {self.name}: {self.free >> 20} MiB of {self.total >> 20} free ({self.free / self.total:.0%})"
        )


@dataclass(frozen=True)
class Cluster:
    """What its servers say of it: replicas of each shard, versions by server, tables."""

    name: str
    shards: Sequence[int]
    versions: Sequence[tuple[str, str]]
    replicas: Sequence[Replica]
    quorum: bool


def cluster(settings: Settings) -> Finding:
    """Whether all servers of the store's cluster answer, take inserts, and are of one version."""
    name = settings.store.cluster
    if not name:
        return Finding("cluster", "ok", "one server: store.cluster names no cluster")
    try:
        from warpmeter import migrate, store
    except ModuleNotFoundError:
        return Finding("cluster", "ok", AGENT_ALONE)
    try:
        with store.connect(settings.store, database="default") as client:
            servers = client.query(SERVERS, {"cluster": name}).result_rows
            if not servers:
                seen = f"the server knows no cluster {name!r}"
                return Finding("cluster", "failed", seen, "name one of its remote_servers: docs/deploy/clickhouse.md")
            every = migrate.identifier(name)
            versions = client.query(VERSIONS.format(cluster=every)).result_rows
            found = client.query(REPLICAS.format(cluster=every), {"database": settings.store.database}).result_rows
    except store.ClickHouseError as error:
        return Finding(
            "cluster", "failed", store.reason(error).splitlines()[0],
            "see clickhouse; where that answers a server of the cluster is away, or does not know this user",
        )  # fmt: skip
    shards = sorted(Counter(shard for shard, _ in servers).values())
    told = [(str(host), str(version)) for host, version in versions]
    return judged(Cluster(name, shards, told, [Replica(*row) for row in found], settings.store.insert_quorum))


def judged(found: Cluster) -> Finding:
    """What that means, the worst first."""
    readonly = [each for each in found.replicas if each.readonly]
    if readonly:
        return _told("failed", "are read-only", readonly, "bring back Keeper; then SYSTEM RESTORE REPLICA (or RESTART)")
    if stopped := [each for each in found.replicas if found.quorum and each.active <= each.total // 2]:
        return _told("failed", "have no quorum, so inserts wait", stopped, "start the replicas that are away")
    if away := [each for each in found.replicas if each.active < each.total]:
        return _told("warning", "have a replica that is away", away, "start it: it fetches what it missed")
    if late := [each for each in found.replicas if each.delay_s > LATE_S]:
        return _told("warning", f"are more than {LATE_S} s behind", late, "see system.replication_queue on that server")
    versions = sorted({version for _, version in found.versions})
    if len(versions) > 1:
        each = "; ".join(f"{host}: {version}" for host, version in sorted(found.versions))
        return Finding(
            "cluster", "warning", f"servers of several versions: {each}", "end the upgrade: all of them alike"
        )
    least = min(found.shards, default=0)
    seen = f"{found.name}: {len(found.shards)} shard(s) of {least} replica(s) or more, version {', '.join(versions)}"
    if least < 2:
        return Finding("cluster", "warning", f"{seen}: a shard has one copy", "give each shard a second replica")
    if not found.quorum:
        remedy = "set store.insert_quorum: a replica that is lost takes along what only it had acknowledged"
        return Finding("cluster", "warning", f"{seen}; inserts wait for one replica", remedy)
    return Finding("cluster", "ok", f"{seen}; inserts wait for most of a shard's replicas")


def _told(verdict: str, what: str, which: Sequence[Replica], remedy: str) -> Finding:
    names = ", ".join(f"{each.table} on {each.host} ({each.active} of {each.total})" for each in which[:SHOWN])
    more = f", and {len(which) - SHOWN} more" if len(which) > SHOWN else ""
    why = next((f": {each.why.splitlines()[0]}" for each in which if each.why), "")
    seen = f"{len(which)} table(s) {what}: {names}{more}{why}"
    return Finding("cluster", "failed" if verdict == "failed" else "warning", seen, remedy)


def disks(settings: Settings) -> Finding:
    """Whether the disks of the store's servers have room, as they themselves see it."""
    try:
        from warpmeter import migrate, store
    except ModuleNotFoundError:
        return Finding("store disk", "ok", AGENT_ALONE)
    name = settings.store.cluster
    source = f"clusterAllReplicas({migrate.identifier(name)}, system.disks)" if name else "system.disks"
    try:
        with store.connect(settings.store, database="default") as client:
            found = [Disk(*row) for row in client.query(DISKS.format(source=source)).result_rows]
    except store.ClickHouseError as error:
        return unanswered("store disk", error)
    return room(found)


def room(disks: Sequence[Disk]) -> Finding:
    """What that means: the fullest disk decides."""
    if not disks:
        return Finding("store disk", "ok", "not asked: the store tells of no disk")
    fullest = sorted(disks, key=lambda each: each.free / each.total)
    seen = "; ".join(map(str, fullest[:SHOWN])) + (f"; {len(fullest) - SHOWN} more" if len(fullest) > SHOWN else "")
    share = fullest[0].free / fullest[0].total
    if share >= LITTLE:
        return Finding("store disk", "ok", seen)
    remedy = "make room, or shorten store.raw_ttl_days and run `warpmeter migrate`: on a full disk inserts wait"
    return Finding("store disk", "failed" if share < TOO_LITTLE else "warning", seen, remedy)


def unanswered(name: str, error: Exception) -> Finding:
    """A check that the store did not answer, or not to this user."""
    from warpmeter import store

    if store.code(error) == ACCESS_DENIED:
        return Finding(name, "ok", "not asked: this user of the store may not read that")
    return Finding(name, "failed", store.reason(error).splitlines()[0], "see clickhouse")


def scheduler(settings: Settings) -> Finding:
    """Whether a scheduler is in the group that elects one."""
    name = settings.scheduler.group
    if settings.ingest.ledger_dir is not None:
        return Finding("scheduler", "ok", "not asked: the embedded broker does not tell who is in a group")
    try:
        with bus.asking(settings.kafka) as admin:
            (asked,) = admin.describe_consumer_groups([name], request_timeout=PROBE_TIMEOUT_S).values()
            members = bus.patiently(lambda: asked.result(), PROBE_TIMEOUT_S).members
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            why = bus.said(error, settings.kafka, right=f"Describe on group {name}")
            return Finding("scheduler", "warning", f"cannot tell whether one runs: {why}", "see broker")
        members = []
    if not members:
        seen = f"nobody is in group {name}: no capture is begun, no alert told, no report sent"
        return Finding("scheduler", "warning", seen, "warpmeter schedule, twice for a fleet")
    others = "nobody takes over" if len(members) == 1 else f"{len(members) - 1} stand by"
    return Finding("scheduler", "ok", f"1 is elected in group {name}, {others}")


def page(settings: Settings) -> Finding:
    """Whether the page answers, where it should be on this host, and its store does."""
    web = settings.web
    near = "127.0.0.1" if web.listen in ("", "0.0.0.0", "::") else web.listen
    where = f"{'https' if web.tls_certificate else 'http'}://{near}:{web.port}"
    seen = ssl.create_default_context()
    seen.check_hostname, seen.verify_mode = False, ssl.CERT_NONE  # nothing is said to it, and its name is another
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=seen))
    try:
        with urllib.request.build_opener(*handlers).open(f"{where}/api/v1/health", timeout=PROBE_TIMEOUT_S) as answer:
            answer.read(LARGEST_PAGE)
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return Finding("web", "failed", f"{where} answers, and its store does not", "see clickhouse, and its log")
        return Finding(
            "web", "failed", f"{where} is no page of warpmeter ({error.code})", "set web.port to a free port"
        )
    except OSError as error:
        if isinstance(getattr(error, "reason", error), ConnectionRefusedError):
            return Finding("web", "ok", f"{near}:{web.port} is free; no page is served here now")
        return Finding(
            "web", "failed", f"{where}: {error}", "see web.listen and web.port, and the log of `warpmeter web`"
        )
    return Finding("web", "ok", f"{where} answers, and its store does")
