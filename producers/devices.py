"""NICs and whole disks, from /proc/net/dev, /proc/diskstats and /sys.

Formats: proc(5), Documentation/admin-guide/iostats.rst of the kernel.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warpmeter.producers import files
from warpmeter.producers.source import AnySource, Attribution, Reading, Sample
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

DeviceSample = Envelope.DeviceSample
Columns = dict[str, Any]
Counters = Mapping[str, tuple[int, ...]]

# Not a way out of the host, or the other end of a container's interface: they would count the same bytes twice.
NOT_NICS: Final = re.compile(
    r"lo|(veth|cali|lxc|tap|ifb|dummy|tunl|gre|gretap|erspan|sit|ip6tnl|nodelocaldns|docker)\w*"
)
# In memory, a view of another disk, or a drive without one.
NOT_DISKS: Final = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d*")
PARTITION: Final = re.compile(r"(?:sd|vd|xvd|hd)[a-z]+\d+|(?:nvme\d+n\d+|mmcblk\d+)p\d+")
LINKS_EVERY_S: Final = 10.0
"""Asking a NIC for its link may take its driver's lock, and links seldom change."""

# Column of /proc/net/dev's receive half (the sending half is 8 further), factor.
NIC_RATES: Final = {
    "kilobytes_per_s": (0, 1e-3),
    "packets_per_s": (1, 1.0),
    "errors_milli_per_s": (2, 1e3),
    "drops_milli_per_s": (3, 1e3),
}
TX: Final = 8
# Columns of /proc/diskstats behind the name. Sectors there are 512 bytes whatever the disk has.
READS, READ_SECTORS, READ_MS, WRITES, WRITE_SECTORS, WRITE_MS, BUSY_MS, QUEUE_MS = 0, 2, 3, 4, 6, 7, 9, 10
SECTOR_KILOBYTES: Final = 0.512
UINT32_MAX: Final = 0xFFFF_FFFF


@dataclass(frozen=True)
class Link:
    """What a NIC negotiated; None when it does not say (a virtual one, or none plugged in)."""

    megabits_per_s: int | None
    up: bool | None


@dataclass(frozen=True)
class DevicesRaw:
    """The files as they were, and the links as they were last asked for."""

    net_dev: bytes
    diskstats: bytes | None
    links: Mapping[str, Link]


class DeviceSource:
    """One `DeviceSample` for each NIC and disk a tick. The first has no rates: they need two reads."""

    name = "devices"
    topic = "device-samples"
    timeout_s = 5.0

    def __init__(self, agent: Agent) -> None:
        self.period_s = agent.device_interval_s
        self._host = agent.host
        self._sys = files.below(agent.root, "sys")
        self._diskstats = files.below(agent.root, "proc", "diskstats")
        self._net_dev = files.of_network(agent.root, "dev")
        self._links: dict[str, Link] = {}
        self._reads_to_links = 0

    def read(self) -> DevicesRaw:
        """Read the files; raises OSError when there is no /proc/net/dev."""
        net_dev = files.read(self._net_dev)
        if self._reads_to_links <= 0:
            self._links = {nic: read_link(self._sys, nic) for nic in nics(net_dev)}
            self._reads_to_links = max(1, round(LINKS_EVERY_S / self.period_s))
        self._reads_to_links -= 1
        return DevicesRaw(net_dev, files.optional(self._diskstats), self._links)

    def parse(self, sample: Sample[DevicesRaw], before: Sample[DevicesRaw] | None) -> Reading:
        """A row for each device that is there now."""
        raw, elapsed = sample.raw, sample.since(before)
        then = before.raw if before is not None else None
        old_nics = nics(then.net_dev) if then else {}
        old_disks = disks(then.diskstats) if then else {}
        period_ms = sample.covers_ms(before)

        def row(kind: str, device: str, columns: Columns) -> DeviceSample:
            return DeviceSample(host=self._host, ts=sample.ts, period_ms=period_ms, kind=kind, device=device, **columns)

        rows = [
            row("nic", nic, nic_columns(old_nics.get(nic), now, elapsed, raw.links.get(nic)))
            for nic, now in nics(raw.net_dev).items()
        ]
        rows += [
            row("disk", disk, disk_columns(old_disks.get(disk), now, elapsed))
            for disk, now in disks(raw.diskstats).items()
        ]
        return Reading(rows)

    def close(self) -> None:
        """Nothing is held."""


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """The device source."""
    return (DeviceSource(agent),)


