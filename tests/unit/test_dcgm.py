"""The page of a DCGM exporter: rows by itself, columns that NVML does not give, and nothing stamped twice."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from warpmeter.producers.gpu.dcgm import COLUMNS, FIELDS, DcgmPage, Pages, value
from warpmeter.producers.scrape.fetch import Page
from warpmeter.producers.source import Reading, Sample
from warpmeter.schemas.compared import DCGM_FIELDS
from warpmeter.schemas.equals import DYNOLOG
from warpmeter.schemas.generated.gpu_samples_pb2 import Envelope
from warpmeter.settings import Scrape

GpuSample = Envelope.GpuSample
PAGES = Path(__file__).parents[1] / "golden" / "pages"
DCGM = (PAGES / "dcgm.prom").read_bytes()
MIG = (PAGES / "dcgm_mig.prom").read_bytes()
FIRST, SECOND = "GPU-5fd4f087-86f3-7a43-b711-4771313afc50", "GPU-9c1f3c5e-0a3d-4e55-8d55-2a4d8c9be001"
T = 1_800_000_000.0


class Host:
    """A host whose DCGM page is read every `period_s`, and whose NVML rows come every second where it has NVML."""

    def __init__(self, nvml: bool = True, period_s: float = 1.0) -> None:
        self.pages = Pages(1.0 if nvml else None)
        self.source = DcgmPage("gpu01", Scrape("dcgm", "http://127.0.0.1:9400/metrics", "dcgm", period_s), self.pages)
        self.before: Sample[Page] | None = None

    def page(self, at: float, body: bytes = DCGM) -> Reading:
        """The page is read at that second."""
        sample = Sample(T + at, at, self.source.period_s, Page(body))
        reading = self.source.parse(sample, self.before)
        self.before = sample
        return reading

    def tick(self, at: float, *rows: Any, unsupported: Mapping[str, Collection[str]] | None = None) -> None:
        """NVML gave these rows at that second."""
        self.pages.complete(Sample(T + at, at, 1.0, None), rows, unsupported or {})


def row(uuid: str = FIRST, gpu: int = 0, **columns: Any) -> Any:
    """A row from NVML."""
    return GpuSample(host="gpu01", ts=T, period_ms=1000, gpu=gpu, uuid=uuid, model="A100", **columns)


def told(row: Any) -> dict[str, Any]:
    """Its columns with a value."""
    return {field.name: value for field, value in row.ListFields()}


def test_without_nvml_the_page_alone_makes_the_rows() -> None:
    reading = Host(nvml=False).page(1)
    rows: list[Any] = list(reading.rows)
    assert reading.health == []
    assert [(each.uuid, each.gpu, each.model, list(each.job_ids), each.period_ms) for each in rows] == [
        (FIRST, 0, "NVIDIA A100-SXM4-80GB", ["4711"], 1000),
        (SECOND, 1, "NVIDIA A100-SXM4-80GB", [], 1000),
    ]
    first = told(rows[0])
    assert first["driver_version"] == "570.86.15"
    sources = dict(first["column_sources"])
    assert set(sources.values()) == {"dcgm"}
    assert {column: first[column] for column in sources} == {
        "sm_clock_megahertz": 1410, "mem_clock_megahertz": 1593, "mem_temperature_celsius": 61,
        "temperature_celsius": 58, "power_deciwatts": 3871, "energy_joules": 84155128, "pcie_replays": 3,
        "gpu_util_permille": 980, "mem_copy_util_permille": 570, "encoder_util_permille": 0,
        "decoder_util_permille": 120, "fb_used_mebibytes": 67169, "fb_reserved_mebibytes": 700,
        "fb_total_mebibytes": 81920, "remapped_rows_corrected": 1, "remapped_rows_uncorrected": 0,
        "remap_failed": False, "throttle_reasons": 4, "ecc_uncorrected_errors": 0, "graphics_active_permille": 974,
        "sm_active_permille": 913, "sm_occupancy_permille": 272, "tensor_active_permille": 413,
        "dram_active_permille": 530, "fp16_active_permille": 10, "fp32_active_permille": 51,
        "fp64_active_permille": 0, "minor_number": 0,
        "nvlink_rx_megabytes_per_s": 40877, "pcie_tx_megabytes_per_s": 1543,
        "pcie_rx_megabytes_per_s": 7101, "nvlink_tx_megabytes_per_s": 41002,
    }  # fmt: skip


def test_every_field_that_dynolog_reads_of_dcgm_is_read() -> None:
    (first, _) = Host(nvml=False).page(1).rows
    theirs = {alias.name: column for column, alias in DYNOLOG["gpu-samples"].items()}
    named = {"gpu_name": "model", "gpu_uuid": "uuid"}
    assert len(DCGM_FIELDS) == 19
    assert {named.get(name) or theirs[name] for name in DCGM_FIELDS.values()} <= told(first).keys()


def test_blanks_are_absent_not_huge() -> None:
    first, second = Host(nvml=False).page(1).rows
    assert not {"fan_permille", "temperature_slowdown_celsius"} & told(first).keys()
    assert "nvlink_tx_megabytes_per_s" not in told(second)
    assert told(second)["temperature_slowdown_celsius"] == 92
    assert told(second)["remap_failed"] is True


@pytest.mark.parametrize("number", [2147483632.0, 2147483635.0, 140737488355330.0, 9.223372036854776e18, -1.0, 1e300])
def test_no_column_takes_a_blank_or_the_impossible(number: float) -> None:
    assert {value(column, number, 1.0) for column in COLUMNS.values()} == {None}


def test_every_column_of_the_table_of_names_is_one_of_the_row() -> None:
    assert set(COLUMNS.values()) <= FIELDS.keys()
    assert len(COLUMNS) == len(set(COLUMNS.values())) + 1  # one has two names


def test_where_the_columns_come_from_is_said_once() -> None:
    host = Host(nvml=False)
    seen = [bool(host.page(at).rows[0].column_sources) for at in (1, 2, 3, 601, 602)]  # type: ignore[attr-defined]
    assert seen == [True, False, False, True, False]


def test_mig_instances_have_rows_of_their_own() -> None:
    rows: list[Any] = list(Host(nvml=False).page(1, MIG).rows)
    found = {(each.uuid, each.gpu_instance if each.HasField("gpu_instance") else None): each for each in rows}
    assert set(found) == {(f"MIG-{SECOND}/1", 1), (f"MIG-{SECOND}/2", 2), (SECOND, None)}
    assert found[f"MIG-{SECOND}/1", 1].graphics_active_permille == 810
    assert found[f"MIG-{SECOND}/2", 2].fb_used_mebibytes == 37
    assert found[SECOND, None].power_deciwatts == 2124


def test_a_gpu_that_leaves_the_page_is_gone_until_it_is_back() -> None:
    host = Host(nvml=False)
    host.page(1)
    only_first = b"".join(line + b"\n" for line in DCGM.splitlines() if b'gpu="1"' not in line)
    (gone,) = host.page(2, only_first).health
    assert (gone.subject, gone.state) == (SECOND, "gone")
    assert host.page(3).health == []


def test_with_nvml_the_page_only_completes() -> None:
    host = Host()
    assert host.page(1).rows == []
    mine = row(power_deciwatts=1000)
    host.tick(1.5, mine, unsupported={FIRST: {"sm_active_permille", "dram_active_permille"}})
    assert {name: told(mine)[name] for name in ("power_deciwatts", "sm_active_permille", "dram_active_permille")} == {
        "power_deciwatts": 1000, "sm_active_permille": 913, "dram_active_permille": 530,
    }  # fmt: skip
    assert "gpu_util_permille" not in told(mine)  # NVML may give it yet
    assert FIRST not in [each.uuid for each in host.page(2).rows]  # type: ignore[attr-defined] # no second row of it


@pytest.mark.parametrize("period_s", [1.0, 10.0])
def test_a_page_stands_for_its_period_and_no_longer(period_s: float) -> None:
    host = Host(period_s=period_s)
    host.page(10)
    rows = [row() for _ in range(14)]
    for at, each in enumerate(rows, 10):
        host.tick(at + 0.05, each, unsupported={FIRST: {"sm_active_permille"}})
    # The last of them is the tick at which the next page is due: it comes a moment later.
    assert [each.HasField("sm_active_permille") for each in rows] == [at <= period_s for at in range(14)]
    assert {each.sm_active_permille for each in rows if each.HasField("sm_active_permille")} == {913}


def test_what_nvml_stopped_giving_is_completed_after_a_while_and_what_it_gives_at_times_is_not() -> None:
    host = Host()
    seen = []
    for at in range(1, 61):
        host.page(at)
        slow: dict[str, Any] = (
            {"fan_permille": 300, "pcie_replays": 1} if at % 10 == 1 else {}
        )  # NVML's slow columns, every 10 s
        early: dict[str, Any] = {"gpu_util_permille": 500} if at <= 10 else {}
        host.tick(at + 0.5, mine := row(**slow, **early))
        seen.append(
            (mine.HasField("pcie_replays"), mine.gpu_util_permille if mine.HasField("gpu_util_permille") else 0)
        )
    assert [at for at, (slow, _) in enumerate(seen, 1) if slow] == [1, 11, 21, 31, 41, 51]
    assert [util for _, util in seen[:10]] == [500] * 10
    assert [util for _, util in seen[10:40]] == [0] * 30
    assert [util for _, util in seen[40:]] == [980] * 20


def test_sources_are_told_whole_with_nvmls_own() -> None:
    host = Host()
    lacking = {FIRST: {"sm_active_permille"}}
    host.tick(0.5, row(column_sources={"power_deciwatts": "nvml"}, driver_version="570.86"), unsupported=lacking)
    host.page(1)
    host.tick(1.5, changed := row(), unsupported=lacking)
    assert dict(changed.column_sources) == {"power_deciwatts": "nvml", "sm_active_permille": "dcgm"}
    assert changed.driver_version == "570.86"
    host.page(2)
    host.tick(2.5, quiet := row(), unsupported=lacking)
    assert dict(quiet.column_sources) == {}
    host.tick(3.5, again := row(column_sources={"power_deciwatts": "nvml"}), unsupported=lacking)
    assert dict(again.column_sources) == {"power_deciwatts": "nvml", "sm_active_permille": "dcgm"}


def test_mig_rows_are_completed_by_their_number() -> None:
    host = Host()
    host.page(1, MIG)
    parent, one, two = row(SECOND, 1), row("MIG-a", 1, gpu_instance=1), row("MIG-b", 1, gpu_instance=2)
    lacking = {uuid: {"dram_active_permille", "power_deciwatts"} for uuid in (SECOND, "MIG-a", "MIG-b")}
    host.tick(1.5, parent, one, two, unsupported=lacking)
    assert [(each.dram_active_permille, each.power_deciwatts) for each in (parent, one, two)] == [
        (0, 2124), (402, 0), (100, 0),
    ]  # fmt: skip


def test_when_nvml_falls_silent_the_page_makes_the_rows_and_stops_when_it_is_back() -> None:
    host = Host()
    alone = []
    for at in range(1, 21):
        if not 6 <= at <= 12:
            host.tick(at - 0.5, row(FIRST), row(SECOND, 1))
        alone.append(len(host.page(at).rows))
    assert alone == [0] * 7 + [2] * 5 + [0] * 8


def test_a_host_that_has_no_nvml_is_not_waited_for() -> None:
    host = Host(period_s=30.0)
    host.pages.without_nvml()
    assert [each.uuid for each in host.page(1).rows] == [FIRST, SECOND]  # type: ignore[attr-defined]


def test_a_gpu_that_nvml_lost_stays_lost_and_one_that_nvml_never_saw_has_rows() -> None:
    host = Host()
    found = []
    for at in range(1, 11):
        host.tick(at - 0.5, *([row(FIRST)] if at < 4 else []))  # from then on NVML answers, and says that it is gone
        found.append([each.uuid for each in host.page(at).rows])  # type: ignore[attr-defined]
    assert found == [[SECOND]] * 10  # a container that is given some of the host's GPUs sees only those by NVML


def test_another_page_says_that_it_is_another() -> None:
    (health,) = Host().page(1, b"up 1\n").health
    assert "not the page of a DCGM exporter" in health.why
    (health,) = Host().page(1, b"\x00\xff{\n").health
    assert (health.subject, health.state) == ("page", "failed")


@pytest.mark.parametrize("number", ["1e30", "-1", "4294967295", "4294967296", "18446744073709551615", "+Inf"])
def test_no_number_on_a_page_costs_a_row(number: str) -> None:
    names = [*COLUMNS, "DCGM_FI_DEV_FB_FREE"]
    body = "".join(f'{name}{{gpu="0",UUID="{FIRST}"}} {number}\n' for name in names).encode()
    assert len(Host(nvml=False).page(1, body).rows) == 1
    host, own = Host(), row(power_deciwatts=700)
    host.tick(0, own)
    host.page(1, body)
    host.tick(1, own, unsupported={FIRST: COLUMNS.values()})
    assert own.power_deciwatts == 700


@pytest.mark.parametrize("index", ["", "-1", "256", "99999999999999999999", "\u00b2", "x"])
def test_a_gpu_without_a_number_that_a_gpu_has_is_none(index: str) -> None:
    odd = f'DCGM_FI_DEV_GPU_TEMP{{gpu="{index}",UUID="GPU-odd"}} 50\n'.encode()
    rows: list[Any] = list(Host(nvml=False).page(1, odd + DCGM).rows)
    assert [each.uuid for each in rows] == [FIRST, SECOND]
