"""Prometheus pages: what is published of them, rates and resets, limits, labels, and pages that are none."""

import gc
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.producers import gpu, scrape
from warpmeter.producers.scrape.exporter import ExporterPage
from warpmeter.producers.scrape.fetch import Page
from warpmeter.producers.scrape.page import PageReader
from warpmeter.producers.scrape.rules import Chosen
from warpmeter.producers.source import Attribution, Reading, Sample
from warpmeter.settings import Agent, Scrape

PAGES = Path(__file__).parents[1] / "golden" / "pages"
T = 1_800_000_000.0
ASKED = Scrape("e", "http://127.0.0.1:1/metrics")
PAGE = """\
# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu01"} 43
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-2",modelName="NVIDIA H100 80GB HBM3",Hostname="gpu01"} 51

up 1
vllm:num_requests_running{model_name="m",} 2.5e+01
http_request_duration_seconds_bucket{le="+Inf"} 144320
rpc_duration_seconds{quantile="0.99"} NaN
odd{path="C:\\\\dir\\nnew \\"quoted\\" {braces}, commas"} -Inf
"""


class Endpoint:
    """An endpoint whose pages come every ten seconds."""

    def __init__(self, asked: Scrape = ASKED) -> None:
        self.source = ExporterPage("gpu01", asked)
        self.before: Sample[Page] | None = None
        self.ticks = 0

    def reads(self, text: str, *, openmetrics: bool = False) -> Reading:
        """What its next page means."""
        self.ticks += 1
        page = Page(text.encode(), openmetrics)
        sample = Sample(T + 10 * self.ticks, 10.0 * self.ticks, self.source.period_s, page)
        reading = self.source.parse(sample, self.before)
        self.before = sample
        return reading

    def rows(self, text: str, *, openmetrics: bool = False) -> dict[str, Any]:
        """Its next page, which must be good: rows by name and, where it has some, labels."""
        reading = self.reads(text, openmetrics=openmetrics)
        assert reading.health == []
        return {shown(row): row for row in reading.rows}


def shown(row: Any) -> str:
    """A row's series in short."""
    labels = ",".join(f"{key}={value}" for key, value in sorted(row.labels.items()))
    return f"{row.name}{{{labels}}}" if labels else str(row.name)


def rate(row: Any) -> float | None:
    """Its rate, None when it has none."""
    return row.rate_per_s if row.HasField("rate_per_s") else None


def test_a_page_is_read() -> None:
    reading = Endpoint().reads(PAGE)
    assert reading.health == []
    rows: list[Any] = list(reading.rows)
    assert [(row.name, row.value) for row in rows] == [
        ("DCGM_FI_DEV_GPU_TEMP", 43.0),
        ("DCGM_FI_DEV_GPU_TEMP", 51.0),
        ("up", 1.0),
        ("vllm:num_requests_running", 25.0),
        ("http_request_duration_seconds_bucket", 144320.0),
        ("odd", -math.inf),
    ]  # NaN says that there is no value
    assert rows[3].labels == {"model_name": "m"}
    assert rows[5].labels == {"path": 'C:\\dir\nnew "quoted" {braces}, commas'}
    assert {(row.host, row.source, row.period_ms, row.ts) for row in rows} == {("gpu01", "e", 10_000, T + 10)}
    assert [row.kind for row in rows] == ["gauge", "gauge", "untyped", "untyped", "untyped", "untyped"]


def test_the_same_page_again_reads_the_same_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint()
    first = [(row.name, dict(row.labels), row.value) for row in endpoint.reads(PAGE).rows]  # type: ignore[attr-defined]
    monkeypatch.setattr("warpmeter.producers.scrape.page.text_string_to_metric_families", None)
    page = PAGE.replace("} 51", "} 52")
    again = [(row.name, dict(row.labels), row.value) for row in endpoint.reads(page).rows]  # type: ignore[attr-defined]
    assert again == [(name, labels, 52.0 if value == 51 else value) for name, labels, value in first]


def test_only_whole_names_match_and_deny_wins() -> None:
    rows = Endpoint(replace(ASKED, allow="up|odd|DCGM", deny="odd")).rows(PAGE)
    assert list(rows) == ["up"]


def test_labels_get_the_common_names_and_lose_what_every_row_says() -> None:
    rows = Endpoint().rows('a{UUID="GPU-1",Hostname="gpu01",instance="localhost:9400",hpc_job="7",node="other"} 1\n')
    assert list(rows) == ["a{job_id=7,node=other,uuid=GPU-1}"]


def test_settings_rename_and_drop_labels() -> None:
    rows = Endpoint(replace(ASKED, labels={"UUID": "card", "pod": "", "instance": "at"})).rows(
        'a{UUID="GPU-1",pod="x",instance="localhost:9400"} 1\n'
    )
    assert list(rows) == ["a{at=localhost:9400,card=GPU-1}"]


