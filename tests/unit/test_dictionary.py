"""What a column means, from whichever place says so; and the deprecation rule."""

import pytest

from warpmeter.dictionary import meanings
from warpmeter.dictionary.meanings import Told
from warpmeter.dictionary.stability import Promise, broken, read, written

COMMENTS = {("trace_steps_loads", "duration_ns"): "on the host", ("gpu_samples", "job_ids"): "jobs at this instant"}


@pytest.mark.parametrize(
    ("table", "column", "told"),
    [
        ("idle_gpus", "idle_s", Told("how long that is", "s")),  # said of itself
        ("gpu_samples", "job_ids", Told("jobs at this instant")),  # by a migration
        ("trace_steps", "duration_ns", Told("on the host", "ns")),  # by what it is like
        ("trace_steps", "duration_seconds", Told("`duration_ns` in seconds", "s")),
        ("gpus", "power_watts", Told("power drawn", "W")),  # by the metric table
        ("gpu_samples", "power_deciwatts", Told("power drawn", "0.1 W")),  # as stored
        ("gpu_heatmap_1h", "power_deciwatts_max", Told("power drawn: most", "0.1 W")),
        ("gpu_heatmap_1h", "power_deciwatts_count", Told("power drawn: samples in which it is known")),
        ("jobs", "cpu_core_seconds", Told("CPU time used in all", "s")),
        ("idle_gpus", "host", Told("name of the host")),  # everywhere
        ("idle_gpus", "no_such", None),
    ],
)
def test_a_column_means(table: str, column: str, told: Told | None) -> None:
    assert meanings.told(table, column, COMMENTS) == told


def test_a_comment_ends_with_the_unit() -> None:
    assert str(Told("power drawn", "W")) == "power drawn [W]"
    assert str(Told("name of the host")) == "name of the host"


BEFORE = {
    "gpus": {
        "host": Promise("String"),
        "power": Promise("Float64", "deprecated: use power_watts since 0.3"),
    }
}


@pytest.mark.parametrize(
    ("now", "version", "said"),
    [
        (BEFORE, "0.3.0", []),
        ({"gpus": {**BEFORE["gpus"], "new": Promise("String")}}, "0.3.0", []),
        ({"gpus": {"host": Promise("String")}}, "0.4.9", ["gpus.power is gone"]),
        ({"gpus": {"host": Promise("String")}}, "0.5.0", []),
        ({"gpus": {"host": Promise("String")}}, "1.0.0", []),
        ({"gpus": {**BEFORE["gpus"], "host": Promise("UInt8")}}, "9.0.0", ["gpus.host was String and is UInt8"]),
        ({}, "0.3.0", ["gpus.host is gone", "gpus.power is gone"]),
    ],
)
def test_a_stable_column_goes_only_after_it_was_deprecated(
    now: dict[str, dict[str, Promise]], version: str, said: list[str]
) -> None:
    found = list(broken(BEFORE, now, version))
    assert [each.partition(": ")[0] for each in found] == said
    assert all("deprecated before it goes" in each and "CHANGELOG" in each for each in found)


def test_promises_are_read_as_they_were_written() -> None:
    assert read(written(BEFORE)) == BEFORE
