"""How large a fleet's bus, ingest and store must be: `warpmeter size`. Pure: a `Fleet` in, a `Size` out.

Every number that is not the fleet's own is a `Constant` with where it comes from: `measured` by a benchmark or a test
of the project, `design` a figure of its design, `code` follows from the code, `assumed` was measured by nobody. Where
two measurements differ, the one that asks for more is taken.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final, Literal

from warpmeter.schemas.metrics import of_topic
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Agent, Ingest, Store

Kind = Literal["measured", "design", "code", "assumed"]
DAY_S: Final = 86_400.0
MINUTES: Final = 1440
HOURS: Final = 24
BATCH_ROWS: Final = Ingest().batch_rows
AGE_S: Final = Ingest().batch_age_s
DOZEN: Final = TOPICS["gpu-samples"].partitions


class SizeError(ValueError):
    """No such fleet; the message says which argument, and what it may be."""


@dataclass(frozen=True)
class Constant:
    """A number that sizes are made with, and where it comes from."""

    name: str
    value: float
    unit: str
    meaning: str
    kind: Kind
    source: str


def _metrics(topic: str, rolled: bool = False) -> int:
    return sum(metric.rolled_up or not rolled for metric in of_topic(topic))


MINUTES_STORE: Final = "benchmarks/minutes.py: its store of 10,000 GPUs, a day, by the parts on disk"
SIMULATED: Final = "a simulated fleet's messages, packed; tests/unit/test_size.py does it again"
# fmt: off
_TABLE: Final = (
    Constant("gpu_row_bus", 150, "B", "a GPU's row on the bus, zstd", "design",
             "12 MB/s by 80,000 rows/s; simulated rows, each host's message by itself, took 100"),
    Constant("gpu_row", 248, "B", "a GPU's row uncompressed", "measured",
             "a row with every field; simulated ones: 226"),
    Constant("host_row", 203, "B", "a host's row; alone in its message it does not compress", "measured", SIMULATED),
    Constant("device_row", 100, "B", "a device's row", "assumed",
             "simulated NICs and disks: 65; every field of all kinds: 233"),
    Constant("process_row", 58, "B", "a row of a process on a GPU", "measured", "a row with every field"),
    Constant("job_row", 416, "B", "a row of a running job", "measured", SIMULATED),
    Constant("stack_row", 124, "B", "a row of a sampled stack, frames told now and then", "measured", SIMULATED),
    Constant("health_row", 54, "B", "a row of a source's health", "measured", SIMULATED),
    Constant("series_row", 160, "B", "a row of a scraped series", "assumed", "a name and three labels"),
    Constant("device_zstd", 0.74, "ratio", "of a message of devices, compressed alone", "measured", SIMULATED),
    Constant("job_zstd", 0.68, "ratio", "of a message of jobs, compressed alone", "measured", SIMULATED),
    Constant("stack_zstd", 0.13, "ratio", "of a message of stacks, compressed alone", "measured", SIMULATED),
    Constant("health_zstd", 0.46, "ratio", "of a message of source health, compressed alone", "measured", SIMULATED),
    Constant("series_zstd", 0.5, "ratio", "of a message of scraped series", "assumed", "names and labels repeat"),
    Constant("message", 120, "B", "what Kafka adds to a message that is a batch by itself", "assumed",
             "61 bytes are Kafka's record batch; key, headers and lengths counted by hand"),
    Constant("stacks_process", 50, "rows", "stacks of a sampled process in a turn", "assumed",
             "as in benchmarks/flame.py: 400 of eight"),
    Constant("health_rows", 0.67, "rows/s", "of source health, a host", "measured", SIMULATED),
    Constant("gpu_insert", 0.44, "s", "CPU of an insert of GPU rows with all rollups, beside its rows", "measured",
             "fitted to 49, 12, 6 µs a row in inserts of 2, 8, 24 MiB, from when batches became 24 MiB"),
    Constant("gpu_insert_first", 3.8e-5, "s", "CPU of a row of an insert too small to cost gpu_insert", "measured",
             "a line from 200 rows in 0.092 s to 2 MiB of them in 0.45 s"),
    Constant("gpu_insert_row", 2e-6, "s", "CPU of a row in either", "measured", "as gpu_insert"),
    Constant("insert", 0.092, "s", "CPU of an insert of other rows, beside its rows", "measured",
             "60 metrics in two rollups, 200 rows; 0.024 with fewer"),
    Constant("insert_row", 1e-6, "s", "CPU of a row in it", "measured",
             "96,000 rows with two rollups: 0.122 s, few: 0.024 s"),
    Constant("catch_up", 2, "ratio", "ingest's room above the live rate, to be level again after an outage", "assumed",
             "-"),
    Constant("merges", 2, "ratio", "the store's CPU with merges, by that of inserts alone", "assumed", "-"),
    Constant("refresh", 1.48, "s", "CPU of a refresh of the Overview over 10,000 GPUs", "measured",
             "benchmarks/dashboards.py, a range of 24 hours"),
    Constant("refresh_every", 30, "s", "how often each viewer's dashboard asks", "assumed", "-"),
    Constant("gpu_value", 0.77, "B", "a stored value of a GPU or host", "measured",
             "a ratio in permille, T64 and ZSTD(1); 16 metrics together: 0.63"),
    Constant("gpu_values", _metrics("gpu-samples"), "values", "in a GPU's row", "code",
             "all of the metric table, though few GPUs have all"),
    Constant("host_values", _metrics("host-samples"), "values", "in a host's row", "code", "all of the metric table"),
    Constant("device_values", math.ceil(_metrics("device-samples") / 6), "values", "in a device's row", "assumed",
             "the metric table's, spread over six kinds"),
    Constant("series_value", 3.1, "B", "a stored value of a scraped series", "measured",
             "a narrow table at full precision; 1.3 at three decimals"),
    Constant("stack_stored", 11.2, "B", "a stored row of a stack", "measured",
             "benchmarks/flame.py: 581 MB of 52 million"),
    Constant("stack_hours", 5.0, "B", "sums of hours, by a row of a stack", "measured",
             "benchmarks/flame.py: 260 MB of 52 million"),
    Constant("stack_frames", 1.3, "B", "frames, by a row of a stack", "measured",
             "benchmarks/flame.py: 66 MB of 52 million"),
    Constant("gpu_minute", 2.8, "B", "a metric of a GPU's minute (count, sum, min, max)", "measured", MINUTES_STORE),
    Constant("gpu_hour", 3.4, "B", "a metric of a GPU's hour", "measured", MINUTES_STORE),
    Constant("gpu_rolled", _metrics("gpu-samples", True), "metrics", "of a GPU in rollups", "code",
             "the metric table"),
    Constant("host_minute", 5.0, "B", "a metric of a host's minute", "measured", MINUTES_STORE),
    Constant("host_hour", 4.3, "B", "a metric of a host's hour", "measured", MINUTES_STORE),
    Constant("host_rolled", _metrics("host-samples", True), "metrics", "of a host in rollups", "code",
             "the metric table"),
    Constant("job_minute", 13.4, "B", "a minute of a job on a host", "measured", MINUTES_STORE),
    Constant("job_hour", 14.8, "B", "an hour of a job on a host", "measured", MINUTES_STORE),
    Constant("batch_stored", 100, "B", "a row of the book of inserts", "assumed", "-"),
    Constant("disk_free", 0.3, "ratio", "of a disk that stays free, for merges and rebalancing", "assumed", "-"),
    Constant("shard_disk", 8e12, "B", "a shard's disk, at most", "assumed",
             "what is still backed up and moved in a night"),
    Constant("shard_cores", 32, "cores", "a shard's cores, at most", "assumed", "-"),
    Constant("core_memory", 4 * 2**30, "B", "the store's memory a core", "assumed", "-"),
    Constant("least_memory", 8 * 2**30, "B", "the store's memory, at least", "assumed",
             "four queries of the page at their limit"),
    Constant("ingest_memory", 768 * 2**20, "B", "an ingest process's memory above the idle one, at most", "measured",
             "the limit that benchmarks/backlog.py holds"),
    Constant("agent_cpu", 0.016, "cores", "an agent at 1 s, every source but stacks", "measured",
             "benchmarks/agent.py: 1,000 processes, 8 GPUs"),
    Constant("agent_stacks", 0.007, "cores", "stacks of eight processes", "measured", "benchmarks/stacks.py"),
    Constant("agent_memory", 64 * 2**20, "B", "an agent, resident", "measured", "benchmarks/agent.py"),
)
# fmt: on
CONSTANTS: Final[Mapping[str, Constant]] = {each.name: each for each in _TABLE}


def _c(name: str) -> float:
    return CONSTANTS[name].value


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """What is to be measured, and for how long it is kept. Raises SizeError for what no fleet is.

    Of each host: `gpus` (MIG instances count), `jobs` and `processes` on its GPUs, `devices` (NICs, RDMA ports, disks,
    mounts, NUMA nodes, sockets; 0: off), `stacks` (processes sampled a minute; 0: off), `series` scraped each
    `scrape_s`. `retention_h`: the topics'. `replication`: the topics', `replicas`: the store's. `viewers`: dashboards
    that are open.
    """

    hosts: int = 1
    gpus: int = 8
    interval_s: float = 1.0
    jobs: int = 2
    processes: int = 8
    devices: int = 12
    stacks: int = 8
    series: int = 0
    scrape_s: float = 10.0
    retention_h: float = 24.0
    replication: int = 3
    partitions: int = DOZEN
    replicas: int = 1
    viewers: int = 10
    raw_days: int = Store().raw_ttl_days
    minute_days: int = Store().minute_ttl_days
    hour_days: int = Store().hour_ttl_days

    def __post_init__(self) -> None:
        for field in fields(self):
            low, high = LIMITS[field.name]
            value = getattr(self, field.name)
            if not low <= value <= high:
                raise SizeError(f"{field.name} is {value}: it may be {low:.9g} to {high:.9g}")


LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "hosts": (1, 1_000_000),
    "gpus": (0, 256),
    "interval_s": (0.1, 3600),
    "jobs": (0, 10_000),
    "processes": (0, 10_000),
    "devices": (0, 10_000),
    "stacks": (0, 1000),
    "series": (0, 1_000_000),
    "scrape_s": (0.1, 3600),
    "retention_h": (1, 8760),
    "replication": (1, 9),
    "partitions": (1, 10_000),
    "replicas": (1, 9),
    "viewers": (0, 10_000),
    "raw_days": (1, 36_500),
    "minute_days": (1, 36_500),
    "hour_days": (1, 36_500),
}


@dataclass(frozen=True)
class Flow:
    """What comes of one topic, from all hosts. `bytes_per_s`: uncompressed; `bus_bytes_per_s`: as brokers get it."""

    topic: str
    messages_per_s: float
    rows_per_s: float
    bytes_per_s: float
    bus_bytes_per_s: float


@dataclass(frozen=True)
class Group:
    """What tables take when they are full, of one replica. `rows` of sums of stacks are the raw rows in them."""

    tables: str
    days: int
    rows: float
    bytes: float


@dataclass(frozen=True)
class Figure:
    """One result; `formula` in words, with the names of constants that are in CONSTANTS."""

    name: str
    value: float
    unit: str
    formula: str
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Said:
    """What one host says of one topic a second; `bus`: bytes of a row there."""

    topic: str
    messages: float
    rows: float
    row: float
    bus: float


def _said(fleet: Fleet) -> Iterable[_Said]:
    tick = 1 / fleet.interval_s
    device, slow = 1 / max(Agent().device_interval_s, fleet.interval_s), 1 / Agent().job_event_interval_s
    stacks, scrape = 1 / Agent().stacks_interval_s, 1 / fleet.scrape_s
    stack = fleet.stacks * _c("stacks_process") * stacks
    yield _Said("gpu-samples", tick, fleet.gpus * tick, _c("gpu_row"), _c("gpu_row_bus"))
    yield _Said("host-samples", tick, tick, _c("host_row"), _c("host_row"))
    yield _zipped("device-samples", device, fleet.devices * device, "device")
    yield _Said("gpu-processes", slow, fleet.processes * slow, _c("process_row"), _c("process_row"))
    yield _zipped("job-events", slow, fleet.jobs * slow, "job")
    yield _zipped("stack-samples", stacks, stack, "stack")
    yield _zipped("metric-samples", scrape, fleet.series * scrape, "series")
    yield _zipped("source-health", 1 / Agent().health_interval_s, _c("health_rows"), "health")


def _zipped(topic: str, messages: float, rows: float, kind: str) -> _Said:
    return _Said(topic, messages, rows, _c(f"{kind}_row"), _c(f"{kind}_row") * _c(f"{kind}_zstd"))


def _flow(fleet: Fleet, said: _Said) -> Flow:
    messages, rows = fleet.hosts * said.messages, fleet.hosts * said.rows
    return Flow(said.topic, messages, rows, rows * said.row, messages * _c("message") + rows * said.bus)


@dataclass(frozen=True)
class Size:
    """All that follows for one fleet."""

    fleet: Fleet

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """Topics that anything comes of. Captures, alerts and reports are left out: people ask for them."""
        return tuple(_flow(self.fleet, said) for said in _said(self.fleet) if said.rows)

    @cached_property
    def bus_bytes_per_s(self) -> float:
        """Of all topics, once."""
        return sum(flow.bus_bytes_per_s for flow in self.flows)

    @cached_property
    def partitions(self) -> int:
        """Of each topic: as asked for, or in dozens as many as there are ingest processes, and shards."""
        partitions = self.fleet.partitions
        while (needed := max(self._processes(partitions), self._shards(partitions))) > partitions:
            partitions += DOZEN * math.ceil((needed - partitions) / DOZEN)
        return partitions

    @property
    def ingest_processes(self) -> int:
        """Each makes one insert after the other."""
        return self._processes(self.partitions)

    @property
    def shards(self) -> int:
        """By disk and by cores, whichever needs more."""
        return self._shards(self.partitions)

    def _processes(self, partitions: int) -> int:
        return math.ceil(self.insert_cores(partitions) * _c("catch_up"))

    def _shards(self, partitions: int) -> int:
        held = sum(group.bytes for group in self._kept) + self._book(partitions).bytes
        by_disk = held / (1 - _c("disk_free")) / _c("shard_disk")
        return math.ceil(max(by_disk, self.store_cores(partitions) / _c("shard_cores")))

    def insert_cores(self, partitions: int) -> float:
        """CPU seconds a second of all inserts, ingest's and the store's together."""
        return sum(_insert_cores(flow, self.fleet.hosts, partitions) for flow in self.flows)

    def inserts_per_s(self, partitions: int) -> float:
        """Of all topics."""
        return sum(_inserts(flow, self.fleet.hosts, partitions) for flow in self.flows)

    def store_cores(self, partitions: int) -> float:
        """Of one replica of all shards together."""
        queries = self.fleet.viewers * _c("refresh") / _c("refresh_every")
        share = max(0.1, self.fleet.hosts * self.fleet.gpus / 10_000)
        return self.insert_cores(partitions) * _c("merges") + queries * share

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Tables by how long they are kept, of one replica."""
        return (*self._kept, self._book(self.partitions))

    @cached_property
    def _kept(self) -> tuple[Group, ...]:
        return tuple(group for group in (*self._raw(), *self._windows()) if group.rows)

    def _book(self, partitions: int) -> Group:
        days = self.fleet.minute_days
        return _group("ingest_batches", days, self.inserts_per_s(partitions) * DAY_S * days, _c("batch_stored"))

    def _raw(self) -> Iterable[Group]:
        stored = {
            "gpu-samples": _c("gpu_values") * _c("gpu_value"),
            "host-samples": _c("host_values") * _c("gpu_value"),
            "device-samples": _c("device_values") * _c("gpu_value"),
            "metric-samples": _c("series_value"),
            "stack-samples": _c("stack_stored"),
        }
        days = self.fleet.raw_days
        for flow in self.flows:
            rows = flow.rows_per_s * DAY_S * days
            each = stored.get(
                flow.topic, (flow.bus_bytes_per_s - flow.messages_per_s * _c("message")) / flow.rows_per_s
            )
            yield Group(TOPICS[flow.topic].table, days, rows, rows * each)

    def _windows(self) -> Iterable[Group]:
        fleet = self.fleet
        for step, a_day, days in (("1m", MINUTES, fleet.minute_days), ("1h", HOURS, fleet.hour_days)):
            windows, kind = min(a_day, DAY_S / fleet.interval_s) * days, "minute" if step == "1m" else "hour"
            yield _group(
                f"gpu_heatmap_{step}", days, fleet.hosts * fleet.gpus * windows, _c(f"gpu_{kind}") * _c("gpu_rolled")
            )
            yield _group(f"host_windows_{step}", days, fleet.hosts * windows, _c(f"host_{kind}") * _c("host_rolled"))
            yield _group(f"job_windows_{step}", days, fleet.hosts * fleet.jobs * windows, _c(f"job_{kind}"))
        devices = fleet.hosts * fleet.devices * HOURS * fleet.hour_days
        yield _group("device_windows_1h", fleet.hour_days, devices, _c("gpu_hour") * _c("device_values"))
        stacks = sum(flow.rows_per_s for flow in self.flows if flow.topic == "stack-samples") * DAY_S * fleet.hour_days
        yield _group("stack_windows_1h, stack_frames", fleet.hour_days, stacks, _c("stack_hours") + _c("stack_frames"))

    @cached_property
    def store_bytes(self) -> float:
        """What all tables take, of one replica."""
        return sum(group.bytes for group in self.groups)

    @cached_property
    def figures(self) -> Sequence[Figure]:
        """All results but flows and groups."""
        return (*self._bus(), *self._ingest(), *self._store(), *self._agent())

    def _bus(self) -> Iterable[Figure]:
        fleet, free = self.fleet, 1 - _c("disk_free")
        rows = sum(flow.rows_per_s for flow in self.flows)
        messages = sum(flow.messages_per_s for flow in self.flows)
        disk = self.bus_bytes_per_s * fleet.retention_h * 3600 * fleet.replication / free
        kept = "bytes on the bus x retention x replication / (1 - disk_free)"
        row = "by topic: messages x message + rows x bytes of a row on the bus"
        of_rows = tuple(
            each for each in CONSTANTS if each.endswith(("_row", "_row_bus", "_zstd")) and "insert" not in each
        )
        yield Figure(
            "rows", rows, "rows/s", "by topic: hosts x rows of a tick / its interval", ("stacks_process", "health_rows")
        )
        yield Figure("messages", messages, "messages/s", "hosts x one a topic and tick")
        yield Figure("bus", self.bus_bytes_per_s, "B/s", row, ("message", *of_rows))
        yield Figure("brokers' disk", disk, "B", kept, ("disk_free",))
        yield Figure("partitions", self.partitions, "a topic", "as asked for, or in dozens as many as ingest processes")

    def _ingest(self) -> Iterable[Figure]:
        names = ("gpu_insert", "gpu_insert_first", "gpu_insert_row", "insert", "insert_row")
        cores = self.insert_cores(self.partitions)
        often = (
            "by topic: the most of partitions (or hosts) / batch_age_s, bytes / batch_bytes, rows / batch_rows; "
            "at most its messages"
        )
        yield Figure("inserts", self.inserts_per_s(self.partitions), "inserts/s", often)
        yield Figure(
            "CPU of inserts",
            cores,
            "cores",
            "inserts x CPU of one + rows x CPU of one, ingest and store together",
            names,
        )
        yield Figure(
            "ingest processes",
            self.ingest_processes,
            "processes",
            "CPU of inserts x catch_up, rounded up",
            ("catch_up",),
        )
        memory = self.ingest_processes * _c("ingest_memory")
        yield Figure("ingest memory", memory, "B", "ingest processes x ingest_memory", ("ingest_memory",))

    def _store(self) -> Iterable[Figure]:
        disk = self.store_bytes * self.fleet.replicas / (1 - _c("disk_free"))
        cores = math.ceil(self.store_cores(self.partitions))
        memory = max(self.shards * _c("least_memory"), cores * _c("core_memory"))
        asked = (
            "CPU of inserts x merges + viewers x refresh / refresh_every x GPUs / 10,000 (at least a tenth), rounded up"
        )
        ends = ("_value", "_values", "_stored", "_minute", "_hour", "_rolled", "_hours", "_frames")
        of_disk = tuple(each for each in CONSTANTS if each.endswith(ends))
        full = "all tables when full x replicas / (1 - disk_free)"
        either = "disk / shard_disk or cores / shard_cores, the larger, rounded up"
        least = "cores x core_memory, at least least_memory x shards"
        yield Figure("store's disk", disk, "B", full, ("disk_free", *of_disk))
        yield Figure("store's cores", cores, "cores a replica of all", asked, ("merges", "refresh", "refresh_every"))
        yield Figure("store's memory", memory, "B a replica of all", least, ("core_memory", "least_memory"))
        yield Figure("shards", self.shards, "shards", either, ("shard_disk", "shard_cores"))

    def _agent(self) -> Iterable[Figure]:
        fleet, agent = self.fleet, Agent()
        said = sum(flow.bytes_per_s + flow.messages_per_s * _c("message") for flow in self.flows) / fleet.hosts
        cpu = _c("agent_cpu") / min(1.0, fleet.interval_s) + _c("agent_stacks") * fleet.stacks / 8
        outage = min(agent.spool_max_age_s, agent.spool_max_bytes / said)
        yield Figure(
            "agent's CPU",
            cpu,
            "cores a host",
            "agent_cpu / interval, where that is below 1 s, + agent_stacks x stacks / 8",
            ("agent_cpu", "agent_stacks"),
        )
        yield Figure("agent's memory", _c("agent_memory"), "B", "agent_memory", ("agent_memory",))
        yield Figure(
            "agent's spool lasts",
            outage,
            "s",
            "spool_max_bytes / (bytes of a host, uncompressed), or spool_max_age_s",
            ("message",),
        )


def _group(tables: str, days: int, rows: float, each: float) -> Group:
    return Group(tables, days, rows, rows * each)


def _inserts(flow: Flow, hosts: int, partitions: int) -> float:
    """Inserts a second of a topic: batches close by age, bytes or rows, a host is on one partition."""
    full = max(flow.bytes_per_s / Ingest().batch_bytes, flow.rows_per_s / BATCH_ROWS)
    return min(flow.messages_per_s, max(min(partitions, hosts) / AGE_S, full))


def _insert_cores(flow: Flow, hosts: int, partitions: int) -> float:
    """Seconds a second. An insert of few GPU rows costs what others do, and more by the row up to `gpu_insert`."""
    inserts = _inserts(flow, hosts, partitions)
    if flow.topic != "gpu-samples":
        return inserts * _c("insert") + flow.rows_per_s * _c("insert_row")
    more = min(inserts * (_c("gpu_insert") - _c("insert")), flow.rows_per_s * _c("gpu_insert_first"))
    return inserts * _c("insert") + more + flow.rows_per_s * _c("gpu_insert_row")
