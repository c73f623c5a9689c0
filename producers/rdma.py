"""RDMA ports (InfiniBand and RoCE) from /sys/class/infiniband: traffic, congestion, errors, links.

Names: Documentation/ABI/stable/sysfs-class-infiniband of the kernel, NVIDIA's "Understanding mlx5 Linux counters", and
the hw_stats tables of the drivers bnxt_re, irdma and efa. Port counters of bytes are in words of four (IBTA).
"""

import errno
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warpmeter.producers import files
from warpmeter.producers.bounded import Pool
from warpmeter.producers.counters import rate, summed, whole
from warpmeter.producers.source import AnySource, Attribution, Health, Reading, Sample, SourceError
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

DeviceSample = Envelope.DeviceSample
Columns = dict[str, Any]

LOOK_AGAIN_S: Final = 10.0
"""How often the files of a port are listed, and its link is asked for: that goes to the adapter's firmware."""
FORGET_S: Final = 600.0
"""How long a port that vanished is reported as gone."""
ANSWER_S: Final = 2.0
"""How long the adapters together may take; while one's firmware hangs, its driver waits a minute for each command."""
GRACE_S: Final = 0.05
"""After which the next port is asked while this one is still waited for."""
WORD: Final = 4

# Column: in the order of preference, the files that are summed up and the unit that they count in.
_PORT, _HW = "counters", "hw_counters"
FILES: Final[Mapping[str, Sequence[tuple[int, Sequence[str]]]]] = {
    "rx_kilobytes_per_s": ((WORD, (f"{_PORT}/port_rcv_data",)), (1, (f"{_HW}/rx_bytes",))),
    "tx_kilobytes_per_s": ((WORD, (f"{_PORT}/port_xmit_data",)), (1, (f"{_HW}/tx_bytes",))),
    "rx_packets_per_s": ((1, (f"{_PORT}/port_rcv_packets",)), (1, (f"{_HW}/rx_pkts",))),
    "tx_packets_per_s": ((1, (f"{_PORT}/port_xmit_packets",)), (1, (f"{_HW}/tx_pkts",))),
    "rx_errors_milli_per_s": ((1, (f"{_PORT}/port_rcv_errors",)),),
    "rx_drops_milli_per_s": (
        (1, (f"{_HW}/out_of_buffer",)), (1, (f"{_HW}/rx_out_of_buffer",)), (1, (f"{_HW}/rx_drops",)),
    ),
    "tx_drops_milli_per_s": ((1, (f"{_PORT}/port_xmit_discards",)),),
    "cnp_sent_milli_per_s": ((1, (f"{_HW}/np_cnp_sent",)), (1, (f"{_HW}/tx_cnp_pkts",)), (1, (f"{_HW}/cnpSent",))),
    "cnp_handled_milli_per_s": (
        (1, (f"{_HW}/rp_cnp_handled",)), (1, (f"{_HW}/rx_cnp_pkts",)), (1, (f"{_HW}/cnpHandled",)),
    ),
    "ecn_marked_milli_per_s": (
        (1, (f"{_HW}/np_ecn_marked_roce_packets",)), (1, (f"{_HW}/rx_ecn_marked_pkts",)), (1, (f"{_HW}/RxECNMrkd",)),
    ),
    "rdma_reads_per_s": ((1, (f"{_HW}/rx_read_requests",)), (1, (f"{_HW}/rx_read_req",))),
    "rdma_writes_per_s": ((1, (f"{_HW}/rx_write_requests",)), (1, (f"{_HW}/rx_write_req",))),
    "rdma_atomics_per_s": ((1, (f"{_HW}/rx_atomic_requests",)), (1, (f"{_HW}/rx_atomic_req",))),
    "tx_waits_per_s": ((1, (f"{_PORT}/port_xmit_wait",)),),
    "symbol_errors_milli_per_s": ((1, (f"{_PORT}/symbol_error",)),),
    "sequence_errors_milli_per_s": (
        (1, (f"{_HW}/out_of_sequence", f"{_HW}/packet_seq_err")),
        (1, (f"{_HW}/oos_drop_count", f"{_HW}/seq_err_naks_rcvd")),
    ),
    "ack_timeouts_milli_per_s": ((1, (f"{_HW}/local_ack_timeout_err",)), (1, (f"{_HW}/to_retransmits",))),
    "link_downs": ((1, (f"{_PORT}/link_downed",)),),
    "link_recoveries": ((1, (f"{_PORT}/link_error_recovery",)),),
}  # fmt: skip
COUNTERS: Final = frozenset({"link_downs", "link_recoveries"})
# IBTA: these stop at their largest value instead of starting again.
LIMITS: Final = {
    f"{_PORT}/symbol_error": 0xFFFF,
    f"{_PORT}/port_rcv_errors": 0xFFFF,
    f"{_PORT}/port_xmit_discards": 0xFFFF,
    f"{_PORT}/link_downed": 0xFF,
    f"{_PORT}/link_error_recovery": 0xFF,
    f"{_PORT}/port_xmit_wait": 0xFFFF_FFFF,
    f"{_PORT}/port_rcv_data": 0xFFFF_FFFF,
    f"{_PORT}/port_xmit_data": 0xFFFF_FFFF,
}
RATE: Final = re.compile(rb"([\d.]+) Gb/sec")
STATES: Final = {b"4": True, b"5": True, b"1": False, b"2": False, b"3": False}
"""Of `state`, as in `4: ACTIVE`: 5 is ACTIVE_DEFER, which still carries traffic; 1 to 3 are DOWN, INIT and ARMED."""


