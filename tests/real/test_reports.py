"""Reports on a planted quarter: every number of every table equals what the rows say, added up here."""

import csv
import io
import json
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
from tests.captures import kernel, process, tables
from tests.engine.template import SHARED
from tests.quarter import PER_GPU_HOUR, PER_KWH, WEEKS, Quarter, Row
from tests.tables import land
from tests.tables import row as message
from warpmeter import landing
from warpmeter.cli import reportage
from warpmeter.scheduler.reports import Asked, Period, Price, Rendered, ReportError, render, write
from warpmeter.scheduler.reports.asking import Asker
from warpmeter.settings import Store
from warpmeter.store import Client, connect

pytestmark = pytest.mark.long

WEEK = timedelta(weeks=1)


@pytest.fixture(scope="module")
def planted(embedded: Store) -> tuple[Store, Quarter]:
    """The quarter in a store of the module's own, with what goes wrong in its last week beside the GPUs."""
    store = replace(embedded, database=SHARED)
    rows = quarter.made(quarter.last_monday(datetime.now(UTC)))
    with closing(connect(store)) as client:
        client.command("SYSTEM STOP MERGES")  # they would cost more than the rest
        quarter.plant(client, rows)
        _troubles(client, rows.end.timestamp())
        _captures(client, store, rows.end.timestamp())
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
        "warning: Heat, a power brake or the hardware held back 1 GPU, most of all GPU 1 of cow in 3 of 168 hours.",
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


def test_what_has_yet_to_come_is_not_silent(planted: tuple[Store, Quarter]) -> None:
    """The fleet begins and the samples end within an hour, in a period that goes on: only what lacks between counts."""
    store, rows = planted
    start = rows.end + 9 * WEEK
    begun, ended = start + timedelta(hours=4, minutes=27, seconds=10), start + timedelta(hours=5, minutes=14)
    with closing(connect(store)) as client:
        for host in ("fox", "gnu"):
            times = [begun.timestamp() + at for at in range(0, int((ended - begun).total_seconds()), 10)]
            kept = times[:-120] if host == "gnu" else times  # silent for its last 20 minutes
            stamps: list[Row] = [{"host": host, "ts": at, "period_ms": 10_000} for at in kept]
            gpu = {"gpu": 0, "uuid": f"GPU-{host}", "gpu_util_permille": 500}
            land(client, "gpu-samples", [message("gpu-samples", **stamp, **gpu) for stamp in stamps])
            land(client, "host-samples", [message("host-samples", **stamp, cpu_util_permille=1) for stamp in stamps])
    running = Period(start, start + WEEK)
    fleet, health = (render(store, Asked(name, running, formats=())) for name in ("fleet-weekly", "host-health"))
    (totals,) = table(fleet, "totals")
    assert totals["unmeasured_gpu_hours"] == pytest.approx(1200 / 3600, abs=1e-5)
    assert f"measured until {ended:%Y-%m-%d %H:%M:%S}" in fleet.text
    silent = {row["host"]: row["silent_hours"] for row in table(health, "silent_hosts")}
    assert silent.pop("gnu") == pytest.approx(1200 / 3600, abs=1e-5)
    assert "fox" not in silent
    before = render(store, Asked("fleet-weekly", Period(start, start + timedelta(hours=5)), formats=()))
    unmeasured = table(before, "totals")[0]["unmeasured_gpu_hours"]
    assert unmeasured == pytest.approx(0.1, abs=1e-5), "of an hour that is over, all of it"


