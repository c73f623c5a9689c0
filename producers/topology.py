"""Which CPUs there are, and which socket or NUMA node each belongs to, from /sys/devices/system."""

import os
import re
from collections.abc import Mapping
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.counters import whole

CPU: Final = re.compile(r"cpu(\d+)")


def cpu_list(text: bytes | None) -> tuple[int, ...]:
    """Of a list as in `0-3,8`: the CPUs; () for no list, and what is no number is left out."""
    cpus: list[int] = []
    for part in (text or b"").strip().split(b","):
        first, dash, last = part.partition(b"-")
        begin, end = whole(first), whole(last if dash else first)
        if begin is not None and end is not None and end - begin < 1 << 16:
            cpus.extend(range(begin, end + 1))
    return tuple(cpus)


def sockets(sys: str) -> Mapping[int, int]:
    """The socket (physical package) of each CPU that is online. A kernel that does not say has one socket, 0."""
    base = f"{sys}/devices/system/cpu"
    online = cpu_list(files.optional(f"{base}/online")) or _all_cpus(base)
    packages = {cpu: whole(files.optional(f"{base}/cpu{cpu}/topology/physical_package_id")) for cpu in online}
    return {cpu: package or 0 for cpu, package in packages.items()}


def _all_cpus(base: str) -> tuple[int, ...]:
    try:
        names = os.listdir(base)  # noqa: PTH208 - cheap
    except OSError:
        return ()
    return tuple(sorted(int(found[1]) for name in names if (found := CPU.fullmatch(name))))