def test_series_that_become_one_by_a_dropped_label_are_told() -> None:
    endpoint = Endpoint(replace(ASKED, labels={"pod": ""}))
    for _ in range(2):
        reading = endpoint.reads('a{pod="x"} 1\na{pod="y"} 2\nb 3\n')
        assert [row.value for row in reading.rows] == [1.0, 3.0]  # type: ignore[attr-defined]
        (health,) = reading.health
        assert (health.subject, health.state, health.count) == ("series/twice", "failed", 1)


def test_counters_get_rates_and_gauges_none() -> None:
    endpoint = Endpoint()
    page = "# TYPE bytes counter\nbytes {}\n# TYPE temp gauge\ntemp {}\n"
    assert [rate(row) for row in endpoint.rows(page.format(100, 7)).values()] == [None, None]
    rows = endpoint.rows(page.format(350, 9))
    assert {name: (row.kind, rate(row)) for name, row in rows.items()} == {
        "bytes": ("counter", 25.0), "temp": ("gauge", None),
    }  # fmt: skip


def test_a_counter_that_went_back_has_no_rate_until_the_next_page() -> None:
    endpoint = Endpoint()
    page = "# TYPE bytes_total counter\nbytes_total {}\n"
    seen = [rate(endpoint.rows(page.format(count))["bytes_total"]) for count in (100, 200, 50, 60)]
    assert seen == [None, 10.0, None, 1.0]


def test_a_histogram_that_began_anew_has_no_rate_in_any_bucket() -> None:
    endpoint = Endpoint()
    page = '# TYPE t histogram\nt_bucket{{le="1"}} {}\nt_bucket{{le="+Inf"}} {}\nt_sum {}\nt_count {}\n'
    endpoint.rows(page.format(1, 50, 9.5, 50))
    rows = endpoint.rows(page.format(3, 4, 9.9, 4))
    assert {rate(row) for row in rows.values()} == {None}
    rows = endpoint.rows(page.format(3, 14, 19.9, 14))
    assert {name: rate(row) for name, row in rows.items()} == {
        "t_bucket{le=1}": 0.0, "t_bucket{le=+Inf}": 1.0, "t_sum": pytest.approx(1.0), "t_count": 1.0,
    }  # fmt: skip
    assert {row.kind for row in rows.values()} == {"histogram"}


def test_a_summary_keeps_its_quantiles_without_a_rate() -> None:
    endpoint = Endpoint()
    page = '# TYPE d summary\nd{{quantile="0.5"}} 0.2\nd_sum {}\nd_count {}\n'
    endpoint.rows(page.format(10, 100))
    rows = endpoint.rows(page.format(30, 200))
    assert {name: (row.kind, rate(row)) for name, row in rows.items()} == {
        "d{quantile=0.5}": ("summary", None), "d_sum": ("summary", 2.0), "d_count": ("summary", 10.0),
    }  # fmt: skip


def test_another_process_behind_the_endpoint_gives_no_rate_though_all_counts_are_higher() -> None:
    endpoint = Endpoint(replace(ASKED, deny="process_.*"))
    page = "# TYPE c counter\nc {}\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}\n"
    seen = [endpoint.rows(page.format(*now)) for now in ((5, 1e9), (9, 1e9), (30, 1.1e9), (40, 1.1e9))]
    assert [rate(rows["c"]) for rows in seen] == [None, 0.4, None, 1.0]
    assert all(list(rows) == ["c"] for rows in seen)


OPENMETRICS = """\
# TYPE http_bytes counter
# UNIT http_bytes bytes
http_bytes_total{{code="200"}} {count} # {{trace_id="x 1"}} 1.0
http_bytes_created{{code="200"}} {created}
# TYPE build info
build_info{{version="1"}} 1
# EOF
"""


def test_openmetrics_has_units_kinds_and_created_times() -> None:
    endpoint = Endpoint()
    pages = [OPENMETRICS.format(count=count, created=at) for count, at in ((5, 100.5), (25, 100.5), (90, 200.5))]
    seen = [endpoint.rows(page, openmetrics=True) for page in pages]
    assert [rate(rows["http_bytes_total{code=200}"]) for rows in seen] == [None, 2.0, None]  # the last began anew
    assert {name: (row.kind, row.unit) for name, row in seen[0].items()} == {
        "http_bytes_total{code=200}": ("counter", "bytes"), "build_info{version=1}": ("info", ""),
    }  # fmt: skip


