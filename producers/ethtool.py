"""What an adapter itself counts (`ethtool -S`): pauses, pause storms, and packets dropped before the kernel saw them.

The ioctl is linux/ethtool.h's. Names differ by driver; where they come from: mlx5's counters.rst, and the tables in
bnxt_ethtool.c, ice_ethtool.c, i40e_ethtool.c, ixgbe_ethtool.c, ena_ethtool.c and virtio_net.c of the kernel.
"""

import ctypes
import errno
import fcntl
import mmap
import re
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from warpmeter.producers.bounded import Pool
from warpmeter.producers.counters import rate
from warpmeter.producers.source import Health

Columns = dict[str, Any]
Counts = Mapping[str, int]
Ioctl = Callable[[int, int, bytes], Any]

SIOCETHTOOL: Final = 0x8946
GSTRINGS, GSTATS, GSSET_INFO = 0x1B, 0x1D, 0x37
STATISTICS: Final = 1  # ETH_SS_STATS
NAME_BYTES: Final = 32
HEAD: Final = struct.Struct("=III")  # command, string set, number of strings
SET_INFO: Final = struct.Struct("=IIQI")  # command, reserved, mask of sets, number of strings of the first
BUFFER_BYTES: Final = 1 << 20
"""The kernel writes as many counters as the adapter has now, whatever was asked for: 32 of a thousand queues fit."""
MOST: Final = BUFFER_BYTES // NAME_BYTES - 1
ANSWER_S: Final = 0.5
"""How long all adapters together may take; a driver that resets its adapter holds the lock for seconds."""

# Column: expressions on names, one a family of drivers; the first that some name of the adapter matches is summed up.
NAMES: Final[Mapping[str, Sequence[str]]] = {
    "rx_pauses_milli_per_s": (
        r"rx_pause_ctrl_phy", r"rx_pause(_frames)?", r"(port\.)?link_xo(n|ff)_rx(\.nic)?", r"rx_flow_control_xo(n|ff)",
    ),
    "tx_pauses_milli_per_s": (
        r"tx_pause_ctrl_phy", r"tx_pause(_frames)?", r"(port\.)?link_xo(n|ff)_tx(\.nic)?", r"tx_flow_control_xo(n|ff)",
    ),
    "rx_prio_pauses_milli_per_s": (
        r"rx_prio\d_pause", r"rx_pfc_ena_frames_pri\d", r"(port\.)?rx_priority_\d_xo(n|ff)(\.nic)?",
        r"rx_pb_\d_pxo(n|ff)",
    ),
    "tx_prio_pauses_milli_per_s": (
        r"tx_prio\d_pause", r"tx_pfc_ena_frames_pri\d", r"(port\.)?tx_priority_\d_xo(n|ff)(\.nic)?",
        r"tx_pb_\d_pxo(n|ff)",
    ),
    "pause_storm_warnings": (r"tx_pause_storm_warning_events",),
    "pause_storm_errors": (r"tx_pause_storm_error_events",),
    "rx_nic_drops_milli_per_s": (
        r"rx_out_of_buffer|rx_discards_phy", r"rx_total_(ring_discards|discard_pkts)|rx_stat_discard",
        r"port\.rx_d(ropped|iscards)|rx_dropped\.nic", r"rx_missed_errors|rx_no_dma_resources", r"rx_drops",
        r"rx(_queue_)?\d+_drops", r"rx_dropped",
    ),
    "tx_nic_drops_milli_per_s": (
        r"tx_discards_phy", r"tx_total_(ring_discards|discard_pkts)|tx_stat_discard",
        r"(port\.)?tx_dropped_link_down(\.nic)?", r"tx_drops", r"tx_dropped",
    ),
}  # fmt: skip
COUNTERS: Final = frozenset({"pause_storm_warnings", "pause_storm_errors"})
MATCHES: Final = {column: [re.compile(name) for name in names] for column, names in NAMES.items()}


@dataclass(frozen=True)
class Look:
    """What one look at the adapters gave: counts by NIC and column, and the health of those that gave none."""

    counts: Mapping[str, Counts]
    health: Sequence[Health] = ()


@dataclass(frozen=True)
class Known:
    """An adapter: how many counters it has, and the places of those that a column sums up."""

    count: int
    places: Mapping[str, Sequence[int]]


