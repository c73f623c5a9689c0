"""CPU sockets by their own counters: instructions, cycles, caches, waiting for memory, memory bandwidth.

`plan` says which events tell it on this CPU, `kernel` alone speaks to perf_event_open, `opened` holds what counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warpmeter.producers import files
from warpmeter.producers.counters import fitting, permille, whole
from warpmeter.producers.perf.kernel import Counted, Kernel, Perf
from warpmeter.producers.perf.opened import Counters
from warpmeter.producers.perf.plan import Group, plan
from warpmeter.producers.source import AnySource, Attribution, Health, Reading, Sample
from warpmeter.producers.topology import sockets
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

DeviceSample = Envelope.DeviceSample
Columns = dict[str, Any]
Groups = Mapping[str, Sequence[tuple[Group, Mapping[int, Counted]]]]
Totals = dict[str, float | None]

RATES: Final = {
    "instructions_mega_per_s": ("instructions", 1e-6),
    "cycles_mega_per_s": ("cycles", 1e-6),
    "l2_loads_kilo_per_s": ("l2_loads", 1e-3),
    "l2_misses_kilo_per_s": ("l2_misses", 1e-3),
    "l3_loads_kilo_per_s": ("l3_loads", 1e-3),
    "l3_misses_kilo_per_s": ("l3_misses", 1e-3),
    "mem_read_megabytes_per_s": ("mem_read", 1e-6),
    "mem_write_megabytes_per_s": ("mem_written", 1e-6),
}
HIT_RATIOS: Final = {
    "l2_hit_ratio_permille": ("l2_misses", "l2_loads"),
    "l3_hit_ratio_permille": ("l3_misses", "l3_loads"),
}


@dataclass(frozen=True)
class PerfRaw:
    """One read of everything that counts. `opened`: which opening of the counters it is of; `sockets`: by CPU."""

    opened: int
    sockets: Mapping[int, int]
    groups: Groups
    missing: Sequence[Health] = ()


class SocketSource:
    """One row for each CPU socket."""

    name: Final = "cpu_counters"
    topic: Final = "device-samples"
    timeout_s: Final = 5.0

    def __init__(
        self,
        agent: Agent,
        perf: Perf | None = None,
        choose: Callable[[str, bytes | None], Sequence[Group]] = plan,
    ) -> None:
        """`choose`: what to count, by /sys and /proc/cpuinfo."""
        self.period_s = agent.cpu_counter_interval_s
        self._host = agent.host
        self._sys = files.below(agent.root, "sys")
        self._proc = files.below(agent.root, "proc")
        self._perf, self._choose = perf, choose
        self._counters: Counters | None = None
        self._times_opened = 0
        self._sockets: Mapping[int, int] = {}
        self._online: bytes | None = None

    def read(self) -> PerfRaw:
        """All counters now; raises SourceError when there are none, or they may not be read."""
        online = files.optional(f"{self._sys}/devices/system/cpu/online")
        if self._counters is None or online != self._online:
            self.close()
            self._counters = self._open()
            self._online = online
        try:
            return PerfRaw(self._times_opened, self._sockets, self._counters.read(), self._counters.missing)
        except OSError:
            self.close()
            raise

    def parse(self, sample: Sample[PerfRaw], before: Sample[PerfRaw] | None) -> Reading:
        """A row for each socket from the second read on; none when the counters were opened anew in between."""
        elapsed = sample.since(before)
        raw = sample.raw
        if before is None or not elapsed or before.raw.opened != raw.opened:
            return Reading((), raw.missing)
        found, idle = totals(before.raw.groups, raw.groups, raw.sockets)
        rows = [
            DeviceSample(
                host=self._host,
                ts=sample.ts,
                period_ms=sample.covers_ms(before),
                kind="socket",
                device=f"socket{socket}",
                **columns(counts, elapsed),
            )
            for socket, counts in sorted(found.items())
        ]
        return Reading(rows, [*raw.missing, *idle])

    def close(self) -> None:
        """Stop counting."""
        if self._counters is not None:
            self._counters.close()
            self._counters = None

    def _open(self) -> Counters:
        self._sockets = sockets(self._sys)
        self._perf = self._perf or Kernel()
        groups = self._choose(self._sys, files.optional(f"{self._proc}/cpuinfo"))
        paranoid = (files.optional(f"{self._proc}/sys/kernel/perf_event_paranoid") or b"").strip()
        level = whole(paranoid) if not paranoid.startswith(b"-") else -1
        counters = Counters(self._perf, groups, sorted(self._sockets), level)
        self._times_opened += 1
        return counters


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """The source of CPU sockets, unless the settings leave it out."""
    return (SocketSource(agent),) if agent.cpu_counters else ()


def totals(before: Groups, now: Groups, of_socket: Mapping[int, int]) -> tuple[dict[int, Totals], list[Health]]:
    """What each socket counted between two reads: the sum of its CPUs, None where one of them could not count.

    Also the health of groups that did not get onto the CPU's counters.
    """
    found: dict[int, Totals] = {socket: {} for socket in of_socket.values()}
    idle: dict[str, int] = {}
    for subject, groups in now.items():
        for (group, new), (_, old) in zip(groups, before[subject], strict=True):
            for cpu, counted in new.items():
                grown = growth(old[cpu], counted)
                idle[subject] = idle.get(subject, 0) + (grown is None)
                _add(found.setdefault(of_socket.get(cpu, 0), {}), group, grown)
    why = "CPUs gave it no counter: another profiler has them all (or set kernel.nmi_watchdog to 0, which has one)"
    return found, [Health(subject, "failed", f"{count} {why}") for subject, count in idle.items() if count]


def growth(old: Counted, new: Counted) -> list[float] | None:
    """Counts between two reads, scaled up for the time in which other groups had the counters; None if all of it."""
    running, enabled = new.running - old.running, new.enabled - old.enabled
    deltas = [after - earlier for earlier, after in zip(old.values, new.values, strict=True)]
    if running <= 0 or enabled < running or any(delta < 0 for delta in deltas):
        return None
    return [delta * enabled / running for delta in deltas]


def columns(counts: Totals, elapsed_s: float) -> Columns:
    """Columns of one socket."""
    known = {counter: count for counter, count in counts.items() if count is not None}
    found: Columns = {
        column: fitting(known[counter] * factor / elapsed_s)
        for column, (counter, factor) in RATES.items()
        if counter in known
    }
    for column, (misses, loads) in HIT_RATIOS.items():
        if known.get(loads) and misses in known:
            found[column] = permille(1 - known[misses] / known[loads])
    if known.get("stall_cycles") and "stalls" in known:
        found["memory_stall_permille"] = permille(known["stalls"] / known["stall_cycles"])
    return found


def _add(socket: Totals, group: Group, grown: Sequence[float] | None) -> None:
    for place, event in enumerate(group.events):
        so_far = socket.get(event.counter, 0.0)
        known = grown is not None and so_far is not None
        socket[event.counter] = so_far + grown[place] * event.unit if known else None  # type: ignore[operator, index]
