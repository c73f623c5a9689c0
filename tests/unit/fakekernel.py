"""The kernel's end of ethtool's ioctl and of perf_event_open, and hosts that have them."""

import ctypes
import errno
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.fakesys import FakeSys, write
from warpmeter.producers.perf.kernel import Counted, Event

GENUINE_SAPPHIRE = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon"
MLX5 = {
    "rx_packets": 9, "rx_out_of_buffer": 3, "rx_discards_phy": 4, "tx_discards_phy": 5, "rx_pause_ctrl_phy": 100,
    "tx_pause_ctrl_phy": 50, **{f"rx_prio{n}_pause": n for n in range(8)}, "rx_prio0_pause_duration": 999,
    **{f"tx_prio{n}_pause": 2 * n for n in range(8)}, "rx_prio3_pause_transition": 888,
    "tx_pause_storm_warning_events": 7, "tx_pause_storm_error_events": 1, "rx0_packets": 1, "ch0_events": 2,
}  # fmt: skip
RATES = {
    "instructions": 3e9, "cycles": 2e9, "l2_loads": 1e8, "l2_misses": 2.5e7, "l3_loads": 2e7, "l3_misses": 1e7,
    "stalls": 5e8, "stall_cycles": 2e9, "mem_read": 1e8, "mem_written": 5e7,
}  # fmt: skip


@dataclass
class FakeKernel:
    """The kernel's end of the ioctl: it follows the pointer in the ifreq and writes where that points to."""

    nics: dict[str, Mapping[str, int]] = field(default_factory=dict)
    refuse: dict[tuple[str, int], int] = field(default_factory=dict)
    before: Callable[[str], None] = lambda _: None
    strict: bool = True

    def __call__(self, _: int, request: int, ifreq: bytes) -> None:
        """ioctl(2)."""
        assert request == 0x8946
        name, address = struct.unpack("16sP16x", ifreq)
        nic = name.rstrip(b"\0").decode()
        (command,) = struct.unpack("=I", ctypes.string_at(address, 4))
        self.before(nic)
        if number := self.refuse.get((nic, command), 0 if nic in self.nics else errno.ENODEV):
            raise OSError(number, "refused")
        {0x37: self._count, 0x1B: self._names, 0x1D: self._values}[command](self.nics[nic], address)

    @staticmethod
    def _count(counters: Mapping[str, int], address: int) -> None:
        ctypes.memmove(address + 16, struct.pack("=I", len(counters)), 4)

    @staticmethod
    def _names(counters: Mapping[str, int], address: int) -> None:
        text = b"".join(name.encode().ljust(32, b"\0") for name in counters)
        ctypes.memmove(address + 8, struct.pack("=I", len(counters)) + text, 4 + len(text))

    def _values(self, counters: Mapping[str, int], address: int) -> None:
        (asked,) = struct.unpack("=I", ctypes.string_at(address + 4, 4))
        if self.strict and asked != len(counters):
            ctypes.memmove(address + 4, struct.pack("=I", 0), 4)
            return
        values = struct.pack(f"={len(counters)}Q", *counters.values())
        ctypes.memmove(address + 4, struct.pack("=I", len(counters)) + values, 4 + len(values))


@dataclass
class FakePerf:
    """The kernel's counters: `rates` a second by counter, on each CPU; `share` of the time in which groups count."""

    rates: Mapping[str, float] = field(default_factory=dict)
    refuse: Callable[[Event, int], int] = lambda _, __: 0
    share: Callable[[int], float] = lambda _: 1.0
    seconds: float = 0.0
    open_files: dict[int, tuple[Event, int, int]] = field(default_factory=dict)
    offline: bool = False

    def open(self, event: Event, cpu: int, group: int) -> int:
        """See Perf."""
        if number := self.refuse(event, cpu):
            raise OSError(number, "refused")
        descriptor = 100 + len(self.open_files)
        self.open_files[descriptor] = (event, cpu, descriptor if group < 0 else group)
        return descriptor

    def start(self, descriptor: int) -> None:
        """See Perf."""
        assert self.open_files[descriptor][2] == descriptor

    def read(self, descriptor: int, events: int) -> Counted:
        """See Perf."""
        if self.offline:
            raise OSError(errno.ENODEV, "the counters are gone")
        members = [event for event, _, leader in self.open_files.values() if leader == descriptor]
        assert len(members) == events
        share = self.share(self.open_files[descriptor][1])
        values = tuple(round(self.rates.get(event.counter, 0.0) * self.seconds * share) for event in members)
        return Counted(round(self.seconds * 1e9), round(self.seconds * 1e9 * share), values)

    def close(self, descriptors: Sequence[int]) -> None:
        """See Perf."""
        for descriptor in descriptors:
            del self.open_files[descriptor]


def sapphire(root: Path) -> FakeSys:
    """Two sockets of two CPUs, two memory controllers whose events the kernel does not name."""
    sys = FakeSys(root)
    write(sys.proc / "cpuinfo", GENUINE_SAPPHIRE)
    write(sys.proc / "sys/kernel/perf_event_paranoid", 2)
    write(sys.sys / "devices/system/cpu/online", "0-3")
    for number in range(4):
        write(sys.sys / f"devices/system/cpu/cpu{number}/topology/physical_package_id", number // 2)
    for number in range(2):
        pmu(sys, f"uncore_imc_{number}", 80 + number, "0,2", event="config:0-7", umask="config:8-15,32-55")
    return sys


def pmu(sys: FakeSys, name: str, number: int, cpumask: str = "", **formats: str) -> Path:
    """A unit that counts."""
    folder = sys.sys / "bus/event_source/devices" / name
    write(folder / "type", number)
    if cpumask:
        write(folder / "cpumask", cpumask)
    for term, layout in formats.items():
        write(folder / "format" / term, layout)
    return folder
