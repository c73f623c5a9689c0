"""Every column of hosts and of their devices is filled by some source of the system."""

from warpmeter.producers import numa, rdma, vitals
from warpmeter.producers.devices import Link, disk_columns, nic_columns
from warpmeter.producers.ethtool import NAMES
from warpmeter.producers.host import HostRaw, gauges, rates
from warpmeter.producers.mounts import sizes
from warpmeter.producers.nfs import Nfs, Operation, nfs_columns
from warpmeter.producers.perf import columns as socket_columns
from warpmeter.schemas.measured import devices, host

ROW = tuple(range(1, 20))
STAT = b"cpu  1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\nctxt 1\nintr 1\nprocesses 1\n"
LATER = b"cpu  2 3 4 5 6 7 8 9\ncpu0 2 3 4 5 6 7 8 9\nctxt 1\nintr 1\nprocesses 1\n"
OPERATIONS = {"READ": Operation(1, 1, 1), "WRITE": Operation(1, 1, 1)}


def test_no_column_of_devices_is_without_a_source() -> None:
    ticks = ({b"cpu0": (1, 0, 0, 1, 0, 0, 0, 0)}, {b"cpu0": (2, 0, 0, 2, 0, 0, 0, 0)})
    filled = (
        set(nic_columns(ROW, ROW, 1.0, Link(1, True, 1, 1, True)))
        | set(NAMES)
        | set(disk_columns(ROW, ROW, 1.0))
        | set(rdma.columns(rdma.Port({}), rdma.Port({}), 1.0))
        | {
            "fs_total_mebibytes",
            "fs_used_mebibytes",
            "fs_available_mebibytes",
            "inodes_total",
            "inodes_used",
            "read_only",
        }
        | set(nfs_columns(Nfs(1, 1, OPERATIONS), Nfs(1, 1, OPERATIONS), 1.0))
        | set(numa.MEMORY_COLUMNS.values())
        | set(numa.PAGE_RATES)
        | set(numa.cpus(b"0", *ticks))
        | set(socket_columns(dict.fromkeys(COUNTERS, 1.0), 1.0))
    )
    assert filled == {column for column, *_ in devices.ROWS}
    assert sizes(None) == {}


COUNTERS = (
    "instructions", "cycles", "l2_loads", "l2_misses", "l3_loads", "l3_misses", "stalls", "stall_cycles", "mem_read",
    "mem_written",
)  # fmt: skip


def test_no_column_of_hosts_is_without_a_source() -> None:
    pressure = (b"some total=1\nfull total=1\n",) * 3
    old = HostRaw(STAT, b"", b"0 0 0 1/2 3\n", b"", b"1 1", pressure, 1)
    new = HostRaw(LATER, b"", b"0 0 0 1/2 3\n", b"", b"1 1", pressure, 1)
    filled = set(gauges(old)) | set(rates(old, new, 1.0, 4.096))
    assert filled == {column for column, *_ in host.ROWS}
    assert set(vitals.gauges({}, {}, None, ())) < filled