def test_a_created_time_in_the_text_format_tells_a_reset_too() -> None:
    endpoint = Endpoint()
    page = "# TYPE tokens_total counter\ntokens_total {}\n# TYPE tokens_created gauge\ntokens_created {}\n"
    seen = [rate(endpoint.rows(page.format(*now))["tokens_total"]) for now in ((5, 1), (25, 1), (90, 2))]
    assert seen == [None, 2.0, None]


def test_openmetrics_that_is_none_is_asked_for_as_text_next() -> None:
    endpoint = Endpoint()
    (health,) = endpoint.reads("a 1\n", openmetrics=True).health  # without `# EOF` it may be half a page
    assert (health.subject, health.state) == ("page", "failed")
    assert "not in OpenMetrics" in health.why
    assert endpoint.source._fetcher.text_only
    assert list(endpoint.rows("a 1\n")) == ["a"]


def test_a_series_that_vanished_is_not_repeated_and_has_no_rate_when_it_comes_back() -> None:
    endpoint = Endpoint()
    page, without = "# TYPE c counter\nc 1\n# TYPE d counter\nd {}\n", "# TYPE c counter\nc 1\n"
    assert [len(endpoint.rows(text)) for text in (page.format(1), without)] == [2, 1]
    assert rate(endpoint.rows(page.format(9))["d"]) is None
    assert rate(endpoint.rows(page.format(19))["d"]) == 1.0


def test_there_is_no_rate_over_pages_that_nobody_saw() -> None:
    endpoint = Endpoint()
    page = "# TYPE c counter\nc {}\n"
    endpoint.rows(page.format(1))
    endpoint.ticks += 6
    assert rate(endpoint.rows(page.format(700))["c"]) is None


def test_a_value_that_the_exporter_dates_long_ago_is_told_and_not_stamped_anew() -> None:
    reading = Endpoint().reads(f"a 1 {int(T - 3600) * 1000}\nb 2 {int(T) * 1000}\nc 3\n")
    assert [(row.name, row.value) for row in reading.rows] == [("b", 2.0), ("c", 3.0)]  # type: ignore[attr-defined]
    (health,) = reading.health
    assert (health.subject, health.count) == ("series/stale", 1)


def test_dates_are_looked_at_on_each_page_with_and_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint()
    page = "a 1 {}\nb 2\n"
    assert len(endpoint.rows(page.format(int(T) * 1000))) == 2
    monkeypatch.setattr("warpmeter.producers.scrape.page.text_string_to_metric_families", None)
    assert len(endpoint.rows(page.format(int(T) * 1000))) == 2
    endpoint.ticks += 5
    reading = endpoint.reads(page.format(int(T) * 1000))
    assert [row.name for row in reading.rows] == ["b"]  # type: ignore[attr-defined]
    assert [(health.subject, health.count) for health in reading.health] == [("series/stale", 1)]


def test_series_over_the_limit_are_counted_and_the_first_stay() -> None:
    endpoint = Endpoint(replace(ASKED, max_series=3))
    for _ in range(2):
        reading = endpoint.reads("".join(f'a{{i="{i}"}} {i}\n' for i in range(10)))
        assert [row.value for row in reading.rows] == [0.0, 1.0, 2.0]  # type: ignore[attr-defined]
        (health,) = reading.health
        assert (health.subject, health.state, health.count) == ("series/over", "failed", 7)
        assert "max_series = 3" in health.why
    reading = endpoint.reads("".join(f'a{{i="{i}"}} {i}\n' for i in range(8, 10)))
    assert [row.value for row in reading.rows] == [8.0, 9.0]  # type: ignore[attr-defined]
    assert reading.health == []


@pytest.mark.parametrize("line", ["<html>", 'name{a="b" 5', "1name 5", "name five", "name{a=b} 1"])
def test_a_page_with_a_line_of_another_kind_is_refused_whole(line: str) -> None:
    endpoint = Endpoint()
    endpoint.rows("up 1\nup2 2\n")
    reading = endpoint.reads(f"up 1\n{line}\nup2 2\n")
    assert reading.rows == ()
    (health,) = reading.health
    assert (health.subject, health.state) == ("page", "failed")
    assert "http://127.0.0.1:1/metrics" in health.why
    assert len(endpoint.rows("up 1\nup2 2\n")) == 2


@pytest.mark.long
def test_a_page_beyond_all_measure_is_refused_before_it_is_parsed() -> None:
    long = b"".join(b"a%d 1\n" % number for number in range(60_000))
    source = ExporterPage("gpu01", Scrape("e", "http://127.0.0.1:1/"))
    (health,) = source.parse(Sample(1.8e9, 1.0, 10.0, Page(long)), None).health
    assert (health.subject, "60000 lines" in health.why, "max_series" in health.why) == ("page", True, True)
    roomy = ExporterPage("gpu01", Scrape("e", "http://127.0.0.1:1/", max_series=6000))
    assert len(roomy.parse(Sample(1.8e9, 1.0, 10.0, Page(long)), None).rows) == 6000


