"""What the pages of DCGM, PCM and a vLLM server say is what SQL tells: panels, sources of columns, rates, latencies."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.tables import ask, land
from warpmeter.producers.gpu import dcgm
from warpmeter.producers.scrape.exporter import ExporterPage
from warpmeter.producers.scrape.fetch import Page
from warpmeter.producers.scrape.pcm import PcmPage
from warpmeter.producers.source import AnySource, Sample
from warpmeter.settings import Agent, Scrape
from warpmeter.store import Client

PAGES = Path(__file__).parents[1] / "golden" / "pages"


def rows(source: AnySource, *names: str) -> list[Any]:
    """Rows of an endpoint that had these pages, ten seconds apart, the last of them now."""
    found: list[Any] = []
    before: Sample[Page] | None = None
    for at, name in enumerate(names):
        ts = float(int(time.time()) - 10 * (len(names) - 1 - at))
        sample = Sample(ts, 10.0 * at, source.period_s, Page((PAGES / name).read_bytes()))
        found += source.parse(sample, before).rows
        before = sample
    return found


@pytest.fixture
def landed(tables: Client) -> Client:
    """A host without NVML, with all three exporters."""
    agent = Agent(host="gpu01", gpu=False, scrape=(Scrape("dcgm", "http://a/", "dcgm"),))
    (gpus,) = dcgm.sources(agent, dcgm.pages(agent))
    land(tables, "gpu-samples", rows(gpus, "dcgm.prom"))
    land(
        tables, "device-samples", rows(PcmPage("gpu01", Scrape("pcm", "http://a/", "pcm")), "pcm_1.prom", "pcm_2.prom")
    )
    vllm = ExporterPage("gpu01", Scrape("vllm", "http://a/"))
    land(tables, "metric-samples", rows(vllm, "vllm_1.prom", "vllm_2.prom"))
    return tables


def test_a_host_without_nvml_has_its_panels(landed: Client) -> None:
    panels = "gpus, round(gpu_util, 3), round(sm_active, 4), l2_hit_ratio, l3_hit_ratio, mem_bandwidth_bytes_per_s"
    assert ask(landed, f"SELECT {panels} FROM hosts") == [(2, 0.49, 0.4565, 0.75, 0.75, 36e9)]


def test_the_source_of_each_column_is_told(landed: Client) -> None:
    told = ask(landed, "SELECT gpu, source, count(), any(driver_version) FROM gpu_sources GROUP BY ALL ORDER BY gpu")
    assert [(gpu, source, driver) for gpu, source, _, driver in told] == [
        (0, "dcgm", "570.86.15"), (1, "dcgm", "570.86.15"),
    ]  # fmt: skip
    assert ask(landed, "SELECT sm_active, power_watts, fan, job_ids FROM gpu_samples ORDER BY gpu") == [
        (pytest.approx(0.913), pytest.approx(387.1), None, ["4711"]), (0.0, pytest.approx(71.5), None, []),
    ]  # fmt: skip


def test_a_model_server_has_rates_and_latencies(landed: Client) -> None:
    of = "FROM metric_samples WHERE source = 'vllm' AND rate_per_s IS NOT NULL AND name"
    assert ask(landed, f"SELECT rate_per_s, kind {of} = 'vllm:generation_tokens_total'") == [(450.0, "counter")]
    buckets = f"SELECT labels['le'], rate_per_s {of} = 'vllm:time_to_first_token_seconds_bucket' AND kind = 'histogram'"
    assert sorted(ask(landed, buckets)) == [("+Inf", 2.0), ("0.01", 0.0), ("0.1", 1.0), ("0.5", 1.8), ("1.0", 2.0)]
