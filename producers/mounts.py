"""Mounted file systems: their size from statvfs(3), and what NFS does. One that hangs stops only its own row.

Formats: proc_pid_mountinfo(5) for the mounts; `nfs` has the rest.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from warpmeter.producers import files
from warpmeter.producers.bounded import Pool
from warpmeter.producers.counters import UINT64_MAX
from warpmeter.producers.nfs import Nfs, nfs_columns, nfs_mounts, unescaped
from warpmeter.producers.source import AnySource, Attribution, Health, Reading, Sample, State
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

DeviceSample = Envelope.DeviceSample
Columns = dict[str, Any]

ANSWER_S: Final = 2.0
"""How long the mounts together may take to answer; a file system that works does it in microseconds."""
GRACE_S: Final = 0.05
"""After which the next mount is asked while this one is still waited for."""
MEBIBYTE: Final = 1 << 20

# No storage behind them, or a picture that never changes.
NOT_STORAGE: Final = frozenset((
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devfs", "devpts", "devtmpfs",
    "efivarfs", "erofs", "fusectl", "hugetlbfs", "iso9660", "mqueue", "nsfs", "proc", "pstore", "ramfs",
    "rpc_pipefs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tracefs", "fuse.lxcfs", "fuse.gvfsd-fuse",
    "fuse.portal",
))  # fmt: skip
# Memory that programs share; other tmpfs are the system's own.
SHARED_MEMORY: Final = frozenset({"/dev/shm", "/tmp"})
NOT_POINTS: Final = re.compile(r"/(proc|sys|dev|run|var/lib/(docker|containerd|containers|snapd))(/.*)?")


@dataclass(frozen=True)
class Mount:
    """One mounted file system. `device`: as in `8:1`; two mounts of one device are the same file system."""

    point: str
    device: str
    fs_type: str
    source: str
    read_only: bool


@dataclass(frozen=True)
class MountsRaw:
    """What is mounted; the sizes of those that answered, and why the others did not; NFS by mount point."""

    mounts: Sequence[Mount]
    sizes: Mapping[str, os.statvfs_result | OSError]
    nfs: Mapping[str, Nfs]


class MountSource:
    """One row for each file system."""

    name: Final = "mounts"
    topic: Final = "device-samples"
    timeout_s: Final = 3 * ANSWER_S

    def __init__(self, agent: Agent) -> None:
        self.period_s = agent.mount_interval_s
        self._host, self._root = agent.host, agent.root
        self._process = files.below(agent.root, "proc", "self" if str(agent.root) == "/" else "1")
        self._first = files.below(agent.root, "proc", "1", "mountinfo")
        self._ignore = re.compile(agent.mount_ignore) if agent.mount_ignore else None
        self._pool: Pool[os.statvfs_result] = Pool("mounts")

    def read(self) -> MountsRaw:
        """All mounts now; raises OSError when what is mounted cannot be read."""
        mounts = storage(files.read(f"{self._process}/mountinfo"), self._ignore, files.optional(self._first) or b"")
        sizes = self._pool.ask((mount.point for mount in mounts), self._size, GRACE_S, ANSWER_S)
        return MountsRaw(mounts, sizes, nfs_mounts(files.optional(f"{self._process}/mountstats")))

    def parse(self, sample: Sample[MountsRaw], before: Sample[MountsRaw] | None) -> Reading:
        """A row for each mount that answered, or that NFS has counted for."""
        raw, elapsed = sample.raw, sample.since(before)
        old = before.raw.nfs if before else {}
        rows = []
        for mount in raw.mounts:
            size, now = raw.sizes.get(mount.point), raw.nfs.get(mount.point)
            if not isinstance(size, os.statvfs_result) and now is None:
                continue
            known = sizes(size) | nfs_columns(old.get(mount.point), now, elapsed)
            rows.append(
                DeviceSample(
                    host=self._host,
                    ts=sample.ts,
                    period_ms=sample.covers_ms(before),
                    kind="mount",
                    device=mount.point.encode(errors="replace").decode(),
                    fs_type=mount.fs_type,
                    fs_source=mount.source,
                    read_only=mount.read_only,
                    **known,
                )
            )
        return Reading(rows, [found for mount in raw.mounts if (found := _health(mount, raw.sizes.get(mount.point)))])

    def close(self) -> None:
        """End the threads that do not hang."""
        self._pool.close()

    def _size(self, point: str) -> os.statvfs_result:
        return os.statvfs(self._root.joinpath(point.lstrip("/")))


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """The source of mounts, unless the settings leave it out."""
    return (MountSource(agent),) if agent.mounts else ()


def storage(mountinfo: bytes, ignore: re.Pattern[str] | None = None, first: bytes = b"") -> list[Mount]:
    """The mounts worth a row, each file system once: at its shortest mount point (the others are bind mounts).

    `first`: what the first process has mounted. To a service all is read-only that systemd's ProtectSystem makes so for
    it alone; where the first process has the same mount, that one says whether it is.
    """
    outside = {(mount.point, mount.device): mount.read_only for mount in _mounts(first)}
    at: dict[str, Mount] = {}  # a later mount at the same point hides the earlier one
    for mount in _mounts(mountinfo):
        at[mount.point] = mount
    of_device: dict[str, Mount] = {}
    for mount in sorted(at.values(), key=lambda mount: (len(mount.point), mount.point)):
        if wanted(mount) and not (ignore and ignore.fullmatch(mount.point)):
            read_only = outside.get((mount.point, mount.device), mount.read_only)
            of_device.setdefault(mount.device, replace(mount, read_only=read_only))
    return sorted(of_device.values(), key=lambda mount: mount.point)


def wanted(mount: Mount) -> bool:
    """Whether it is storage, or memory that programs share."""
    if mount.fs_type == "tmpfs":
        return mount.point in SHARED_MEMORY
    if mount.fs_type == "overlay":
        return mount.point == "/"
    return mount.fs_type not in NOT_STORAGE and not NOT_POINTS.fullmatch(mount.point)


def sizes(size: os.statvfs_result | OSError | None) -> Columns:
    """Columns of a size. Some file systems have no fixed number of inodes; theirs are not known."""
    if not isinstance(size, os.statvfs_result):
        return {}
    counts: Columns = {
        "fs_total_mebibytes": size.f_blocks * size.f_frsize // MEBIBYTE,
        "fs_used_mebibytes": (size.f_blocks - size.f_bfree) * size.f_frsize // MEBIBYTE,
        "fs_available_mebibytes": size.f_bavail * size.f_frsize // MEBIBYTE,
    }
    if size.f_files:
        counts |= {"inodes_total": size.f_files, "inodes_used": size.f_files - size.f_ffree}
    return {column: count for column, count in counts.items() if 0 <= count <= UINT64_MAX}


def _mounts(mountinfo: bytes) -> Iterable[Mount]:
    """Lines as `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(b" - ")
        left, right = before.split(b" "), after.split(b" ")
        if len(left) >= 6 and len(right) >= 3:
            options = left[5].split(b",") + right[2].split(b",")
            yield Mount(
                point=unescaped(left[4]),
                device=left[2].decode(errors="replace"),
                fs_type=right[0].decode(errors="replace"),
                source=unescaped(right[1]).encode(errors="replace").decode(),
                read_only=b"ro" in options,
            )


def _health(mount: Mount, size: os.statvfs_result | OSError | None) -> Health | None:
    if isinstance(size, os.statvfs_result | FileNotFoundError):  # unmounted since it was listed
        return None
    point = mount.point.encode(errors="replace").decode()
    if size is None:
        why = f"{mount.source} did not answer within {ANSWER_S:g} s: look at its server or disk; only this mount waits"
        return Health(point, "timeout", why)
    state: State = "denied" if isinstance(size, PermissionError) else "failed"
    remedy = "run the agent as root" if state == "denied" else "mount it again"
    return Health(point, state, f"{mount.source}: {size.strerror or size}; {remedy}, or name it in agent.mount_ignore")
