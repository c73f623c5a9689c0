"""What the kernel says of memory, files and connections beyond the basics: columns of `host-samples`.

Formats: proc(5), Documentation/admin-guide/mm/hugetlbpage.rst, RFC 1213 for the names of /proc/net/snmp.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.counters import fitting, rate, summed, whole

Columns = dict[str, int | None]
HugePages = Sequence[tuple[int, int | None, int | None]]
"""Of each size of huge pages: its KiB, how many there are, how many of them are free."""
Snmp = Mapping[bytes, Mapping[bytes, int]]

SIZE: Final = "hugepages-"
TCP_UDP_RATES: Final = {
    "tcp_retransmits_milli_per_s": (b"Tcp", b"RetransSegs"),
    "udp_errors_milli_per_s": (b"Udp", b"InErrors"),
}
VMSTAT_RATES: Final = {
    "direct_reclaims_per_s": ((b"pgscan_direct",), 1.0),
    "compaction_stalls_milli_per_s": ((b"compact_stall",), 1e3),
    # The second name is that of kernels before 5.9, which did not tell the two kinds apart.
    "refaults_per_s": ((b"workingset_refault_anon", b"workingset_refault_file", b"workingset_refault"), 1.0),
}


def huge_page_sizes(sys: str) -> list[str]:
    """Folders of the sizes that this kernel has; they do not change while it runs."""
    base = f"{sys}/kernel/mm/hugepages"
    try:
        return sorted(f"{base}/{name}" for name in os.listdir(base) if name.startswith(SIZE))  # noqa: PTH208 - cheap
    except OSError:
        return []


def read_huge_pages(sizes: Sequence[str]) -> HugePages:
    """How many huge pages there are now."""
    pages = []
    for folder in sizes:
        kibibytes = whole(Path(folder).name.removeprefix(SIZE).removesuffix("kB").encode())
        total, free = (whole(files.optional(f"{folder}/{what}")) for what in ("nr_hugepages", "free_hugepages"))
        if kibibytes:
            pages.append((kibibytes, total, free))
    return pages


def snmp(text: bytes | None) -> Snmp:
    """Of /proc/net/snmp: numbers by protocol and name. It is pairs of lines, names above numbers."""
    lines = [line.split() for line in (text or b"").splitlines()]
    found: dict[bytes, dict[bytes, int]] = {}
    for names, numbers in zip(lines[::2], lines[1::2], strict=False):
        if names and names[:1] == numbers[:1]:
            pairs = zip(names[1:], map(whole, numbers[1:]), strict=False)
            found[names[0].rstrip(b":")] = {name: number for name, number in pairs if number is not None}
    return found


def gauges(vmstat: Mapping[bytes, bytes], net: Snmp, file_nr: bytes | None, huge: HugePages) -> Columns:
    """What one read tells by itself."""
    return {
        "oom_kills": whole(vmstat.get(b"oom_kill")),
        "mem_huge_total_mebibytes": _mebibytes([(size, total) for size, total, _ in huge]),
        "mem_huge_free_mebibytes": _mebibytes([(size, free) for size, _, free in huge]),
        "files_open": fitting(whole(file_nr)),
        "tcp_established": fitting(net.get(b"Tcp", {}).get(b"CurrEstab")),
    }


def rates(
    old: Mapping[bytes, bytes], new: Mapping[bytes, bytes], old_net: Snmp, new_net: Snmp, elapsed_s: float
) -> Columns:
    """What needs two reads, of /proc/vmstat and /proc/net/snmp."""
    columns = {
        column: rate(_sum(old, keys), _sum(new, keys), elapsed_s, factor)
        for column, (keys, factor) in VMSTAT_RATES.items()
    }
    for column, (protocol, name) in TCP_UDP_RATES.items():
        before, now = (net.get(protocol, {}).get(name) for net in (old_net, new_net))
        columns[column] = rate(before, now, elapsed_s, 1e3)
    return columns


def _sum(vmstat: Mapping[bytes, bytes], keys: Sequence[bytes]) -> int | None:
    return summed(*(whole(vmstat.get(key)) for key in keys))


def _mebibytes(pages: Sequence[tuple[int, int | None]]) -> int | None:
    """Memory of pages of several sizes, given in KiB; not known when one size is not."""
    known = [size * count for size, count in pages if count is not None]
    return fitting(sum(known) / 1024) if pages and len(known) == len(pages) else None
