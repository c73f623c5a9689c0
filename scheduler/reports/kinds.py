"""What is asked of a report and what comes of it: values that the command, the schedule and the mail share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

Name = Literal["fleet-weekly", "job", "host-health", "captures"]
Format = Literal["html", "csv", "parquet", "png"]

REPORTS: Final[Mapping[str, str]] = {
    "fleet-weekly": "GPU hours by user, team and partition, waste, energy and cost, idle and failing GPUs, the trend",
    "job": "everything about one job: its hosts and ranks, GPU use, waste, energy, stragglers, captures, alerts",
    "host-health": "XID and memory errors, throttling, missing GPUs, slow links, clocks, silent hosts, failing sources",
    "captures": "captures of the period: what they found, the kernels that took most, and which failed and why",
}
"""The reports there are, and what each holds."""
FORMATS: Final[tuple[Format, ...]] = ("html", "csv", "parquet", "png")
WEEK: Final = timedelta(weeks=1)
EARLIEST: Final = 2000
LATEST: Final = 2100
"""Years between which a period lies."""


class ReportError(Exception):
    """A report cannot be made of what was asked; the message says why and what to do."""


@dataclass(frozen=True)
class Period:
    """From `start` until before `end`, in UTC. Raises ReportError where it is empty or not told in a time zone."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ReportError("a period's times need a time zone")
        if not (self.start.year >= EARLIEST and self.end.year < LATEST):
            raise ReportError(f"a period lies after {EARLIEST} and before {LATEST}: the store takes no other times")
        if self.end <= self.start:
            raise ReportError(
                f"the period ends ({self.end:%Y-%m-%d %H:%M}) before it begins ({self.start:%Y-%m-%d %H:%M})"
            )

    @property
    def hours(self) -> float:
        """How long it is."""
        return (self.end - self.start).total_seconds() / 3600

    def whole_hours(self) -> "Period":
        """The same with its ends moved out to whole hours, which is what rollups hold."""
        start = self.start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        end = self.end.astimezone(UTC)
        cut = end.replace(minute=0, second=0, microsecond=0)
        return Period(start, cut if cut == end else cut + timedelta(hours=1))

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True)
class Price:
    """What energy and GPUs cost, in `currency`; None: not known, and what would follow from it is left out."""

    per_kwh: float | None = None
    per_gpu_hour: float | None = None
    currency: str = "EUR"

    def __post_init__(self) -> None:
        for name, value in (("per kWh", self.per_kwh), ("per GPU hour", self.per_gpu_hour)):
            if value is not None and not 0 <= value < 1e9:
                raise ReportError(f"a price {name} of {value} is none: give a number from 0 on")


@dataclass(frozen=True)
class Asked:
    """One report: of which period, and of what.

    `period` None: the last whole week, or the life of the job. `subject`: the job's id of report `job`, '' for others.
    `formats`: what `files` shall hold; text, page and mail are always made.
    """

    report: str
    period: Period | None = None
    subject: str = ""
    price: Price = field(default_factory=Price)
    formats: tuple[str, ...] = FORMATS

    def __post_init__(self) -> None:
        if self.report not in REPORTS:
            raise ReportError(f"there is no report {self.report!r}; there are {', '.join(REPORTS)}")
        if self.report == "job" and not self.subject:
            raise ReportError("report job needs the job's id")
        if self.report != "job" and self.subject:
            raise ReportError(f"report {self.report} is of the whole fleet: it takes no job")
        if unknown := [each for each in self.formats if each not in FORMATS]:
            raise ReportError(f"there is no format {unknown[0]!r}; there are {', '.join(FORMATS)}")


@dataclass(frozen=True)
class Inline:
    """An image that `mail_html` shows as `<img src="cid:CID">`: a part of the mail with this Content-ID."""

    cid: str
    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True)
class Table:
    """One table: `columns` as named in SQL, rows of plain values (None: not known)."""

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """A table on the page: these of its columns that it has, and so many rows; the files have all.

    `first`: what its first column is called, where that is not by its name.
    """

    table: Table
    columns: tuple[str, ...]
    most: int = 20
    first: str = ""


@dataclass(frozen=True)
class Finding:
    """What to act on, in words. `severity`: critical, warning or info; the worst come first."""

    severity: Literal["critical", "warning", "info"]
    text: str
    action: str = ""


@dataclass(frozen=True)
class Rendered:
    """A report, ready to be kept or sent; the same bytes for the same data, period and prices.

    `stem`: a name for its folder or file, by report, subject and period (`fleet-weekly-2026-W48`). `title`: a mail's
    subject. `summary`: one to three sentences of plain text. `html`: one page that needs nothing else. `mail_html`:
    the same for a mail client, which shows `inline` as cid parts (multipart/related); `text`: its plain alternative.
    `shown`: the tables as the page shows them. `files`: every file by its path below the report's folder
    (`report.html`, `tables/users.csv`, …).
    `empty`: nothing was measured in the period.
    """

    report: str
    period: Period
    subject: str
    stem: str
    title: str
    summary: str
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    shown: tuple[Shown, ...]
    html: str
    mail_html: str
    inline: tuple[Inline, ...]
    text: str
    files: Mapping[str, bytes]
    empty: bool = False