class Kernel:
    """The ioctl, and what is known of each adapter. It is used from one thread at a time."""

    def __init__(self, ioctl: Ioctl = fcntl.ioctl) -> None:
        self._ioctl = ioctl
        self._buffer = mmap.mmap(-1, BUFFER_BYTES)  # only the pages that are used become memory
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._socket: socket.socket | None = None
        self._known: dict[str, Known] = {}

    def counts(self, nic: str) -> Counts:
        """What the columns sum up to now, {} when the driver counts nothing of it; raises OSError."""
        known = self._known.get(nic)
        if known is None:
            known = self._known[nic] = self._learn(nic)
        if not known.places:
            return {}
        try:
            values = self._values(nic, known.count)
        except OSError:
            self.forget(nic)
            raise
        if len(values) != known.count:  # its queues were set up anew: all places moved
            self.forget(nic)
            return {}
        return {column: sum(values[place] for place in places) for column, places in known.places.items()}

    def forget(self, nic: str) -> None:
        """The adapter is to be learned anew: another may have taken the name."""
        self._known.pop(nic, None)

    def _learn(self, nic: str) -> Known:
        try:
            names = self._names(nic)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            names = []
        return Known(len(names), places(names))

    def _names(self, nic: str) -> list[str]:
        SET_INFO.pack_into(self._buffer, 0, GSSET_INFO, 0, 1 << STATISTICS, 0)
        self._call(nic)
        _, _, mask, count = SET_INFO.unpack_from(self._buffer)
        if not mask or not 0 < count <= MOST:
            return []
        HEAD.pack_into(self._buffer, 0, GSTRINGS, STATISTICS, count)
        self._call(nic)
        _, _, count = HEAD.unpack_from(self._buffer)
        at = range(HEAD.size, HEAD.size + count * NAME_BYTES, NAME_BYTES)
        raw = (self._buffer[start : start + NAME_BYTES] for start in at)
        return [name.partition(b"\0")[0].decode(errors="replace").strip() for name in raw]

    def _values(self, nic: str, count: int) -> Sequence[int]:
        """As many as there are now, whatever `count` says; kernels since 6.18 give none when it is another number."""
        struct.pack_into("=II", self._buffer, 0, GSTATS, count)
        self._call(nic)
        _, count = struct.unpack_from("=II", self._buffer)
        return memoryview(self._buffer)[8 : 8 + 8 * count].cast("Q")  # of thousands, a few are looked at

    def _call(self, nic: str) -> None:
        """ioctl with a struct ifreq: the interface's name and a pointer to the command; 40 bytes on 64-bit machines."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # any will do: it only carries the ioctl
        self._ioctl(self._socket.fileno(), SIOCETHTOOL, struct.pack("16sP16x", nic.encode()[:15], self._address))


class Adapters:
    """All adapters of a host, asked in turn by a thread of their own: while a driver hangs, the rest goes on."""

    def __init__(self, ioctl: Ioctl = fcntl.ioctl) -> None:
        self._kernel = Kernel(ioctl)
        self._pool: Pool[Look] = Pool("ethtool")
        self._asking = ""

    def look(self, nics: Sequence[str]) -> Look:
        """Ask them all, for at most ANSWER_S."""
        if not nics:
            return Look({})
        answer = self._pool.ask(["all"], lambda _: self._ask(nics), ANSWER_S, ANSWER_S).get("all")
        if isinstance(answer, Look):
            return answer
        if answer is not None:
            return Look({}, [Health("ethtool", "failed", str(answer))])
        why = f"{self._asking} took over {ANSWER_S:g} s: its driver may be resetting it, see dmesg; all wait for it"
        return Look({}, [Health("ethtool", "timeout", why)])

    def forget(self, nic: str) -> None:
        """Another adapter took the name."""
        self._kernel.forget(nic)

    def close(self) -> None:
        """End the thread."""
        self._pool.close()

    def _ask(self, nics: Sequence[str]) -> Look:
        counts: dict[str, Counts] = {}
        trouble: list[Health] = []
        for nic in nics:
            self._asking = nic
            try:
                counts[nic] = self._kernel.counts(nic)
            except OSError as error:
                trouble.append(_trouble(nic, error))
        return Look(counts, trouble)


def places(names: Sequence[str]) -> dict[str, list[int]]:
    """Which of an adapter's counters each column sums up."""
    found: dict[str, list[int]] = {}
    drops_or_pauses = [(place, name) for place, name in enumerate(names) if _may_matter(name)]
    for column, families in MATCHES.items():
        for family in families:
            if matching := [place for place, name in drops_or_pauses if family.fullmatch(name)]:
                found[column] = matching
                break
    return found


def ethtool_columns(old: Counts | None, new: Counts | None, elapsed_s: float | None) -> Columns:
    """Counters, and rates between two looks."""
    if new is None:
        return {}
    columns: Columns = {column: new.get(column) for column in COUNTERS}
    if old is None or not elapsed_s:
        return columns
    for column in NAMES.keys() - COUNTERS:
        columns[column] = rate(old.get(column), new.get(column), elapsed_s, 1e3)
    return columns


def _may_matter(name: str) -> bool:
    """A cheap sieve: adapters have thousands of counters, nearly all of single queues."""
    return name.startswith(("rx", "tx", "port.", "link_"))


def _trouble(nic: str, error: OSError) -> Health:
    if error.errno == errno.ENODEV:
        why = "the interface is of another network namespace, or went away: run the agent in the host's (hostNetwork)"
        return Health(f"{nic}/ethtool", "unsupported", why)
    if error.errno in (errno.EPERM, errno.EACCES):
        return Health(f"{nic}/ethtool", "denied", f"{error}; run the agent as root, or set agent.ethtool = false")
    return Health(f"{nic}/ethtool", "failed", f"{error}; see dmesg for its driver")
