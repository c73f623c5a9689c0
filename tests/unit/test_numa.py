"""NUMA nodes: memory, pages, and the CPUs of each."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakesys import FakeSys
from warpmeter.producers.numa import NumaRaw, NumaSource, sources
from warpmeter.producers.source import Attribution, Sample, SourceError
from warpmeter.producers.topology import cpu_list, sockets
from warpmeter.settings import Agent

TS = 1_800_000_000.0


def look(sys: FakeSys, seconds: float) -> Sample[NumaRaw]:
    """One read."""
    return Sample(TS + seconds, 100.0 + seconds, 5.0, NumaSource(Agent(root=sys.root)).read())


def rows(sys: FakeSys, sample: Sample[NumaRaw], before: Sample[NumaRaw] | None) -> dict[str, Any]:
    """Rows by node."""
    reading = NumaSource(Agent(host="gpu01", root=sys.root)).parse(sample, before)
    return {row.device: row for row in reading.rows}  # type: ignore[attr-defined]


@pytest.fixture
def sys(tmp_path: Path) -> FakeSys:
    """Two nodes of two CPUs each, interleaved, and one of memory alone."""
    made = FakeSys(tmp_path)
    made.node("node0", 1 << 20, 1 << 18, "0,2", numa_hit=100)
    made.node("node1", 1 << 20, 1 << 19, "1,3", numa_hit=100)
    made.node("node2", 1 << 20, 1 << 20, "")
    made.stat(dict.fromkeys(range(4), (100, 0, 50, 1000, 10, 0, 0, 0)))
    return made


def test_two_looks(sys: FakeSys) -> None:
    before = look(sys, 0.0)
    sys.node("node0", 1 << 20, 1 << 18, "0,2", numa_hit=600, numa_miss=50, numa_foreign=5)
    sys.stat(
        {
            0: (500, 0, 100, 1050, 10, 0, 0, 0),  # 500 ticks: 400 user, 50 system, 50 idle
            1: (100, 0, 50, 1500, 10, 0, 0, 0),
            2: (300, 0, 50, 1200, 110, 0, 0, 0),  # 500 ticks: 200 user, 200 idle, 100 waiting for I/O
            3: (100, 0, 50, 1500, 10, 0, 0, 0),
        }
    )
    found = rows(sys, look(sys, 5.0), before)
    row = found["node0"]
    assert (row.host, row.kind, row.period_ms) == ("gpu01", "numa", 5000)
    assert (row.mem_total_mebibytes, row.mem_used_mebibytes, row.mem_free_mebibytes) == (1024, 768, 256)
    assert (row.numa_hits_per_s, row.numa_misses_per_s, row.numa_foreign_per_s) == (100, 10, 1)
    assert (row.cpu_user_permille, row.cpu_system_permille, row.cpu_idle_permille) == (600, 50, 250)
    assert row.cpu_util_permille == 650
    assert found["node1"].cpu_util_permille == 0
    assert not found["node2"].HasField("cpu_util_permille")
    assert found["node2"].mem_free_mebibytes == 1024


def test_the_first_look_has_memory_alone(sys: FakeSys) -> None:
    row = rows(sys, look(sys, 0.0), None)["node0"]
    assert row.mem_total_mebibytes == 1024
    assert not row.HasField("numa_hits_per_s")
    assert not row.HasField("cpu_util_permille")


def test_counters_that_started_again_and_garbage_are_unknown(sys: FakeSys) -> None:
    before = look(sys, 0.0)
    sys.node("node0", 1 << 20, 1 << 18, "0-zebra", numa_hit=1)
    (sys.sys / "devices/system/node/node1/numastat").write_text("numa_hit nan\nnuma_miss\n")
    (sys.sys / "devices/system/node/node1/meminfo").write_text("Node 1 MemTotal: much kB\n")
    found = rows(sys, look(sys, 5.0), before)
    assert not found["node0"].HasField("numa_hits_per_s")
    assert not found["node0"].HasField("cpu_util_permille")
    assert not found["node1"].HasField("numa_hits_per_s")
    assert not found["node1"].HasField("mem_total_mebibytes")


def test_a_node_that_goes_offline_has_no_row(sys: FakeSys) -> None:
    before = look(sys, 0.0)
    shutil.rmtree(sys.sys / "devices/system/node/node1")
    assert set(rows(sys, look(sys, 5.0), before)) == {"node0", "node2"}


def test_a_cpu_that_came_online_does_not_disturb_the_others(sys: FakeSys) -> None:
    before = look(sys, 0.0)
    sys.stat(dict.fromkeys(range(4), (200, 0, 50, 1000, 10, 0, 0, 0)) | {4: (9000, 0, 0, 0, 0, 0, 0, 0)})
    sys.node("node0", 1 << 20, 1 << 18, "0,2,4")
    assert rows(sys, look(sys, 5.0), before)["node0"].cpu_user_permille == 1000


def test_a_kernel_without_numa(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="without NUMA") as raised:
        NumaSource(Agent(root=tmp_path)).read()
    assert raised.value.state == "unsupported"


def test_settings() -> None:
    (source,) = sources(Agent(numa_interval_s=3.0), Attribution())
    assert (source.name, source.topic, source.period_s) == ("numa", "device-samples", 3.0)
    assert list(sources(Agent(numa=False), Attribution())) == []


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        (b"0-3,8\n", (0, 1, 2, 3, 8)), (b"\n", ()), (None, ()), (b"5", (5,)), (b"x-3,7", (7,)), (b"3-1", ()),
        (b"0-99999999999", ()),
    ],
)  # fmt: skip
def test_cpu_lists(text: bytes | None, cpus: tuple[int, ...]) -> None:
    assert cpu_list(text) == cpus


def test_sockets(tmp_path: Path) -> None:
    for cpu, package in enumerate((0, 1, 0)):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
    assert sockets(str(tmp_path)) == {0: 0, 1: 1, 2: 0}
    (tmp_path / "devices/system/cpu/online").write_text("0-1\n")
    assert sockets(str(tmp_path)) == {0: 0, 1: 1}
