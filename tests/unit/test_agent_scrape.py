"""Prometheus pages: every line of the format, the same values as prometheus-client's own parser."""

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from warpmeter.producers.prometheus import PrometheusSource, Value, sources, values
from warpmeter.producers.source import Attribution, Reading, Sample
from warpmeter.settings import Agent, Scrape

PAGE = """\
# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu01"} 43
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-2",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu01"} 51 1700000000000

up 1
vllm:num_requests_running{model_name="m",} 2.5e+01
http_request_duration_seconds_bucket{le="+Inf"} 144320
rpc_duration_seconds{quantile="0.99"} NaN
odd{path="C:\\\\dir\\nnew \\"quoted\\" {braces}, commas"} -Inf
open_metrics_total 17.0 # {trace_id="x"} 1.0
"""


def parsed(page: str, match: str = ".*") -> tuple[list[Value], list[str]]:
    """Values and lines that are none."""
    broken: list[str] = []
    return list(values(page, re.compile(match), broken)), broken


def test_a_page_is_read() -> None:
    found, broken = parsed(PAGE)
    assert broken == []
    assert [(value.name, value.value) for value in found] == [
        ("DCGM_FI_DEV_GPU_TEMP", 43.0),
        ("DCGM_FI_DEV_GPU_TEMP", 51.0),
        ("up", 1.0),
        ("vllm:num_requests_running", 25.0),
        ("http_request_duration_seconds_bucket", 144320.0),
        ("odd", -math.inf),
        ("open_metrics_total", 17.0),
    ]
    assert found[0].labels == {
        "gpu": "0", "UUID": "GPU-1", "modelName": "NVIDIA H100 80GB HBM3", "Hostname": "gpu01",
    }  # fmt: skip
    assert found[3].labels == {"model_name": "m"}
    assert found[5].labels == {"path": 'C:\\dir\nnew "quoted" {braces}, commas'}


def test_only_whole_names_match() -> None:
    assert [value.name for value in parsed(PAGE, "up|odd|DCGM")[0]] == ["up", "odd"]


@pytest.mark.parametrize("line", ["<html>", "name", "name{a=} 1 2 3 4", "1name 5", "name five", 'name{a="b" 5'])
def test_lines_that_are_not_in_the_format_are_told(line: str) -> None:
    found, broken = parsed(f"up 1\n{line}\nup 2\n")
    assert [value.value for value in found] == [1.0, 2.0]
    assert broken == [line]


LABELS = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), st.text(max_size=20), max_size=4)
VALUE = st.floats(allow_nan=False)


@given(name=st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True), labels=LABELS, value=VALUE)
def test_it_reads_what_prometheus_client_reads(name: str, labels: dict[str, str], value: float) -> None:
    line = _line(name, labels, value)
    (family,) = text_string_to_metric_families(line)
    found, broken = parsed(line)
    assert broken == []
    assert [(v.name, v.labels, v.value) for v in found] == [
        (s.name, s.labels, float(s.value)) for s in family.samples
    ]  # fmt: skip


def _line(name: str, labels: dict[str, str], value: float) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    pairs = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {value!r}\n"


def reading(page: bytes) -> Reading:
    """What a source makes of a page."""
    source = PrometheusSource("gpu01", Scrape("dcgm", "http://127.0.0.1:1/metrics", 10.0, "DCGM.*|up"))
    return source.parse(Sample(1_800_000_000.0, 5.0, 10.0, page), None)


def test_rows_carry_source_labels_and_period() -> None:
    rows: list[Any] = list(reading(PAGE.encode()).rows)
    assert [(row.name, row.value) for row in rows] == [
        ("DCGM_FI_DEV_GPU_TEMP", 43.0), ("DCGM_FI_DEV_GPU_TEMP", 51.0), ("up", 1.0),
    ]  # fmt: skip
    assert {(row.host, row.source, row.period_ms, row.ts) for row in rows} == {
        ("gpu01", "dcgm", 10_000, 1_800_000_000.0)
    }
    assert rows[1].labels["gpu"] == "1"


def test_a_page_of_another_kind_is_a_health_row() -> None:
    (health,) = reading(b"<html>\n<body>busy</body>\n</html>\n").health
    assert (health.subject, health.state, health.count) == ("page", "failed", 3)


def test_each_endpoint_is_a_source() -> None:
    agent = Agent(scrape=(Scrape("a", "http://a/"), Scrape("b", "http://b/", 5.0)))
    found = sources(agent, Attribution())
    assert [(source.name, source.topic, source.period_s) for source in found] == [
        ("scrape/a", "metric-samples", 10.0), ("scrape/b", "metric-samples", 5.0),
    ]  # fmt: skip
