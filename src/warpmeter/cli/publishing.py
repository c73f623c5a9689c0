"""Behind `warpmeter reports`: schedules and history shown, a report sent by hand, a target tried."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from confluent_kafka import KafkaException

from warpmeter import queries, store
from warpmeter.captures.asking import Asker, NotTakenError
from warpmeter.cli import common
from warpmeter.config import masked_url
from warpmeter.queries import QueryError
from warpmeter.reports import periods
from warpmeter.reports.archive import Archive, ArchiveError
from warpmeter.reports.periods import PeriodError
from warpmeter.reports.said import TOPIC, ReportEvent
from warpmeter.scheduler.publishing import due, making
from warpmeter.scheduler.publishing.due import Ended, Wanted
from warpmeter.scheduler.publishing.service import delivery, rendered, size
from warpmeter.scheduler.reports import REPORTS, ReportError
from warpmeter.sending import File, Message, Outcome, Refused, Sent, TryAgain
from warpmeter.sending import send as sent_to
from warpmeter.sending.mail import attached
from warpmeter.settings import ReportSchedule, Settings, Target
from warpmeter.store import ClickHouseError
from warpmeter.terminal import printable

STORE_S: Final = 30
HISTORY: Final = ("report", "target", "state", "last", "attempt", "title", "why")
SCHEDULES: Final = ("name", "report", "period", "when", "next", "of", "targets")
OUTCOMES: Final = ("target", "outcome", "why")


class SendError(Exception):
    """What is to be sent is not clear; the message says what to name. Exit status 2."""

    exit_status = 2


EXPECTED: Final = (
    SendError, ReportError, PeriodError, ArchiveError, ClickHouseError, NotTakenError, QueryError,
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What the command was given."""

    name: str
    period: str
    job: str
    to: tuple[str, ...]


@dataclass(frozen=True)
class Sending:
    """One report to some targets."""

    wanted: Wanted
    targets: tuple[Target, ...]


def show_schedules(settings: Settings, as_json: bool) -> None:
    """When each makes its next report, and of which period."""
    now = datetime.now(UTC)
    found = [_told(schedule, now) for schedule in settings.reports.schedules]
    if as_json:
        common.print_json(found)
        return
    rows = [(*(each[key] for key in SCHEDULES[:-1]), ", ".join(each["targets"])) for each in found]
    common.print_table("", SCHEDULES, rows)
    if not found:
        common.out.print("set [[reports.schedules]] and [[reports.targets]]: docs/reports.md", markup=False)


def _told(schedule: ReportSchedule, now: datetime) -> dict[str, Any]:
    why = periods.objection(schedule)
    coming = None if why else periods.next_new(schedule, now)
    return {
        "name": schedule.name, "report": schedule.report, "period": "" if schedule.report == "job" else schedule.period,
        "when": f"{schedule.cron} {schedule.timezone}" if schedule.cron else "when a job has ended",
        "next": why or (common.said(coming[0]) if coming else ""), "of": coming[1].label if coming else "",
        "targets": list(schedule.targets),
    }  # fmt: skip


def show_history(settings: Settings, since: str, schedule: str, limit: int, as_json: bool) -> None:
    """What became of reports and deliveries."""
    asked = queries.get("reports_sent").statement({"since": since, "schedule": schedule, "limit": str(limit)})
    with store.connect(settings.store, patience_s=STORE_S) as client:
        answer = client.query(asked.sql, parameters=dict(asked.values), tz_mode="aware")
    found = [dict(zip(answer.column_names, row, strict=True)) for row in answer.result_rows]
    if as_json:
        common.print_json(found)
        return
    common.print_table("", HISTORY, [_line(each) for each in found])


def _line(row: Mapping[str, Any]) -> Sequence[Any]:
    state = common.coloured(row["state"])
    state.style = {"delivered": "green", "rendered": "green", "failed": "yellow", "gave_up": "red"}.get(
        row["state"], ""
    )
    last = common.said(row["last_at"])
    return row["report_id"], row["target"], state, last, row["attempt"] or "", row["title"], row["why"]


def wanted(settings: Settings, asked: Asked) -> Sending:
    """Which report goes where. Raises SendError, PeriodError, ClickHouseError."""
    known = {schedule.name: schedule for schedule in settings.reports.schedules}
    if asked.name not in known and asked.name not in REPORTS:
        names = ", ".join([*known, *REPORTS])
        raise SendError(f"there is no schedule or report {asked.name!r}; there are {names}")
    schedule = known.get(asked.name) or ReportSchedule(asked.name, asked.name)  # type: ignore[arg-type]
    if why := periods.objection(schedule):
        raise SendError(f"reports.schedules {schedule.name!r}: {why}")
    if (schedule.report == "job") != bool(asked.job):
        raise SendError("report job needs --job ID" if not asked.job else f"{asked.name} is of no job: leave --job out")
    targets = tuple(_target(settings, name) for name in asked.to or schedule.targets)
    now = datetime.now(UTC)
    if asked.job:
        if asked.period:
            raise SendError("report job is of the job's life: leave --period out")
        return Sending(due.of_job(schedule, _job(settings, asked.job), ""), targets)
    return Sending(due.of_period(schedule, _window(asked.period, schedule, now), ""), targets)


def _window(period: str, schedule: ReportSchedule, now: datetime) -> periods.Window:
    if period == "current":
        return periods.so_far(now, schedule)
    return periods.named(period, schedule.timezone, now) if period else periods.before(now, schedule)


