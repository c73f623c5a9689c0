"""What outputs show of rows: the latest, under which names, in which units, and what they do with what they cannot."""

import json
import os
import re
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.clock import FakeClock
from tests.full_rows import everything, full_row
from tests.wait import until
from warpmeter.producers.out.exporter import LONGEST_RETRY_AFTER_S, retry_after_s
from warpmeter.producers.out.latest import GRACE_S, Latest
from warpmeter.producers.out.lines import MOST_ROWS, STALL_S, Lines
from warpmeter.producers.out.otlp import Request
from warpmeter.producers.out.page import Collected
from warpmeter.producers.out.several import Several
from warpmeter.producers.output import Tally, json_line
from warpmeter.producers.source import Health
from warpmeter.schemas.exposed import exposed, otel
from warpmeter.schemas.metrics import METRICS
from warpmeter.settings import Agent

AGENT = Agent(host="gpu01")
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def latest(clock: FakeClock, **rows: Any) -> Latest:
    """What stands after one tick of `rows`, or of everything."""
    made = Latest(AGENT, clock)
    for topic, some in (rows or everything()).items():
        made.publish(topic.replace("_", "-"), some)
    return made


def page(of: Latest, dynolog: bool = False) -> Series:
    """The page as prometheus-client's own parser reads it."""
    registry = CollectorRegistry()
    registry.register(Collected(of.rows, dynolog))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples
    }


