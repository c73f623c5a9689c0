"""NFS mounts from /proc/self/mountstats: operations, bytes and latency, as this client sees them.

Format: "statvers=1.1" of net/sunrpc/stats.c and fs/nfs/super.c. Reading it asks no server, so it works while one hangs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from warpmeter.producers.counters import fitting, growth, rate

Columns = dict[str, Any]

MOUNT: Final = re.compile(rb"device (?P<source>.+) mounted on (?P<point>.+) with fstype (?P<type>nfs\d?)(?: .*)?")
BYTES: Final = re.compile(rb"\tbytes:\t(?:\d+ ){4}(?P<read>\d+) (?P<written>\d+)")
OPERATION: Final = re.compile(rb"\t *(?P<name>[A-Z_]+): (?P<numbers>\d[\d ]*)")
ESCAPE: Final = re.compile(rb"\\([0-7]{3})")
OPS, TRANSMISSIONS, EXECUTE_MS = 0, 1, 7
"""Places in the numbers of an operation. The last is from the call to its answer, with waiting and sending again."""


@dataclass(frozen=True)
class Operation:
    """Of one kind of operation since the mount: calls, transmissions, and milliseconds they took altogether."""

    calls: int
    transmissions: int
    took_ms: int


@dataclass(frozen=True)
class Nfs:
    """One mount: bytes that went over the wire, and its operations by name."""

    read_bytes: int
    written_bytes: int
    operations: Mapping[str, Operation]

    @property
    def all(self) -> Operation:
        """All operations together."""
        of = self.operations.values()
        return Operation(sum(o.calls for o in of), sum(o.transmissions for o in of), sum(o.took_ms for o in of))


def unescaped(path: bytes) -> str:
    """A path of /proc: blanks and the like are octal there."""
    return ESCAPE.sub(lambda found: bytes((int(found[1], 8) & 0xFF,)), path).decode(errors="surrogateescape")


def nfs_mounts(mountstats: bytes | None) -> dict[str, Nfs]:
    """By mount point. What is not in the format is left out."""
    found: dict[str, Nfs] = {}
    for section in re.split(rb"(?m)^(?=device )", mountstats or b""):
        head, _, rest = section.partition(b"\n")
        mount, data = MOUNT.fullmatch(head), BYTES.search(rest)
        if mount and data:
            read, written = int(data["read"]), int(data["written"])
            found[unescaped(mount["point"])] = Nfs(read, written, _operations(rest.partition(b"per-op statistics")[2]))
    return found


def nfs_columns(old: Nfs | None, new: Nfs | None, elapsed_s: float | None) -> Columns:
    """Rates and latencies between two reads."""
    if old is None or new is None or not elapsed_s:
        return {}
    columns: Columns = {
        "read_kilobytes_per_s": rate(old.read_bytes, new.read_bytes, elapsed_s, 1e-3),
        "write_kilobytes_per_s": rate(old.written_bytes, new.written_bytes, elapsed_s, 1e-3),
        "ops_milli_per_s": rate(old.all.calls, new.all.calls, elapsed_s, 1e3),
        "op_latency_microseconds": _latency(old.all, new.all),
        "retransmits_milli_per_s": rate(_again(old.all), _again(new.all), elapsed_s, 1e3),
    }
    for name, count, latency in (
        ("READ", "reads_milli_per_s", "read_latency_microseconds"),
        ("WRITE", "writes_milli_per_s", "write_latency_microseconds"),
    ):
        if name in old.operations and name in new.operations:
            then, now = old.operations[name], new.operations[name]
            columns |= {count: rate(then.calls, now.calls, elapsed_s, 1e3), latency: _latency(then, now)}
    return columns


def _operations(text: bytes) -> dict[str, Operation]:
    found = {}
    for line in OPERATION.finditer(text):
        numbers = [int(number) for number in line["numbers"].split()]
        if len(numbers) > EXECUTE_MS:
            found[line["name"].decode()] = Operation(numbers[OPS], numbers[TRANSMISSIONS], numbers[EXECUTE_MS])
    return found


def _again(of: Operation) -> int:
    """Transmissions beyond the first of each call; one that waits to be sent is not less than none."""
    return max(0, of.transmissions - of.calls)


def _latency(old: Operation, new: Operation) -> int | None:
    done, took = growth(old.calls, new.calls), growth(old.took_ms, new.took_ms)
    return fitting(took * 1000 / done) if done and took is not None else None