def test_tables_agree_while_rows_come_in(planted: tuple[Store, Quarter], monkeypatch: pytest.MonkeyPatch) -> None:
    """After each question rows land: every table is of the minute that had landed when it began."""
    store, rows = planted
    start = rows.end + 11 * WEEK
    stamp: Row = {"host": "hen", "period_ms": 10_000}
    gpu: Row = {"gpu": 0, "uuid": "GPU-hen", "gpu_util_permille": 500, "power_deciwatts": 1000, "job_ids": ["run"]}
    coming = (start.timestamp() + at for at in range(0, 7200, 10))

    def come(client: Client, samples: int) -> None:
        times = [next(coming) for _ in range(samples)]
        land(client, "gpu-samples", [message("gpu-samples", **stamp, **gpu, ts=at) for at in times])
        land(client, "host-samples", [message("host-samples", **stamp, cpu_util_permille=1, ts=at) for at in times])

    asking = Asker.table
    with closing(connect(store)) as client:
        come(client, 450)  # an hour and a quarter

        def asked(*given: Any, **more: Any) -> Any:
            found = asking(*given, **more)
            come(client, 7)
            return found

        monkeypatch.setattr(Asker, "table", asked)
        now = start + timedelta(minutes=75)
        fleet, health = (
            render(store, Asked(name, Period(start, start + timedelta(days=1)), formats=()), now)
            for name in ("fleet-weekly", "host-health")
        )
    (totals,) = table(fleet, "totals")
    assert f"measured until {start + timedelta(minutes=74):%Y-%m-%d %H:%M}:00" in fleet.text
    for name in ("totals", "users", "jobs_by_hours", "days", "trend"):
        assert sum(row["allocated_gpu_hours"] for row in table(fleet, name)) == pytest.approx(74 / 60, abs=1e-5), name
    assert sum(row["gpu_util_gpu_hours"] for row in table(fleet, "distribution")) == pytest.approx(74 / 60, abs=1e-5)
    assert (totals["unmeasured_gpu_hours"], totals["available_gpu_hours"]) == pytest.approx((0, 74 / 60), abs=1e-5)
    (heard,) = table(health, "totals")
    assert heard["host_hours"] == pytest.approx(heard["available_gpu_hours"], abs=1e-5)


def test_a_week_without_gpus_says_so(planted: tuple[Store, Quarter]) -> None:
    store, rows = planted
    found = render(store, Asked("fleet-weekly", Period(rows.end + WEEK, rows.end + 2 * WEEK)))
    assert found.empty
    assert found.summary.startswith("No GPU was measured from")
    assert f"The latest earlier period with GPUs began {rows.end - WEEK:%Y-%m-%d}" in found.text
    for name in ("fleet-weekly", "host-health"):
        early = render(store, Asked(name, Period(rows.start - WEEK, rows.start), formats=("csv",)))
        assert (
            f"The first sample is of {rows.start:%Y-%m-%d} 00:00 UTC: try --week current or --since 1h." in early.text
        )


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
WHERE ts >= {since:DateTime('UTC')} AND ts < {since:DateTime('UTC')} + INTERVAL 1 DAY
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
    found = render(store, Asked("fleet-weekly", Period(start, start + timedelta(days=1)), formats=("csv",)))
    (totals,) = table(found, "totals")
    assert [totals[name] for name in NAMES] == pytest.approx(list(raw), rel=1e-6, abs=2e-6)
    (trend,) = table(found, "trend")
    assert [trend[name] for name in NAMES] == pytest.approx(list(raw), rel=1e-6, abs=2e-6)
    assert sum(each["allocated_gpu_hours"] for each in table(found, "users")) == pytest.approx(raw[1], abs=1e-5)
    assert sum(each["wasted_gpu_hours"] for each in table(found, "jobs_by_hours")) == pytest.approx(raw[2], abs=1e-5)
    assert 0 < raw[3] < raw[2] < raw[1] < raw[0]  # each of them is there
    without_a_price_there_is_no_cost(found)


def without_a_price_there_is_no_cost(found: Rendered) -> None:
    """No column, no tile, and a word about it."""
    assert not [column for each in found.tables for column in each.columns if column.endswith("_cost")]
    assert "No price of a kWh or of a GPU hour was given" in found.text
    assert "cost" not in found.html.split("No price")[0].lower()
    assert {Path(name).suffix for name in found.files} == {".csv"}


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


RUNS = range(2, WEEKS)
"""Weeks whose runs of the job are told: the last, and ten before it."""


