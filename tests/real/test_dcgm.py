"""A DCGM exporter's page beside NVML and without it: one row a GPU and tick, and never an old value with a new time."""

import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Tansu
from tests.brokers.process import free_ports
from tests.nvml import NvmlStub
from tests.pages import page, serving
from tests.real import agents
from tests.real.agents import Reader
from tests.wait import until
from warpmeter.producers.scrape.fetch import Fetcher
from warpmeter.producers.source import SourceError
from warpmeter.settings import Kafka, Scrape

PAGE = Path(__file__).parents[1] / "golden" / "pages" / "dcgm.prom"


@contextmanager
def exporter(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A process that serves the page, to be frozen; its URL."""
    shutil.copy(PAGE, folder / "metrics")
    port = free_ports(1)[0]
    line = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/metrics"
    try:
        until(lambda: _answers(url), "the exporter to answer", 60)
        yield url, process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(10)


def _answers(url: str) -> bool:
    try:
        return bool(Fetcher(Scrape("x", url)).fetch().body)
    except SourceError:
        return False


def after(reader: Reader, topic: str, ts: float) -> list[Any]:
    """Rows of later than that."""
    return [row for row in reader.rows(topic) if row.ts > ts]


def test_one_tick_has_the_gpus_of_a_host_without_nvml(tmp_path: Path) -> None:
    with serving(page(PAGE.read_bytes())) as url:
        asked = agents.settings(tmp_path, Kafka(bootstrap_servers="127.0.0.1:1"), gpu=True, interval_s=1.0,
                                scrape=(Scrape("dcgm", url, "dcgm", period_s=30.0),))  # fmt: skip
        done = agents.output(asked, "--once", "--json")
    assert done.returncode == 0, done.stderr
    rows = agents.json_rows(done.stdout)
    assert [(row["gpu"], row["sm_active_permille"]) for row in rows["gpu-samples"]] == [(0, 913), (1, 0)]
    states = {row["source"]: row["state"] for row in rows["source-health"] if not row["subject"]}
    assert (states["gpu"], states["scrape/dcgm"]) == ("unsupported", "ok")


def test_without_nvml_the_page_makes_the_rows_and_a_frozen_exporter_makes_none(
    tansu: Tansu, topic_prefix: str, tmp_path: Path
) -> None:
    bus = agents.with_topics(tansu.bootstrap_servers, topic_prefix)
    reader = Reader(bus)
    with exporter(tmp_path) as (url, process):
        endpoint = Scrape("dcgm", url, "dcgm", period_s=0.5)
        with agents.running(agents.settings(tmp_path, bus, gpu=True, scrape=(endpoint,))):
            reader.wait(lambda r: len(r.rows("gpu-samples")) >= 4, "rows from the page", 60)
            process.send_signal(signal.SIGSTOP)
            frozen = time.time() + 0.5  # one answer may be on its way
            reader.wait(lambda r: len(after(r, "host-samples", frozen + 1.5)) >= 5, "other sources to go on", 60)
            assert after(reader, "gpu-samples", frozen) == []
            reader.wait(
                lambda r: [x for x in r.rows("source-health") if (x.source, x.state) == ("scrape/dcgm", "timeout")],
                "the timeout to be told", 60,
            )  # fmt: skip
            process.send_signal(signal.SIGCONT)
            back = time.time()
            reader.wait(lambda r: len(after(r, "gpu-samples", back)) >= 4, "rows again", 60)
    rows = reader.rows("gpu-samples")
    assert {(row.uuid, row.gpu, row.sm_active_permille) for row in rows} == {
        ("GPU-5fd4f087-86f3-7a43-b711-4771313afc50", 0, 913), ("GPU-9c1f3c5e-0a3d-4e55-8d55-2a4d8c9be001", 1, 0),
    }  # fmt: skip
    assert set(Counter((row.uuid, row.ts) for row in rows).values()) == {1}
    reader.close()


def test_beside_nvml_the_page_gives_what_the_gpu_has_no_gpm_for(
    tansu: Tansu, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = agents.with_topics(tansu.bootstrap_servers, topic_prefix)
    reader = Reader(bus)
    with NvmlStub(tmp_path, gpus=2) as stub:
        for gpu in stub.gpus[:2]:
            gpu.set(gpm_supported=0)
        for name, value in stub.environment().items():
            monkeypatch.setenv(name, value)
        text = PAGE.read_text()
        for old, gpu in zip(sorted(set(re.findall(r"GPU-[0-9a-f-]+", text))), stub.gpus, strict=False):
            text = text.replace(old, gpu.uuid)
        with serving(page(text.encode())) as url:
            endpoint = Scrape("dcgm", url, "dcgm", period_s=0.2)
            with agents.running(agents.settings(tmp_path, bus, gpu=True, scrape=(endpoint,))):
                reader.wait(
                    lambda r: len([x for x in r.rows("gpu-samples") if x.HasField("sm_active_permille")]) >= 6,
                    "rows that the page completes", 60,
                )  # fmt: skip
    rows = reader.rows("gpu-samples")
    first, second = (gpu.uuid for gpu in stub.gpus[:2])
    assert set(Counter((row.uuid, row.ts) for row in rows).values()) == {1}
    completed = [row for row in rows if row.HasField("sm_active_permille")]
    assert {(row.uuid, row.sm_active_permille, row.dram_active_permille) for row in completed} == {
        (first, 913, 530), (second, 0, 0),
    }  # fmt: skip
    assert {(row.uuid, row.power_deciwatts) for row in rows} == {
        (first, 5000),
        (second, 5010),
    }  # NVML's, not the page's
    told = [row.column_sources for row in rows if row.uuid == first and row.HasField("sm_active_permille")]
    last = [sources for sources in told if sources][-1]  # a row that no page completed in time says so, too
    assert (last["sm_active_permille"], last["power_deciwatts"]) == ("dcgm", "nvml")
    assert last["gpu_util_permille"] == "nvml"
    reader.close()
