"""The report captures: what was asked for, what traces showed, and what failed and why."""

from collections.abc import Iterator, Mapping

from warpmeter.analysis.words import count, duration, percent
from warpmeter.scheduler.reports.asking import Asker
from warpmeter.scheduler.reports.document import Document, Section, Tile
from warpmeter.scheduler.reports.job import captured
from warpmeter.scheduler.reports.kinds import Asked, Finding, Period, Shown, Table
from warpmeter.scheduler.reports.telling import Row, rows, when, worst_first


def document(asker: Asker, asked: Asked, period: Period) -> Document:  # noqa: ARG001 - the form that all reports have
    """The whole report; one that says so where nothing was captured."""
    tables = {table.name: table for table in _ask(asker)}
    asked_for = rows(tables["captures"])
    title = f"Captures: {when(period)}"
    if not asked_for and not tables["capture_kernels"].rows:
        said = f"No capture was asked for from {period}."
        action = "`warpmeter capture JOB` takes one; schedules and triggers take them by themselves."
        return Document(
            title=title, subtitle=str(period), summary=said, findings=(Finding("info", said, action),),
            more_tables=tuple(tables.values()), empty=True,
        )  # fmt: skip
    jobs = len({row["job_id"] for row in asked_for if row["job_id"]})
    return Document(
        title=title,
        subtitle=f"{period}. {count(len(asked_for), 'capture')} of {count(jobs, 'job')}.",
        summary=_summary(asked_for, tables),
        tiles=tuple(_tiles(asked_for)),
        findings=worst_first(_findings(tables, asked_for)),
        sections=tuple(_sections(tables)),
        notes=("Findings, kernels and stragglers are of every trace of the period, whoever loaded it. Times are UTC.",),
    )


def _ask(asker: Asker) -> Iterator[Table]:
    yield asker.table("captures_list", "captures", "Captures", job_id="")
    yield asker.table("captures_findings", "capture_findings", "What they found", job_id="")
    yield asker.table("captures_kernels", "capture_kernels", "Kernels that took most GPU time", job_id="")
    yield asker.table("captures_stragglers", "stragglers", "Ranks that others waited for", job_id="")
    yield asker.table("captures_failed", "failed", "What failed, and why")
    yield asker.table("alerts_captured", "triggered", "Captures that alerts asked for")


def _summary(asked: list[Row], tables: Mapping[str, Table]) -> str:
    whole = sum(row["analysed"] > 0 for row in asked)
    lost = sum(_failed(row) for row in asked)
    said = f"{count(len(asked), 'capture')} asked for, {whole} with an analysed trace, {lost} without any."
    if found := rows(tables["capture_findings"]):
        said += f" What cost most: {found[0]['text']}"
    return said


def _failed(row: Row) -> bool:
    """Ended, and not one trace came of it."""
    return row["state"] in ("ended", "lost") and row["captured"] == 0


def _tiles(asked: list[Row]) -> Iterator[Tile]:
    yield Tile("Asked for", str(len(asked)), "captures")
    yield Tile(
        "Traced",
        f"{sum(row['captured'] for row in asked):,}",
        f"of {sum(row['processes'] for row in asked):,} processes",
    )
    yield Tile("Analysed", f"{sum(row['analysed'] for row in asked):,}", "processes")
    yield Tile("Without a trace", str(sum(_failed(row) for row in asked)), "captures")


def _findings(tables: Mapping[str, Table], asked: list[Row]) -> Iterator[Finding]:
    if failed := rows(tables["failed"]):
        worst = failed[0]
        reason = str(worst["reason"]).replace("_", " ")
        text = f"{count(worst['captures'], 'capture')} with a failure by {reason}: {worst['why']}"
        yield Finding("warning" if any(map(_failed, asked)) else "info", text)
    for late in rows(tables["stragglers"])[:1]:
        where = f"in capture {late['capture_id']}"
        text = f"Rank {late['rank']} on {late['host']} cost the others {duration(late['cost_ns'])} {where}."
        yield Finding("warning", text, f"Cause: {str(late['cause']).replace('_', ' ')}." if late["cause"] else "")
    for found in rows(tables["capture_findings"])[:5]:
        seen = f"{count(found['captures'], 'capture')} of {count(found['jobs'], 'job')}"
        where = f"In {seen}; worst in {found['worst_capture']}."
        yield Finding("info", str(found["text"]), f"{found['advice'] or ''} {where}".strip())
    for kernel in rows(tables["capture_kernels"])[:1]:
        yield Finding("info", f"Kernel {kernel['kernel']} took {percent(kernel['share'])} of all GPU time of kernels.")


def _sections(tables: Mapping[str, Table]) -> Iterator[Section]:
    shown = {each.table.name: each for each in captured(tables)}
    listed = shown["captures"]
    listed = Shown(listed.table, ("capture_id", "job_id", *listed.columns[1:]), 40)
    yield Section("Captures", tables=(listed,), nothing="None was asked for; traces were loaded by hand.")
    failed = Shown(tables["failed"], ("of", "reason", "why", "captures", "times", "hosts", "example"), 30)
    yield Section("What failed, and why", tables=(failed,), nothing="Nothing failed.")
    for name, nothing in (
        ("capture_findings", "No trace had a finding."),
        ("capture_kernels", "No kernel was traced."),
        ("stragglers", "No rank kept the others waiting."),
    ):
        yield Section(shown[name].table.title, tables=(shown[name],), nothing=nothing)
    alerts = Shown(tables["triggered"], ("started_at", "rule", "severity", "summary", "capture_id", "findings"), 25)
    yield Section("Captures that alerts asked for", tables=(alerts,), nothing="No alert asked for one.")
