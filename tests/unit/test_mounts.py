"""Mounted file systems: which are worth a row, their sizes, NFS, and mounts that hang."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakesys import FakeSys, mountstats, write
from tests.wait import until
from warpmeter.producers import mounts
from warpmeter.producers.mounts import Mount, MountSource, MountsRaw, sizes, sources, storage
from warpmeter.producers.nfs import nfs_columns, nfs_mounts
from warpmeter.producers.source import Attribution, Reading, Sample
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

TS = 1_800_000_000.0


@pytest.fixture
def sys(tmp_path: Path) -> FakeSys:
    """A host with a disk, shared memory and an NFS home."""
    made = FakeSys(tmp_path)
    made.mountinfo(
        ("8:1", "/", "ext4", "/dev/sda1", "rw"),
        ("0:5", "/proc", "proc", "proc", "rw"),
        ("0:6", "/dev/shm", "tmpfs", "tmpfs", "rw"),
        ("0:50", "/my\\040home", "nfs4", "filer:/export/my\\040home", "rw"),
    )
    for folder in ("dev/shm", "my home"):
        (tmp_path / folder).mkdir(parents=True)
    return made


def look(source: MountSource, seconds: float) -> Sample[MountsRaw]:
    """One read."""
    return Sample(TS + seconds, 100.0 + seconds, 10.0, source.read())


def rows(reading: Reading) -> dict[str, Any]:
    """Rows by mount point."""
    return {row.device: row for row in reading.rows}  # type: ignore[attr-defined]


def test_sizes_and_nfs(sys: FakeSys) -> None:
    source = MountSource(Agent(host="gpu01", root=sys.root))
    write(sys.proc / "1/mountstats", mountstats(read=10, reads=5, sent=5, others=1, other_ms=4))
    before = look(source, 0.0)
    write(
        sys.proc / "1/mountstats",
        mountstats(
            read=20_000_010,
            written=500_000,
            reads=25,
            sent=28,
            read_ms=100,
            writes=10,
            write_ms=50,
            others=11,
            other_ms=54,
        ),
    )
    reading = source.parse(look(source, 10.0), before)
    found = rows(reading)
    assert list(found) == ["/", "/dev/shm", "/my home"]
    row, real = found["/my home"], os.statvfs(sys.root)
    assert (row.host, row.kind, row.period_ms) == ("gpu01", "mount", 10_000)
    assert (row.fs_type, row.fs_source, row.read_only) == ("nfs4", "filer:/export/my home", False)
    assert row.fs_total_mebibytes == real.f_blocks * real.f_frsize >> 20
    assert 0 <= row.fs_used_mebibytes <= row.fs_total_mebibytes
    assert row.fs_available_mebibytes <= row.fs_total_mebibytes - row.fs_used_mebibytes
    assert (row.read_kilobytes_per_s, row.write_kilobytes_per_s) == (2000, 50)
    assert (row.reads_milli_per_s, row.writes_milli_per_s) == (2000, 1000)
    assert (row.read_latency_microseconds, row.write_latency_microseconds) == (5000, 5000)
    assert row.ops_milli_per_s == 4000  # 20 reads, 10 writes, 10 getattrs in 10 s
    assert row.op_latency_microseconds == 5000
    assert row.retransmits_milli_per_s == 300
    assert not found["/"].HasField("ops_milli_per_s")
    assert list(reading.health) == []


def test_counters_of_a_mount_that_was_made_anew_are_unknown(sys: FakeSys) -> None:
    source = MountSource(Agent(root=sys.root))
    write(sys.proc / "1/mountstats", mountstats(read=1000, reads=5, sent=5, others=3))
    before = look(source, 0.0)
    write(sys.proc / "1/mountstats", mountstats())
    row = rows(source.parse(look(source, 10.0), before))["/my home"]
    assert not any(row.HasField(name) for name in ("read_kilobytes_per_s", "reads_milli_per_s", "ops_milli_per_s"))
    assert row.writes_milli_per_s == 0


def sized(source: MountSource) -> bool:
    """Whether the NFS mount has a size now."""
    found: bool = rows(source.parse(look(source, 20.0), None))["/my home"].HasField("fs_total_mebibytes")
    return found


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch, sys: FakeSys) -> Iterator[threading.Event]:
    """A server that does not answer until the event is set. statvfs(2) is the kernel's, and NFS cannot be had here."""
    answers = threading.Event()
    real = os.statvfs

    def statvfs(path: Path) -> os.statvfs_result:
        if path == sys.root / "my home":
            answers.wait()
        return real(path)

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(mounts, "ANSWER_S", 1.0)
    yield answers
    answers.set()


def test_a_mount_that_hangs_stops_only_its_own_size(sys: FakeSys, hung: threading.Event) -> None:
    source = MountSource(Agent(root=sys.root))
    write(sys.proc / "1/mountstats", mountstats(reads=5, sent=5))
    before = look(source, 0.0)
    write(sys.proc / "1/mountstats", mountstats(reads=5, sent=25))
    reading = source.parse(look(source, 10.0), before)
    found = rows(reading)
    assert found["/"].HasField("fs_total_mebibytes")
    assert found["/dev/shm"].HasField("fs_total_mebibytes")
    assert not found["/my home"].HasField("fs_total_mebibytes")
    assert found["/my home"].retransmits_milli_per_s == 2000  # the kernel counts on, and this is what tells why
    (health,) = reading.health
    assert (health.subject, health.state) == ("/my home", "timeout")
    assert "filer:/export/my home did not answer" in health.why
    hung.set()
    until(
        lambda: rows(source.parse(look(source, 20.0), None))["/my home"].HasField("fs_total_mebibytes"),
        "its size",
        30.0,
    )