def test_a_page_that_is_cut_off_is_refused() -> None:
    endpoint = Endpoint()
    endpoint.rows("a 1250\nb 1\n")
    (health,) = endpoint.reads("b 1\na 12").health
    assert "cut off" in health.why


LABELS = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), st.text(max_size=20), max_size=4)
SERIES = st.tuples(st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", fullmatch=True), LABELS)
VALUES = st.floats(allow_nan=False)


DATES = st.none() | st.integers(int(T) * 1000 - 100_000, int(T) * 1000 + 100_000)


@pytest.mark.long
@given(page=st.dictionaries(SERIES.map(lambda one: _head(*one)), st.tuples(VALUES, VALUES, DATES), max_size=8))
def test_what_is_known_of_a_line_reads_the_same_as_the_parser(
    page: dict[str, tuple[float, float, int | None]],
) -> None:
    first, second = (
        "".join(f"{head} {line[at]!r}{'' if line[2] is None else f' {line[2]}'}\n" for head, line in page.items())
        for at in (0, 1)
    )
    warm = PageReader(Chosen("h", ASKED), 100, stale_s=30)
    warm.read(Page(first.encode()), T)
    cold = PageReader(Chosen("h", ASKED), 100, stale_s=30)

    def read(reader: PageReader) -> tuple[int, list[tuple[str, dict[str, str], float]]]:
        values = reader.read(Page(second.encode()), T)
        return values.stale, [(series.name, dict(series.labels), value) for series, value in values.of.items()]

    assert read(warm) == read(cold)


def _head(name: str, labels: dict[str, str]) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    pairs = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{pairs}}}"


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_break_the_source(body: bytes, openmetrics: bool) -> None:
    source = ExporterPage("h", ASKED)
    source.parse(Sample(T, 1.0, 10.0, Page(body, openmetrics)), None)


@given(st.integers(0, 3000), st.binary(min_size=1, max_size=4))
def test_no_damage_to_a_real_page_breaks_the_source(at: int, damage: bytes) -> None:
    whole = (PAGES / "vllm_1.prom").read_bytes()
    source = ExporterPage("h", ASKED)
    before = Sample(T, 1.0, 10.0, Page(whole))
    source.parse(before, None)
    torn = whole[: at % len(whole)] + damage + whole[at % len(whole) + 1 :]
    source.parse(Sample(T + 10, 11.0, 10.0, Page(torn)), before)


def test_a_vllm_server_says_its_load_its_rates_and_its_latencies() -> None:
    endpoint = Endpoint(replace(ASKED, deny=".*_created|python_.*|process_.*"))
    endpoint.rows((PAGES / "vllm_1.prom").read_text())
    rows = endpoint.rows((PAGES / "vllm_2.prom").read_text())
    of = "{engine=0,model_name=meta-llama/Llama-3.1-8B-Instruct}"
    assert rows[f"vllm:num_requests_running{of}"].value == 13
    assert rate(rows[f"vllm:generation_tokens_total{of}"]) == 450.0
    bucket = rows[
        "vllm:time_to_first_token_seconds_bucket{engine=0,le=0.5,model_name=meta-llama/Llama-3.1-8B-Instruct}"
    ]
    assert (bucket.kind, bucket.value, rate(bucket)) == ("histogram", 318.0, 1.8)
    assert rate(rows[f"vllm:time_to_first_token_seconds_sum{of}"]) == 0.5
    assert rows["http_request_size_bytes_count{handler=/v1/completions}"].kind == "summary"
    assert not [name for name in rows if "created" in name]


def test_each_endpoint_is_a_source_of_its_kind() -> None:
    kinds = {"a": "any", "b": "pcm", "c": "dcgm"}
    agent = Agent(scrape=tuple(Scrape(name, f"http://{name}/", page, 5.0) for name, page in kinds.items()))  # type: ignore[arg-type]
    found = [source for module in (scrape, gpu) for source in module.sources(agent, Attribution())]
    assert [(each.name, each.topic, each.period_s) for each in found if each.name.startswith("scrape")] == [
        ("scrape/a", "metric-samples", 5.0), ("scrape/b", "device-samples", 5.0), ("scrape/c", "gpu-samples", 5.0),
    ]  # fmt: skip


@pytest.mark.parametrize("body", [b"up 1\n", b"<html>\n"])
def test_garbage_is_collected_again_after_a_page(body: bytes) -> None:
    source = ExporterPage("gpu01", Scrape("e", "http://127.0.0.1:1/"))
    source.parse(Sample(1.8e9, 1.0, 10.0, Page(body)), None)
    assert gc.isenabled()