def named(series: Series, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The series of one name, by labels."""
    return {labels: value for (found, labels), value in series.items() if found == name}


def test_every_metric_has_a_name_of_its_own_in_every_output() -> None:
    assert len({exposed(metric).name for metric in METRICS}) == len(METRICS)
    names = [(otel(metric).name, tuple(otel(metric).attributes.items())) for metric in METRICS]
    assert len(set(names)) == len(METRICS)
    assert all(re.fullmatch(r"(warpmeter|hw|system)(\.[a-z0-9_]+)+", name) for name, _ in names)


def test_the_page_has_every_metric_of_the_table() -> None:
    assert {exposed(metric).name for metric in METRICS} <= {name for name, _ in page(latest(FakeClock()))}


def test_the_page_is_in_base_units_with_labels_that_tell_rows_apart() -> None:
    series = page(latest(FakeClock(), gpu_samples=[full_row("gpu-samples", power_deciwatts=6543, fan_permille=300)]))
    gpu = (("gpu", "3"), ("host", "gpu01"), ("job_id", "a,b"), ("uuid", "GPU-3"))
    assert named(series, "warpmeter_gpu_power_watts") == {gpu: 654.3}
    assert named(series, "warpmeter_gpu_fan_ratio") == {gpu: 0.3}
    assert named(series, "warpmeter_gpu_energy_joules_total") == {gpu: 1.0}
    shares = named(series, "warpmeter_gpu_job_share_ratio")
    assert {dict(labels)["job_id"]: share for labels, share in shares.items()} == {"a": 0.25, "b": 0.75}


def test_link_speed_is_in_bytes_as_prometheus_has_it() -> None:
    series = page(latest(FakeClock(), device_samples=[full_row("device-samples", link_megabits_per_s=400_000)]))
    assert list(named(series, "warpmeter_device_link_bytes_per_second").values()) == [50e9]


def test_what_was_not_read_is_absent_and_never_zero() -> None:
    row = full_row("gpu-samples")
    row.ClearField("fan_permille")
    assert named(page(latest(FakeClock(), gpu_samples=[row])), "warpmeter_gpu_fan_ratio") == {}


def test_a_value_is_absent_once_its_period_passed_without_another() -> None:
    clock = FakeClock()
    stands = latest(
        clock, gpu_samples=[full_row("gpu-samples")], host_samples=[full_row("host-samples", period_ms=5000)]
    )
    clock.sleep(1 + GRACE_S)
    assert {kept.topic for kept in stands.rows()} == {"gpu-samples", "host-samples"}
    clock.sleep(0.1)
    assert {kept.topic for kept in stands.rows()} == {"host-samples"}
    clock.sleep(4)
    assert page(stands) == {}


def test_a_step_of_the_clock_neither_keeps_nor_drops_values() -> None:
    clock = FakeClock()
    stands = latest(clock, host_samples=[full_row("host-samples")])
    clock.step(-3600)
    assert len(stands.rows()) == 1


def test_a_job_stands_between_its_events_and_goes_with_its_end() -> None:
    clock = FakeClock()
    stands = latest(clock, job_events=[full_row("job-events", event="started", period_ms=0)])
    clock.sleep(AGENT.job_event_interval_s)
    assert named(page(stands), "warpmeter_job_info")
    stands.publish("job-events", [full_row("job-events", event="ended")])
    assert page(stands) == {}


def test_an_xid_stands_until_it_is_cleared() -> None:
    clock = FakeClock()
    stands = latest(clock, gpu_events=[full_row("gpu-events")])
    clock.sleep(1e6)
    ((labels, value),) = named(page(stands), "warpmeter_gpu_event_raised").items()
    assert (dict(labels)["code"], value) == ("79", 1.0)
    stands.publish("gpu-events", [full_row("gpu-events", state="cleared")])
    assert page(stands) == {}


def test_subjects_that_are_well_again_are_forgotten() -> None:
    stands = latest(FakeClock(), source_health=[full_row("source-health", period_ms=10_000)])
    assert [dict(labels)["state"] for labels in named(page(stands), "warpmeter_source_state")] == ["unsupported"]
    stands.publish("source-health", [full_row("source-health", state="ok"), full_row("source-health", subject="")])
    assert [dict(labels).get("subject") for labels in named(page(stands), "warpmeter_source_state")] == [None]


def test_the_page_has_dynologs_names_and_units_where_it_has_the_metric() -> None:
    gpu = full_row("gpu-samples", sm_clock_megahertz=1980, gpu_util_permille=875, power_deciwatts=7000)
    nic = full_row("device-samples", rx_kilobytes_per_s=20, period_ms=2000)
    rdma = full_row("device-samples", kind="rdma", device="mlx5_0/1", rx_kilobytes_per_s=20, period_ms=2000)
    series = page(latest(FakeClock(), gpu_samples=[gpu], device_samples=[nic, rdma]), dynolog=True)
    (device,) = named(series, "gpu_frequency_mhz")
    assert dict(device)["gpu"] == "3"
    expected: dict[str, float] = {
        "gpu_frequency_mhz": 1980,
        "gpu_device_utilization": 87.5,
        "gpu_power_draw": 700,
        "rx_bytes_eth0": 40_000,
        "mlx5_0_1_port_rcv_data": 10_000,
        "warpmeter_gpu_fan_ratio": 0.001,
    }
    assert {name: list(named(series, name).values()) for name in expected} == {k: [v] for k, v in expected.items()}
    assert named(series, "warpmeter_gpu_power_watts") == {}


def test_dynologs_shares_of_the_cpu_have_waiting_in_them_and_its_times_are_of_all_cores() -> None:
    row = full_row("host-samples", cores=8, cpu_idle_permille=700, cpu_iowait_permille=100, cpu_user_permille=200)
    expected = {"cpu_util": 30.0, "cpu_u": 20.0, "cpu_i": 70.0, "cpu_u_ms": 1600.0, "cpu_w_ms": 800.0}
    series = page(latest(FakeClock(), host_samples=[row]), dynolog=True)
    assert {name: list(named(series, name).values()) for name in expected} == {k: [v] for k, v in expected.items()}
    line = json.loads(json_line("host-samples", row, dynolog=True))
    assert {name: line[name] for name in expected} == expected
    assert line["cpu_iowait"] == 0.1


def test_json_has_dynologs_names_on_demand_and_the_rest_in_si() -> None:
    row = full_row("gpu-samples", sm_clock_megahertz=1980, power_limit_deciwatts=7000)
    row.ClearField("dram_active_permille")
    line = json.loads(json_line("gpu-samples", row, dynolog=True))
    assert (line["gpu_frequency_mhz"], line["power_limit_watts"], line["host"], line["gpu"]) == (1980, 700, "gpu01", 3)
    assert "hbm_mem_bw_util" not in line
    assert "sm_clock_megahertz" not in line
    row.ClearField("fan_permille")
    assert json.loads(json_line("gpu-samples", row, dynolog=True))["fan"] is None


def test_a_counter_that_dynolog_shows_as_its_growth_keeps_our_name() -> None:
    line = json.loads(json_line("device-samples", full_row("device-samples"), dynolog=True))
    assert line["pause_storm_warnings"] == 1
    assert "eth0.tx_pause_storm_warning_events" not in line


def points(request: Request) -> dict[str, Any]:
    """The metrics of a request as a receiver decodes them, by name."""
    decoded = ExportMetricsServiceRequest.FromString(request.packed())
    (resource,) = decoded.resource_metrics
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["host.name"] == "gpu01"
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def attributes(point: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in point.attributes}


def test_otlp_follows_the_conventions_for_hardware_where_they_have_the_metric() -> None:
    request = Request("gpu01")
    request.add(
        latest(
            FakeClock(), gpu_samples=[full_row("gpu-samples", power_deciwatts=6543, encoder_util_permille=500)]
        ).rows()
    )
    found = points(request)
    (power,) = found["hw.power"].gauge.data_points
    assert (power.as_double, power.time_unix_nano, found["hw.power"].unit) == (654.3, 1_800_000_000 * 10**9, "W")
    assert (
        attributes(power).items() >= {"hw.id": "GPU-3", "hw.type": "gpu", "gpu.uuid": "GPU-3", "gpu.index": 3}.items()
    )
    tasks = {
        attributes(point)["hw.gpu.task"]: point.as_double for point in found["hw.gpu.utilization"].gauge.data_points
    }
    assert tasks == {"general": 0.001, "encoder": 0.5, "decoder": 0.001}
    energy, memory = found["hw.energy"].sum, found["hw.gpu.memory.usage"].sum
    assert (energy.is_monotonic, memory.is_monotonic, memory.data_points[0].as_int) == (True, False, 1 << 20)
    assert {energy.aggregation_temporality, memory.aggregation_temporality} == {2}  # cumulative


def test_otlp_has_every_metric_with_its_unit() -> None:
    request = Request("gpu01")
    request.add(latest(FakeClock()).rows())
    found = points(request)
    assert set(found) == {otel(metric).name for metric in METRICS}
    assert {name: metric.unit for name, metric in found.items()} == {otel(m).name: otel(m).unit for m in METRICS}
    counted = sum(len(each.gauge.data_points) + len(each.sum.data_points) for each in found.values())
    assert request.points == counted


def test_only_what_came_since_the_last_export_goes_into_the_next() -> None:
    stands = latest(FakeClock())
    newest = max(kept.number for kept in stands.rows())
    assert stands.rows(newest) == []
    stands.publish("host-samples", [full_row("host-samples")])
    assert [kept.topic for kept in stands.rows(newest)] == ["host-samples"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("7", 7.0), ("0", 0.0), ("soon", None), ("99999999", LONGEST_RETRY_AFTER_S), ("-3", None),
     ("Thu, 01 Jan 1970 00:01:30 GMT", 30.0), ("Thu, 01 Jan 1970 00:00:30 GMT", 0.0)],
)  # fmt: skip
def test_retry_after_is_read_in_both_its_forms_and_bounded(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, 60.0) == seconds


def test_lines_are_whole_json_in_order() -> None:
    reader, writer = os.pipe()
    lines = Lines(json_line, FakeClock(), writer)
    for uptime in range(3):
        lines.publish("host-samples", [full_row("host-samples", uptime_s=uptime)])
    lines.close(20)
    os.close(writer)
    with os.fdopen(reader) as file:
        assert [json.loads(line)["uptime_s"] for line in file] == [0, 1, 2]
    assert lines.health()[0].state == "ok"


def test_of_rows_that_nobody_reads_the_oldest_go_and_are_counted() -> None:
    reader, writer = os.pipe()
    clock = FakeClock()
    lines = Lines(json_line, clock, writer)
    tick = [full_row("host-samples")] * 100
    for _ in range(MOST_ROWS // 100 + 20):
        lines.publish("host-samples", tick)
    _, (dropped,) = lines.health()
    assert dropped.subject == "dropped/full"
    assert dropped.count is not None
    assert 1800 <= dropped.count <= 2000
    until(lambda: lines._busy_since is not None, "the writer to stand")
    clock.sleep(STALL_S + 1)
    state, _ = lines.health()
    assert (state.state, state.why) == ("failed", "nobody has read standard output for 11 s")
    os.close(reader)
    until(lambda: lines.gone, "the writer to see that its reader is gone")
    lines.close(20)
    os.close(writer)
    assert {each.subject for each in lines._drops.told()} == {"dropped/full", "dropped/refused"}
    assert lines.health()[0] == Health("", "gone", "its reader is gone")


def test_a_row_that_cannot_be_written_ends_nothing() -> None:
    reader, writer = os.pipe()

    def line(topic: str, row: Any) -> str:
        if row.uptime_s == 0:
            raise ValueError("no such row")
        return json_line(topic, row)

    lines = Lines(line, FakeClock(), writer)
    for uptime in range(2):
        lines.publish("host-samples", [full_row("host-samples", uptime_s=uptime)])
    lines.close(20)
    os.close(writer)
    with os.fdopen(reader) as file:
        assert [json.loads(each)["uptime_s"] for each in file] == [1]
    assert [(each.subject, each.count) for each in lines.health()[1]] == [("dropped/refused", 1)]


def test_a_full_disk_under_standard_output_is_told_and_tried_again() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    lines = Lines(json_line, FakeClock(), full)
    lines.publish("host-samples", [full_row("host-samples")])
    lines.close(20)
    os.close(full)
    assert lines.health()[0] == Health("", "failed", "standard output: No space left on device")
    assert not lines.gone


def test_lines_on_a_pipe_that_does_not_block_wait_for_room() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    lines = Lines(json_line, FakeClock(), writer)
    lines.publish("host-samples", [full_row("host-samples")] * 200)
    with os.fdopen(reader) as file:
        assert sum(1 for _, _ in zip(range(200), file, strict=False)) == 200
    lines.close(20)
    os.close(writer)


class Broken(Tally):
    """An output with a bug."""

    def publish(self, topic: str, rows: Any) -> None:
        raise RuntimeError(f"{topic} {rows}")

    def pump(self) -> bool:
        raise RuntimeError("pump")


def test_an_output_that_breaks_takes_nothing_from_the_others() -> None:
    well = Tally()
    several = Several([Broken(), well])
    several.publish("host-samples", [full_row("host-samples")])
    assert several.pump() is False
    assert well.rows == {"host-samples": 1}
