"""CPU sockets: what is counted on which CPU, groups that take turns, counters that are missing or forbidden."""

import errno
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakekernel import GENUINE_SAPPHIRE, RATES, FakePerf, pmu, sapphire
from tests.unit.fakesys import FakeSys, write
from warpmeter.producers.perf import PerfRaw, SocketSource, columns, growth, sources
from warpmeter.producers.perf.kernel import CACHE, HARDWARE, RAW, Counted
from warpmeter.producers.perf.plan import Cpu, Group, cpu, plan
from warpmeter.producers.perf.pmus import placed, terms
from warpmeter.producers.source import Attribution, Reading, Sample, SourceError
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

TS = 1_800_000_000.0
GENOA = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17"


def look(source: SocketSource, perf: FakePerf, seconds: float = 0.0) -> Sample[PerfRaw]:
    """One read, so much later."""
    perf.seconds += seconds
    return Sample(TS + perf.seconds, 100.0 + perf.seconds, 5.0, source.read())


def rows(reading: Reading) -> dict[str, Any]:
    """Rows by socket."""
    return {row.device: row for row in reading.rows}  # type: ignore[attr-defined]


def test_all_columns_of_two_sockets(tmp_path: Path) -> None:
    sys, perf = sapphire(tmp_path), FakePerf(RATES)
    source = SocketSource(Agent(host="gpu01", root=sys.root), perf)
    before = look(source, perf)
    assert list(source.parse(before, None).rows) == []
    reading = source.parse(look(source, perf, 5.0), before)
    found = rows(reading)
    assert list(found) == ["socket0", "socket1"]
    row = found["socket0"]
    assert (row.host, row.kind, row.period_ms) == ("gpu01", "socket", 5000)
    assert (row.instructions_mega_per_s, row.cycles_mega_per_s) == (6000, 4000)  # of two CPUs
    assert (row.l2_loads_kilo_per_s, row.l2_misses_kilo_per_s, row.l2_hit_ratio_permille) == (200_000, 50_000, 750)
    assert (row.l3_loads_kilo_per_s, row.l3_misses_kilo_per_s, row.l3_hit_ratio_permille) == (40_000, 20_000, 500)
    assert row.memory_stall_permille == 250
    assert row.mem_read_megabytes_per_s == 12_800  # two controllers of 1e8 lines of 64 bytes
    assert row.mem_write_megabytes_per_s == 6400
    assert list(reading.health) == []
    source.close()
    assert perf.open_files == {}


def test_groups_that_took_turns_are_scaled_up(tmp_path: Path) -> None:
    perf = FakePerf(RATES, share=lambda _: 0.25)
    source = SocketSource(Agent(root=sapphire(tmp_path).root), perf)
    before = look(source, perf)
    assert rows(source.parse(look(source, perf, 5.0), before))["socket1"].instructions_mega_per_s == 6000


def test_a_group_that_never_counted_is_unknown_and_said_not_zero(tmp_path: Path) -> None:
    perf = FakePerf(RATES, share=lambda number: 0.0 if number == 3 else 1.0)
    source = SocketSource(Agent(root=sapphire(tmp_path).root), perf)
    before = look(source, perf)
    reading = source.parse(look(source, perf, 5.0), before)
    assert rows(reading)["socket0"].instructions_mega_per_s == 6000
    assert not rows(reading)["socket1"].HasField("instructions_mega_per_s")
    assert rows(reading)["socket1"].mem_read_megabytes_per_s == 12_800
    assert {(health.subject, health.state) for health in reading.health} == {
        ("core", "failed"), ("l2", "failed"), ("l3", "failed"), ("stall", "failed"),
    }  # fmt: skip
    assert "another profiler" in reading.health[0].why


def test_what_the_cpu_does_not_have_is_said_once_each(tmp_path: Path) -> None:
    perf = FakePerf(RATES, refuse=lambda event, _: errno.ENOENT if event.type in (CACHE, RAW) else 0)
    source = SocketSource(Agent(root=sapphire(tmp_path).root), perf)
    before = look(source, perf)
    reading = source.parse(look(source, perf, 5.0), before)
    row = rows(reading)["socket0"]
    assert row.cycles_mega_per_s == 4000
    assert not any(
        row.HasField(name) for name in ("l2_hit_ratio_permille", "l3_loads_kilo_per_s", "memory_stall_permille")
    )
    assert [(health.subject, health.state) for health in reading.health] == [
        ("l2", "unsupported"), ("stall", "unsupported"), ("l3", "unsupported"),
    ]  # fmt: skip


