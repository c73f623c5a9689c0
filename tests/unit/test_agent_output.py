"""Rows on standard output: JSON lines for programs, SI units for people."""

import io
import json
import math

import pytest

from warpmeter.producers.output import Printer, json_line, text
from warpmeter.schemas.generated import (
    gpu_samples_pb2,
    host_samples_pb2,
    job_events_pb2,
    metric_samples_pb2,
    source_health_pb2,
)

GPU = gpu_samples_pb2.Envelope.GpuSample(
    host="gpu01", ts=5.0, gpu=3, uuid="GPU-3", job_ids=["a"],
    power_deciwatts=6543, sm_active_permille=250, energy_joules=2**40,
)  # fmt: skip
HOST = host_samples_pb2.Envelope.HostSample(host="gpu01", ts=5.0, cpu_idle_permille=1000, mem_free_mebibytes=9671)
HEALTH = source_health_pb2.Envelope.SourceHealth
JOB = job_events_pb2.Envelope.JobEvent(
    host="gpu01", job_id="9", event="started", pid=7, labels={"account": "nlp"}, gpus=[0, 1]
)


def test_a_json_line_has_every_field_and_null_for_what_is_not_known() -> None:
    line = json.loads(json_line("gpu-samples", GPU))
    assert (line["topic"], line["type"], line["power_deciwatts"], line["energy_joules"]) == (
        "gpu-samples", "GpuSample", 6543, 2**40,
    )  # fmt: skip
    assert line["fan_permille"] is None
    assert line["job_ids"] == ["a"]
    assert len(line) == 2 + len(GPU.DESCRIPTOR.fields)


def test_json_has_no_infinite_numbers() -> None:
    for value, shown in ((math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN"), (1e308, 1e308)):
        line = json_line("metric-samples", metric_samples_pb2.Envelope.MetricSample(value=value, labels={"a": "b"}))
        assert json.loads(line, parse_constant=pytest.fail)["value"] == shown


def test_maps_and_lists_are_json() -> None:
    line = json.loads(json_line("job-events", JOB))
    assert (line["labels"], line["gpus"], line["rank"]) == ({"account": "nlp"}, [0, 1], None)


def test_people_read_what_is_known_with_its_unit() -> None:
    lines = text("gpu-samples", GPU).splitlines()
    assert lines[0] == "gpu-samples gpu=3 uuid=GPU-3"
    assert [line.split() for line in lines[1:]] == [
        ["sm_active", "25%"],
        ["power", "654.3W"],
        ["energy", "1099511627776J"],
    ]


def test_people_read_memory_as_tail_shows_it() -> None:
    lines = text("host-samples", HOST).splitlines()
    assert [line.split() for line in lines[1:]] == [["cpu_idle", "100%"], ["mem_free", "9.444GiB"]]


def test_people_read_why_a_state_is_not_ok() -> None:
    well, sick = (HEALTH(source="jobs", state=state, why="no such file") for state in ("ok", "unsupported"))
    assert text("source-health", well).splitlines()[0] == "source-health source=jobs state=ok"
    assert text("source-health", sick).splitlines()[0] == "source-health source=jobs state=unsupported: no such file"


def test_a_printer_writes_a_line_for_each_row() -> None:
    out = io.StringIO()
    Printer(True, out).publish("job-events", [JOB, JOB])
    assert len(out.getvalue().splitlines()) == 2


def test_people_read_no_name_that_steers_their_terminal() -> None:
    row = job_events_pb2.Envelope.JobEvent(job_id="7\x1b[2J", event="started", name="train.py", pid=7)
    first = text("job-events", row).splitlines()[0]
    assert first == 'job-events name=train.py job_id="7\\u001b[2J" event=started pid=7'
