"""Reports of a job, of hosts and of captures on the planted quarter: every number is that of the rows."""

import json
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import quarter
from tests.captures import kernel, process, tables
from tests.quarter import PER_GPU_HOUR, PER_KWH, WEEKS, Quarter, Row
from tests.tables import land, row
from warpmeter import landing, migrate
from warpmeter.cli import reportage
from warpmeter.scheduler.reports import Asked, Period, Price, Rendered, ReportError, render, write
from warpmeter.settings import Store
from warpmeter.store import Client, connect

pytestmark = pytest.mark.long

WEEK = timedelta(weeks=1)
RUNS = (WEEKS - 3, WEEKS - 2, WEEKS - 1)
"""Weeks that are planted: the job's runs."""


@pytest.fixture(scope="module")
def planted(embedded: Store) -> tuple[Store, Quarter]:
    """The last three weeks in a store of the module's own, with what goes wrong in the last one beside the GPUs."""
    store = replace(embedded, database="jobs")
    with closing(connect(embedded, database="default")) as client:
        migrate.apply(client, store)
    rows = quarter.made(quarter.last_monday(datetime.now(UTC)), RUNS)
    with closing(connect(store)) as client:
        quarter.plant(client, rows)
        _troubles(client, rows.end.timestamp())
        _captures(client, store, rows.end.timestamp())
    return store, rows


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
    land(client, "source-health", [row("source-health", **each) for each in health])
    nics = [("ant", 400_000), ("bee", 400_000), ("cow", 100_000)]
    stamp = {"ts": end - 60, "period_ms": 10_000, "kind": "nic", "device": "eth0"}
    land(client, "device-samples", [row("device-samples", **stamp, host=h, link_megabits_per_s=m) for h, m in nics])
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
    land(client, "alerts", [row("alerts", **each) for each in (*states, pending)])


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
        [row("capture-requests", **asked, capture_id=f"cap-{n}", ts=end - 5000 * n) for n in (1, 2)],
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
    land(client, "capture-events", [row("capture-events", **each) for each in events])
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
        told = tables(kernels, events=0, step_p50_ns=1000 + rank, findings=[found], job_id="train-12")
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


def table(report: Rendered, name: str) -> list[Row]:
    """Its rows by column."""
    found = next(each for each in report.tables if each.name == name)
    return [dict(zip(found.columns, each, strict=True)) for each in found.rows]


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
    assert [each["job_id"] for each in runs] == ["train-12", "train-11", "train-10"]
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
        land(client, "job-events", [row("job-events", **fields, ts=end - 90, started_at=end - 100.0, period_ms=1000)])
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
    store, asked = planted[0], Asked("job", subject="train-12")
    reportage.make(store, asked, reportage.Wanted(None, as_json=False, open_it=False))
    printed = capsys.readouterr().out
    assert "Job train-12 (train.py)" in printed
    assert "train-11" in printed  # a table
    reportage.make(store, asked, reportage.Wanted(tmp_path, as_json=True, open_it=False))
    told = json.loads(capsys.readouterr().out)
    assert told["tables"]["job"][0]["allocated_gpu_hours"] == 672
    assert set(told["files"]) == {
        str(each.relative_to(told["folder"])) for each in tmp_path.rglob("*.*") if each.is_file()
    }
    reportage.make(store, asked, reportage.Wanted(tmp_path, as_json=False, open_it=False))
    assert f"{tmp_path}/job-train-12/report.html" in capsys.readouterr().out