def read_link(sys: str, nic: str) -> Link:
    """Ask /sys for the link of a NIC."""
    speed = files.optional(f"{sys}/class/net/{nic}/speed")
    state = (files.optional(f"{sys}/class/net/{nic}/operstate") or b"").strip()
    megabits = int(speed) if speed and speed.strip().isdigit() else None
    return Link(megabits or None, {b"up": True, b"down": False, b"lowerlayerdown": False}.get(state))


def nics(net_dev: bytes) -> Counters:
    """Of /proc/net/dev: the 16 counters of each NIC that is a way out of the host."""
    counters = {}
    for line in net_dev.decode(errors="replace").splitlines()[2:]:
        name, _, numbers = line.partition(":")
        if not NOT_NICS.fullmatch(name := name.strip()):
            counters[name] = tuple(map(int, numbers.split()))
    return counters


def disks(diskstats: bytes | None) -> Counters:
    """Of /proc/diskstats: the counters of each whole disk."""
    counters = {}
    for line in (diskstats or b"").decode(errors="replace").splitlines():
        _, _, name, *numbers = line.split()
        if not (NOT_DISKS.fullmatch(name) or PARTITION.fullmatch(name)):
            counters[name] = tuple(map(int, numbers))
    return counters


def nic_columns(old: Sequence[int] | None, new: Sequence[int], elapsed_s: float | None, link: Link | None) -> Columns:
    """Rates between two reads, and the link."""
    columns: Columns = {}
    if link is not None:
        columns |= {"link_megabits_per_s": link.megabits_per_s, "link_up": link.up}
    if old is None or not elapsed_s:
        return columns
    for way, offset in (("rx", 0), ("tx", TX)):
        for column, (index, factor) in NIC_RATES.items():
            columns[f"{way}_{column}"] = _rate(old, new, index + offset, factor / elapsed_s)
    return columns


def disk_columns(old: Sequence[int] | None, new: Sequence[int], elapsed_s: float | None) -> Columns:
    """Rates, share of time busy, mean queue and latencies between two reads."""
    if old is None or not elapsed_s:
        return {}

    def rate(index: int, factor: float) -> int | None:
        return _rate(old, new, index, factor / elapsed_s)

    return {
        "read_kilobytes_per_s": rate(READ_SECTORS, SECTOR_KILOBYTES),
        "write_kilobytes_per_s": rate(WRITE_SECTORS, SECTOR_KILOBYTES),
        "reads_milli_per_s": rate(READS, 1e3),
        "writes_milli_per_s": rate(WRITES, 1e3),
        "busy_permille": None if (busy := rate(BUSY_MS, 1.0)) is None else min(busy, 1000),  # ms in 1000 ms
        "queue_centi": rate(QUEUE_MS, 0.1),  # request-ms in 10 ms
        "read_latency_microseconds": _latency(old, new, READS, READ_MS),
        "write_latency_microseconds": _latency(old, new, WRITES, WRITE_MS),
    }


def _delta(old: Sequence[int], new: Sequence[int], index: int) -> int | None:
    """How far a counter went; None when it went back: it wrapped, or the device was reset."""
    delta = new[index] - old[index]
    return delta if delta >= 0 else None


def _rate(old: Sequence[int], new: Sequence[int], index: int, factor: float) -> int | None:
    """A counter's growth times `factor`; None also beyond the column: another device took the name."""
    delta = _delta(old, new, index)
    return None if delta is None else _fitting(delta * factor)


def _latency(old: Sequence[int], new: Sequence[int], count: int, spent_ms: int) -> int | None:
    done, spent = _delta(old, new, count), _delta(old, new, spent_ms)
    return _fitting(spent * 1000 / done) if done and spent is not None else None


def _fitting(value: float) -> int | None:
    return whole if (whole := round(value)) <= UINT32_MAX else None
