"""Reports: which were made and who got them, their schedules, and the files of one."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import BaseModel, Field

from warpmeter.reports import periods
from warpmeter.reports.archive import PAGE, Archive, ArchiveError
from warpmeter.settings import ReportSchedule
from warpmeter.web.request import paging
from warpmeter.web.request.context import Asking, Configured
from warpmeter.web.request.paging import FARTHEST, MOST
from warpmeter.web.request.times import missing

router = APIRouter(prefix="/reports", tags=["reports"])

SANDBOX: Final = (
    "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Of a report as a page: it shows itself, and nothing in it runs, loads, or acts as who looks at it."""
SHOWN: Final = {"text/html": "text/html; charset=utf-8", "image/png": "image/png"}
"""What a browser shows; all else it stores."""
BINARY: Final = "application/octet-stream"
Id = Annotated[
    str, Query(min_length=1, max_length=300, description="As the list has it.", examples=["monday/2026-W48"])
]
Schedule = Annotated[str, Query(max_length=100, description="Of this schedule alone.", examples=[""])]


class Delivery(BaseModel):
    """A target of a report, and how that stands."""

    target: str = Field(examples=["team"])
    state: Literal["queued", "delivered", "failed", "gave_up"] = Field(description="failed: it is tried again.")
    last_at: datetime
    attempt: int = Field(examples=[1])
    why: str = Field(description="What went wrong and what to do.", examples=[""])


class Report(BaseModel):
    """A report of one period, or of one job."""

    report_id: str = Field(examples=["monday/2026-W48"])
    schedule: str = Field(description="Empty where somebody asked by hand.", examples=["monday"])
    report: str = Field(examples=["fleet-weekly"])
    subject: str = Field(description="The job, of report job.", examples=[""])
    title: str
    period_start: datetime
    period_end: datetime
    state: Literal["", "rendered", "late", "failed", "gave_up"] = Field(
        description="late: rows of the period are awaited; failed: it is tried again; empty: not known any more."
    )
    why: str = Field(examples=[""])
    bytes: int | None = Field(examples=[120_000])
    last_at: datetime = Field(description="When something was last said of it.")
    deliveries: list[Delivery]


class Reports(BaseModel):
    """A page of reports."""

    data: list[Report]
    total: int = Field(examples=[1])
    next: int | None = Field(examples=[None])


class Scheduled(BaseModel):
    """A schedule, as this server's settings have it. `next_at`: null of one that reports jobs as they end."""

    name: str = Field(examples=["monday"])
    report: str = Field(examples=["fleet-weekly"])
    period: str = Field(examples=["week"])
    cron: str = Field(examples=["0 7 * * mon"])
    timezone: str = Field(examples=["Europe/Berlin"])
    next_at: datetime | None
    targets: list[str] = Field(examples=[["team"]])
    why: str = Field(description="Why it cannot run; empty when it can.", examples=[""])


class Schedules(BaseModel):
    """All schedules."""

    data: list[Scheduled]
    total: int = Field(examples=[1])


class File(BaseModel):
    """A file of a report."""

    name: str = Field(examples=["tables/users.csv"])
    media_type: str = Field(examples=["text/csv"])
    bytes: int


class Finding(BaseModel):
    """What to act on."""

    severity: str = Field(examples=["warning"])
    text: str
    action: str


class Kept(BaseModel):
    """A report as it is kept."""

    report_id: str = Field(examples=["monday/2026-W48"])
    title: str
    text: str = Field(description="The whole report in plain words.")
    summary: str
    findings: list[Finding]
    files: list[File]


@router.get("", response_model=Reports)
def listed(
    reads: Asking,
    schedule: Schedule = "",
    limit: Annotated[int, Query(ge=1, le=MOST, description="Reports of the page.")] = 100,
    offset: Annotated[int, Query(ge=0, le=FARTHEST, description="Reports before it.")] = 0,
) -> Any:
    """Reports that were made, or could not be; the latest period first."""
    data, total = paging.rows(reads, "reports_listed", schedule=schedule, limit=limit, offset=offset)
    following = offset + len(data)
    return {"data": data, "total": total or (offset if data else 0), "next": following if following < total else None}


@router.get("/schedules", response_model=Schedules)
def schedules(settings: Configured) -> Any:
    """Schedules of reports, and when each makes its next one."""
    found = list(_scheduled(settings.reports.schedules))
    return {"data": found, "total": len(found)}


def _scheduled(known: tuple[ReportSchedule, ...]) -> Iterator[dict[str, Any]]:
    now = datetime.now(UTC)
    for each in known:
        why = periods.objection(each)
        coming = None if why else periods.next_new(each, now)
        yield {
            "name": each.name, "report": each.report, "period": each.period if each.cron else "", "cron": each.cron,
            "timezone": each.timezone, "next_at": coming[0] if coming else None,
            "targets": list(each.targets), "why": why,
        }  # fmt: skip


NOT_THERE: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "There is no such report, or file in it."}}


@router.get("/kept", response_model=Kept, responses=NOT_THERE)
def kept(settings: Configured, report_id: Id) -> Any:
    """One report: its words, and which files it has."""
    found = _manifest(Archive(settings.reports), report_id)
    return {
        **{name: found.get(name, "") for name in ("title", "text", "summary")},
        "report_id": report_id, "findings": found.get("findings", []),
        "files": [file for file in found["files"] if not file["name"].startswith("mail/")],
    }  # fmt: skip


@router.get(
    "/file",
    response_class=Response,
    responses={
        **NOT_THERE,
        200: {"content": {BINARY: {}, "text/html": {}, "image/png": {}}, "description": "The file."},
    },
)
def file(
    settings: Configured,
    report_id: Id,
    name: Annotated[
        str, Query(min_length=1, max_length=300, description="As the report's files have it.", examples=["report.html"])
    ],
) -> Response:
    """A file of a report. Its page, and figures, a browser shows, and lets them do nothing."""
    archive = Archive(settings.reports)
    _manifest(archive, report_id)
    try:
        found = archive.file(report_id, name)
    except ArchiveError as error:
        raise HTTPException(503, str(error)) from error
    if found is None or name == PAGE or name.startswith("mail/"):
        raise missing("query", "name", "the report has no such file", name)
    data, media_type = found
    plain = name.rpartition("/")[2]
    how = "inline" if media_type in SHOWN else "attachment"
    headers = {
        "content-disposition": f"{how}; filename*=UTF-8''{quote(plain)}",
        "content-security-policy": SANDBOX,
        "x-content-type-options": "nosniff",
    }
    return Response(data, media_type=SHOWN.get(media_type, BINARY), headers=headers)


def _manifest(archive: Archive, report_id: str) -> dict[str, Any]:
    try:
        found = archive.manifest(report_id)
    except ArchiveError as error:
        raise HTTPException(503, str(error)) from error
    if found is None:
        raise missing("query", "report_id", "there is no such report where reports are kept (reports.url)", report_id)
    return found
