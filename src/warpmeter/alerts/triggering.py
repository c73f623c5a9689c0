"""Triggers of the settings: whether one can be meant, and what an alert asks for by it. Pure."""

from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from warpmeter.alerts.alert import Alert
from warpmeter.alerts.words import unmatchable
from warpmeter.captures import wishes
from warpmeter.captures.amounts import USUAL_MS
from warpmeter.captures.wishes import Request
from warpmeter.settings import Trigger

ASKER: Final = "rule:"
"""`requested_by` begins so where an alert asked; the rule's name follows."""
_WHAT: Final = ("shapes", "memory", "stacks", "flops", "modules", "process_limit", "duration_ms", "iterations")


def objection(trigger: Trigger) -> str:
    """Why a trigger cannot be used, '' when it can."""
    if not trigger.match:
        return 'match is empty: name a rule, as match = { rule = "job-slower" }, a severity or a label'
    if not 0 <= trigger.cooldown_s < float("inf") or min(trigger.per_job_per_day, trigger.per_day) < 0:
        return "cooldown_s, per_job_per_day and per_day must not be below 0"
    if not all(0 <= getattr(trigger, name) < 1 << 31 for name in ("process_limit", "duration_ms", "iterations")):
        return "process_limit, duration_ms and iterations must not be below 0, nor above 2,147,483,647"
    for name, wanted in trigger.match.items():
        if why := unmatchable(name, wanted):
            return why
    return wishes.objection(_request(trigger, Request(job_id="any")))


def _request(trigger: Trigger, request: Request) -> Request:
    for name in _WHAT:
        setattr(request, name, getattr(trigger, name))
    if not trigger.duration_ms and not trigger.iterations:
        request.duration_ms = USUAL_MS
    return request


def capture_id(alert: Alert) -> str:
    """The name of the one capture of an episode; it sorts as those of others do."""
    mark = blake2b(alert.alert_id.encode(), digest_size=4).hexdigest()
    return f"{datetime.fromtimestamp(alert.started_at, UTC):%Y%m%dT%H%M%S}-{mark}"


def request_of(trigger: Trigger, alert: Alert, now: float) -> Request | None:
    """What an alert asks for: its job, else its host; None where it names neither."""
    job, host = alert.labels.get("job_id", ""), alert.labels.get("host", "")
    if not job and not host:
        return None
    asked = Request(
        capture_id=capture_id(alert), ts=round(now, 3), action="start", requested_by=f"{ASKER}{alert.rule}",
        name=alert.alert_id, job_id=job, hosts=[] if job else [host],
    )  # fmt: skip
    return _request(trigger, asked)