def _target(settings: Settings, name: str) -> Target:
    found = {target.name: target for target in settings.reports.targets}
    if name not in found:
        raise SendError(f"there is no target {name!r}; [[reports.targets]] has {', '.join(found) or 'none yet'}")
    return found[name]


def _job(settings: Settings, job_id: str) -> Ended:
    asked = "SELECT started_at, coalesce(ended_at, last_seen_at) FROM jobs WHERE job_id = {job:String}"
    with store.connect(settings.store, patience_s=STORE_S) as client:
        rows = client.query(asked, parameters={"job": job_id}, tz_mode="aware").result_rows
    if not rows:
        raise SendError(
            f"the store knows no job {job_id!r}: `warpmeter sql 'SELECT job_id, name FROM jobs'` shows them"
        )
    return Ended(job_id, *rows[0])


def dry_run(settings: Settings, sending: Sending, as_json: bool) -> bool:
    """Make it, unless it is kept, and say what would go where."""
    message = _made(lambda: Archive(settings.reports).load(sending.wanted.report_id), as_json) or _made(
        lambda: making.rendered(settings, sending.wanted), as_json
    )
    assert message is not None
    told = {
        "report_id": message.id, "title": message.title, "text": message.text, "bytes": size(message),
        "files": [{"name": file.name, "bytes": len(file.data)} for file in message.files],
        "targets": [{"target": each.name, "kind": each.kind, "to": _where(each)} for each in sending.targets],
    }  # fmt: skip
    if as_json:
        common.print_json(told)
        return True
    common.out.print(printable(message.text), markup=False, highlight=False)
    common.print_table("files", ("name", "bytes"), [(file.name, len(file.data)) for file in message.files])
    rows = [(each.name, each.kind, _where(each), _along(each, message)) for each in sending.targets]
    common.print_table("would go to", ("target", "kind", "to", "with files"), rows)
    return True


def _made(make: Callable[[], Message | None], as_json: bool) -> Message | None:
    if as_json:
        return make()
    with common.err.status("making the report"):
        return make()


def _where(target: Target) -> str:
    """As it may be shown: of a hook its host alone."""
    if target.kind == "mail":
        return ", ".join(target.to)
    if target.kind == "folder":
        return masked_url(target.url)
    return target.url.split("/")[2].rpartition("@")[2] if target.url else f"the address in {target.url_file}"


def _along(target: Target, message: Message) -> str:
    if target.kind in ("slack", "folder"):
        return "none" if target.kind == "slack" else "all"
    taken, left_out = attached(target, message)
    too_large = f"; too large: {', '.join(file.name for file in left_out)}" if left_out else ""
    return (", ".join(file.name for file in taken) or "none") + too_large


def send(settings: Settings, sending: Sending, as_json: bool) -> bool:
    """Whether every target took it. What becomes of it is said on the topic, as the scheduler does."""
    if not sending.targets:
        raise SendError("no target is named: give --to TARGET, or targets in its [[reports.schedules]]")
    asker = Asker(settings.kafka, "reports")
    known = Archive(settings.reports).manifest(sending.wanted.report_id) is not None
    message = _made(lambda: making.make(settings, sending.wanted), as_json)
    assert message is not None
    event, *_ = rendered(sending.wanted, message, time.time(), settings.reports)
    if not known:
        asker.put(TOPIC, {event.report_id: event})
    anew = replace(message, id=f"{message.id}@{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    outcomes = [(target, _sent(target, anew)) for target in sending.targets]
    _show(outcomes, as_json)
    _tell(asker, event, outcomes)
    return all(isinstance(said, Sent) for _, said in outcomes)


def _sent(target: Target, message: Message) -> Outcome:
    with common.err.status(f"sending to {target.name}"):
        return sent_to(target, message)


def _tell(asker: Asker, event: ReportEvent, outcomes: Sequence[tuple[Target, Outcome]]) -> None:
    """It is sent all the same where the bus does not hear of it."""
    try:
        for target, said in outcomes:
            told = delivery(event, target.name, said, over=True)
            told.ts, told.attempt = round(time.time(), 3), 1
            asker.put(TOPIC, {told.report_id: told})
    except (NotTakenError, KafkaException) as error:
        common.err.print(f"not in the history: {error}", markup=False, highlight=False)


def _show(outcomes: Sequence[tuple[Target, Outcome]], as_json: bool) -> None:
    rows = list(_rows(outcomes))
    if as_json:
        common.print_json([dict(zip(OUTCOMES, row, strict=True)) for row in rows])
    else:
        common.print_table("", OUTCOMES, rows)


def _rows(outcomes: Sequence[tuple[Target, Outcome]]) -> Iterator[tuple[str, str, str]]:
    for target, said in outcomes:
        match said:
            case Sent(note=note, url=url):
                yield target.name, "sent", note or url
            case TryAgain(why=why):
                yield target.name, "try again", why
            case Refused(why=why):
                yield target.name, "refused", why


def check(settings: Settings, name: str, as_json: bool) -> bool:
    """Whether a target takes a few words."""
    target = _target(settings, name)
    at = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    words = (
        f"This is a test of the target {name}, sent by `warpmeter reports check {name}`. Reports will come like this."
    )
    page = f"<html><body><h1>warpmeter reaches you</h1><p>{words}</p></body></html>"
    message = Message(
        id=f"check/{name}/{at}", title="warpmeter: a test of this target", text=words, html=page,
        files=(File("test.csv", "text/csv", b"test\nwarpmeter\n"),), facts={"report": "check"}, place=f"check/{at}",
        link=settings.page,
    )  # fmt: skip
    said = _sent(target, message)
    _show([(target, said)], as_json)
    return isinstance(said, Sent)