@dataclass(frozen=True)
class Port:
    """One read of a port. `counts`: by column, in packets, bytes or events. `full`: counters at their limit."""

    counts: Mapping[str, int | None]
    full: Sequence[str] = ()
    denied: str = ""
    megabits_per_s: int | None = None
    up: bool | None = None


@dataclass(frozen=True)
class Ports:
    """All ports, by name as in `mlx5_0/1`, those that are not there any more, and those that did not answer."""

    ports: Mapping[str, Port]
    gone: Sequence[str] = ()
    late: Sequence[str] = ()


@dataclass(frozen=True)
class _Layout:
    """What a port has: its folder, by column a unit and files, and its link."""

    folder: str
    columns: Mapping[str, tuple[int, Sequence[str]]]
    megabits_per_s: int | None
    up: bool | None


class RdmaSource:
    """One row for each RDMA port."""

    name: Final = "rdma"
    topic: Final = "device-samples"
    timeout_s: Final = 5.0

    def __init__(self, agent: Agent, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.period_s = agent.device_interval_s
        self._host, self._monotonic = agent.host, monotonic
        self._base = files.below(agent.root, "sys", "class", "infiniband")
        self._folders: dict[str, str] = {}
        self._layouts: dict[str, _Layout] = {}
        self._looked = float("-inf")
        self._gone: dict[str, float] = {}
        self._pool: Pool[tuple[_Layout, Port | None]] = Pool("rdma")

    def read(self) -> Ports:
        """All ports now; raises SourceError when the host has none."""
        now = self._monotonic()
        if now - self._looked >= LOOK_AGAIN_S:
            self._look(now)
        if not self._folders and not self._gone:
            raise SourceError(
                "unsupported", f"no port in {self._base}: no RDMA adapter, or its driver (mlx5_ib, …) is not loaded"
            )
        answers = self._pool.ask(sorted(self._folders), self._ask, GRACE_S, ANSWER_S)
        late = sorted(self._folders.keys() - answers.keys())
        found = {}
        for name, answer in answers.items():
            layout, port = (None, None) if isinstance(answer, OSError) else answer
            if layout is None or port is None:
                self._gone[name] = now
                del self._folders[name]
                continue
            self._layouts[name], found[name] = layout, port
        return Ports(found, sorted(self._gone), late)

    def parse(self, sample: Sample[Ports], before: Sample[Ports] | None) -> Reading:
        """A row for each port that answered."""
        elapsed = sample.since(before)
        old = before.raw.ports if before else {}
        period_ms = sample.covers_ms(before)
        rows = [
            DeviceSample(
                host=self._host,
                ts=sample.ts,
                period_ms=period_ms,
                kind="rdma",
                device=name,
                **columns(old.get(name), port, elapsed),
            )
            for name, port in sample.raw.ports.items()
        ]
        return Reading(rows, _health(sample.raw))

    def close(self) -> None:
        """End the threads that do not hang."""
        self._pool.close()

    def _look(self, now: float) -> None:
        """Find the ports; what each of them counts is asked anew as well."""
        self._looked = now
        before, self._folders = self._folders, _folders(self._base)
        self._layouts = {}
        self._gone |= dict.fromkeys(before.keys() - self._folders.keys(), now)
        still = {name: at for name, at in self._gone.items() if now - at < FORGET_S}
        self._gone = {name: at for name, at in still.items() if name not in self._folders}

    def _ask(self, name: str) -> tuple[_Layout, Port | None]:
        layout = self._layouts.get(name) or look(self._folders[name])
        return layout, read_port(layout)


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """The RDMA source, unless the settings leave it out."""
    return (RdmaSource(agent),) if agent.rdma else ()


def look(folder: str) -> _Layout:
    """What the port at `folder` counts, and its link."""
    have = {f"{part}/{name}" for part in (_PORT, _HW) for name in _listed(f"{folder}/{part}")}
    chosen = {}
    for column, choices in FILES.items():
        for unit, names in choices:
            if there := [name for name in names if name in have]:
                chosen[column] = (unit, there)
                break
    speed = RATE.match(files.optional(f"{folder}/rate") or b"")
    state = (files.optional(f"{folder}/state") or b"").partition(b":")[0].strip()
    return _Layout(folder, chosen, round(float(speed[1]) * 1000) if speed else None, STATES.get(state))


def read_port(layout: _Layout) -> Port | None:
    """The counters of a port; None when it is gone."""
    values: dict[str, int | None] = {}
    denied, answered = "", 0
    for name in {name: None for _, names in layout.columns.values() for name in names}:
        try:
            values[name] = whole(files.read(f"{layout.folder}/{name}"))
        except PermissionError as error:
            denied = str(error)
        except OSError as error:  # a driver may refuse single counters (EINVAL, EOPNOTSUPP)
            answered += error.errno not in (errno.ENOENT, errno.ENODEV)
        else:
            answered += 1
    if not answered and not denied and (layout.columns or not os.path.isdir(layout.folder)):  # noqa: PTH112 - cheap
        return None
    full = [name for name, value in values.items() if value is not None and value == LIMITS.get(name)]
    counts = {column: _count(unit, names, values, full, column) for column, (unit, names) in layout.columns.items()}
    return Port(counts, full, denied, layout.megabits_per_s, layout.up)


def columns(old: Port | None, new: Port, elapsed_s: float | None) -> Columns:
    """Counters, the link, and rates since the read before."""
    found: Columns = {"link_megabits_per_s": new.megabits_per_s, "link_up": new.up}
    found |= {column: new.counts.get(column) for column in COUNTERS}
    if old is None or not elapsed_s:
        return found
    for column in FILES.keys() - COUNTERS:
        found[column] = rate(old.counts.get(column), new.counts.get(column), elapsed_s, _factor(column))
    return found


def _factor(column: str) -> float:
    if column.endswith("kilobytes_per_s"):
        return 1e-3
    return 1e3 if column.endswith("_milli_per_s") else 1.0


def _count(
    unit: int, names: Sequence[str], values: Mapping[str, int | None], full: Sequence[str], column: str
) -> int | None:
    """The sum in units; what stands at its limit has no rate, for it counts no further."""
    if column not in COUNTERS and any(name in full for name in names):
        return None
    total = summed(*(values.get(name) for name in names))
    return None if total is None else total * unit


def _health(raw: Ports) -> list[Health]:
    found = [Health(name, "gone", "the port was there before: adapter reset, or driver unloaded") for name in raw.gone]
    why = (
        f"its counters did not come within {ANSWER_S:g} s: the adapter's firmware may hang, see dmesg; the others go on"
    )
    found += [Health(name, "timeout", why) for name in raw.late]
    for port, what in raw.ports.items():
        if what.denied:
            found.append(Health(port, "denied", f"{what.denied}; run the agent as root"))
        for name in what.full:
            adapter, _, number = port.partition("/")
            why = f"at its largest value, it counts no further; reset it: perfquery -R -C {adapter} -P {number}"
            found.append(Health(f"{port}/{name.rpartition('/')[2]}", "failed", why))
    return found


def _folders(base: str) -> dict[str, str]:
    """Folders of all ports by their name."""
    return {
        f"{adapter}/{port}": f"{base}/{adapter}/ports/{port}"
        for adapter in _listed(base)
        for port in _listed(f"{base}/{adapter}/ports")
    }


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - cheap
    except OSError:
        return []
