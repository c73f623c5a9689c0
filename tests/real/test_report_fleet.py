"""The fleet's week on a planted quarter: every number of every table equals what the rows say, added up here."""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet
import pytest

from tests import quarter
from tests.quarter import PER_GPU_HOUR, PER_KWH, WEEKS, Quarter, Row
from tests.tables import land
from tests.tables import row as message
from warpmeter import migrate
from warpmeter.scheduler.reports import Asked, Period, Price, Rendered, ReportError, render, write
from warpmeter.settings import Store
from warpmeter.store import connect

pytestmark = pytest.mark.long

WEEK = timedelta(weeks=1)


@pytest.fixture(scope="module")
def planted(embedded: Store) -> tuple[Store, Quarter]:
    """The quarter in a store of the module's own; both are read only."""
    store = replace(embedded, database="quarter")
    with closing(connect(embedded, database="default")) as client:
        migrate.apply(client, store)
    rows = quarter.made(quarter.last_monday(datetime.now(UTC)))
    with closing(connect(store)) as client:
        quarter.plant(client, rows)
    return store, rows


@pytest.fixture(scope="module")
def week(planted: tuple[Store, Quarter]) -> Rendered:
    """The report of the last week, with prices."""
    store, rows = planted
    return render(store, Asked("fleet-weekly", Period(rows.end - WEEK, rows.end), price=Price(PER_KWH, PER_GPU_HOUR)))


class Truth:
    """What the planted rows say of a part of them, without SQL."""

    def __init__(self, rows: Iterable[Row], jobs: Callable[[str], bool] = lambda _: True) -> None:
        self.samples = list(rows)
        self.jobs = jobs

    def hours(self, keep: Callable[[Row], bool] = lambda _: True) -> float:
        return float(sum(row["period_ms"] for row in self.samples if keep(row))) / 3.6e6

    def held(self, keep: Callable[[Row], bool] = lambda _: True) -> float:
        return float(sum(row["period_ms"] * part for row, part in self._parts() if keep(row))) / 3.6e6

    def mean(self, column: str, held: bool) -> float | None:
        parts = list(self._parts()) if held else [(row, 1.0) for row in self.samples]
        known = [(row[column], row["period_ms"] * part) for row, part in parts if column in row]
        whole = sum(weight for _, weight in known)
        return sum(value * weight for value, weight in known) / whole / 1000 if whole else None

    def kwh(self, held: bool) -> float | None:
        parts = list(self._parts()) if held else [(row, 1.0) for row in self.samples]
        known = [
            row["power_deciwatts"] / 10 * row["period_ms"] / 1000 * part
            for row, part in parts
            if "power_deciwatts" in row
        ]
        return sum(known) / 3.6e6 if known else None

    def names(self) -> set[str]:
        return {job for row in self.samples for job in row["job_ids"] if self.jobs(job)}

    def _parts(self) -> Iterator[tuple[Row, float]]:
        for row in self.samples:
            if part := sum(map(self.jobs, row["job_ids"])):
                yield row, part / len(row["job_ids"])


def idle(row: Row) -> bool:
    """Below 5 %."""
    return bool(row["gpu_util_permille"] < 50)


def of_week(rows: Quarter, week: int) -> list[Row]:
    """GPU samples of one week."""
    first = rows.start.timestamp() + week * 7 * 86400
    return [row for row in rows.gpus if first <= row["ts"] < first + 7 * 86400]


def table(report: Rendered, name: str) -> list[Row]:
    """Its rows by column."""
    found = next(each for each in report.tables if each.name == name)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def held_figures(truth: Truth) -> Row:
    """What is said of jobs' GPU hours."""
    allocated, wasted = truth.held(), truth.held(idle)
    return {
        "jobs": len(truth.names()),
        "allocated_gpu_hours": allocated,
        "used_gpu_hours": allocated - wasted,
        "wasted_gpu_hours": wasted,
        "unknown_gpu_hours": 0,
        "wasted_share": wasted / allocated,
        "allocated_cost": allocated * PER_GPU_HOUR,
        "wasted_cost": wasted * PER_GPU_HOUR,
    }


def of_jobs(truth: Truth) -> Row:
    """The same with what the jobs made of it."""
    energy = truth.kwh(held=True)
    return held_figures(truth) | {
        "gpu_util": truth.mean("gpu_util_permille", held=True),
        "sm_active": truth.mean("sm_active_permille", held=True),
        "energy_kwh": energy,
        "energy_cost": None if energy is None else energy * PER_KWH,
    }


