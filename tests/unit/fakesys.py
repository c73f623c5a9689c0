"""Trees of /sys and /proc below a folder, as adapters and the kernel show them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

# What an mlx5 port of a recent kernel has, all at 0.
PORT_COUNTERS: Sequence[str] = (
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "multicast_rcv_packets", "multicast_xmit_packets", "port_rcv_constraint_errors",
    "port_rcv_data", "port_rcv_errors", "port_rcv_packets", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_data", "port_xmit_discards",
    "port_xmit_packets", "port_xmit_wait", "symbol_error", "unicast_rcv_packets", "unicast_xmit_packets",
)  # fmt: skip
HW_COUNTERS: Sequence[str] = (
    "duplicate_request", "implied_nak_seq_err", "lifespan", "local_ack_timeout_err", "np_cnp_sent",
    "np_ecn_marked_roce_packets", "out_of_buffer", "out_of_sequence", "packet_seq_err", "req_cqe_error",
    "req_cqe_flush_error", "req_remote_access_errors", "req_remote_invalid_request", "resp_cqe_error",
    "resp_cqe_flush_error", "resp_local_length_error", "resp_remote_access_errors", "rnr_nak_retry_err",
    "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "roce_slow_restart_cnps",
    "roce_slow_restart_trans", "rp_cnp_handled", "rp_cnp_ignored", "rx_atomic_requests", "rx_icrc_encapsulated",
    "rx_read_requests", "rx_write_requests",
)  # fmt: skip

MOUNTSTATS = """device /dev/sda1 mounted on / with fstype ext4
device filer:/export/my\\040home mounted on /my\\040home with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,hard,proto=tcp
\tage:\t100
\tcaps:\tcaps=0x3ffbffff,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
\tbytes:\t9 9 0 0 {read} {written} 3 4
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 788 1 1 0 0 100 100 0 100 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: {reads} {sent} 0 100 200 10 20 {read_ms} 0
\t       WRITE: {writes} {writes} 0 100 200 10 20 {write_ms} 0
\t     GETATTR: {others} {others} 0 100 200 10 20 {other_ms} 0
"""


def mountstats(**numbers: int) -> str:
    """A page of /proc/self/mountstats with one NFS mount."""
    names = ("read", "written", "reads", "sent", "writes", "read_ms", "write_ms", "others", "other_ms")
    return MOUNTSTATS.format(**{name: numbers.get(name, 0) for name in names})


def write(path: Path, text: object) -> None:
    """A file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


class FakeSys:
    """The folder. `root` is what `settings.agent.root` names."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sys = root / "sys"
        self.proc = root / "proc"

    def port(self, name: str, rate: str = "400 Gb/sec (4X NDR)", state: str = "4: ACTIVE", **counters: object) -> Path:
        """An mlx5 port as in `mlx5_0/1`; counters that are not given are 0."""
        adapter, _, number = name.partition("/")
        folder = self.sys / "class/infiniband" / adapter / "ports" / number
        write(folder / "rate", rate)
        write(folder / "state", state)
        for part, names in (("counters", PORT_COUNTERS), ("hw_counters", HW_COUNTERS)):
            for counter in names:
                write(folder / part / counter, counters.get(counter, 0))
        return folder

    def node(self, name: str, total_kb: int, free_kb: int, cpus: str, **pages: int) -> Path:
        """A NUMA node."""
        folder = self.sys / "devices/system/node" / name
        number = name.removeprefix("node")
        memory = {"MemTotal": total_kb, "MemFree": free_kb, "MemUsed": total_kb - free_kb, "SwapCached": 0}
        write(folder / "meminfo", "\n".join(f"Node {number} {key}:{value:15d} kB" for key, value in memory.items()))
        names = ("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node")
        write(folder / "numastat", "\n".join(f"{key} {pages.get(key, 0)}" for key in names))
        write(folder / "cpulist", cpus)
        return folder

    def stat(self, cpus: Mapping[int, Sequence[int]]) -> None:
        """/proc/stat: ticks of each CPU, user nice system idle iowait irq softirq steal."""
        lines = [f"cpu{cpu} " + " ".join(map(str, ticks)) + " 0 0" for cpu, ticks in cpus.items()]
        total = [sum(column) for column in zip(*cpus.values(), strict=True)]
        write(self.proc / "stat", "\n".join(["cpu  " + " ".join(map(str, total)) + " 0 0", *lines, "intr 1"]))

    def mountinfo(self, *mounts: tuple[str, str, str, str, str], process: str = "1") -> None:
        """What is mounted: device, point, type, source, options."""
        lines = [
            f"{number} 1 {device} / {point} {options},relatime shared:1 - {fs_type} {source} {options}"
            for number, (device, point, fs_type, source, options) in enumerate(mounts, 20)
        ]
        write(self.proc / process / "mountinfo", "\n".join(lines))
