"""`warpmeter report`: what is asked for becomes a report, which is printed or written."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import typer

from warpmeter.cli import common
from warpmeter.scheduler.reports import Asked, Period, Rendered, ReportError, render, write
from warpmeter.scheduler.reports.columns import label, said
from warpmeter.scheduler.reports.kinds import WEEK, Shown
from warpmeter.settings import Store
from warpmeter.terminal import printable

ROWS: Final = 10
"""Rows of each table that a terminal shows."""


@dataclass(frozen=True)
class Wanted:
    """What becomes of a report: files below `out`, JSON on stdout, a browser that opens it."""

    out: Path | None
    as_json: bool
    open_it: bool


def period(week: str | None, since: str | None, until: str | None) -> Period | None:
    """The period that options name; None: the report's own. Raises ReportError on two of a kind or what is no time."""
    if week is not None and (since is not None or until is not None):
        raise ReportError("--week names the whole period: leave --since and --until out, or --week")
    if week is not None:
        return None if week == "last" else week_of(week, datetime.now(UTC))
    if since is None and until is None:
        return None
    if since is None:
        raise ReportError("--until needs --since: from when on?")
    return Period(_at(since), _at(until or "now"))


def week_of(text: str, now: datetime) -> Period:
    """`current`, `2026-W48`, or a day in it. Raises ReportError on what is none."""
    try:
        text = f"{now.astimezone(UTC):%Y-%m-%d}" if text == "current" else text
        year, _, week = text.upper().partition("-W")
        found = date.fromisocalendar(int(year), int(week), 1) if week else date.fromisoformat(text)
        monday = found - timedelta(days=found.weekday())
        start = datetime(monday.year, monday.month, monday.day, tzinfo=UTC)
        return Period(start, start + WEEK)
    except (ValueError, OverflowError):
        raise ReportError(f"{text!r} is no week: write last, current, 2026-W48, or a day in it as 2026-11-23") from None


def _at(text: str) -> datetime:
    return datetime.fromtimestamp(common.moment(text), UTC)


def formats(text: str) -> tuple[str, ...]:
    """`html,csv` as a tuple."""
    return tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))


def make(store: Store, asked: Asked, wanted: Wanted) -> None:
    """Render, and print or write. Raises ReportError, ClickHouseError, OSError."""
    with common.err.status(f"Making the report {asked.report}…"):
        rendered = render(store, asked)
    folder = write(rendered, wanted.out) if wanted.out is not None else None
    if wanted.as_json:
        common.print_json(_as_json(rendered, folder))
    elif folder is None:
        _print(rendered)
    else:
        _written(rendered, folder)
    if wanted.open_it and folder is not None:
        typer.launch(str(folder / "report.html"))


def _as_json(rendered: Rendered, folder: Path | None) -> dict[str, Any]:
    return {
        "report": rendered.report,
        "subject": rendered.subject,
        "title": rendered.title,
        "since": rendered.period.start,
        "until": rendered.period.end,
        "summary": rendered.summary,
        "empty": rendered.empty,
        "findings": rendered.findings,
        "tables": {
            table.name: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in rendered.tables
        },
        "folder": None if folder is None else str(folder),
        "files": sorted(rendered.files) if folder is not None else [],
    }


def _print(rendered: Rendered) -> None:
    common.out.print(printable(rendered.text), markup=False, highlight=False, soft_wrap=True)
    for shown in rendered.shown:
        _table(shown)
    hint = "--out DIR writes the page, CSV and Parquet of every table, and the figures; --json has all rows."
    common.err.print(hint, style="dim", highlight=False)


def _table(shown: Shown) -> None:
    table = shown.table
    if not table.rows:
        return
    places = [table.columns.index(column) for column in shown.columns if column in table.columns]
    rows: Sequence[Sequence[str]] = [
        [said(table.columns[at], row[at]) for at in places] for row in table.rows[: min(ROWS, shown.most)]
    ]
    more = f" ({len(rows)} of {len(table.rows)})" if len(rows) < len(table.rows) else ""
    common.print_table(f"{table.title}{more}", [label(table.columns[at]) for at in places], rows)


def _written(rendered: Rendered, folder: Path) -> None:
    common.out.print(printable(rendered.summary), markup=False, highlight=False, soft_wrap=True)
    for finding in rendered.findings:
        common.out.print(
            f"- [{finding.severity}] {printable(finding.text)}", markup=False, highlight=False, soft_wrap=True
        )
    page = folder / "report.html" if "report.html" in rendered.files else folder
    common.out.print(f"{len(rendered.files)} files: {page}", markup=False, highlight=False, soft_wrap=True)