def _troubles(client: Client, end: float) -> None:
    gone = {"source": "gpu", "subject": "GPU-23", "state": "gone", "why": "it fell off the bus", "period_ms": 10_000}
    stepped = {
        "source": "clock",
        "state": "failed",
        "why": "the clock was stepped ahead by 3.000 s",
        "period_ms": 10_000,
    }
    denied = {"source": "perf", "state": "denied", "why": "perf_event_paranoid is 4", "period_ms": 10_000}
    health = [gone | {"host": "cow", "ts": end - 600}, stepped | {"host": "bee", "ts": end - 7200}]
    health += [denied | {"host": host, "ts": end - ago} for host in ("ant", "bee") for ago in (7200, 3600)]
    land(client, "source-health", [message("source-health", **each) for each in health])
    nics = [("ant", 400_000), ("bee", 400_000), ("cow", 100_000)]
    stamp = {"ts": end - 60, "period_ms": 10_000, "kind": "nic", "device": "eth0"}
    land(client, "device-samples", [message("device-samples", **stamp, host=h, link_megabits_per_s=m) for h, m in nics])
    alert = {
        "alert_id": "slow/1",
        "rule": "job_slower",
        "severity": "warning",
        "fingerprint": "1",
        "started_at": end - 90_000,
    }
    alert |= {"labels": {"job_id": "train-12"}, "summary": "train-12 is slower than its past", "capture_id": "cap-1"}
    states = [alert | {"ts": end - ago, "state": state} for ago, state in ((80_000, "firing"), (70_000, "resolved"))]
    states[1]["resolved_at"] = end - 70_000
    pending = alert | {"alert_id": "slow/2", "ts": end - 80_000, "state": "pending"}
    land(client, "alerts", [message("alerts", **each) for each in (*states, pending)])


def _captures(client: Client, store: Store, end: float) -> None:
    """Two captures of the last run: one whose two ranks are loaded, one that failed."""
    asked = {
        "action": "start",
        "job_id": "train-12",
        "requested_by": "rule:job_slower",
        "mode": "trace",
        "duration_ms": 500,
    }
    land(
        client,
        "capture-requests",
        [message("capture-requests", **asked, capture_id=f"cap-{n}", ts=end - 5000 * n) for n in (1, 2)],
    )
    events: list[Row] = [
        {"capture_id": "cap-1", "sequence": 1, "host": "ant", "pid": pid, "rank": pid - 7, "job_id": "train-12",
         "state": state, "by": "agent", "ts": end - 4900 + at, "url": "file:///t" if state == "captured" else ""}
        for pid in (7, 8) for at, state in ((0, "captured"), (5, "analysed"))
    ]  # fmt: skip
    events += [{"capture_id": f"cap-{n}", "sequence": 0, "state": "ended", "by": "scheduler", "ts": end - 4000,
                "reason": reason} for n, reason in ((1, ""), (2, "nothing_matched"))]  # fmt: skip
    events[-1]["why"] = "no process of it registers: start it with KINETO_USE_DAEMON=1"
    seen = {"capture_id": "cap-1", "sequence": 1, "host": "ant", "state": "seen", "by": "scheduler"}
    events.append(seen | {"ts": end - 4950, "clock_skew_ms": -250})
    land(client, "capture-events", [message("capture-events", **each) for each in events])
    load = landing.begin(client, "cap-1", "train-12")
    puts = []
    for rank in (0, 1):
        kernels = [kernel("gemm", 600, 3), kernel("ncclAllReduce", 300 + 100 * rank, sort="comm")]
        found = {
            "id": "exposed_comm",
            "text": "exposed communication takes 40 %",
            "cost_ns": 40 + rank,
            "unit": "ratio",
        }
        found |= {"value": 0.4, "severity": "warning"}
        more: Row = {"step_p50_ns": 1000 + rank, "findings": [found], "advice": ["Overlap it."]}
        told = tables(kernels, events=0, job_id="train-12", **more)
        puts.append(landing.put(client, store, load, process(rank, captured_at_ns=int(end - 4900) * 10**9), told))
    landing.publish(client, store, load, puts, lambda _: None)


@pytest.fixture(scope="module")
def job(planted: tuple[Store, Quarter]) -> Rendered:
    """The report of the run that slowed."""
    return render(planted[0], Asked("job", subject="train-12", price=Price(PER_KWH, PER_GPU_HOUR)))


@pytest.fixture(scope="module")
def health(planted: tuple[Store, Quarter]) -> Rendered:
    """The hosts' health of the last week."""
    store, rows = planted
    return render(store, Asked("host-health", Period(rows.end - WEEK, rows.end)))


@pytest.fixture(scope="module")
def digest(planted: tuple[Store, Quarter]) -> Rendered:
    """The captures of the last week."""
    store, rows = planted
    return render(store, Asked("captures", Period(rows.end - WEEK, rows.end)))


def some(found: Row, *names: str) -> Row:
    """These columns of a row."""
    return {name: found[name] for name in names}


