"""The report fleet-weekly: who had the GPUs, what was made of them, what it cost, what is idle or fails, the trend."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from warpmeter.analysis.words import count, digits, percent
from warpmeter.scheduler.reports import figures
from warpmeter.scheduler.reports.asking import Asker
from warpmeter.scheduler.reports.columns import NOT_TOLD
from warpmeter.scheduler.reports.document import Document, Figure, Section, Tile, priced
from warpmeter.scheduler.reports.figures import Series
from warpmeter.scheduler.reports.kinds import Asked, Finding, Period, Price, Shown, Table
from warpmeter.scheduler.reports.telling import (
    Row,
    day_of,
    hours,
    measured,
    money,
    part_of,
    rows,
    share,
    unpriced,
    when,
    worst_first,
)

PERIODS_BEFORE: Final = 12
"""Periods before this one that the trend shows, as long as it."""
MUCH_WASTE, MUCH_UNMEASURED, MUCH_CHANGE = 0.1, 0.01, 0.1
"""What makes a finding: shares of allocated hours wasted, of hours not measured, of change to the period before."""
COSTS: Final = ("energy_cost", "allocated_cost", "wasted_cost")
OWNERS: Final = ("name", "jobs", "allocated_gpu_hours", "used_gpu_hours", "wasted_gpu_hours", "wasted_share",
                 "gpu_util", "sm_active", "energy_kwh", *COSTS)  # fmt: skip
JOBS: Final = ("job_id", "name", "user", "team", "gpus", "allocated_gpu_hours", "wasted_gpu_hours", "wasted_share",
               "gpu_util", "energy_kwh", *COSTS)  # fmt: skip
TREND: Final = ("starts_at", "jobs", "available_gpu_hours", "allocated_gpu_hours", "used_gpu_hours", "wasted_gpu_hours",
                "wasted_share", "gpu_util", "sm_active", "energy_kwh", *COSTS)  # fmt: skip


def document(asker: Asker, asked: Asked, period: Period) -> Document:
    """The whole report; one that says so where nothing was measured."""
    until = asker.know_until(period).gpus
    tables = {table.name: priced(table, asked.price) for table in _ask(asker, period)}
    totals = rows(tables["totals"])[0]
    title = f"Fleet report: {when(period)}"
    if not totals["gpus"]:
        return _empty(title, period, tables, asker.first_measured())
    return Document(
        title=title,
        subtitle=f"{measured(period, until)}. "
        + ", ".join(count(totals[f"{each}s"], each.replace("gpu", "GPU")) for each in _KINDS)
        + ".",
        summary=_summary(totals, asked.price),
        tiles=tuple(_tiles(totals, asked.price)),
        findings=worst_first(_findings(tables, totals, period, until)),
        sections=tuple(_sections(tables)),
        notes=tuple(_notes(totals, asked.price, tables)),
        more_tables=(tables["totals"],),
        currency=asked.price.currency,
    )


_KINDS: Final = ("host", "gpu", "job")


def _ask(asker: Asker, period: Period) -> Iterator[Table]:
    length = period.end - period.start
    day = min(length, timedelta(days=1)).total_seconds()
    yield asker.table("fleet_totals", "totals", "Totals")
    for by in ("user", "team", "partition"):
        yield asker.table("fleet_owners", f"{by}s", f"By {by}", by=by)
    yield asker.table("fleet_jobs", "jobs_by_hours", "Jobs with most GPU hours", by="allocated")
    yield asker.table("fleet_jobs", "jobs_by_waste", "Jobs that wasted most", by="wasted")
    yield asker.table("fleet_distribution", "distribution", "GPU hours by how busy they were")
    yield asker.table("fleet_idle_gpus", "idle_gpus", "Idle GPUs")
    yield asker.table("failing_gpus", "failing_gpus", "Failing GPUs")
    yield asker.table("fleet_trend", "days", "By day", step_s=int(day))
    before = period.start - PERIODS_BEFORE * length
    yield asker.table("fleet_trend", "trend", "Trend", since=before, step_s=int(length.total_seconds()))


def _empty(title: str, period: Period, tables: Mapping[str, Table], first: datetime | None) -> Document:
    said = f"No GPU was measured from {period}."
    trend = rows(tables["trend"])
    last = f"The latest earlier period with GPUs began {trend[-1]['starts_at'][:16]}." if trend else ""
    action = f"Is the period right? Do agents run, and does ingest (`warpmeter status`)? {last}".strip()
    if first is not None and first >= period.end:
        action = f"The first sample is of {first:%Y-%m-%d %H:%M} UTC: try --week current or --since 1h."
    return Document(
        title=title, subtitle=str(period), summary=said, findings=(Finding("warning", said, action),),
        more_tables=tuple(tables.values()), empty=True,
    )  # fmt: skip


def _summary(totals: Row, price: Price) -> str:
    said = (
        f"Of {hours(totals['available_gpu_hours'])} available, jobs held {hours(totals['allocated_gpu_hours'])} "
        f"({percent(totals['allocated_share'] or 0)})"
    )
    if totals["allocated_gpu_hours"]:
        said += f"; of these {hours(totals['wasted_gpu_hours'])} ({percent(totals['wasted_share'])}) were idle"
        if price.per_gpu_hour is not None:
            said += f", worth {money(totals['wasted_cost'], price)}"
    if totals["energy_kwh"] is not None:
        said += f". GPUs drew {digits(totals['energy_kwh'])} kWh"
        if price.per_kwh is not None:
            said += f", which cost {money(totals['energy_cost'], price)}"
    return said + "."


def _tiles(totals: Row, price: Price) -> Iterator[Tile]:
    yield Tile("Available", hours(totals["available_gpu_hours"]), count(totals["gpus"], "GPU"))
    yield Tile(
        "Allocated", hours(totals["allocated_gpu_hours"]), f"{percent(totals['allocated_share'] or 0)} of available"
    )
    wasted = f"{percent(totals['wasted_share'])} of allocated" if totals["wasted_share"] is not None else ""
    yield Tile("Used", hours(totals["used_gpu_hours"]), "allocated, above 5 %")
    yield Tile("Wasted", hours(totals["wasted_gpu_hours"]), wasted)
    yield Tile("Free", hours(totals["free_gpu_hours"]), "held by no job")
    yield Tile(
        "Utilisation",
        share(totals["gpu_util"]),
        f"median {share(totals['gpu_util_p50'])}, 95th percentile {share(totals['gpu_util_p95'])}",
    )
    yield Tile(
        "SM active",
        share(totals["sm_active"]),
        f"median {share(totals['sm_active_p50'])}, 95th percentile {share(totals['sm_active_p95'])}",
    )
    power = f"{digits(totals['power_watts'])} W a GPU" if totals["power_watts"] is not None else "power is not known"
    yield Tile("Energy", "not known" if totals["energy_kwh"] is None else f"{digits(totals['energy_kwh'])} kWh", power)
    if price.per_kwh is not None and totals["energy_cost"] is not None:
        yield Tile("Cost of energy", money(totals["energy_cost"], price), f"{price.per_kwh:g} {price.currency} a kWh")
    if price.per_gpu_hour is not None:
        yield Tile(
            "Cost of allocated GPUs",
            money(totals["allocated_cost"], price),
            f"{price.per_gpu_hour:g} {price.currency} a GPU h",
        )
        yield Tile("Cost of waste", money(totals["wasted_cost"], price), wasted)


def _findings(tables: Mapping[str, Table], totals: Row, period: Period, until: datetime | None) -> Iterator[Finding]:
    yield from _failing(rows(tables["failing_gpus"]), period, until)
    yield from _waste(totals, rows(tables["users"]), rows(tables["jobs_by_waste"]))
    yield from _idle(rows(tables["idle_gpus"]))
    yield from _unmeasured(totals)
    yield from _change(rows(tables["trend"]), period)


def _failing(failing: list[Row], period: Period, until: datetime | None) -> Iterator[Finding]:
    bad = [row for row in failing if row["xid_reports"] or row["uncorrected_errors"]]
    if bad:
        worst = f"GPU {bad[0]['gpu']} of {bad[0]['host']} with {fault(bad[0])}"
        text = f"{count(len(bad), 'GPU')} reported XIDs or memory errors that ECC could not mend, first of all {worst}."
        yield Finding("critical", text, "Drain it and run diagnostics; the report host-health has all of them.")
    slow = [row for row in failing if row["held_back_hours"]]
    if slow:
        most = max(slow, key=lambda row: row["held_back_hours"])
        worst = f"GPU {most['gpu']} of {most['host']} {part_of(most['held_back_hours'], period, until)}"
        text = f"Heat, a power brake or the hardware held back {count(len(slow), 'GPU')}, most of all {worst}."
        yield Finding(
            "warning", text, "Look at cooling and power of these hosts; the report host-health has the minutes."
        )


def fault(failing: Row) -> str:
    """What a GPU failed with: `XID 48, 79 and 2 uncorrectable memory errors`."""
    said = [f"XID {', '.join(map(str, failing['xids']))}"] if failing["xids"] else []
    if errors := failing["uncorrected_errors"]:
        said.append(count(errors, "uncorrectable memory error"))
    return " and ".join(said)


def _waste(totals: Row, users: list[Row], jobs: list[Row]) -> Iterator[Finding]:
    if not jobs or totals["wasted_share"] < MUCH_WASTE:
        return
    worst, job = max(users, key=lambda row: row["wasted_gpu_hours"]), jobs[0]
    wasted = f"{hours(totals['wasted_gpu_hours'])} that jobs held were idle"
    most = f"{hours(worst['wasted_gpu_hours'])} of {hours(worst['allocated_gpu_hours'])}"
    text = f"{wasted} ({percent(totals['wasted_share'])} of allocated), most of {worst['name'] or NOT_TOLD}: {most}."
    called = f"{job['job_id']} ({job['name']})" if job["name"] not in (None, job["job_id"]) else job["job_id"]
    action = (
        f"Begin with job {called} of {job['user'] or NOT_TOLD}: {hours(job['wasted_gpu_hours'])} idle of "
        f"{hours(job['allocated_gpu_hours'])}; `warpmeter report job --job {job['job_id']}` has its story."
    )
    yield Finding("warning", text, action)


def _idle(idle: list[Row]) -> Iterator[Finding]:
    if idle:
        text = (
            f"{count(idle[0]['of'], 'GPU')} did nothing for 95 % of the time or more, first of all "
            f"GPU {idle[0]['gpu']} of {idle[0]['host']} for {digits(idle[0]['idle_gpu_hours'])} hours."
        )
        yield Finding("info", text, "Give them to who waits, or switch them off.")


def _unmeasured(totals: Row) -> Iterator[Finding]:
    there = totals["available_gpu_hours"] + totals["unmeasured_gpu_hours"]
    if totals["unmeasured_gpu_hours"] > MUCH_UNMEASURED * there:
        part = percent(totals["unmeasured_gpu_hours"] / there)
        text = (
            f"{hours(totals['unmeasured_gpu_hours'])} ({part}) were not measured: "
            "hosts or their agents were silent, or GPUs missing. What jobs did meanwhile is not in this report."
        )
        yield Finding("warning", text, "The report host-health says which hosts were silent.")


def _change(trend: list[Row], period: Period) -> Iterator[Finding]:
    length = period.end - period.start
    by_start = {row["starts_at"]: row for row in trend}
    now, before = by_start.get(_stamp(period.start)), by_start.get(_stamp(period.start - length))
    if now is None or before is None:
        return
    for column, said in (
        ("gpu_util", "Utilisation"),
        ("sm_active", "SM activity"),
        ("allocated_gpu_hours", "Allocated GPU hours"),
        ("energy_kwh", "Energy"),
    ):
        old, new = before[column], now[column]
        if old and new is not None and abs(new / old - 1) >= MUCH_CHANGE:
            show = percent if column in ("gpu_util", "sm_active") else digits
            way = "rose" if new > old else "fell"
            yield Finding("info", f"{said} {way} from {show(old)} to {show(new)} against the period before.")


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _notes(totals: Row, price: Price, tables: Mapping[str, Table]) -> Iterator[str]:
    yield "Wasted: GPU hours that jobs held and in which the GPU was known to be below 5 %. Times are UTC."
    yield from unpriced(price)
    if all(row[0] is None for row in tables["teams"].rows):
        yield "No job told its team (account, team, queue or namespace)."
    if all(row[0] is None for row in tables["partitions"].rows):
        yield "No job told its partition (partition, queue or namespace)."
    known = totals["power_known_share"]
    if known is not None and known < 0.99:
        yield f"Power is known for {percent(known)} of the time; energy is that of this time alone."


def _sections(tables: Mapping[str, Table]) -> Iterator[Section]:
    yield Section(
        "By day", "", (_days(tables["days"], "days", "GPU hours by day"),), (Shown(tables["days"], TREND, 31),)
    )
    for by in ("user", "team", "partition"):
        table = tables[f"{by}s"]
        told = any(row[0] is not None for row in table.rows)
        yield Section(
            f"By {by}",
            "",
            (_owners(table, by),) if told else (),
            (Shown(table, OWNERS, 25, by.capitalize()),),
            "No job held a GPU.",
        )
    jobs = (Shown(tables["jobs_by_hours"], JOBS, 15), Shown(tables["jobs_by_waste"], JOBS, 15))
    yield Section("Top jobs", tables=jobs, nothing="No job held a GPU.")
    spread = tables["distribution"]
    bands = ("from_share", "to_share", "gpu_util_gpu_hours", "gpu_util_share", "sm_active_gpu_hours", "sm_active_share")
    yield Section("How busy GPUs were", "", (_distribution(spread),), (Shown(spread, bands, 10),))
    idle = ("host", "gpu", "model", "available_gpu_hours", "idle_gpu_hours", "idle_share", "power_watts")
    yield Section(
        "Idle GPUs", tables=(Shown(tables["idle_gpus"], idle, 20),), nothing="No GPU was idle for 95 % of the time."
    )
    failing = ("host", "gpu", "xids", "xid_reports", "uncorrected_errors", "remapped_rows", "held_back_hours")
    yield Section(
        "Failing GPUs", tables=(Shown(tables["failing_gpus"], failing, 30),), nothing="No GPU reported a fault."
    )
    yield Section(
        "Trend",
        "",
        (_days(tables["trend"], "trend", "GPU hours by period, this one last"),),
        (Shown(tables["trend"], TREND, 14),),
    )


def _days(table: Table, name: str, title: str) -> Figure:
    found = rows(table)
    places = [day_of(row["starts_at"]) for row in found]
    bars = [
        Series(kind.capitalize(), kind, [row[f"{kind}_gpu_hours"] for row in found])
        for kind in ("used", "wasted", "unknown", "free")
    ]
    bars = [series for series in bars if series.kind != "unknown" or any(series.values)]
    lines = [Series("Utilisation (right)", "sm_active", [row["gpu_util"] for row in found])]
    alt = "; ".join(
        f"{place}: {digits(row['used_gpu_hours'])} used, {digits(row['wasted_gpu_hours'])} wasted"
        for place, row in zip(places, found, strict=True)
    )
    return Figure(name, title, f"{title}: {alt}", figures.stacked(places, bars, "GPU hours", lines))


def _owners(table: Table, by: str) -> Figure:
    found = rows(table)[:12]
    names = [row["name"] or NOT_TOLD for row in found]
    bars = [
        Series(kind.capitalize(), kind, [row[f"{kind}_gpu_hours"] for row in found])
        for kind in ("used", "wasted", "unknown")
    ]
    bars = [series for series in bars if series.kind != "unknown" or any(series.values)]
    alt = "; ".join(
        f"{name}: {digits(row['used_gpu_hours'])} used, {digits(row['wasted_gpu_hours'])} wasted"
        for name, row in zip(names, found, strict=True)
    )
    return Figure(f"{by}s", f"GPU hours by {by}", f"GPU hours by {by}: {alt}", figures.across(names, bars, "GPU hours"))


def _distribution(table: Table) -> Figure:
    found = rows(table)
    places = [f"{100 * row['from_share']:.0f}-{100 * row['to_share']:.0f} %" for row in found]
    bars = [
        Series("GPU utilisation", "gpu_util", [row["gpu_util_share"] for row in found]),
        Series("SM activity", "sm_active", [row["sm_active_share"] for row in found]),
    ]
    title = "Share of GPU hours by how busy they were"
    alt = "; ".join(f"{place}: {share(row['gpu_util_share'])}" for place, row in zip(places, found, strict=True))
    return Figure("distribution", title, f"{title}: {alt}", figures.beside(places, bars, "of GPU hours", shares=True))