def test_without_any_counter_there_is_one_reason_and_no_row(tmp_path: Path) -> None:
    source = SocketSource(Agent(root=sapphire(tmp_path).root), FakePerf(refuse=lambda _, __: errno.ENOENT))
    with pytest.raises(SourceError, match="virtual PMU") as raised:
        source.read()
    assert raised.value.state == "unsupported"


@pytest.mark.parametrize(
    ("number", "state", "remedy"),
    [
        (errno.EACCES, "denied", "perf_event_paranoid is 2"), (errno.EPERM, "denied", "CAP_PERFMON"),
        (errno.EMFILE, "failed", "LimitNOFILE"),
    ],
)  # fmt: skip
def test_what_may_not_be_opened_gives_one_reason_with_the_remedy(
    tmp_path: Path, number: int, state: str, remedy: str
) -> None:
    perf = FakePerf(RATES, refuse=lambda event, _: number if event.counter == "l2_misses" else 0)
    source = SocketSource(Agent(root=sapphire(tmp_path).root), perf)
    with pytest.raises(SourceError, match=remedy) as raised:
        source.read()
    assert raised.value.state == state
    assert perf.open_files == {}
    perf.refuse = lambda _, __: 0  # somebody acted
    assert source.read().groups


def test_a_cpu_that_goes_offline_begins_a_new_count(tmp_path: Path) -> None:
    sys, perf = sapphire(tmp_path), FakePerf(RATES)
    source = SocketSource(Agent(root=sys.root), perf)
    before = look(source, perf)
    write(sys.sys / "devices/system/cpu/online", "0-2")
    now = look(source, perf, 5.0)
    assert list(source.parse(now, before).rows) == []
    assert rows(source.parse(look(source, perf, 5.0), now))["socket1"].instructions_mega_per_s == 3000


def test_counters_that_are_gone_are_opened_anew(tmp_path: Path) -> None:
    perf = FakePerf(RATES)
    source = SocketSource(Agent(root=sapphire(tmp_path).root), perf)
    before = look(source, perf)
    perf.offline = True
    with pytest.raises(OSError, match="gone"):
        source.read()
    assert perf.open_files == {}
    perf.offline = False
    assert list(source.parse(look(source, perf, 5.0), before).rows) == []


def raised(folder: Path) -> None:
    """Read with a low limit of open files; raises AssertionError when that stays low."""
    low = 256
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    SocketSource(Agent(root=sapphire(folder).root), FakePerf(RATES)).read()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > low


def test_the_limit_of_open_files_is_raised_as_far_as_needed(tmp_path: Path) -> None:
    """In a process of its own: that of the tests may have more open than the low limit allows."""
    script = f"from pathlib import Path; from tests.unit.test_perf import raised; raised(Path({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], check=True, timeout=60)


def counters(groups: Sequence[Group]) -> dict[str, list[tuple[str, int, int]]]:
    """Counter, type and config of all events, by group."""
    return {group.subject: [(event.counter, event.type, event.config) for event in group.events] for group in groups}


def test_events_of_sapphire_rapids(tmp_path: Path) -> None:
    found = counters(plan(str(sapphire(tmp_path).sys), GENUINE_SAPPHIRE.encode()))
    assert found["core"] == [("cycles", HARDWARE, 0), ("instructions", HARDWARE, 1)]
    assert found["l2"] == [("l2_loads", RAW, 0xE124), ("l2_misses", RAW, 0x2124)]
    assert found["stall"] == [("stall_cycles", HARDWARE, 0), ("stalls", RAW, 0x060006A3)]
    assert found["l3"] == [("l3_loads", CACHE, 2), ("l3_misses", CACHE, 0x10002)]
    assert found["memory/uncore_imc_1"] == [("mem_read", 81, 0xCF05), ("mem_written", 81, 0xF005)]


def test_granite_rapids_counts_two_sub_channels(tmp_path: Path) -> None:
    cpuinfo = GENUINE_SAPPHIRE.replace("143", "173").encode()
    found = counters(plan(str(sapphire(tmp_path).sys), cpuinfo))
    assert found["memory/uncore_imc_0"] == [
        ("mem_read", 80, 0xCF05), ("mem_written", 80, 0xF005), ("mem_read", 80, 0xCF06), ("mem_written", 80, 0xF006),
    ]  # fmt: skip