def samples(rows: Quarter, week: int) -> list[Row]:
    """Of the GPUs that the job of that week held."""
    return [each for each in rows.gpus if f"train-{week}" in each["job_ids"]]


def mean(found: list[Row], column: str) -> float:
    """Of a ratio in permille."""
    return float(sum(each[column] for each in found)) / len(found) / 1000


# --- a job ----------------------------------------------------------------------------------------------------------


def test_a_job_has_the_hours_that_it_held(planted: tuple[Store, Quarter], job: Rendered) -> None:
    held = samples(planted[1], WEEKS - 1)
    idle = [each for each in held if each["gpu_util_permille"] < 50]
    (found,) = table(job, "job")
    kwh = sum(each["power_deciwatts"] for each in held) / 10 / 1000
    expected = {
        "allocated_gpu_hours": len(held), "wasted_gpu_hours": len(idle), "used_gpu_hours": len(held) - len(idle),
        "unknown_gpu_hours": 0, "wasted_share": len(idle) / len(held), "gpu_util": mean(held, "gpu_util_permille"),
        "sm_active": mean(held, "sm_active_permille"), "tensor_active": mean(held, "tensor_active_permille"),
        "power_watts": kwh * 1000 / len(held), "energy_kwh": kwh, "energy_cost": kwh * PER_KWH,
        "allocated_cost": len(held) * PER_GPU_HOUR, "wasted_cost": len(idle) * PER_GPU_HOUR,
    }  # fmt: skip
    assert some(found, *expected) == pytest.approx(expected, rel=1e-6, abs=2e-6)
    assert some(found, "name", "user", "team", "partition", "state", "hosts", "gpus", "dram_active") == {
        "name": "train.py", "user": "ann", "team": "vision", "partition": "long", "state": "ended", "hosts": ["ant"],
        "gpus": 4, "dram_active": None,
    }  # fmt: skip
    assert found["duration_seconds"] == 167 * 3600


def test_the_time_line_is_that_of_the_rows(planted: tuple[Store, Quarter], job: Rendered) -> None:
    by_hour = defaultdict(list)
    for each in samples(planted[1], WEEKS - 1):
        by_hour[f"{datetime.fromtimestamp(each['ts'], UTC):%Y-%m-%d %H:%M:%S}"].append(each)
    found = {each["starts_at"]: each for each in table(job, "timeline")}
    assert list(found) == list(by_hour)
    for start, held in by_hour.items():
        expected = {"gpus": 4, "gpu_util": mean(held, "gpu_util_permille"),
                    "sm_active": mean(held, "sm_active_permille"),
                    "wasted_share": sum(each["gpu_util_permille"] < 50 for each in held) / 4}  # fmt: skip
        assert some(found[start], *expected) == pytest.approx(expected, abs=2e-6)


def test_hosts_gpus_and_processes_of_a_job(planted: tuple[Store, Quarter], job: Rendered) -> None:
    held = samples(planted[1], WEEKS - 1)
    (host,) = table(job, "hosts")
    assert some(host, "host", "allocated_gpu_hours") == {"host": "ant", "allocated_gpu_hours": len(held)}
    for gpu, found in enumerate(table(job, "gpus")):
        own = [each for each in held if each["gpu"] == gpu]
        expected = {"gpu": gpu, "available_gpu_hours": 168, "idle_gpu_hours": 17, "temperature_celsius": 60,
                    "held_back_hours": 0, "gpu_util": mean(own, "gpu_util_permille")}  # fmt: skip
        assert some(found, *expected) == pytest.approx(expected, abs=2e-6)
    (tree,) = table(job, "ranks")
    assert some(tree, "host", "pid", "state", "unsaid", "gpus") == {"host": "ant", "pid": 112, "state": "ended",
                                                                  "unsaid": False, "gpus": 4}  # fmt: skip


def test_a_slowed_job_is_held_against_its_past(planted: tuple[Store, Quarter], job: Rendered) -> None:
    runs = table(job, "past_runs")
    assert [each["job_id"] for each in runs] == [f"train-{week}" for week in reversed(RUNS)]
    for found, week in zip(runs, reversed(RUNS), strict=True):
        assert found["sm_active"] == pytest.approx(mean(samples(planted[1], week), "sm_active_permille"), abs=2e-6)
    assert runs[0]["step_p50_ns"] in (1000, 1001)
    assert any("SM act" in each.text and each.severity == "warning" for each in job.findings)


