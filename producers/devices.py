"""NICs and whole disks, from /proc/net/dev, /proc/diskstats and /sys; what adapters count themselves is of `ethtool`.

Formats: proc(5), Documentation/admin-guide/iostats.rst of the kernel.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warpmeter.producers import files
from warpmeter.producers.counters import fitting, whole
from warpmeter.producers.ethtool import Adapters, Counts, Look, ethtool_columns
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
NIC_NUMBERS, DISK_NUMBERS = 16, 11
"""Counters of a line, at least; kernels since 4.18 have more of a disk."""


@dataclass(frozen=True)
class Link:
    """What a NIC negotiated; None when it does not say (a virtual one, or none plugged in).

    `changes`: times that it went up or down. `index`: of the interface, never given to another. `physical`: there is
    an adapter behind it.
    """

    megabits_per_s: int | None
    up: bool | None
    changes: int | None = None
    index: int | None = None
    physical: bool = False


NO_LOOK: Final = Look({})


@dataclass(frozen=True)
class DevicesRaw:
    """The files as they were, and the links as they were last asked for."""

    net_dev: bytes
    diskstats: bytes | None
    links: Mapping[str, Link]
    adapters: Look = NO_LOOK


class DeviceSource:
    """One `DeviceSample` for each NIC and disk a tick. The first has no rates: they need two reads."""

    name = "devices"
    topic = "device-samples"
    timeout_s = 5.0

    def __init__(self, agent: Agent, adapters: Adapters | None = None) -> None:
        """`adapters`: asked for what adapters count, unless the settings say not to."""
        self.period_s = agent.device_interval_s
        self._host = agent.host
        self._sys = files.below(agent.root, "sys")
        self._diskstats = files.below(agent.root, "proc", "diskstats")
        self._net_dev = files.of_network(agent.root, "dev")
        self._links: dict[str, Link] = {}
        self._reads_to_links = 0
        self._adapters = (adapters or Adapters()) if agent.ethtool else None

    def read(self) -> DevicesRaw:
        """Read the files; raises OSError when there is no /proc/net/dev."""
        net_dev = files.read(self._net_dev)
        if self._reads_to_links <= 0:
            self._ask_for_links(net_dev)
            self._reads_to_links = max(1, round(LINKS_EVERY_S / self.period_s))
        self._reads_to_links -= 1
        diskstats = files.optional(self._diskstats)
        physical = [nic for nic, link in self._links.items() if link.physical]
        return DevicesRaw(
            net_dev, diskstats, self._links, self._adapters.look(physical) if self._adapters else Look({})
        )

    def parse(self, sample: Sample[DevicesRaw], before: Sample[DevicesRaw] | None) -> Reading:
        """A row for each device that is there now."""
        raw, elapsed = sample.raw, sample.since(before)
        then = before.raw if before is not None else None
        old_nics = nics(then.net_dev) if then else {}
        old_disks = disks(then.diskstats) if then else {}
        old_counts: Mapping[str, Counts] = then.adapters.counts if then else {}
        counts = raw.adapters.counts
        period_ms = sample.covers_ms(before)

        def row(kind: str, device: str, columns: Columns) -> DeviceSample:
            return DeviceSample(host=self._host, ts=sample.ts, period_ms=period_ms, kind=kind, device=device, **columns)

        rows = [
            row(
                "nic",
                nic,
                nic_columns(old_nics.get(nic), now, elapsed, raw.links.get(nic))
                | ethtool_columns(old_counts.get(nic), counts.get(nic), elapsed),
            )
            for nic, now in nics(raw.net_dev).items()
        ]
        rows += [
            row("disk", disk, disk_columns(old_disks.get(disk), now, elapsed))
            for disk, now in disks(raw.diskstats).items()
        ]
        return Reading(rows, raw.adapters.health)

    def close(self) -> None:
        """End the thread that asks the adapters."""
        if self._adapters:
            self._adapters.close()

    def _ask_for_links(self, net_dev: bytes) -> None:
        links = {nic: read_link(self._sys, nic) for nic in nics(net_dev)}
        for nic, link in links.items():
            if self._adapters and nic in self._links and self._links[nic].index != link.index:
                self._adapters.forget(nic)
        self._links = links


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """The device source."""
    return (DeviceSource(agent),)


def read_link(sys: str, nic: str) -> Link:
    """Ask /sys for the link of a NIC."""
    folder = f"{sys}/class/net/{nic}"
    state = (files.optional(f"{folder}/operstate") or b"").strip()
    return Link(
        megabits_per_s=whole(files.optional(f"{folder}/speed")) or None,
        up={b"up": True, b"down": False, b"lowerlayerdown": False}.get(state),
        changes=whole(files.optional(f"{folder}/carrier_changes")),
        index=whole(files.optional(f"{folder}/ifindex")),
        physical=os.path.exists(f"{folder}/device"),  # noqa: PTH110 - cheap
    )


def nics(net_dev: bytes) -> Counters:
    """Of /proc/net/dev: the 16 counters of each NIC that is a way out of the host."""
    counters = {}
    for line in net_dev.decode(errors="replace").splitlines()[2:]:
        name, _, numbers = line.partition(":")
        if not NOT_NICS.fullmatch(name := name.strip()) and (known := _numbers(numbers.split(), NIC_NUMBERS)):
            counters[name] = known
    return counters


def disks(diskstats: bytes | None) -> Counters:
    """Of /proc/diskstats: the counters of each whole disk."""
    counters = {}
    for line in (diskstats or b"").decode(errors="replace").splitlines():
        name, *numbers = line.split()[2:] or ("",)
        if not (NOT_DISKS.fullmatch(name) or PARTITION.fullmatch(name)) and (known := _numbers(numbers, DISK_NUMBERS)):
            counters[name] = known
    return counters


def nic_columns(old: Sequence[int] | None, new: Sequence[int], elapsed_s: float | None, link: Link | None) -> Columns:
    """Rates between two reads, and the link."""
    columns: Columns = {}
    if link is not None:
        columns |= {
            "link_megabits_per_s": link.megabits_per_s,
            "link_up": link.up,
            "carrier_changes": link.changes,
        }
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


def _numbers(words: Sequence[str], least: int) -> tuple[int, ...]:
    """The counters of a line; () when it is not whole, or not of numbers."""
    whole_line = len(words) >= least and all(map(str.isdigit, words))
    return tuple(map(int, words)) if whole_line else ()


def _delta(old: Sequence[int], new: Sequence[int], index: int) -> int | None:
    """How far a counter went; None when it went back: it wrapped, or the device was reset."""
    delta = new[index] - old[index]
    return delta if delta >= 0 else None


def _rate(old: Sequence[int], new: Sequence[int], index: int, factor: float) -> int | None:
    """A counter's growth times `factor`; None also beyond the column: another device took the name."""
    delta = _delta(old, new, index)
    return None if delta is None else fitting(delta * factor)


def _latency(old: Sequence[int], new: Sequence[int], count: int, spent_ms: int) -> int | None:
    done, spent = _delta(old, new, count), _delta(old, new, spent_ms)
    return fitting(spent * 1000 / done) if done and spent is not None else None
