"""What NVML's numbers become: stored integers, rates, health."""

import pytest

from warpmeter.producers.gpu.device import GpuRaw, Identity
from warpmeter.producers.gpu.found import Found
from warpmeter.producers.gpu.nvml import NOT_LISTED, GpuProcess, Problem
from warpmeter.producers.gpu.parse import health, rates, stored, uses, values
from warpmeter.producers.gpu.reader import Snapshot
from warpmeter.producers.gpu.table import CALLS, COUNTERS, GAUGES, METRICS, THROUGHPUT
from warpmeter.producers.source import GpuUse, Health
from warpmeter.schemas.metrics import of_topic

FAILED, UNSUPPORTED = Problem(999), Problem(3)
MIB = 1 << 20


def raw(
    identity: Identity = Identity(0, "GPU-a", "H100"),  # noqa: B008 (frozen)
    counters: dict[str, tuple[float, float]] | None = None,
    processes: tuple[GpuProcess, ...] | None = (),
    found: Found | None = None,
) -> GpuRaw:
    """One GPU's read."""
    kept = found or Found()
    return GpuRaw(identity, kept.gauges, counters or {}, processes, kept.unsupported, kept.failing)


@pytest.mark.parametrize(
    ("column", "scaled", "expected"),
    [
        ("power_deciwatts", 5000.4, 5000),
        ("power_deciwatts", 0, 0),
        ("power_deciwatts", -1, None),
        ("energy_joules", 2.0**40 + 0.4, 2**40),
        ("sm_active_permille", 999.6, 1000),
        ("sm_active_permille", 1004.0, 1000),
        ("sm_active_permille", 1051.0, None),
        ("sm_active_permille", float("nan"), None),
        ("nvlink_tx_megabytes_per_s", float("inf"), None),
        ("nvlink_tx_megabytes_per_s", 2.0**32, None),
        ("power_limit_max_deciwatts", 2.0**32 / 100, None),
        ("temperature_celsius", 256, None),
        ("temperature_celsius", 255, 255),
        ("energy_joules", 2.0**63, None),
    ],
)
def test_a_stored_value_is_a_possible_one(column: str, scaled: float, expected: int | None) -> None:
    assert stored(column, scaled) == expected


def test_values_are_scaled_by_their_factor() -> None:
    good, bad = values([("power_deciwatts", 0.01, 512_340), ("fb_used_mebibytes", 1 / MIB, 5 * MIB), ("x", 1, -2)])
    assert (good, bad) == ({"power_deciwatts": 5123, "fb_used_mebibytes": 5}, ["x"])


def test_a_rate_needs_an_earlier_lower_count() -> None:
    now = raw(counters={"up": (2.0, 150.0), "again": (1.0, 5.0), "new": (1.0, 7.0)})
    before = raw(counters={"up": (2.0, 100.0), "again": (1.0, 90.0)})
    assert list(rates(now, before, 5.0)) == [("up", 2.0, 10.0)]
    assert list(rates(now, None, 5.0)) == []
    assert list(rates(now, before, None)) == []


def test_health_names_gpus_and_columns() -> None:
    found = Found()
    found.failed(["fan_permille"], UNSUPPORTED)
    found.failed(["power_deciwatts"], FAILED)
    snapshot = Snapshot((raw(found=found),), (("GPU-b", NOT_LISTED),))
    assert [(each.subject, each.state) for each in health(snapshot, {"GPU-a": ["sm_active_permille"]})] == [
        ("GPU-b", "gone"),
        ("GPU-a/fan_permille", "unsupported"),
        ("GPU-a/power_deciwatts", "failed"),
        ("GPU-a/sm_active_permille", "failed"),
    ]


def test_a_column_has_one_state() -> None:
    found = Found()
    found.failed(["a"], FAILED)
    found.failed(["a"], UNSUPPORTED)
    found.failed(["b"], FAILED)
    found.took("b", 1, 2)
    assert (found.unsupported, found.failing) == ({"a": UNSUPPORTED}, {})
    found.begin()
    assert found.gauges == []


def test_a_process_in_a_mig_instance_is_used_once() -> None:
    whole, cut = Identity(0, "GPU-a", "H100"), Identity(1, "GPU-b", "H100")
    mig = Identity(1, "MIG-c", "1g", 3, 0)
    inside, outside = GpuProcess(7, 2 * MIB, 3, 0), GpuProcess(8, None)
    snapshot = Snapshot(
        (
            raw(whole, processes=(outside,)),
            raw(cut, processes=(inside, outside)),
            raw(mig, processes=(inside,)),
            raw(Identity(2, "GPU-d", ""), processes=None),
        ),
        (),
    )
    assert uses(snapshot) == [
        GpuUse(8, 0, "GPU-a", None),
        GpuUse(8, 1, "GPU-b", None),
        GpuUse(7, 1, "MIG-c", 2),
    ]


def test_every_column_of_the_topic_is_read_and_no_other() -> None:
    called = {column for call in (*CALLS, *THROUGHPUT) for column in call.columns}
    told = {each.column for each in METRICS} | {each.column for each in (*GAUGES, *COUNTERS)}
    found = {"processes", "minor_number"}  # with the lists of processes; once, with what the GPU is
    assert called | told | found == {metric.column for metric in of_topic("gpu-samples")}


def test_a_problem_says_what_to_do() -> None:
    assert FAILED.why == "NVML_ERROR_UNKNOWN"
    assert Problem(12345).why == "NVML_ERROR_12345"
    assert Problem(4).state == "denied"
    assert "run it as root" in Problem(4).why
    assert Health("GPU-a", NOT_LISTED.state, NOT_LISTED.why).why.startswith("NVML_ERROR_GPU_NOT_FOUND: ")