def of_fleet(truth: Truth) -> Row:
    """What is said of all GPUs in a stretch of time."""
    energy = truth.kwh(held=False)
    assert energy is not None
    return held_figures(truth) | {
        "available_gpu_hours": truth.hours(),
        "free_gpu_hours": truth.hours() - truth.held(),
        "idle_gpu_hours": truth.hours(idle),
        "gpu_util": truth.mean("gpu_util_permille", held=False),
        "sm_active": truth.mean("sm_active_permille", held=False),
        "energy_kwh": energy,
        "energy_cost": energy * PER_KWH,
    }


def same(found: Row, expected: Row) -> None:
    """All figures, and no others; SQL rounds to six decimals."""
    assert found == pytest.approx(expected, rel=1e-6, abs=2e-6)


def quantile(values: list[int], level: float) -> float:
    """As the engine's quantileTiming takes it, in permille up to 1,023: the value at that rank."""
    return sorted(values)[min(len(values) - 1, int(level * len(values)))] / 1000


def test_totals_are_those_of_the_rows(planted: tuple[Store, Quarter], week: Rendered) -> None:
    rows = of_week(planted[1], WEEKS - 1)
    truth = Truth(rows)
    known = sum(row["period_ms"] for row in rows if "power_deciwatts" in row) / 3.6e6
    expected = of_fleet(truth) | {
        "hosts": 3,
        "gpus": 12,
        "unmeasured_gpu_hours": 12 * 168 - truth.hours(),
        "allocated_share": truth.held() / truth.hours(),
        "tensor_active": truth.mean("tensor_active_permille", held=False),
        "power_watts": (truth.kwh(held=False) or 0) * 1000 / known,
        "power_known_share": known / truth.hours(),
    }
    for metric in ("gpu_util", "sm_active"):
        values = [row[f"{metric}_permille"] for row in rows]
        expected |= {f"{metric}_p50": quantile(values, 0.5), f"{metric}_p95": quantile(values, 0.95)}
    (found,) = table(week, "totals")
    same(found, expected)
    assert truth.hours() == 12 * 168 - 4 * 10 - 18  # a silent host, and a GPU that is gone


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("user", {"train": "ann", "eval": "bob", "stray": None}),
        ("team", {"train": "vision", "eval": "speech", "stray": None}),
        ("partition", {"train": "long", "eval": "short", "stray": None}),
    ],
)
def test_owners_have_what_their_jobs_held(
    planted: tuple[Store, Quarter], week: Rendered, by: str, names: dict[str, str | None]
) -> None:
    rows = of_week(planted[1], WEEKS - 1)
    found = {row.pop("name"): row for row in table(week, f"{by}s")}
    assert list(found) == ["ann", "bob", None] if by == "user" else len(found) == 3
    for kind, name in names.items():
        same(found[name], of_jobs(Truth(rows, lambda job, kind=kind: job.startswith(kind))))  # type: ignore[misc]


def test_jobs_come_by_hours_and_by_waste(planted: tuple[Store, Quarter], week: Rendered) -> None:
    rows = of_week(planted[1], WEEKS - 1)
    assert [row["job_id"] for row in table(week, "jobs_by_hours")] == ["train-12", "eval-12", "stray-12"]
    assert [row["job_id"] for row in table(week, "jobs_by_waste")] == ["eval-12", "train-12", "stray-12"]
    for found in table(week, "jobs_by_hours"):
        expected = of_jobs(Truth(rows, lambda job, name=found["job_id"]: job == name))  # type: ignore[misc]
        same({name: found[name] for name in expected if name not in ("jobs", "unknown_gpu_hours")},
             {name: expected[name] for name in expected if name not in ("jobs", "unknown_gpu_hours")})  # fmt: skip
    train = table(week, "jobs_by_hours")[0]
    begun = f"{planted[1].end - WEEK:%Y-%m-%d %H:%M:%S}.000"
    about = {name: train[name] for name in ("name", "user", "team", "partition", "hosts", "gpus", "started_at")}
    assert about == {"name": "train.py", "user": "ann", "team": "vision", "partition": "long", "hosts": 1, "gpus": 4,
                     "started_at": begun}  # fmt: skip


def test_days_and_weeks_are_those_of_the_rows(planted: tuple[Store, Quarter], week: Rendered) -> None:
    by_day, by_week = defaultdict(list), defaultdict(list)
    for row in planted[1].gpus:
        at = datetime.fromtimestamp(row["ts"], UTC)
        by_day[f"{at:%Y-%m-%d} 00:00:00"].append(row)
        by_week[f"{at.date() - timedelta(days=at.weekday())} 00:00:00"].append(row)
    for name, truth in (("days", dict(list(by_day.items())[-7:])), ("trend", by_week)):
        found = {row.pop("starts_at"): row for row in table(week, name)}
        assert list(found) == sorted(truth)
        for start, rows in truth.items():
            same(found[start], of_fleet(Truth(rows)))


