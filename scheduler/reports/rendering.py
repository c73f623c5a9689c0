"""A report from the store: questions, findings, figures, pages and files."""

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from warpmeter.scheduler.reports import captures, fleet, health, job, page
from warpmeter.scheduler.reports.asking import Asker, as_csv
from warpmeter.scheduler.reports.document import Document
from warpmeter.scheduler.reports.kinds import WEEK, Asked, Period, Rendered
from warpmeter.settings import Store
from warpmeter.store import client

_MAKERS: Final[Mapping[str, Callable[[Asker, Asked, Period], Document]]] = {
    "fleet-weekly": fleet.document,
    "job": job.document,
    "host-health": health.document,
    "captures": captures.document,
}


def render(store: Store, asked: Asked, now: datetime | None = None) -> Rendered:
    """The report that was asked for.

    `now`: tells which week is the last whole one, and whether rows of the period still come in. Raises ReportError (an
    unknown job), ClickHouseError.
    """
    now = now or datetime.now(UTC)
    asker = Asker(client(store), {}, now, bool(store.cluster))
    period = asked.period or (job.life(asker, asked.subject) if asked.subject else last_week(now))
    period = period.whole_hours()
    asker.common = _common(asked, period)
    document = _MAKERS[asked.report](asker, asked, period)
    stem = name(asked, period)
    html = page.page(document)
    mail, inline = page.mail(document, stem)
    return Rendered(
        report=asked.report,
        period=period,
        subject=asked.subject,
        stem=stem,
        title=_one_line(document.title),
        summary=_one_line(document.summary),
        findings=document.findings,
        tables=document.tables,
        shown=document.shown,
        html=html,
        mail_html=mail,
        inline=inline,
        text=page.text(document),
        files=_files(asker, asked, document, html),
        empty=document.empty,
    )


def last_week(now: datetime) -> Period:
    """The last whole week, from Monday to Monday in UTC."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    end = midnight - timedelta(days=midnight.weekday())
    return Period(end - WEEK, end)


def name(asked: Asked, period: Period) -> str:
    """What the report's folder is called: `fleet-weekly-2026-W48`, `job-4711`, `captures-20261101T00-20261105T12`."""
    if asked.subject:
        plain = re.sub(r"[^\w.-]+", "_", asked.subject)[:80].strip(".")
        told = plain if plain == asked.subject else f"{plain}-{hashlib.sha256(asked.subject.encode()).hexdigest()[:8]}"
        return f"{asked.report}-{told}" + ("" if asked.period is None else f"-{_span(period)}")
    return f"{asked.report}-{_span(period)}"


def _span(period: Period) -> str:
    year, week, day = period.start.isocalendar()
    if day == 1 and period.start.hour == 0 and period.end - period.start == WEEK:
        return f"{year}-W{week:02}"
    return f"{period.start:%Y%m%dT%H}-{period.end:%Y%m%dT%H}"


def _one_line(text: str) -> str:
    """For a mail's subject, a chat's line: whoever starts a job names it, and may put line breaks there."""
    return "".join(each if each.isprintable() else " " for each in text)


def _common(asked: Asked, period: Period) -> dict[str, str | float | datetime | None]:
    return {
        "since": period.start,
        "until": period.end,
        "price_per_kwh": asked.price.per_kwh,
        "price_per_gpu_hour": asked.price.per_gpu_hour,
        "job_id": asked.subject,
    }


def _files(asker: Asker, asked: Asked, document: Document, html: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    if "html" in asked.formats:
        files["report.html"] = html.encode()
    for table in document.tables:
        if "csv" in asked.formats:
            files[f"tables/{table.name}.csv"] = as_csv(table)
        if "parquet" in asked.formats:
            files[f"tables/{table.name}.parquet"] = asker.parquet(table)
    if "png" in asked.formats:
        files |= {f"figures/{figure.name}.png": figure.png for figure in document.figures}
    return files
