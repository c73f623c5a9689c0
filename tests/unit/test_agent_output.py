"""Rows on standard output: JSON lines for programs, SI units for people."""

import io
import json

from warpmeter.producers.output import Printer, json_line, text
from warpmeter.schemas.generated import gpu_samples_pb2, job_events_pb2

GPU = gpu_samples_pb2.Envelope.GpuSample(
    host="gpu01", ts=5.0, gpu=3, uuid="GPU-3", job_ids=["a"],
    power_deciwatts=6543, sm_active_permille=250, energy_joules=2**40,
)  # fmt: skip
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


def test_maps_and_lists_are_json() -> None:
    line = json.loads(json_line("job-events", JOB))
    assert (line["labels"], line["gpus"], line["rank"]) == ({"account": "nlp"}, [0, 1], None)


def test_people_read_si_units_of_what_is_known() -> None:
    lines = text("gpu-samples", GPU).splitlines()
    assert lines[0] == "gpu-samples gpu=3 uuid=GPU-3"
    assert [line.split() for line in lines[1:]] == [
        ["sm_active", "0.25", "ratio", "0-1"],
        ["power_watts", "654.3", "W"],
        ["energy_joules", "1099511627776", "J"],
    ]


def test_a_printer_writes_a_line_for_each_row() -> None:
    out = io.StringIO()
    Printer(True, out).publish("job-events", [JOB, JOB])
    assert len(out.getvalue().splitlines()) == 2
