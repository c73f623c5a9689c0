"""The host itself from /proc: CPU, load, memory, swap, pressure; `vitals` has what is less asked for.

Formats: proc(5) and Documentation/accounting/psi.rst of the kernel.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter import __version__
from warpmeter.producers import files, vitals
from warpmeter.producers.counters import whole
from warpmeter.producers.source import AnySource, Attribution, Reading, Sample
from warpmeter.schemas.generated.host_samples_pb2 import Envelope
from warpmeter.settings import Agent

HostSample = Envelope.HostSample
Columns = dict[str, int | None]

# Columns of a cpu line in /proc/stat. guest and guest_nice follow, and are part of user and nice.
MODES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE: Final = frozenset({"idle", "iowait"})
MEMINFO: Final = {
    "mem_total_mebibytes": b"MemTotal",
    "mem_available_mebibytes": b"MemAvailable",
    "mem_free_mebibytes": b"MemFree",
    "mem_cached_mebibytes": b"Cached",
    "mem_buffers_mebibytes": b"Buffers",
    "mem_dirty_mebibytes": b"Dirty",
    "mem_shared_mebibytes": b"Shmem",
    "mem_anonymous_mebibytes": b"AnonPages",
    "mem_slab_mebibytes": b"Slab",
    "swap_total_mebibytes": b"SwapTotal",
}
STAT_RATES: Final = {
    "context_switches_per_s": b"ctxt",
    "interrupts_per_s": b"intr",
    "forks_per_s": b"processes",
}
STAT_GAUGES: Final = {"procs_running": b"procs_running", "procs_blocked": b"procs_blocked"}
QUANTILES: Final = {"min": 0.0, "p50": 0.5, "p90": 0.9, "max": 1.0}
UINT32_MAX: Final = 0xFFFF_FFFF
PRESSURES: Final = ("cpu", "memory", "io")


@dataclass(frozen=True)
class HostRaw:
    """The files as they were; None for one that this kernel does not have."""

    stat: bytes
    meminfo: bytes
    loadavg: bytes
    vmstat: bytes | None
    uptime: bytes | None
    pressure: tuple[bytes | None, ...]
    processes: int
    snmp: bytes | None = None
    file_nr: bytes | None = None
    huge_pages: vitals.HugePages = ()


class HostSource:
    """One `HostSample` a tick. The first has no rates: they need two reads."""

    name = "host"
    topic = "host-samples"
    timeout_s = 5.0

    def __init__(self, agent: Agent) -> None:
        self.period_s = agent.interval_s
        self._host = agent.host
        self._proc = files.below(agent.root, "proc")
        self._kernel = (files.optional(f"{self._proc}/sys/kernel/osrelease") or b"").decode(errors="replace").strip()
        self._page_kilobytes = os.sysconf("SC_PAGE_SIZE") / 1000
        self._snmp = files.of_network(agent.root, "snmp")
        self._huge_pages = vitals.huge_page_sizes(files.below(agent.root, "sys"))

    def read(self) -> HostRaw:
        """Read the files; raises OSError when /proc/stat, meminfo or loadavg cannot be read."""
        proc = self._proc
        return HostRaw(
            stat=files.read(f"{proc}/stat"),
            meminfo=files.read(f"{proc}/meminfo"),
            loadavg=files.read(f"{proc}/loadavg"),
            vmstat=files.optional(f"{proc}/vmstat"),
            uptime=files.optional(f"{proc}/uptime"),
            pressure=tuple(files.optional(f"{proc}/pressure/{what}") for what in PRESSURES),
            processes=sum(name.isdigit() for name in os.listdir(proc)),  # noqa: PTH208 - Path.iterdir costs ten times
            snmp=files.optional(self._snmp),
            file_nr=files.optional(f"{proc}/sys/fs/file-nr"),
            huge_pages=vitals.read_huge_pages(self._huge_pages),
        )

    def parse(self, sample: Sample[HostRaw], before: Sample[HostRaw] | None) -> Reading:
        """One row."""
        elapsed = sample.since(before)
        columns = gauges(sample.raw)
        if before is not None and elapsed:
            columns |= rates(before.raw, sample.raw, elapsed, self._page_kilobytes)
        row = HostSample(
            host=self._host,
            ts=sample.ts,
            period_ms=sample.covers_ms(before),
            agent_version=__version__,
            kernel=self._kernel,
            **columns,
        )
        return Reading((row,))

    def close(self) -> None:
        """Nothing is held."""


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """The host source."""
    return (HostSource(agent),)


def gauges(raw: HostRaw) -> Columns:
    """What one read tells by itself."""
    stat = fields(raw.stat, b" ")
    return {
        "uptime_s": _uptime(raw.uptime),
        "cores": sum(line.startswith(b"cpu") and line[3:4].isdigit() for line in raw.stat.splitlines()),
        "processes": raw.processes,
        **{column: whole(stat.get(key)) for column, key in STAT_GAUGES.items()},
        **_load(raw.loadavg),
        **_memory(fields(raw.meminfo, b":")),
        **vitals.gauges(fields(raw.vmstat or b"", b" "), vitals.snmp(raw.snmp), raw.file_nr, raw.huge_pages),
    }


def rates(before: HostRaw, now: HostRaw, elapsed_s: float, page_kilobytes: float) -> Columns:
    """What needs two reads. A counter that went back (it wrapped, or started again) gives None."""
    old, new = fields(before.stat, b" "), fields(now.stat, b" ")
    columns = {
        column: _per_s(whole(old.get(key)), whole(new.get(key)), elapsed_s) for column, key in STAT_RATES.items()
    }
    return {
        **columns,
        **_cpu(before.stat, now.stat),
        **_memory_events(before, now, elapsed_s, page_kilobytes),
        **_pressure(before.pressure, now.pressure, elapsed_s),
    }


def fields(text: bytes, separator: bytes) -> Mapping[bytes, bytes]:
    """Lines of `key<separator>value…` as a map."""
    pairs = (line.partition(separator) for line in text.splitlines())
    return {key: value for key, _, value in pairs}


def cpu_ticks(stat: bytes) -> dict[bytes, tuple[int, ...]]:
    """Of /proc/stat: clock ticks in each of MODES since boot, of `cpu` (all) and each `cpuN`.

    A kernel that does not know the last modes leaves them out; they count as 0.
    """
    ticks = {}
    for line in stat.splitlines():
        if not line.startswith(b"cpu"):
            break
        name, *numbers = line.split()
        known = [int(number) for number in numbers[: len(MODES)]]
        ticks[name] = tuple(known + [0] * (len(MODES) - len(known)))
    return ticks


def _cpu(before: bytes, now: bytes) -> Columns:
    old, new = cpu_ticks(before), cpu_ticks(now)
    shares = mode_shares(old.get(b"cpu", ()), new.get(b"cpu", ()))
    if not shares:
        return {}
    columns: Columns = {f"cpu_{mode}_permille": _permille(share) for mode, share in shares.items()}
    columns["cpu_util_permille"] = _permille(1 - sum(shares[mode] for mode in IDLE))
    cores = (mode_shares(old[name], new[name]) for name in new if name != b"cpu" and name in old)
    busy = sorted(1 - sum(core[mode] for mode in IDLE) for core in cores if core)
    if busy:
        columns |= {f"core_busy_{name}_permille": _permille(_quantile(busy, q)) for name, q in QUANTILES.items()}
    return columns


def mode_shares(old: Sequence[int], new: Sequence[int]) -> dict[str, float]:
    """Share of each mode in the ticks between two reads, {} when none passed.

    Single modes may go back a little (the kernel says so of iowait); such a one counts as 0.
    """
    deltas = [max(0, after - earlier) for earlier, after in zip(old, new, strict=False)]
    total = sum(deltas)
    return {mode: delta / total for mode, delta in zip(MODES, deltas, strict=True)} if total else {}


def _quantile(ordered: Sequence[float], q: float) -> float:
    """The nearest rank of a sorted sequence."""
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def _permille(share: float) -> int:
    return min(1000, max(0, round(share * 1000)))


def _per_s(old: int | None, new: int | None, elapsed_s: float, factor: float = 1.0) -> int | None:
    if old is None or new is None or new < old:
        return None
    rate = round((new - old) * factor / elapsed_s)
    return rate if rate <= UINT32_MAX else None


def _uptime(text: bytes | None) -> int | None:
    return int(float(text.split()[0])) if text else None


def _load(loadavg: bytes) -> Columns:
    one, five, fifteen = (round(float(number) * 100) for number in loadavg.split()[:3])
    return {"load1_centi": one, "load5_centi": five, "load15_centi": fifteen}


def _memory(meminfo: Mapping[bytes, bytes]) -> Columns:
    """Of /proc/meminfo, which counts in KiB."""
    columns = {column: _mebibytes(meminfo.get(key)) for column, key in MEMINFO.items()}
    total, free = whole(meminfo.get(b"SwapTotal")), whole(meminfo.get(b"SwapFree"))
    columns["swap_used_mebibytes"] = None if total is None or free is None else round((total - free) / 1024)
    return columns


def _mebibytes(kibibytes: bytes | None) -> int | None:
    number = whole(kibibytes)
    return None if number is None else round(number / 1024)


def _memory_events(before: HostRaw, now: HostRaw, elapsed_s: float, page_kilobytes: float) -> Columns:
    old, new = fields(before.vmstat or b"", b" "), fields(now.vmstat or b"", b" ")

    def rate(key: bytes, factor: float) -> int | None:
        return _per_s(whole(old.get(key)), whole(new.get(key)), elapsed_s, factor)

    return {
        "swap_in_kilobytes_per_s": rate(b"pswpin", page_kilobytes),
        "swap_out_kilobytes_per_s": rate(b"pswpout", page_kilobytes),
        "major_faults_per_s": rate(b"pgmajfault", 1.0),
        **vitals.rates(old, new, vitals.snmp(before.snmp), vitals.snmp(now.snmp), elapsed_s),
    }


def _pressure(before: Sequence[bytes | None], now: Sequence[bytes | None], elapsed_s: float) -> Columns:
    columns: Columns = {}
    for what, old, new in zip(PRESSURES, before, now, strict=True):
        stalled_before, stalled_now = stalled_us(old), stalled_us(new)
        for how, total in stalled_now.items():
            earlier = stalled_before.get(how)
            if earlier is not None and total >= earlier:
                columns[f"psi_{what}_{how}_permille"] = _permille((total - earlier) / 1e6 / elapsed_s)
    return columns


def stalled_us(text: bytes | None) -> dict[str, int]:
    """Of a /proc/pressure file: microseconds stalled since boot, for `some` and `full`."""
    stalled = {}
    for line in (text or b"").splitlines():
        how, total = line.partition(b" ")[0], line.rpartition(b"total=")[2]
        if (microseconds := whole(total)) is not None:
            stalled[how.decode(errors="replace")] = microseconds
    return stalled