def test_bands_hold_the_hours_of_gpus_that_were_so_busy(planted: tuple[Store, Quarter], week: Rendered) -> None:
    rows = of_week(planted[1], WEEKS - 1)
    for number, found in enumerate(table(week, "distribution")):
        expected: Row = {"from_share": number / 10, "to_share": (number + 1) / 10}
        for metric in ("gpu_util", "sm_active"):
            inside = sum(min(9, row[f"{metric}_permille"] // 100) == number for row in rows)
            expected |= {f"{metric}_gpu_hours": inside, f"{metric}_share": inside / len(rows)}
        same(found, expected)


def test_idle_and_failing_gpus_are_named(planted: tuple[Store, Quarter], week: Rendered) -> None:
    samples = defaultdict(list)
    for row in of_week(planted[1], WEEKS - 1):
        samples[row["host"], row["gpu"]].append(row)
    idled = {key: sum(map(idle, rows)) for key, rows in samples.items() if sum(map(idle, rows)) >= 0.95 * len(rows)}
    found = table(week, "idle_gpus")
    assert {(row["host"], row["gpu"]): row["idle_gpu_hours"] for row in found} == idled
    assert [row["idle_gpu_hours"] for row in found] == sorted(idled.values(), reverse=True)
    assert {(row["model"], row["of"]) for row in found} == {("H200", len(idled))}
    failing = [{name: row[name] for name in row if name != "of"} for row in table(week, "failing_gpus")]
    assert failing == [
        {"host": "cow", "gpu": 3, "uuid": "GPU-23", "xids": [48, 79], "xid_reports": 2, "uncorrected_errors": 2,
         "remapped_rows": 0, "held_back_hours": 0},
        {"host": "cow", "gpu": 1, "uuid": "GPU-21", "xids": [], "xid_reports": 0, "uncorrected_errors": 0,
         "remapped_rows": 0, "held_back_hours": 3},
    ]  # fmt: skip


def test_findings_say_what_was_planted(week: Rendered) -> None:
    told = "\n".join(f"{finding.severity}: {finding.text} {finding.action}" for finding in week.findings)
    for words in (
        "critical: 1 GPU reported XIDs or memory errors that ECC could not mend, first of all GPU 3 of cow with "
        "XID 48, 79 and 2 uncorrectable memory errors.",
        "warning: Heat, a power brake or the hardware held back 1 GPU, most of all GPU 1 of cow in 3 hours.",
        "warning: 176 GPU h that jobs held were idle (22 % of allocated), most of bob: 99 GPU h of 132 GPU h. Begin "
        "with job eval-12 (eval.py) of bob",
        "warning: 58 GPU h (2.9 %) were not measured",
        "info: 5 GPUs did nothing",
        "info: SM activity fell from 14 % to 8.9 %",
    ):
        assert words in told
    assert week.summary.startswith(
        "Of 1,958 GPU h available, jobs held 816 GPU h (42 %); of these 176 GPU h (22 %) were idle"
    )
    assert "352.00 EUR" in week.summary


def test_files_hold_every_table_and_figure(week: Rendered, tmp_path: Path) -> None:
    folder = write(week, tmp_path)
    assert folder == write(week, tmp_path) == tmp_path / week.stem  # once more in its place
    assert [each.name for each in tmp_path.iterdir()] == [week.stem]
    assert {str(each.relative_to(folder)) for each in folder.rglob("*.*")} == set(week.files)
    for each in week.tables:
        text = (folder / f"tables/{each.name}.csv").read_text()
        header, *rows = csv.reader(io.StringIO(text))
        assert header == list(each.columns)
        assert len(rows) == len(each.rows)
        parquet = pyarrow.parquet.read_table(folder / f"tables/{each.name}.parquet")
        assert parquet.column_names == list(each.columns)
        assert [plain(row) for row in parquet.to_pylist()] == [plain(row) for row in table(week, each.name)]
    pictures = [name for name in week.files if name.startswith("figures/")]
    assert {Path(name).stem for name in pictures} >= {"days", "users", "teams", "partitions", "distribution", "trend"}
    assert all(week.files[name].startswith(b"\x89PNG") for name in pictures)


def plain(row: Row) -> Row:
    """Times as text, as the JSON of the engine has them."""
    return {
        name: f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else _second(value)
        for name, value in row.items()
    }


def _second(value: Any) -> Any:
    return value.removesuffix(".000") if isinstance(value, str) else value


def test_a_report_is_the_same_bytes_again(planted: tuple[Store, Quarter], week: Rendered) -> None:
    store, rows = planted
    assert (
        render(store, Asked("fleet-weekly", price=Price(PER_KWH, PER_GPU_HOUR)), now=rows.end + timedelta(days=2))
        == week
    )


def test_without_a_price_there_is_no_cost(planted: tuple[Store, Quarter]) -> None:
    store, rows = planted
    found = render(store, Asked("fleet-weekly", Period(rows.end - WEEK, rows.end), formats=("csv",)))
    assert not [column for each in found.tables for column in each.columns if column.endswith("_cost")]
    assert "No price of a kWh or of a GPU hour was given" in found.text
    assert "cost" not in found.html.split("No price")[0].lower()
    assert {Path(name).suffix for name in found.files} == {".csv"}


def test_a_week_without_gpus_says_so(planted: tuple[Store, Quarter]) -> None:
    store, rows = planted
    found = render(store, Asked("fleet-weekly", Period(rows.end + WEEK, rows.end + 2 * WEEK)))
    assert found.empty
    assert found.summary.startswith("No GPU was measured from")
    assert f"The latest earlier period with GPUs began {rows.end - WEEK:%Y-%m-%d}" in found.text


RAW = """
WITH
    period_ms / 3.6e6 AS hours, if(empty(job_ids), 0, hours) AS held,
    coalesce(gpu_util_permille, sm_active_permille) AS util
SELECT
    sum(hours), sum(held), sumIf(held, util < 50), sumIf(held, util IS NULL), sumIf(hours, util < 50),
    sum(gpu_util_permille * hours) / sumIf(hours, gpu_util_permille IS NOT NULL) / 1000,
    sum(sm_active_permille * hours) / sumIf(hours, sm_active_permille IS NOT NULL) / 1000,
    sum(power_deciwatts / 10 * hours) / 1000
FROM gpu_samples
WHERE ts >= {since:DateTime('UTC')}
"""
"""The fleet's figures as their definitions have them, over raw rows."""
NAMES = ("available_gpu_hours", "allocated_gpu_hours", "wasted_gpu_hours", "unknown_gpu_hours", "idle_gpu_hours",
         "gpu_util", "sm_active", "energy_kwh")  # fmt: skip


def test_rollups_say_what_raw_rows_say(planted: tuple[Store, Quarter]) -> None:
    """Hosts that measure at periods of their own, values that change and lack, two jobs on a GPU, several inserts."""
    store, random = planted[0], Random(7)
    start = planted[1].end + 5 * WEEK  # where nothing else is
    with closing(connect(store)) as client:
        for host, period_s in (("dog", 60), ("elk", 600)):
            samples = [_random(random, host, period_s, start.timestamp() + at) for at in range(0, 86400, period_s)]
            for part in (samples[::2], samples[1::2]):
                land(client, "gpu-samples", [message("gpu-samples", **each) for each in part])
        (raw,) = client.query(RAW, parameters={"since": start}).result_rows
    found = render(store, Asked("fleet-weekly", Period(start, start + timedelta(days=1)), formats=()))
    (totals,) = table(found, "totals")
    assert [totals[name] for name in NAMES] == pytest.approx(list(raw), rel=1e-6, abs=2e-6)
    (trend,) = table(found, "trend")
    assert [trend[name] for name in NAMES] == pytest.approx(list(raw), rel=1e-6, abs=2e-6)
    assert sum(each["allocated_gpu_hours"] for each in table(found, "users")) == pytest.approx(raw[1], abs=1e-5)
    assert sum(each["wasted_gpu_hours"] for each in table(found, "jobs_by_hours")) == pytest.approx(raw[2], abs=1e-5)
    assert 0 < raw[3] < raw[2] < raw[1] < raw[0]  # each of them is there


def _random(random: Random, host: str, period_s: int, ts: float) -> Row:
    sample: Row = {"host": host, "gpu": 0, "uuid": f"GPU-{host}", "ts": ts, "period_ms": period_s * 1000}
    sample["job_ids"] = random.choice(([], ["a"], ["a", "b"]))
    util = random.choice((0, 0, 40, 60, 500, 1000))
    known = random.random()
    if known > 0.1:
        sample["sm_active_permille"] = util // 2
    if known > 0.2:
        sample |= {"gpu_util_permille": util, "power_deciwatts": 1000 + util}
    return sample


def test_what_cannot_be_asked_is_refused() -> None:
    for given, words in (
        ({"report": "daily"}, "there is no report"),
        ({"report": "job"}, "needs the job's id"),
        ({"report": "fleet-weekly", "subject": "7"}, "takes no job"),
        ({"report": "captures", "formats": ("pdf",)}, "no format"),
    ):
        with pytest.raises(ReportError, match=words):
            Asked(**given)
    with pytest.raises(ReportError, match="price"):
        Price(float("nan"))
    with pytest.raises(ReportError, match="before it begins"):
        Period(datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
