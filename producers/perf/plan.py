"""Which events tell the columns of a socket, on the CPU that is here.

Sources: Intel's event files of each model (perfmon, as in tools/perf/pmu-events of the kernel), AMD's PPRs and the same
files for Zen, Arm's common events as the kernel names them, NVIDIA's Grace performance tuning guide for its memory.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.producers.host import fields
from warpmeter.producers.perf.kernel import CACHE, HARDWARE, RAW, Event
from warpmeter.producers.perf.pmus import Pmu, find

LINE_BYTES: Final = 64.0
CORE: Final = (Event("cycles", HARDWARE, 0), Event("instructions", HARDWARE, 1))
LAST_LEVEL: Final = (
    Event("l3_loads", CACHE, 0x2),
    Event("l3_misses", CACHE, 0x1_0002),
)  # reads of PERF_COUNT_HW_CACHE_LL
STALL_CYCLES: Final = Event("stall_cycles", HARDWARE, 0)

HASWELL_BROADWELL_XEON: Final = frozenset({0x3F, 0x4F, 0x56})
SKYLAKE_TO_GRANITE_RAPIDS: Final = frozenset({0x55, 0x6A, 0x6C, 0x8F, 0xCF, 0xAD, 0xAE})
SAPPHIRE_AND_EMERALD_RAPIDS: Final = frozenset({0x8F, 0xCF})
GRANITE_RAPIDS: Final = frozenset({0xAD, 0xAE})
ZEN: Final = frozenset({0x17, 0x19, 0x1A})
ZEN4_OF_19H: Final = (range(0x10, 0x20), range(0x60, 0x80), range(0xA0, 0xB0))

INTEL_L2: Final = (0xE124, 0x2124)  # L2_RQSTS.ALL_DEMAND_DATA_RD, .DEMAND_DATA_RD_MISS
INTEL_STALL: Final = 0x0600_06A3  # CYCLE_ACTIVITY.STALLS_L3_MISS
AMD_L2: Final = (0xF864, 0x0864)  # l2_cache_req_stat.dc_access_in_l2, .ls_rd_blk_c
AMD_STALL: Final = 0xA2D6  # ex_no_retire.load_not_complete
AMD_L3: Final = ({"event": 0x04, "umask": 0xFF}, {"event": 0x04, "umask": 0x01})  # l3_lookup_state, its l3_miss

# Names that the kernel gives the memory controllers' events: read, write, bytes a count where it does not say.
MEMORY_NAMES: Final = (
    ("cas_count_read", "cas_count_write", LINE_BYTES, LINE_BYTES),
    ("data_reads", "data_writes", LINE_BYTES, LINE_BYTES),
    ("cmem_rd_data", "cmem_wr_total_bytes", 32.0, 1.0),
)
IMC: Final = re.compile(r"uncore_imc(_\d+)?|nvidia_scf_pmu_\d+")
UMC: Final = re.compile(r"amd_umc_\d+")
AMD_L3_PMU: Final = re.compile(r"amd_l3")
ARM_PMU: Final = re.compile(r"armv8_pmuv3(_0)?|armv8_[a-z]\w*")


@dataclass(frozen=True)
class Cpu:
    """What CPU it is, as /proc/cpuinfo has it; 0 and '' where it does not say."""

    vendor: str
    family: int
    model: int


@dataclass(frozen=True)
class Group:
    """Events that are counted together. `subject`: what its health is reported as; `cpus`: () for every one."""

    subject: str
    events: tuple[Event, ...]
    cpus: tuple[int, ...] = ()


def cpu(cpuinfo: bytes | None) -> Cpu:
    """Of /proc/cpuinfo: its first processor."""
    lines = fields((cpuinfo or b"").partition(b"\n\n")[0], b":")
    known = {key.strip(): value.strip() for key, value in lines.items()}
    numbers = (known.get(name, b"") for name in (b"cpu family", b"model"))
    family, model = (int(number) if number.isdigit() else 0 for number in numbers)
    return Cpu(known.get(b"vendor_id", b"").decode(errors="replace"), family, model)


def plan(sys: str, cpuinfo: bytes | None) -> list[Group]:
    """All groups that this CPU may have; whether it does is known when they are opened."""
    what = cpu(cpuinfo)
    events = {"core": CORE, "l2": l2(sys, what), "stall": stall(sys, what)}
    groups = [Group(subject, found) for subject, found in events.items() if found]
    return [*groups, *l3(sys, what), *memory(sys, what)]


def l2(sys: str, what: Cpu) -> tuple[Event, ...]:
    """Loads that looked in the second level, and those that missed."""
    if what.vendor == "GenuineIntel" and what.model in SKYLAKE_TO_GRANITE_RAPIDS | HASWELL_BROADWELL_XEON:
        return _raw(("l2_loads", "l2_misses"), INTEL_L2)
    if what.vendor == "AuthenticAMD" and what.family in ZEN:
        return _raw(("l2_loads", "l2_misses"), AMD_L2)
    return _arm(sys, {"l2_loads": "l2d_cache", "l2_misses": "l2d_cache_refill"})


def stall(sys: str, what: Cpu) -> tuple[Event, ...]:
    """Cycles in which a core waited for memory, and all its cycles."""
    if what.vendor == "GenuineIntel" and what.model in SKYLAKE_TO_GRANITE_RAPIDS:
        return (STALL_CYCLES, *_raw(("stalls",), (INTEL_STALL,)))
    if what.vendor == "AuthenticAMD" and _is_zen4_or_later(what):
        return (STALL_CYCLES, *_raw(("stalls",), (AMD_STALL,)))
    waiting = _arm(sys, {"stalls": "stall_backend_mem"})
    return (STALL_CYCLES, *waiting) if waiting else ()


def l3(sys: str, what: Cpu) -> list[Group]:
    """Loads that looked in the last level, and those that missed. AMD counts them beside the cores, a slice each."""
    if what.vendor != "AuthenticAMD":
        return [Group("l3", LAST_LEVEL)]
    return [
        Group("l3", events, pmu.cpus)
        for pmu in find(sys, AMD_L3_PMU)
        if (events := _known(pmu.encoded(name, of) for name, of in zip(("l3_loads", "l3_misses"), AMD_L3, strict=True)))
    ]


def memory(sys: str, what: Cpu) -> list[Group]:
    """Bytes read from and written to memory, a group for each controller."""
    groups = []
    for pmu in find(sys, IMC):
        groups.append(Group(f"memory/{pmu.name}", _named_memory(pmu) or _intel_memory(pmu, what), pmu.cpus))
    for pmu in find(sys, UMC):
        by_way = {"mem_read": 1, "mem_written": 2}
        events = _known(
            pmu.encoded(counter, {"event": 0x0A, "rdwrmask": way}, LINE_BYTES) for counter, way in by_way.items()
        )
        groups.append(Group(f"memory/{pmu.name}", events, pmu.cpus))
    return [group for group in groups if group.events]


def _named_memory(pmu: Pmu) -> tuple[Event, ...]:
    for read, write, read_bytes, write_bytes in MEMORY_NAMES:
        events = _known((pmu.named("mem_read", read, read_bytes), pmu.named("mem_written", write, write_bytes)))
        if events:
            return events
    return ()


def _intel_memory(pmu: Pmu, what: Cpu) -> tuple[Event, ...]:
    """UNC_M_CAS_COUNT of models whose events the kernel does not name; Granite Rapids counts two sub-channels."""
    if what.model in SAPPHIRE_AND_EMERALD_RAPIDS:
        codes: tuple[int, ...] = (0x05,)
    elif what.model in GRANITE_RAPIDS:
        codes = (0x05, 0x06)
    else:
        return ()
    ways = (("mem_read", 0xCF), ("mem_written", 0xF0))
    return _known(
        pmu.encoded(counter, {"event": code, "umask": umask}, LINE_BYTES) for code in codes for counter, umask in ways
    )


def _arm(sys: str, names: Mapping[str, str]) -> tuple[Event, ...]:
    for pmu in find(sys, ARM_PMU):
        if events := _known(pmu.named(counter, name, 1.0) for counter, name in names.items()):
            return events
    return ()


def _raw(counters: Sequence[str], configs: Sequence[int]) -> tuple[Event, ...]:
    return tuple(Event(counter, RAW, config) for counter, config in zip(counters, configs, strict=True))


def _known(events: Iterable[Event | None]) -> tuple[Event, ...]:
    """All of them, or none when one is not known: half a ratio is no use."""
    found = tuple(events)
    known = tuple(event for event in found if event is not None)
    return known if len(known) == len(found) else ()


def _is_zen4_or_later(what: Cpu) -> bool:
    return what.family == 0x1A or (what.family == 0x19 and any(what.model in models for models in ZEN4_OF_19H))