def test_a_hung_mount_without_counters_has_no_row(sys: FakeSys, hung: threading.Event) -> None:
    source = MountSource(Agent(root=sys.root))
    assert set(rows(source.parse(look(source, 0.0), None))) == {"/", "/dev/shm"}
    assert not hung.is_set()


def test_a_mount_that_vanishes_before_it_is_asked_is_no_trouble(sys: FakeSys) -> None:
    (sys.root / "my home").rmdir()
    source = MountSource(Agent(root=sys.root))
    reading = source.parse(look(source, 0.0), None)
    assert set(rows(reading)) == {"/", "/dev/shm"}
    assert list(reading.health) == []


@pytest.mark.parametrize(
    ("error", "state", "remedy"),
    [
        (PermissionError(13, "Permission denied"), "denied", "run the agent as root"),
        (OSError(116, "Stale file handle"), "failed", "mount it again"),
    ],
)
def test_why_a_mount_has_no_size(sys: FakeSys, error: OSError, state: str, remedy: str) -> None:
    raw = MountsRaw([Mount("/home", "0:50", "nfs4", "filer:/home", False)], {"/home": error}, {})
    (health,) = MountSource(Agent(root=sys.root)).parse(Sample(TS, 1.0, 10.0, raw), None).health
    assert (health.subject, health.state) == ("/home", state)
    assert remedy in health.why


def line(device: str, point: str, fs_type: str, options: str = "rw", superblock: str = "rw") -> bytes:
    """A line of mountinfo."""
    return f"1 1 {device} / {point} {options} - {fs_type} src {superblock}\n".encode()


@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs", "zfs", "nfs", "lustre", "gpfs", "ceph", "fuse.juicefs"])
def test_storage(fs_type: str) -> None:
    assert [mount.point for mount in storage(line("0:9", "/data", fs_type))] == ["/data"]


@pytest.mark.parametrize(
    ("point", "fs_type"),
    [
        ("/proc", "proc"), ("/sys/fs/cgroup", "cgroup2"), ("/run/user/0", "tmpfs"), ("/snap/core/1", "squashfs"),
        ("/var/lib/docker/overlay2/x/merged", "overlay"), ("/run/netns", "ext4"), ("/var/lib/docker/volumes/a", "ext4"),
        ("/var/lib/kubelet/pods/1/volumes/kubernetes.io~secret/s", "tmpfs"), ("/net", "autofs"),
    ],
)  # fmt: skip
def test_no_storage(point: str, fs_type: str) -> None:
    assert storage(line("0:9", point, fs_type)) == []


def test_the_root_of_a_container_is_storage() -> None:
    assert [mount.point for mount in storage(line("0:9", "/", "overlay"))] == ["/"]


def test_a_file_system_mounted_twice_is_one_row() -> None:
    text = line("8:1", "/var/lib/kubelet/pods/1/volumes/x", "ext4") + line("8:1", "/data", "ext4")
    assert [mount.point for mount in storage(text)] == ["/data"]


def test_a_mount_above_another_hides_it() -> None:
    (mount,) = storage(line("8:1", "/data", "ext4") + line("8:2", "/data", "xfs"))
    assert mount.fs_type == "xfs"


@pytest.mark.parametrize(("options", "superblock"), [("ro,relatime", "rw"), ("rw", "ro,errors=remount-ro")])
def test_read_only_by_mount_or_by_file_system(options: str, superblock: str) -> None:
    (mount,) = storage(line("8:1", "/data", "ext4", options, superblock))
    assert mount.read_only


def test_what_is_read_only_to_a_service_alone_is_not_read_only() -> None:
    own = line("8:1", "/", "ext4", "ro,relatime", "rw") + line("8:2", "/data", "ext4", "rw", "ro,errors=remount-ro")
    first = line("8:1", "/", "ext4", "rw,relatime", "rw") + line("8:2", "/data", "ext4", "rw", "ro,errors=remount-ro")
    assert [(mount.point, mount.read_only) for mount in storage(own, None, first)] == [("/", False), ("/data", True)]
    assert [mount.read_only for mount in storage(own)] == [True, True]


def test_mounts_can_be_left_out(sys: FakeSys) -> None:
    source = MountSource(Agent(root=sys.root, mount_ignore="/my.*|/dev/shm"))
    assert set(rows(source.parse(look(source, 0.0), None))) == {"/"}


def test_a_file_system_without_a_number_of_inodes() -> None:
    size = os.statvfs_result((4096, 4096, 1000, 500, 400, 0, 0, 0, 0, 255))
    assert sizes(size) == {"fs_total_mebibytes": 3, "fs_used_mebibytes": 1, "fs_available_mebibytes": 1}


def test_nonsense_of_a_file_system_is_left_out() -> None:
    size = os.statvfs_result((4096, 1 << 20, 10, 20, 5, 7, 9, 0, 0, 255))  # more free than there is
    assert sizes(size) == {"fs_total_mebibytes": 10, "fs_available_mebibytes": 5, "inodes_total": 7}


@given(st.binary(max_size=300))
def test_no_garbage_breaks_the_parsers(noise: bytes) -> None:
    storage(noise)
    page = mountstats(reads=1).encode()
    nfs_mounts(noise)
    for at in range(0, len(page), 97):
        for mount in nfs_mounts(page[:at] + noise + page[at:]).values():
            Envelope.DeviceSample(**nfs_columns(mount, mount, 1.0))


def test_settings() -> None:
    (source,) = sources(Agent(mount_interval_s=30.0), Attribution())
    assert (source.name, source.topic, source.period_s) == ("mounts", "device-samples", 30.0)
    assert list(sources(Agent(mounts=False), Attribution())) == []
