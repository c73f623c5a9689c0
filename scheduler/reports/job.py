"""The report job: everything about one job, from its first hour to its last."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Final

from warpmeter import regressions
from warpmeter.analysis.words import count, digits, duration, percent
from warpmeter.scheduler.reports import figures
from warpmeter.scheduler.reports.asking import Asker
from warpmeter.scheduler.reports.columns import longest
from warpmeter.scheduler.reports.document import Document, Figure, Section, Tile, priced
from warpmeter.scheduler.reports.figures import Series
from warpmeter.scheduler.reports.kinds import Asked, Finding, Period, Price, ReportError, Shown, Table
from warpmeter.scheduler.reports.telling import Row, hours, money, rows, share, some, unpriced, worst_first

MUCH_WASTE, MUCH_SLOWER = 0.1, 0.1
"""Shares that make a finding: of its GPU hours wasted, of activity lost against its past runs."""
BY_MINUTE: Final = timedelta(hours=12)
"""A job that ran no longer is shown minute by minute, where minutes are kept."""
COMPARE: Final = "Compare a capture of this run with one before: `warpmeter analyze NEW --diff OLD`."
STEPS: Final = 400
"""Steps of the time line at most."""


def life(asker: Asker, job_id: str) -> Period:
    """From its start until it ended or was last heard of. Raises ReportError where no job is called so."""
    found = rows(asker.table("job_life", "life", "Life", job_id=job_id))
    if not found:
        raise ReportError(
            f"no job is called {job_id!r}: `warpmeter queries jobs_listed` lists those there are, by their id"
        )
    start, end = (datetime.fromisoformat(found[0][name]).replace(tzinfo=UTC) for name in ("started_at", "last_seen_at"))
    return Period(start, max(start, end) + timedelta(seconds=1))  # the hour that its last word begins is its own


def document(asker: Asker, asked: Asked, period: Period) -> Document:
    """The whole report; of a job without GPUs what there is of it."""
    tables = {table.name: priced(table, asked.price) for table in _ask(asker, asked, period)}
    if not tables["job"].rows:
        life(asker, asked.subject)
    totals = rows(tables["job"])[0]
    called = f"{asked.subject} ({totals['name']})" if totals["name"] not in (None, asked.subject) else asked.subject
    return Document(
        title=f"Job {called}",
        subtitle=_subtitle(totals, period),
        summary=_summary(totals, asked.price),
        tiles=tuple(_tiles(totals, asked.price)),
        findings=worst_first(_findings(tables, totals)),
        sections=tuple(_sections(tables)),
        notes=(
            "Wasted: GPU hours in which the GPU was known to be below 5 %; jobs on a GPU share its time. Times: UTC.",
            *unpriced(asked.price),
        ),
        more_tables=(tables["job"],),
        currency=asked.price.currency,
    )


def _ask(asker: Asker, asked: Asked, period: Period) -> Iterator[Table]:
    yield asker.table("job_totals", "job", "The job")
    yield _timeline(asker, period)
    yield asker.table("job_hosts", "hosts", "Hosts")
    yield asker.table("job_ranks", "ranks", "Processes and ranks")
    yield asker.table("job_gpus", "gpus", "GPUs")
    yield asker.table("job_past", "past_runs", "This run and those before it")
    yield asker.table("captures_list", "captures", "Captures", job_id=asked.subject)
    yield asker.table("captures_findings", "capture_findings", "What captures found", job_id=asked.subject)
    yield asker.table("captures_kernels", "capture_kernels", "Kernels", job_id=asked.subject, limit=15)
    yield asker.table("captures_stragglers", "stragglers", "Ranks that others waited for", job_id=asked.subject)
    yield _regressions(asker, asked.subject, period)
    yield asker.table("alerts_of", "alerts", "Alerts", job_id=asked.subject)
    yield asker.table("job_xids", "xids", "XIDs on its GPUs")


def _regressions(asker: Asker, job_id: str, period: Period) -> Table:
    since, until = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (period.start, period.end))
    found = regressions.found(asker.client, regressions.Asked(since, until, job_id=job_id))
    columns = dict.fromkeys(("sort", "since_at", "since_job", "runs", "change_share", "text"), "String")
    columns |= {"runs": "UInt32", "change_share": "Float64"}
    rows = tuple(
        (each.sort, f"{each.since:%Y-%m-%d %H:%M:%S}", each.since_job, each.runs, round(each.change, 6), each.text)
        for each in found
    )
    caption = "Did it get slower, than its runs of the 28 days before (between_runs) or than it was (within_run)?"
    return Table("regressions", "Regressions", caption, tuple(columns), rows, tuple(columns.values()))


def _timeline(asker: Asker, period: Period) -> Table:
    if period.end - period.start <= BY_MINUTE:
        found = asker.table("job_timeline", "timeline", "Time line", windows="job_windows_1m", step_s=60)
        if found.rows:
            return found
    each = max(1, round(period.hours / STEPS))
    return asker.table("job_timeline", "timeline", "Time line", windows="job_windows_1h", step_s=3600 * each)


def _subtitle(totals: Row, period: Period) -> str:
    who = [f"{name} {totals[name]}" for name in ("user", "team", "partition", "scheduler") if totals[name]]
    return f"{', '.join(who) or 'owner not told'}. {period}."


def _summary(totals: Row, price: Price) -> str:
    ran = f"{longest(totals['duration_seconds'])} on {count(len(totals['hosts']), 'host')}"
    state = {"running": f"has run for {ran}", "lost": f"ran for {ran} until nothing was heard of it any more"}
    said = f"It {state.get(totals['state'], f'ran for {ran}')}"
    if not totals["allocated_gpu_hours"]:
        return f"{said}. No GPU was seen to be held by it."
    said += f", and held {count(totals['gpus'], 'GPU')} for {hours(totals['allocated_gpu_hours'])}"
    said += f", of which {hours(totals['wasted_gpu_hours'])} ({percent(totals['wasted_share'])}) were idle"
    if price.per_gpu_hour is not None:
        said += f", worth {money(totals['wasted_cost'], price)}"
    return said + "."


def _tiles(totals: Row, price: Price) -> Iterator[Tile]:
    yield Tile("Ran", longest(totals["duration_seconds"]), str(totals["state"]))
    if totals["allocated_gpu_hours"]:
        yield Tile("Allocated", hours(totals["allocated_gpu_hours"]), count(totals["gpus"], "GPU"))
        yield Tile("Wasted", hours(totals["wasted_gpu_hours"]), f"{percent(totals['wasted_share'])} of allocated")
        yield Tile("Utilisation", share(totals["gpu_util"]), f"SM active {share(totals['sm_active'])}")
        yield Tile("Tensor active", share(totals["tensor_active"]), f"DRAM active {share(totals['dram_active'])}")
        energy = totals["energy_kwh"]
        power = "" if energy is None else f"{digits(totals['power_watts'])} W a GPU"
        yield Tile("Energy", "not known" if energy is None else f"{digits(energy)} kWh", power)
    if totals["cpu_cores"] is not None:
        yield Tile("CPU", f"{digits(totals['cpu_cores'])} cores", "mean of a host's trees")
    if price.per_kwh is not None and totals["energy_cost"] is not None:
        yield Tile("Cost of energy", money(totals["energy_cost"], price))
    if price.per_gpu_hour is not None and totals["allocated_cost"]:
        yield Tile(
            "Cost of allocated GPUs",
            money(totals["allocated_cost"], price),
            f"waste {money(totals['wasted_cost'], price)}",
        )


def _findings(tables: Mapping[str, Table], totals: Row) -> Iterator[Finding]:
    yield from _faults(tables, totals)
    if totals["allocated_gpu_hours"] and totals["wasted_share"] >= MUCH_WASTE:
        wasted, held = hours(totals["wasted_gpu_hours"]), hours(totals["allocated_gpu_hours"])
        text = f"{wasted} of {held} were idle ({percent(totals['wasted_share'])})."
        yield Finding("warning", text, "The time line shows when; a capture of an idle phase shows what it waits for.")
    worse = rows(tables["regressions"])
    for found in worse:
        yield Finding("warning", found["text"], COMPARE)
    if not worse:
        yield from _slower(rows(tables["past_runs"]))
    yield from _uneven(rows(tables["hosts"]))
    for found in rows(tables["stragglers"])[:1]:
        cause = f", by {str(found['cause']).replace('_', ' ')}" if found["cause"] else ""
        text = (
            f"Rank {found['rank']} on {found['host']} kept the others waiting: it came last to "
            f"{found['times_last']} of {found['collectives']} collectives, {duration(found['late_ns'])} late{cause}."
        )
        yield Finding("warning", text, f"It cost {duration(found['cost_ns'])} in capture {found['capture_id']}.")
    for found in rows(tables["capture_findings"])[:3]:
        yield Finding("info", f"Captures: {found['text']}", found["advice"] or "")


def _faults(tables: Mapping[str, Table], totals: Row) -> Iterator[Finding]:
    if xids := rows(tables["xids"]):
        said = some(f"XID {row['xid']} on GPU {row['gpu']} of {row['host']}" for row in xids)
        yield Finding(
            "critical", f"GPUs reported faults while the job was on them: {said}.", "Drain them and run diagnostics."
        )
    if totals["hosts_lost"]:
        text = f"Its last word on {some(totals['hosts_lost'])} was not that it ended: host or agent went silent."
        yield Finding(
            "critical", text, "Was the host taken down, or out of memory? Its last samples and kernel log tell."
        )
    fired = [row for row in rows(tables["alerts"]) if row["severity"] == "critical"]
    if fired:
        text = f"{count(len(fired), 'critical alert')}, first of all: {fired[0]['summary']}"
        yield Finding("critical", text)
    if slow := [row for row in rows(tables["gpus"]) if row["held_back_hours"]]:
        most = max(slow, key=lambda row: row["held_back_hours"])
        worst = f"GPU {most['gpu']} of {most['host']}"
        text = f"Heat, a power brake or the hardware held back {count(len(slow), 'GPU')}, most of all {worst}."
        yield Finding("warning", text, "Look at cooling and power of these hosts.")


def _slower(runs: list[Row]) -> Iterator[Finding]:
    """This run, which is the first, against the median of those before it."""
    for column, said, show in (("sm_active", "SM activity", percent), ("step_p50_ns", "The median step", duration)):
        now, before = runs[0][column] if runs else None, [run[column] for run in runs[1:] if run[column]]
        if not now or not before:
            continue
        usual = median(before)
        worse = 1 - now / usual if column == "sm_active" else now / usual - 1
        if worse >= MUCH_SLOWER:
            runs_before = count(len(before), "earlier run")
            text = f"{said} was {show(now)}, against {show(usual)} in the median of {runs_before} of the same name."
            yield Finding("warning", text, COMPARE)


def _uneven(hosts: list[Row]) -> Iterator[Finding]:
    known = sorted((row for row in hosts if row["sm_active"] is not None), key=lambda row: float(row["sm_active"]))
    if len(known) >= 3:
        usual = median(row["sm_active"] for row in known)
        if usual and known[0]["sm_active"] < (1 - MUCH_SLOWER) * usual:
            least = f"SM activity {percent(known[0]['sm_active'])}, against a median of {percent(usual)}"
            text = f"Host {known[0]['host']} did less than the others: {least}."
            yield Finding("warning", text, "Look at its clocks, links and other jobs.")


def _sections(tables: Mapping[str, Table]) -> Iterator[Section]:
    over_time = tables["timeline"]
    used = [row for row in rows(over_time) if row["gpu_util"] is not None or row["sm_active"] is not None]
    steps = ("starts_at", "gpus", "wasted_share", "gpu_util", "sm_active", "tensor_active", "power_watts", "cpu_cores")
    yield Section(
        "Time line",
        "",
        (_use(used),) if used else (),
        (Shown(over_time, steps, 12),),
        "Nothing was measured of it in whole hours.",
    )
    past = ("job_id", "started_at", "duration_seconds", "gpus", "allocated_gpu_hours", "wasted_share", "gpu_util",
            "sm_active", "tensor_active", "step_p50_ns")  # fmt: skip
    worse = ("sort", "since_at", "since_job", "runs", "change_share", "text")
    compared = (Shown(tables["regressions"], worse), Shown(tables["past_runs"], past, 11))
    yield Section("Against earlier runs", tables=compared, nothing="The job told no name.")
    host = ("host", "allocated_gpu_hours", "wasted_gpu_hours", "wasted_share", "gpu_util", "sm_active", "power_watts",
            "fb_used_bytes", "cpu_cores", "rss_bytes")  # fmt: skip
    yield Section("Hosts", tables=(Shown(tables["hosts"], host, 25),), nothing="Nothing was measured of its hosts.")
    gpu = ("host", "gpu", "available_gpu_hours", "idle_gpu_hours", "gpu_util", "sm_active", "power_watts",
           "temperature_celsius", "held_back_hours")  # fmt: skip
    xid = ("host", "gpu", "xid", "what", "first_at", "last_at", "reports")
    shown = (Shown(tables["gpus"], gpu, 32), Shown(tables["xids"], xid))
    yield Section("GPUs", tables=shown, nothing="It held no GPU that is known.")
    rank = (
        "host",
        "pid",
        "ranks",
        "state",
        "started_at",
        "ended_at",
        "gpus",
        "cpu_cores",
        "rss_bytes",
        "gpu_memory_bytes",
    )
    yield Section("Processes", tables=(Shown(tables["ranks"], rank, 32),), nothing="No process is known.")
    yield Section("Captures", tables=tuple(captured(tables)), nothing="The job was not captured.")
    alert = ("started_at", "rule", "severity", "state", "summary", "value", "unit", "resolved_at")
    yield Section("Alerts", tables=(Shown(tables["alerts"], alert, 25),), nothing="There was no alert of it.")


def captured(tables: Mapping[str, Table]) -> Iterator[Shown]:
    """What captures are shown by, in the report of a job and in that of captures."""
    one = ("capture_id", "requested_at", "requested_by", "state", "why", "captured", "analysed", "step_p50_ns",
           "busy_share", "exposed_communication_share", "top_kernel")  # fmt: skip
    yield Shown(tables["captures"], one, 20)
    yield Shown(tables["capture_findings"], ("finding", "text", "advice", "captures", "jobs", "ranks", "cost_ns"), 15)
    yield Shown(
        tables["capture_kernels"], ("kernel", "sort", "captures", "launches", "total_ns", "share", "mean_ns"), 15
    )
    late = ("capture_id", "rank", "host", "times_last", "collectives", "late_ns", "cost_ns", "cause")
    yield Shown(tables["stragglers"], late, 15)


def _use(steps: list[Row]) -> Figure:
    first = datetime.fromisoformat(steps[0]["starts_at"])
    at = [(datetime.fromisoformat(row["starts_at"]) - first).total_seconds() / 3600 for row in steps]
    named = (("Utilisation", "gpu_util"), ("SM active", "sm_active"), ("Tensor active", "tensor_active"))
    lines = [Series(name, kind, [row[kind] for row in steps]) for name, kind in named]
    lines = [line for line in lines if any(value is not None for value in line.values)]
    known = [row["gpu_util"] for row in steps if row["gpu_util"] is not None]
    alt = f"Use of its GPUs over {digits(at[-1])} hours" + (
        f": {percent(min(known))} to {percent(max(known))} utilisation" if known else ""
    )
    return Figure(
        "timeline", "Use of its GPUs", alt, figures.over_time(at, lines, f"hours since {first:%Y-%m-%d %H:%M} UTC")
    )