def test_captures_and_alerts_of_a_job(job: Rendered) -> None:
    assert [some(each, "capture_id", "state", "captured", "analysed", "ranks") for each in table(job, "captures")] == [
        {"capture_id": "cap-1", "state": "ended", "captured": 2, "analysed": 2, "ranks": 2},
        {"capture_id": "cap-2", "state": "ended", "captured": 0, "analysed": 0, "ranks": None},
    ]
    (alert,) = table(job, "alerts")
    assert some(alert, "rule", "state", "summary", "capture_id") == {
        "rule": "job_slower", "state": "resolved", "summary": "train-12 is slower than its past", "capture_id": "cap-1",
    }  # fmt: skip


def test_a_job_without_gpus_and_one_that_is_unknown(planted: tuple[Store, Quarter]) -> None:
    store, rows = planted
    end = rows.end.timestamp()
    fields = {
        "host": "cow",
        "job_id": "a/b $x$ <i>",
        "event": "ended",
        "name": "<script>alert(1)</script>\nBcc: x",
        "pid": 9,
    }
    with closing(connect(store)) as client:
        land(
            client, "job-events", [message("job-events", **fields, ts=end - 90, started_at=end - 100.0, period_ms=1000)]
        )
    found = render(store, Asked("job", subject="a/b $x$ <i>"))
    assert "No GPU was seen to be held by it." in found.summary
    assert "<script>alert" not in found.html + found.mail_html
    assert found.stem.startswith("job-a_b_x_i_-")
    assert found.title == "Job a/b $x$ <i> (<script>alert(1)</script> Bcc: x)"  # a mail's subject has one line
    with pytest.raises(ReportError, match="no job is called 'nope'"):
        render(store, Asked("job", subject="nope"))


# --- hosts ----------------------------------------------------------------------------------------------------------


def test_what_was_planted_stands_in_the_hosts_health(planted: tuple[Store, Quarter], health: Rendered) -> None:
    end = planted[1].end.timestamp()
    xids = [some(each, "host", "gpu", "xid", "reports", "standing") for each in table(health, "xids")]
    assert xids == [{"host": "cow", "gpu": 3, "xid": code, "reports": 1, "standing": True} for code in (48, 79)]
    assert table(health, "memory_errors") == [
        {"host": "cow", "gpu": 3, "uuid": "GPU-23", "corrected_errors": 0, "uncorrected_errors": 2, "remapped_rows": 0},
        {
            "host": "cow",
            "gpu": 2,
            "uuid": "GPU-22",
            "corrected_errors": 20,
            "uncorrected_errors": 0,
            "remapped_rows": 0,
        },
    ]
    (held,) = table(health, "held_back")
    assert some(held, "host", "gpu", "held_back_hours", "heat_hours", "hardware_hours", "heat_minutes") == {
        "host": "cow", "gpu": 1, "held_back_hours": 3, "heat_hours": 3, "hardware_hours": 0, "heat_minutes": 3,
    }  # fmt: skip
    assert held["held_back_minutes"] == 3
    assert "most of all GPU 1 of cow in 3 of 168 hours, 3 min." in health.text
    (missing,) = table(health, "missing_gpus")
    assert some(missing, "host", "gpu", "missing_gpu_hours", "available_gpu_hours", "why") == {
        "host": "cow", "gpu": 3, "missing_gpu_hours": 18, "available_gpu_hours": 150, "why": "it fell off the bus",
    }  # fmt: skip
    (silent,) = table(health, "silent_hosts")
    assert some(silent, "host", "silent_hours", "heard_hours") == {
        "host": "bee",
        "silent_hours": 10,
        "heard_hours": 158,
    }
    assert table(health, "links") == [{"host": "cow", "link": "nic eth0", "what": "Gbit/s", "value": 100, "usual": 400}]
    clocks = [some(each, "host", "clock_skew_ms", "steps") for each in table(health, "clocks")]
    assert clocks == [
        {"host": "ant", "clock_skew_ms": -250, "steps": 0},
        {"host": "bee", "clock_skew_ms": None, "steps": 1},
    ]
    (source,) = table(health, "sources")
    assert some(source, "source", "state", "hosts", "reports") == {
        "source": "perf",
        "state": "denied",
        "hosts": 2,
        "reports": 4,
    }
    assert source["first_at"] == f"{datetime.fromtimestamp(end - 7200, UTC):%Y-%m-%d %H:%M:%S}.000"
    (totals,) = table(health, "totals")
    assert totals == {"hosts": 3, "host_hours": 3 * 168 - 10, "gpus": 12, "available_gpu_hours": 12 * 168 - 58}


