"""NUMA nodes from /sys/devices/system/node: memory, where pages came from, and what the CPUs of each node do.

Formats: Documentation/ABI/stable/sysfs-devices-node and Documentation/admin-guide/numastat.rst of the kernel.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warpmeter.producers import files
from warpmeter.producers.counters import fitting, permille, rate, whole
from warpmeter.producers.host import IDLE, cpu_ticks, fields, mode_shares
from warpmeter.producers.source import AnySource, Attribution, Reading, Sample, SourceError
from warpmeter.producers.topology import cpu_list
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

DeviceSample = Envelope.DeviceSample
Columns = dict[str, Any]

NODE: Final = re.compile(r"node\d+")
MEMORY: Final = re.compile(rb"Node \d+ (MemTotal|MemUsed|MemFree): +(\d+) kB")
MEMORY_COLUMNS: Final = {
    b"MemTotal": "mem_total_mebibytes",
    b"MemUsed": "mem_used_mebibytes",
    b"MemFree": "mem_free_mebibytes",
}
PAGE_RATES: Final = {
    "numa_hits_per_s": b"numa_hit",
    "numa_misses_per_s": b"numa_miss",
    "numa_foreign_per_s": b"numa_foreign",
}
CPU_COLUMNS: Final = {
    "cpu_user_permille": "user",
    "cpu_system_permille": "system",
    "cpu_idle_permille": "idle",
}


@dataclass(frozen=True)
class Node:
    """The files of a node; None for what cannot be read."""

    meminfo: bytes | None
    numastat: bytes | None
    cpulist: bytes | None


@dataclass(frozen=True)
class NumaRaw:
    """All nodes by name, and /proc/stat of the same instant."""

    nodes: Mapping[str, Node]
    stat: bytes


class NumaSource:
    """One row for each NUMA node."""

    name: Final = "numa"
    topic: Final = "device-samples"
    timeout_s: Final = 5.0

    def __init__(self, agent: Agent) -> None:
        self.period_s = agent.numa_interval_s
        self._host = agent.host
        self._nodes = files.below(agent.root, "sys", "devices", "system", "node")
        self._stat = files.below(agent.root, "proc", "stat")

    def read(self) -> NumaRaw:
        """All nodes now; raises SourceError on a kernel without NUMA."""
        try:
            names = sorted(name for name in os.listdir(self._nodes) if NODE.fullmatch(name))  # noqa: PTH208 - cheap
        except FileNotFoundError:
            names = []
        nodes = {name: node for name in names if (node := read_node(f"{self._nodes}/{name}")) is not None}
        if not nodes:
            raise SourceError("unsupported", f"no node in {self._nodes}: this kernel is built without NUMA")
        return NumaRaw(nodes, files.read(self._stat))

    def parse(self, sample: Sample[NumaRaw], before: Sample[NumaRaw] | None) -> Reading:
        """A row for each node."""
        elapsed = sample.since(before)
        old = before.raw.nodes if before else {}
        then = cpu_ticks(before.raw.stat) if before else {}
        now = cpu_ticks(sample.raw.stat)
        rows = []
        for name, node in sample.raw.nodes.items():
            known = memory(node.meminfo) | pages(old.get(name), node, elapsed) | cpus(node.cpulist, then, now)
            rows.append(
                DeviceSample(
                    host=self._host,
                    ts=sample.ts,
                    period_ms=sample.covers_ms(before),
                    kind="numa",
                    device=name,
                    **known,
                )
            )
        return Reading(rows)

    def close(self) -> None:
        """Nothing is held."""


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """The NUMA source, unless the settings leave it out."""
    return (NumaSource(agent),) if agent.numa else ()


def read_node(folder: str) -> Node | None:
    """The files of one node; None when it went away since it was listed."""
    node = Node(*(files.optional(f"{folder}/{name}") for name in ("meminfo", "numastat", "cpulist")))
    return None if node == Node(None, None, None) else node


def memory(meminfo: bytes | None) -> Columns:
    """Of a node's meminfo, which counts in KiB."""
    found = MEMORY.findall(meminfo or b"")
    return {MEMORY_COLUMNS[name]: fitting(int(kibibytes) / 1024) for name, kibibytes in found}


def pages(old: Node | None, new: Node, elapsed_s: float | None) -> Columns:
    """Of a node's numastat: pages a second."""
    if old is None or not elapsed_s:
        return {}
    then, now = (fields(node.numastat or b"", b" ") for node in (old, new))
    return {column: rate(whole(then.get(key)), whole(now.get(key)), elapsed_s) for column, key in PAGE_RATES.items()}


def cpus(cpulist: bytes | None, then: Mapping[bytes, Sequence[int]], now: Mapping[bytes, Sequence[int]]) -> Columns:
    """Shares of the time of a node's CPUs between two reads; {} for a node without CPUs (memory alone)."""
    names = [name for cpu in cpu_list(cpulist) if (name := b"cpu%d" % cpu) in then and name in now]
    old, new = (tuple(map(sum, zip(*(ticks[name] for name in names), strict=True))) for ticks in (then, now))
    shares = mode_shares(old, new)
    if not shares:
        return {}
    columns: Columns = {column: permille(shares[mode]) for column, mode in CPU_COLUMNS.items()}
    return columns | {"cpu_util_permille": permille(1 - sum(shares[mode] for mode in IDLE))}
