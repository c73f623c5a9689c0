"""Make one report and keep it; also the child that does so: `python -m warpmeter.scheduler.publishing.making FD JSON`.

In a process of its own, since figures take memory that the scheduler would never give back, and so that one that takes
too long can be ended. What is kept is how the report is handed over.
"""

import json
import mimetypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from warpmeter import launch, log
from warpmeter.reports.archive import Archive, ArchiveError
from warpmeter.scheduler.publishing.due import Wanted
from warpmeter.scheduler.reports import Asked, Period, Price, Rendered, ReportError, render
from warpmeter.sending import File, Message
from warpmeter.settings import Reports, ReportSchedule, Settings
from warpmeter.store import ClickHouseError, cause

MODULE: Final = "warpmeter.scheduler.publishing.making"
CANNOT: Final = 65
"""EX_DATAERR: it cannot be made of what was asked, now or later."""
AGAIN: Final = 75
"""EX_TEMPFAIL: the store is away, or there is no room."""
WITHIN_S: Final = 900.0
NICE: Final = 10
LAST_WORDS: Final = 400
TYPES: Final = {".parquet": "application/vnd.apache.parquet", ".csv": "text/csv"}


class CannotError(Exception):
    """The report cannot be made as it was asked for; the message says why."""


class LaterError(Exception):
    """The report cannot be made at the moment; the message says why."""


def make(settings: Settings, wanted: Wanted) -> Message:
    """Render a report and keep it; what was kept before is not rendered again.

    Raises ReportError, ClickHouseError, ArchiveError.
    """
    archive = Archive(settings.reports)
    kept = archive.load(wanted.report_id)
    if kept is not None:
        return kept
    message = rendered(settings, wanted)
    archive.keep(message)
    return message


def rendered(settings: Settings, wanted: Wanted) -> Message:
    """The report as a message; nothing is kept. Raises ReportError, ClickHouseError."""
    asked = Asked(
        wanted.schedule.report, None if wanted.subject else Period(wanted.start, wanted.end), wanted.subject,
        price(settings.reports), wanted.schedule.formats,
    )  # fmt: skip
    return as_message(render(settings.store, asked), wanted, settings.page)


def price(reports: Reports) -> Price:
    """What things cost, by the settings."""
    return Price(reports.price_per_kwh or None, reports.price_per_gpu_hour or None, reports.currency)


def as_message(made: Rendered, wanted: Wanted, page: str) -> Message:
    """A rendered report as it is sent; one of a period in which nothing was, without its tables."""
    findings = [asdict(finding) for finding in made.findings]
    facts = {
        "report": made.report, "schedule": wanted.by, "subject": made.subject,
        "period_start": made.period.start.isoformat(), "period_end": made.period.end.isoformat(),
        "summary": made.summary, "findings": findings, "empty": made.empty,
    }  # fmt: skip
    return Message(
        id=wanted.report_id, title=made.title, text=made.text, html=made.mail_html, place=wanted.report_id,
        inline=tuple(File(each.cid, each.media_type, each.data) for each in made.inline),
        files=tuple(File(name, media_type(name), data) for name, data in made.files.items()
                    if not (made.empty and name.startswith("tables/"))), facts=facts,
        link=f"{page}/reports?id={quote(wanted.report_id, safe='')}",
    )  # fmt: skip


def media_type(name: str) -> str:
    """By a file's ending."""
    return TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def in_child(settings: Settings, wanted: Wanted, over: Callable[[], bool]) -> None:
    """`make` in a process of its own. `over`: asked whether to give up. Raises CannotError, LaterError."""
    with tempfile.TemporaryFile() as said:
        try:
            process = launch.spawn(MODULE, settings, [_packed(wanted)], said)
        except OSError as error:
            raise LaterError(f"it could not be started: {error.strerror}") from error
        status = _awaited(process, over)
        said.seek(0)
        words = " ".join(said.read().decode("utf-8", "replace").split())[-LAST_WORDS:]
    if status == CANNOT:
        raise CannotError(words)
    if status:
        raise LaterError(words if status == AGAIN else f"it ended with status {status}: {words}")


def _awaited(process: subprocess.Popen[bytes], over: Callable[[], bool]) -> int:
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until and not over():
        try:
            return process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.wait()
    raise LaterError("it was ended" if over() else f"it took longer than {WITHIN_S:g} s")


def _packed(wanted: Wanted) -> str:
    return json.dumps({
        "report_id": wanted.report_id, "schedule": asdict(wanted.schedule), "start": wanted.start.isoformat(),
        "end": wanted.end.isoformat(), "subject": wanted.subject, "by": wanted.by,
    })  # fmt: skip


def _unpacked(text: str) -> Wanted:
    found: dict[str, Any] = json.loads(text)
    schedule = ReportSchedule(**found.pop("schedule"))
    schedule = replace(schedule, targets=tuple(schedule.targets), formats=tuple(schedule.formats))
    start, end = (datetime.fromisoformat(found.pop(name)) for name in ("start", "end"))
    return Wanted(schedule=schedule, start=start, end=end, **found)


def main() -> int:
    """Exit status 0, CANNOT or AGAIN, with the reason as the last words."""
    settings, (text,) = launch.received(sys.argv[1:])
    log.setup(settings.log, "scheduler")
    os.nice(NICE)
    try:
        make(settings, _unpacked(text))
    except ReportError as error:
        sys.stderr.write(f"{error}\n")
        return CANNOT
    except ClickHouseError as error:
        sys.stderr.write(f"the store: {cause(error)}\n")
        return AGAIN
    except ArchiveError as error:
        sys.stderr.write(f"{error}\n")
        return AGAIN
    return 0


if __name__ == "__main__":
    sys.exit(main())
