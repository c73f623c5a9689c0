"""NICs and disks: two looks at golden trees, wraps and resets, what counts as a device."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.producers.devices import (
    DeviceSource,
    DevicesRaw,
    Link,
    disk_columns,
    disks,
    nic_columns,
    nics,
    read_link,
    sources,
)
from warpmeter.producers.output import json_line
from warpmeter.producers.source import Attribution, Sample
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

GOLDEN = Path(__file__).parents[1] / "golden/agent"
TS = 1_800_000_000.0


def look(at: str, seconds: float) -> Sample[DevicesRaw]:
    """One read of a golden tree."""
    return Sample(TS + seconds, 100.0 + seconds, 1.0, DeviceSource(Agent(root=GOLDEN / at)).read())


def rows(sample: Sample[DevicesRaw], before: Sample[DevicesRaw] | None = None) -> dict[str, Any]:
    """Rows by device."""
    reading = DeviceSource(Agent(host="gpu01", root=GOLDEN / "second")).parse(sample, before)
    return {row.device: row for row in reading.rows}  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """The rows of the second look."""
    return rows(look("second", 2.0), look("first", 0.0))


def known(row: Any) -> set[str]:
    """Columns that a row has."""
    return {field.name for field, _ in row.ListFields() if field.number >= 6}


def test_two_looks_give_the_golden_rows(found: dict[str, Any], update: bool) -> None:
    lines = [json.loads(json_line("device-samples", row)) for row in found.values()]
    golden = GOLDEN / "devices.json"
    if update:
        golden.write_text(json.dumps(lines, indent=1) + "\n")
    assert lines == json.loads(golden.read_text())


def test_whole_disks_and_ways_out_of_the_host_are_devices(found: dict[str, Any]) -> None:
    assert {name: row.kind for name, row in found.items()} == {
        "eth0": "nic", "eth1": "nic", "ib0": "nic", "eth2": "nic", "nvme0n1": "disk", "sda": "disk",
    }  # fmt: skip


def test_nic_rates(found: dict[str, Any]) -> None:
    row = found["eth0"]
    assert (row.rx_kilobytes_per_s, row.tx_kilobytes_per_s) == (250_000, 2)
    assert (row.rx_packets_per_s, row.tx_packets_per_s) == (200_000, 10)
    assert (row.rx_errors_milli_per_s, row.rx_drops_milli_per_s) == (500, 0)
    assert (row.tx_errors_milli_per_s, row.tx_drops_milli_per_s) == (0, 1500)
    assert row.period_ms == 2000


def test_links(found: dict[str, Any]) -> None:
    assert (found["eth0"].link_megabits_per_s, found["eth0"].link_up) == (25_000, True)
    assert not found["eth1"].HasField("link_megabits_per_s")
    assert found["eth1"].link_up is False
    assert not found["ib0"].HasField("link_up")


def test_a_counter_that_wrapped_is_unknown_for_this_interval_and_the_others_are_not(found: dict[str, Any]) -> None:
    assert not found["eth1"].HasField("rx_kilobytes_per_s")
    assert found["eth1"].rx_packets_per_s == 10
    assert not found["ib0"].HasField("rx_kilobytes_per_s")
    assert found["ib0"].tx_kilobytes_per_s == 50_000_000
    assert not found["sda"].HasField("busy_permille")
    assert found["sda"].writes_milli_per_s == 500


def test_a_device_that_came_between_the_looks_has_no_rates_yet(found: dict[str, Any]) -> None:
    assert known(found["eth2"]) == set()


def test_disk_rates(found: dict[str, Any]) -> None:
    row = found["nvme0n1"]
    assert (row.read_kilobytes_per_s, row.write_kilobytes_per_s) == (204_800, 5120)
    assert (row.reads_milli_per_s, row.writes_milli_per_s) == (1_000_000, 50_000)
    assert row.busy_permille == 750
    assert row.queue_centi == 65  # 1300 ms of waiting in 2000 ms
    assert (row.read_latency_microseconds, row.write_latency_microseconds) == (500, 3000)


def test_a_disk_without_requests_has_no_latency(found: dict[str, Any]) -> None:
    row = found["sda"]
    assert row.reads_milli_per_s == 0
    assert not row.HasField("read_latency_microseconds")
    assert row.write_latency_microseconds == 250_000


def test_the_first_look_has_links_alone() -> None:
    first = rows(look("first", 0.0))
    assert known(first["eth0"]) == {"link_megabits_per_s", "link_up"}
    assert known(first["nvme0n1"]) == set()


def test_a_host_without_disks_still_has_its_nics(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/dev").write_bytes((GOLDEN / "first/proc/net/dev").read_bytes())
    source = DeviceSource(Agent(root=tmp_path))
    assert [row.kind for row in source.parse(Sample(TS, 1.0, 1.0, source.read()), None).rows] == ["nic"] * 3  # type: ignore[attr-defined]


def test_below_another_root_the_first_process_has_the_hosts_interfaces(tmp_path: Path) -> None:
    for place, name in (("net", "ours0"), ("1/net", "theirs0")):
        (tmp_path / "proc" / place).mkdir(parents=True)
        (tmp_path / "proc" / place / "dev").write_text(f"h\nh\n {name}: " + "0 " * 16 + "\n")
    assert list(nics(DeviceSource(Agent(root=tmp_path)).read().net_dev)) == ["theirs0"]


def test_the_settings_give_the_period() -> None:
    (source,) = sources(Agent(device_interval_s=3.0), Attribution())
    assert (source.name, source.topic, source.period_s) == ("devices", "device-samples", 3.0)


def test_links_are_asked_for_every_ten_seconds_only(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/dev").write_text("h\nh\n eth0: " + "0 " * 16 + "\n")
    (tmp_path / "sys/class/net/eth0").mkdir(parents=True)
    state = tmp_path / "sys/class/net/eth0/operstate"
    state.write_text("up\n")
    source = DeviceSource(Agent(root=tmp_path, device_interval_s=1.0))
    assert source.read().links["eth0"] == Link(None, True)
    state.write_text("down\n")
    assert [source.read().links["eth0"].up for _ in range(10)] == [True] * 9 + [False]


@pytest.mark.parametrize("name", ["sda", "vdb", "xvda", "nvme10n2", "mmcblk0", "pmem0"])
def test_whole_disks(name: str) -> None:
    assert list(disks(f"1 1 {name} {'0 ' * 17}\n".encode())) == [name]


@pytest.mark.parametrize("name", ["sda1", "vdb12", "nvme10n2p3", "mmcblk0p1", "loop7", "ram0", "zram0", "dm-3", "sr0"])
def test_parts_and_views_of_disks_are_none(name: str) -> None:
    assert disks(f"1 1 {name} {'0 ' * 17}\n".encode()) == {}


def test_a_nic_that_is_gone_when_asked_for_its_link(tmp_path: Path) -> None:
    assert read_link(str(tmp_path), "eth9") == Link(None, None)


counters = st.lists(st.integers(0, 2**64 - 1), min_size=17, max_size=17)


@given(old=counters, new=counters, elapsed=st.floats(1e-3, 1e5))
def test_no_pair_of_counters_gives_a_negative_or_unfitting_value(
    old: list[int], new: list[int], elapsed: float
) -> None:
    disk = disk_columns(old, new, elapsed)
    assert disk["busy_permille"] is None or 0 <= disk["busy_permille"] <= 1000
    Envelope.DeviceSample(**disk)
    Envelope.DeviceSample(**nic_columns(old, new, elapsed, None))


@pytest.mark.parametrize(
    "line", ["", " ", "259 0 nvme0n1", "259 0 nvme0n1 " + "nan " * 17, "garbage", "259 0 sda 1 2 3"]
)
def test_lines_that_are_no_disk_are_left_out(line: str) -> None:
    good = "8 0 sdb " + "1 " * 11
    assert list(disks(f"{line}\n{good}\n".encode())) == ["sdb"]


@pytest.mark.parametrize("line", ["", "eth0:", "eth0: 1 2 3", "eth0: " + "x " * 16, "garbage"])
def test_lines_that_are_no_nic_are_left_out(line: str) -> None:
    assert list(nics(f"h\nh\n{line}\neth1: {'1 ' * 16}\n".encode())) == ["eth1"]
