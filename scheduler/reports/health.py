"""The report host-health: what fails, is missing, slow, silent or off in the fleet's hosts."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from warpmeter.analysis.words import count, digits
from warpmeter.scheduler.reports import figures
from warpmeter.scheduler.reports.asking import Asker
from warpmeter.scheduler.reports.document import Document, Figure, Section, Tile
from warpmeter.scheduler.reports.figures import Series
from warpmeter.scheduler.reports.kinds import Asked, Finding, Period, Shown, Table
from warpmeter.scheduler.reports.telling import hours, measured, part_of, rows, some, when, worst_first

RESET_NEEDED: Final = (48, 62, 63, 64, 74, 79, 92, 94, 95, 109, 119, 120, 140, 154)
"""XIDs after which NVIDIA asks for a reset or diagnostics rather than a look at the program
(https://docs.nvidia.com/deploy/xid-errors)."""

_TABLES: Final = (
    ("health_xids", "xids", "XIDs"),
    ("health_memory", "memory_errors", "Memory errors"),
    ("health_throttled", "held_back", "GPUs that were held back"),
    ("health_missing_gpus", "missing_gpus", "Missing GPUs"),
    ("health_links", "links", "Slow or faulty links"),
    ("health_clocks", "clocks", "Clocks that are off"),
    ("health_silent_hosts", "silent_hosts", "Silent hosts"),
    ("health_sources", "sources", "Failing sources"),
)


def document(asker: Asker, asked: Asked, period: Period) -> Document:  # noqa: ARG001 - the form that all reports have
    """The whole report; one that says so where nothing was measured."""
    until = asker.know_until(period).hosts
    tables = {name: asker.table(question, name, title) for question, name, title in _TABLES}
    tables["totals"] = asker.table("health_totals", "totals", "Totals")
    totals = rows(tables["totals"])[0]
    title = f"Host health: {when(period)}"
    if not totals["hosts"] and not totals["gpus"]:
        said = f"No host was heard of from {period}."
        action = "Is the period right? Do agents run, and does ingest (`warpmeter status`)?"
        if (first := asker.first_measured()) is not None and first >= period.end:
            action = f"The first sample is of {first:%Y-%m-%d %H:%M} UTC: try --week current or --since 1h."
        return Document(
            title=title, subtitle=str(period), summary=said, findings=(Finding("critical", said, action),),
            more_tables=tuple(tables.values()), empty=True,
        )  # fmt: skip
    findings = worst_first(_findings(tables, period, until))
    return Document(
        title=title,
        subtitle=f"{measured(period, until)}. {count(totals['hosts'], 'host')}, {count(totals['gpus'], 'GPU')}.",
        summary=_summary(tables, findings),
        tiles=tuple(_tiles(tables)),
        findings=findings,
        sections=tuple(_sections(tables)),
        notes=(
            "Times are UTC. Failing sources and steps of clocks come from raw rows, kept for 14 days by default; "
            "network links are looked at in the last hour of the period.",
        ),
        more_tables=(tables["totals"],),
    )


def _summary(tables: Mapping[str, Table], findings: tuple[Finding, ...]) -> str:
    if not findings:
        return "Nothing stands out: no fault, nothing missing, slow or silent."
    bad = {
        (row["host"], row["gpu"]) for name in ("xids", "memory_errors", "missing_gpus") for row in rows(tables[name])
    }
    silent = len(tables["silent_hosts"].rows)
    return f"{count(len(bad), 'GPU')} with faults or missing, {count(silent, 'host')} silent for a while."


def _tiles(tables: Mapping[str, Table]) -> Iterator[Tile]:
    xids = rows(tables["xids"])
    yield Tile(
        "GPUs with XIDs",
        str(len({(row["host"], row["uuid"]) for row in xids})),
        f"{sum(row['standing'] for row in xids)} stand",
    )
    memory = rows(tables["memory_errors"])
    bad = sum(row["uncorrected_errors"] > 0 for row in memory)
    yield Tile("GPUs with memory errors", str(len(memory)), f"{bad} with uncorrectable ones")
    named = {"held_back": "GPUs held back", "missing_gpus": "Missing GPUs", "links": "Slow or faulty links"}
    for name, label in (named | {"silent_hosts": "Silent hosts"}).items():
        yield Tile(label, str(len(tables[name].rows)))


def _findings(tables: Mapping[str, Table], period: Period, until: datetime | None) -> Iterator[Finding]:
    yield from _faults(tables)
    if missing := rows(tables["missing_gpus"]):
        worst = missing[0]
        why = f" ({worst['why']})" if worst["why"] else ""
        first = f"GPU {worst['gpu']} of {worst['host']} for {hours(worst['missing_gpu_hours'])}{why}"
        text = f"{count(len(missing), 'GPU')} missing while the host was there, first of all {first}."
        yield Finding("critical", text, "Reset or replace them; a GPU that left on purpose is forgotten after 28 days.")
    if silent := rows(tables["silent_hosts"]):
        longest = f"{silent[0]['host']} for {digits(silent[0]['silent_hours'])} hours"
        text = f"{count(len(silent), 'host')} silent for a while, first of all {longest}."
        yield Finding("warning", text, "Is the host up, and its agent (`warpmeter doctor` there)?")
    if slow := rows(tables["held_back"]):
        seen = part_of(slow[0]["held_back_hours"], period, until, slow[0]["held_back_minutes"])
        most = f"GPU {slow[0]['gpu']} of {slow[0]['host']} {seen}"
        text = f"Heat, a power brake or the hardware held back {count(len(slow), 'GPU')}, most of all {most}."
        yield Finding("warning", text, "Look at cooling and power of these hosts.")
    yield from _off(tables)


def _faults(tables: Mapping[str, Table]) -> Iterator[Finding]:
    xids = rows(tables["xids"])
    if hard := [row for row in xids if row["xid"] in RESET_NEEDED]:
        said = some(f"XID {row['xid']} on GPU {row['gpu']} of {row['host']}" for row in hard)
        yield Finding(
            "critical", f"GPUs reported XIDs that call for a reset or diagnostics: {said}.", "Drain these hosts first."
        )
    if soft := [row for row in xids if row["xid"] not in RESET_NEEDED]:
        said = some(f"XID {row['xid']} on GPU {row['gpu']} of {row['host']}" for row in soft)
        yield Finding(
            "warning",
            f"GPUs reported other XIDs: {said}.",
            "These are mostly the programs' own faults: ask the jobs' owners.",
        )
    if memory := [row for row in rows(tables["memory_errors"]) if row["uncorrected_errors"] or row["remapped_rows"]]:
        worst = memory[0]
        text = (
            f"Memory fails on {count(len(memory), 'GPU')}, first of all GPU {worst['gpu']} of {worst['host']}: "
            f"{count(worst['uncorrected_errors'], 'uncorrectable error')}, "
            f"{count(worst['remapped_rows'], 'row')} remapped."
        )
        yield Finding("critical", text, "Reset them so that rows are remapped; replace those that fail again.")


def _off(tables: Mapping[str, Table]) -> Iterator[Finding]:
    if links := rows(tables["links"]):
        said = some(f"{row['link']} of {row['host']} ({row['what']}: {digits(row['value'])})" for row in links)
        yield Finding(
            "warning",
            f"Slow or faulty links: {said}.",
            "Reseat or replace them; jobs over several hosts wait for the slowest.",
        )
    if clocks := rows(tables["clocks"]):
        said = some(row["host"] for row in clocks)
        yield Finding(
            "warning",
            f"Clocks are off or were stepped on {said}.",
            "Let chrony or ntpd run there: captures of several hosts are joined by time.",
        )
    if sources := rows(tables["sources"]):
        worst = sources[0]
        text = f"Source {worst['source']} {worst['state']} on {count(worst['hosts'], 'host')}: {worst['why']}"
        more = len(sources) - 1
        yield Finding(
            "info",
            text + (f"; and {more} other failures." if more else ""),
            "`warpmeter doctor` on such a host says what to do.",
        )


_SHOWN: Final[Mapping[str, tuple[str, str]]] = {
    "xids": ("host gpu xid what reports first_at last_at standing", "No GPU reported an XID."),
    "memory_errors": ("host gpu corrected_errors uncorrected_errors remapped_rows", "No memory error was added."),
    "held_back": (
        "host gpu held_back_hours held_back_minutes heat_minutes power_brake_minutes hardware_minutes heat_hours "
        "power_brake_hours hardware_hours",
        "No GPU was held back.",
    ),
    "missing_gpus": ("host gpu missing_gpu_hours available_gpu_hours last_seen_at why", "No GPU was missing."),
    "links": ("host link what value usual", "No link was slow or had errors."),
    "clocks": ("host clock_skew_ms steps why first_at last_at", "No clock was seen to be off."),
    "silent_hosts": ("host silent_hours heard_hours first_seen_at last_seen_at", "No host was silent."),
    "sources": ("source state why hosts subjects reports first_at last_at", "No source failed."),
}
"""Of each table the columns that are shown, and what is said where it has no row."""


def _sections(tables: Mapping[str, Table]) -> Iterator[Section]:
    for name, (columns, nothing) in _SHOWN.items():
        pictures = (_silent(tables[name]),) if name == "silent_hosts" and tables[name].rows else ()
        yield Section(tables[name].title, "", pictures, (Shown(tables[name], tuple(columns.split()), 40),), nothing)


def _silent(table: Table) -> Figure:
    found = rows(table)[:12]
    bars = [
        Series("Silent", "wasted", [row["silent_hours"] for row in found]),
        Series("Heard of", "used", [row["heard_hours"] for row in found]),
    ]
    alt = "; ".join(f"{row['host']}: {digits(row['silent_hours'])} hours silent" for row in found)
    return Figure(
        "silent_hosts",
        "Silent hosts",
        f"Hours that hosts were silent: {alt}",
        figures.across([row["host"] for row in found], bars, "hours"),
    )