def test_a_healthy_week_has_nothing_to_act_on(planted: tuple[Store, Quarter]) -> None:
    store, rows = planted
    found = render(store, Asked("host-health", Period(rows.end - 2 * WEEK, rows.end - WEEK)))
    assert found.findings == ()
    assert found.summary == "Nothing stands out: no fault, nothing missing, slow or silent."
    nobody = render(store, Asked("host-health", Period(rows.end + WEEK, rows.end + 2 * WEEK)))
    assert nobody.empty
    assert nobody.findings[0].text.startswith("No host was heard of")


# --- captures -------------------------------------------------------------------------------------------------------


def test_captures_with_what_they_found_and_why_some_failed(digest: Rendered) -> None:
    assert [each["capture_id"] for each in table(digest, "captures")] == ["cap-1", "cap-2"]
    kernels = [
        some(each, "kernel", "captures", "jobs", "launches", "total_ns", "share")
        for each in table(digest, "capture_kernels")
    ]
    assert kernels == [
        {"kernel": "gemm", "captures": 1, "jobs": 1, "launches": 6, "total_ns": 1200, "share": round(1200 / 1900, 6)},
        {
            "kernel": "ncclAllReduce",
            "captures": 1,
            "jobs": 1,
            "launches": 2,
            "total_ns": 700,
            "share": round(700 / 1900, 6),
        },
    ]
    (found,) = table(digest, "capture_findings")
    expected = {"finding": "exposed_comm", "captures": 1, "ranks": 2, "cost_ns": 81}
    assert some(found, *expected) == expected
    assert found["advice"] == "Overlap it."
    assert [each.action for each in digest.findings if each.text == found["text"]] == [
        "Overlap it. In 1 capture of 1 job; worst in cap-1."
    ]
    (failed,) = table(digest, "failed")
    expected = {"of": "capture", "reason": "nothing_matched", "captures": 1, "example": "cap-2"}
    assert some(failed, *expected) == expected
    (alert,) = table(digest, "triggered")
    assert some(alert, "rule", "capture_id") == {"rule": "job_slower", "capture_id": "cap-1"}
    assert digest.summary.startswith("2 captures asked for, 1 with an analysed trace, 1 without any.")


def test_a_period_without_captures_says_so(planted: tuple[Store, Quarter]) -> None:
    store, rows = planted
    found = render(store, Asked("captures", Period(rows.end - 2 * WEEK, rows.end - WEEK)))
    assert found.empty
    assert found.summary.startswith("No capture was asked for")


# --- all ------------------------------------------------------------------------------------------------------------


def test_files_and_mails_of_all_are_whole(job: Rendered, health: Rendered, digest: Rendered, tmp_path: Path) -> None:
    for found in (job, health, digest):
        folder = write(found, tmp_path)
        assert {str(each.relative_to(folder)) for each in folder.rglob("*.*")} == set(found.files)
        assert all(data for data in found.files.values())
        assert all(f"cid:{image.cid}" in found.mail_html for image in found.inline)
        assert "data:" not in found.mail_html
        assert "<script" not in found.html + found.mail_html
        assert len(found.mail_html) < 100_000
        assert json.dumps([table(found, each.name) for each in found.tables])


def test_the_command_prints_a_report_or_has_it_as_json_or_writes_it(
    planted: tuple[Store, Quarter], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, rows = planted
    asked = Asked("host-health", Period(rows.end - WEEK, rows.end), formats=("html", "csv"))
    reportage.make(store, asked, reportage.Wanted(None, as_json=False, open_it=False))
    printed = capsys.readouterr().out
    assert "1 host silent for a while, first of all bee for 10 hours." in printed
    assert "it fell off the bus" in printed  # a table
    reportage.make(store, asked, reportage.Wanted(tmp_path, as_json=True, open_it=False))
    told = json.loads(capsys.readouterr().out)
    assert told["tables"]["silent_hosts"][0]["silent_hours"] == 10
    files = {str(each.relative_to(told["folder"])) for each in tmp_path.rglob("*.*") if each.is_file()}
    assert set(told["files"]) == files
