"""The host source: two looks at a golden /proc tree, and what counters may do to it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter import __version__
from warpmeter.producers.host import MODES, HostRaw, HostSource, cpu_ticks, gauges, rates, sources, stalled_us
from warpmeter.producers.output import json_line
from warpmeter.producers.source import Attribution, Sample
from warpmeter.schemas.generated.host_samples_pb2 import Envelope
from warpmeter.settings import Agent

GOLDEN = Path(__file__).parents[1] / "golden/agent"
TS = 1_800_000_000.0


def look(at: str, seconds: float) -> Sample[HostRaw]:
    """One read of a golden tree."""
    source = HostSource(Agent(host="gpu01", root=GOLDEN / at))
    return Sample(TS + seconds, 100.0 + seconds, 1.0, source.read())


def row(sample: Sample[HostRaw], before: Sample[HostRaw] | None = None) -> Any:
    """The one row of a reading."""
    (found,) = HostSource(Agent(host="gpu01", root=GOLDEN / "second")).parse(sample, before).rows
    return found


def test_two_looks_give_the_golden_row(update: bool) -> None:
    found = json.loads(json_line("host-samples", row(look("second", 2.0), look("first", 0.0))))
    assert found.pop("agent_version") == __version__
    golden = GOLDEN / "host.json"
    if update:
        golden.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(golden.read_text())


def test_cpu_shares_are_of_the_interval() -> None:
    found = row(look("second", 2.0), look("first", 0.0))
    # 800 ticks passed on 4 cores: 280 user, 20 nice, 60 system, 360 idle, 40 iowait, 8 irq, 24 softirq, 8 steal
    assert found.cpu_user_permille == 350
    assert found.cpu_nice_permille == 25
    assert found.cpu_system_permille == 75
    assert found.cpu_idle_permille == 450
    assert found.cpu_iowait_permille == 50
    assert found.cpu_irq_permille == 10
    assert found.cpu_softirq_permille == 30
    assert found.cpu_steal_permille == 10
    assert found.cpu_util_permille == 500


def test_core_quantiles_are_over_the_cores() -> None:
    found = row(look("second", 2.0), look("first", 0.0))
    # busy: 190 of 200, 170 of 180, 39 of 219, 0 of 200
    assert (found.core_busy_min_permille, found.core_busy_max_permille) == (0, 950)
    assert found.core_busy_p50_permille == 944
    assert found.core_busy_p90_permille == 950


def test_rates_are_per_second_of_the_time_that_passed() -> None:
    found = row(look("second", 2.0), look("first", 0.0))
    assert (found.context_switches_per_s, found.interrupts_per_s, found.forks_per_s) == (5000, 1500, 6)
    assert found.swap_in_kilobytes_per_s == 1024  # 500 pages of 4096 bytes in 2 s
    assert found.swap_out_kilobytes_per_s == 0
    assert found.major_faults_per_s == 10
    assert found.psi_cpu_some_permille == 250
    assert (found.psi_memory_some_permille, found.psi_memory_full_permille) == (10, 5)
    assert found.period_ms == 2000


def test_what_the_kernel_does_not_have_is_unknown_not_zero() -> None:
    found = row(look("second", 2.0), look("first", 0.0))
    assert not found.HasField("psi_io_some_permille")
    assert not found.HasField("psi_io_full_permille")


def test_the_first_look_has_gauges_and_no_rates() -> None:
    found = row(look("first", 0.0))
    assert (found.cores, found.processes, found.uptime_s) == (4, 4, 86400)
    assert (found.load1_centi, found.load5_centi, found.load15_centi) == (350, 225, 100)
    assert found.mem_available_mebibytes == round(200000000 / 1024)
    assert (found.swap_total_mebibytes, found.swap_used_mebibytes) == (8192, 2048)
    assert not found.HasField("cpu_util_permille")
    assert not found.HasField("context_switches_per_s")
    assert found.period_ms == 1000


def test_counters_that_started_again_give_no_rate() -> None:
    found = row(look("first", 2.0), look("second", 0.0))
    assert not found.HasField("context_switches_per_s")
    assert not found.HasField("swap_in_kilobytes_per_s")
    assert not found.HasField("psi_cpu_some_permille")


def test_a_host_without_proc_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="proc/stat"):
        HostSource(Agent(root=tmp_path)).read()


def test_the_settings_give_host_and_period() -> None:
    (source,) = sources(Agent(host="h", interval_s=0.5), Attribution())
    assert (source.name, source.topic, source.period_s) == ("host", "host-samples", 0.5)


def test_an_old_kernels_cpu_line_counts_the_missing_modes_as_zero() -> None:
    assert cpu_ticks(b"cpu 1 2 3 4\nintr 5\n") == {b"cpu": (1, 2, 3, 4, 0, 0, 0, 0)}


def test_pressure_without_a_full_line_is_read() -> None:
    assert stalled_us(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n") == {"some": 5}


ticks = st.lists(st.integers(0, 2**40), min_size=10, max_size=10)


@given(before=ticks, after=ticks, elapsed=st.floats(0.001, 1e4))
def test_no_pair_of_counters_gives_a_value_out_of_range(before: list[int], after: list[int], elapsed: float) -> None:
    columns: dict[str, Any] = dict(rates(_raw(before), _raw(after), elapsed, 4.096))
    for column, value in columns.items():
        assert value is None or value >= 0
        if column.endswith("_permille"):
            assert value is not None
            assert value <= 1000
    modes = [columns.get(f"cpu_{mode}_permille") or 0 for mode in MODES]
    assert sum(modes) <= 1000 + len(modes)  # each is rounded
    Envelope.HostSample(**columns)


def _raw(numbers: list[int]) -> HostRaw:
    line, (one, two, three) = " ".join(map(str, numbers)), numbers[:3]
    stat = f"cpu  {line}\ncpu0 {line}\nintr {one} 0\nctxt {two}\nprocesses {three}\n".encode()
    pressure = f"some total={one}\nfull total={two}\n".encode()
    vmstat = f"pswpin {one}\npswpout {two}\npgmajfault {three}\n".encode()
    return HostRaw(stat, b"MemTotal: 5 kB\n", b"0 0 0 1/2 3\n", vmstat, None, (pressure, None, None), 1)


def test_meminfo_without_a_line_leaves_its_column_unknown() -> None:
    columns: dict[str, Any] = dict(gauges(_raw([1] * 10)))
    assert columns["mem_available_mebibytes"] is None
    assert columns["swap_used_mebibytes"] is None
    Envelope.HostSample(**columns)


@pytest.mark.parametrize("noise", [b"", b"\n", b"nan", b"garbage of\nmany lines\n\xff\xfe", b"some total=x\ntotal="])
def test_garbage_in_one_file_leaves_the_columns_of_the_others(noise: bytes) -> None:
    found = row(look("second", 2.0), look("first", 0.0))
    for name in ("meminfo", "vmstat", "snmp", "file_nr"):
        changed: dict[str, Any] = {name: noise}
        broken = replace(look("second", 2.0).raw, **changed)
        columns = row(Sample(TS + 2.0, 102.0, 1.0, broken), look("first", 0.0))
        assert columns.cpu_util_permille == found.cpu_util_permille
    broken = replace(look("second", 2.0).raw, pressure=(noise, None, None))
    assert not row(Sample(TS + 2.0, 102.0, 1.0, broken), look("first", 0.0)).HasField("psi_cpu_some_permille")