def test_memory_events_that_the_kernel_names_come_first(tmp_path: Path) -> None:
    sys = FakeSys(tmp_path)
    folder = pmu(sys, "uncore_imc_0", 12, "0", event="config:0-7", umask="config:8-15")
    for name, umask in (("cas_count_read", "0x0f"), ("cas_count_write", "0x30")):
        write(folder / "events" / name, f"event=0x04,umask={umask}")
        write(folder / "events" / f"{name}.scale", "6.103515625e-5")
        write(folder / "events" / f"{name}.unit", "MiB")
    (group,) = [group for group in plan(str(sys.sys), b"model : 106\n") if group.subject.startswith("memory")]
    assert [(event.config, event.unit) for event in group.events] == [(0x0F04, 64.0), (0x3004, 64.0)]
    assert group.cpus == (0,)


def test_events_of_genoa(tmp_path: Path) -> None:
    sys = FakeSys(tmp_path)
    pmu(sys, "amd_l3", 30, "0,8", event="config:0-7", umask="config:8-15")
    pmu(sys, "amd_umc_0", 40, "0", event="config:0-7", rdwrmask="config:8-9")
    groups = plan(str(sys.sys), GENOA.encode())
    found = counters(groups)
    assert found["l2"] == [("l2_loads", RAW, 0xF864), ("l2_misses", RAW, 0x0864)]
    assert found["stall"][1] == ("stalls", RAW, 0xA2D6)
    assert found["l3"] == [("l3_loads", 30, 0xFF04), ("l3_misses", 30, 0x0104)]
    assert found["memory/amd_umc_0"] == [("mem_read", 40, 0x010A), ("mem_written", 40, 0x020A)]
    assert [group.cpus for group in groups if group.subject == "l3"] == [(0, 8)]


def test_milan_has_no_event_for_waiting(tmp_path: Path) -> None:
    assert "stall" not in counters(plan(str(tmp_path), GENOA.replace("17", "1").encode()))


def test_events_of_grace(tmp_path: Path) -> None:
    sys = FakeSys(tmp_path)
    arm = pmu(sys, "armv8_pmuv3_0", 8, event="config:0-15")
    for name, code in (("l2d_cache", "0x0016"), ("l2d_cache_refill", "0x0017"), ("stall_backend_mem", "0x4005")):
        write(arm / "events" / name, f"event={code}")
    memory = pmu(sys, "nvidia_scf_pmu_0", 20, "0", event="config:0-31")
    write(memory / "events/cmem_rd_data", "event=0x1a5")
    write(memory / "events/cmem_wr_total_bytes", "event=0x1db")
    groups = plan(str(sys.sys), b"processor : 0\nCPU implementer : 0x41\n")
    found = counters(groups)
    assert found["l2"] == [("l2_loads", 8, 0x16), ("l2_misses", 8, 0x17)]
    assert found["stall"][1] == ("stalls", 8, 0x4005)
    assert [event.unit for group in groups if group.subject.startswith("memory") for event in group.events] == [
        32.0,
        1.0,
    ]


def test_a_cpu_that_nobody_knows_has_what_all_have(tmp_path: Path) -> None:
    assert set(counters(plan(str(tmp_path), None))) == {"core", "l3"}
    assert cpu(b"vendor_id : X\nmodel : much\n") == Cpu("X", 0, 0)


def test_encodings() -> None:
    assert terms("event=0x04,umask=3,inv\n") == {"event": 4, "umask": 3, "inv": 1}
    assert terms("event=zebra,,=") == {}
    assert placed(0x1A0, "0-7,32-35") == 0xA0 | 1 << 32
    assert placed(5, "zebra,9-1,70") == 0


@given(st.lists(st.integers(0, 2**63), min_size=4, max_size=4), st.lists(st.integers(0, 2**63), min_size=4, max_size=4))
def test_no_pair_of_reads_gives_an_unfitting_value(old: list[int], new: list[int]) -> None:
    grown = growth(Counted(old[0], old[1], tuple(old[2:])), Counted(new[0], new[1], tuple(new[2:])))
    for counter in RATES:
        counts = dict.fromkeys(RATES, grown[0] if grown else None) | {counter: grown[1] if grown else None}
        Envelope.DeviceSample(**columns(counts, 5.0))


def test_settings() -> None:
    (source,) = sources(Agent(cpu_counter_interval_s=10.0), Attribution())
    assert (source.name, source.topic, source.period_s) == ("cpu_counters", "device-samples", 10.0)
    assert list(sources(Agent(cpu_counters=False), Attribution())) == []
