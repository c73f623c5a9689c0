"""Alerts: which are open and what became of each, the rules, and what people say: silences, and who takes care."""

import time
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from confluent_kafka import KafkaException
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from warpmeter.alerts import RuleError
from warpmeter.alerts.configured import rules as in_force
from warpmeter.alerts.words import LONGEST_S, LONGEST_TEXT, Word, objection, say, silence
from warpmeter.captures import amounts
from warpmeter.captures.asking import NotTakenError
from warpmeter.web.alerts.said import Said
from warpmeter.web.api.captures import Known, Text
from warpmeter.web.request import paging
from warpmeter.web.request.access import Operator
from warpmeter.web.request.context import Asking, Configured
from warpmeter.web.request.paging import Page
from warpmeter.web.request.times import missing, moment_of
from warpmeter.web.security import audit
from warpmeter.web.store.reads import Reads

router = APIRouter(prefix="/alerts", tags=["alerts"])

COLUMNS: Final = (
    "urgency", "severity", "state", "rule", "summary", "host", "job_id", "value", "started_at", "fired_at",
    "resolved_at", "last_at", "acknowledged_by",
)  # fmt: skip
SAME: Final = (
    "name", "meaning", "severity", "summary", "description", "for_s", "keep_s", "every_s", "unit", "builtin", "sql",
)  # fmt: skip
"""Of a rule, as it is."""
Severity = Literal["info", "warning", "critical"]
State = Literal["pending", "firing", "resolved", "dropped"]


def said_here(request: Request) -> Said:
    """What was said through this process."""
    found: Said = request.app.state.said
    return found


def _duration(text: str) -> str:
    amounts.milliseconds(text)
    return text


Duration = Annotated[str, Field(min_length=1, max_length=20), AfterValidator(_duration)]
Heard = Annotated[Said, Depends(said_here)]
Sorted = Annotated[Page, Depends(paging.by(COLUMNS, "-urgency"))]
Id = Annotated[str, Path(max_length=600, examples=["job-idle-1a2b3c4d5e6f7a8b-20260131T120000"])]
Matchers = Annotated[
    dict[str, str],
    Field(
        min_length=1,
        max_length=20,
        description="`rule`, `severity` or a label, and its value; `~` before an expression that fits the whole value.",
        examples=[{"rule": "gpu-hot", "host": "~gpu-00.*"}],
    ),
]


class Alert(BaseModel):
    """An alert: one episode of one subject of a rule. What is not known is null or empty."""

    alert_id: str = Field(examples=["job-idle-1a2b3c4d5e6f7a8b-20260131T120000"])
    last_at: datetime = Field(description="When something was last said of it.")
    rule: str = Field(examples=["job-idle"])
    severity: str = Field(description="critical, warning or info; a row of another program may say another.")
    state: State = Field(description="resolved and dropped (pending, and never fired) are the end.")
    fingerprint: str = Field(description="Of rule and labels: the same in each episode.", examples=["1a2b3c4d5e6f7a8b"])
    labels: dict[str, str] = Field(description="What it is about.", examples=[{"host": "gpu-0001", "job_id": "4711"}])
    summary: str = Field(examples=["Job 4711 uses none of its 8 GPUs"])
    description: str = Field(description="What to do.", examples=["Ask its owner, or end it: scancel 4711"])
    value: float | None = Field(description="What the rule measured, in `unit`.", examples=[0.01])
    unit: str = Field(examples=["ratio"])
    started_at: datetime = Field(description="The condition was first seen.")
    fired_at: datetime | None
    resolved_at: datetime | None
    flapping: bool = Field(description="It came and went so often that it is held.")
    silenced_by: str = Field(description="The silence that keeps receivers from hearing of it.", examples=[""])
    acknowledged_by: str = Field(description="Who takes care of it.", examples=["ann"])
    capture_id: str = Field(description="What a trigger asked for.", examples=[""])
    findings: list[str] = Field(description="What the analysis of that capture found.", examples=[[]])
    host: str = Field(description="Of its labels.", examples=["gpu-0001"])
    job_id: str = Field(description="Of its labels.", examples=["4711"])
    urgency: int = Field(description="What fires and nobody takes care of first; by severity.", examples=[32])


class Happened(BaseModel):
    """A state that an alert reached, or a word that was said of it."""

    at: datetime
    kind: Literal["state", "word"]
    what: str = Field(description="The state, or what was said: acknowledge, unacknowledge.", examples=["firing"])
    by: str = Field(description="Who said it.", examples=[""])
    comment: str = Field(examples=[""])
    value: float | None = Field(examples=[0.01])
    silenced_by: str = Field(examples=[""])
    acknowledged_by: str = Field(examples=[""])
    flapping: bool
    capture_id: str = Field(examples=[""])


class AlertPage(BaseModel):
    """A page of alerts."""

    data: list[Alert]
    total: int = Field(examples=[1])
    next: int | None = Field(examples=[None])


class One(BaseModel):
    """An alert, and what became of it, the latest first."""

    alert: Alert
    history: list[Happened]


class Counts(BaseModel):
    """Alerts that are open. The first three: those that fire, that nobody silenced and nobody takes care of."""

    critical: int = Field(examples=[0])
    warning: int = Field(examples=[2])
    info: int = Field(examples=[0])
    handled: int = Field(description="They fire, silenced or taken care of.", examples=[1])
    pending: int = Field(examples=[0])


class Rule(BaseModel):
    """A rule in force, and the alerts of it that are open now."""

    name: str = Field(examples=["job-idle"])
    meaning: str
    severity: Severity
    summary: str = Field(description="What an alert of it says; names in braces are its labels and values.")
    description: str = Field(description="What to do about one.")
    for_s: float = Field(description="So long the condition must hold.", examples=[600])
    keep_s: float = Field(description="So long it must be gone.", examples=[300])
    every_s: float = Field(description="It is asked so often; 0: at each evaluation.", examples=[0])
    unit: str = Field(examples=["ratio"])
    labels: dict[str, str] = Field(examples=[{}])
    parameters: dict[str, str] = Field(description="Its thresholds.", examples=[{"least": "0.05"}])
    builtin: bool
    sql: str = Field(description="Empty for what the evaluation tells of itself.")
    firing: int = Field(examples=[1])
    pending: int = Field(examples=[0])
    last_fired_at: datetime | None


class Rules(BaseModel):
    """All rules in force, by name."""

    data: list[Rule]
    total: int = Field(examples=[16])


class Silence(BaseModel):
    """Alerts that fit all of `matchers` are not told to receivers between the two times."""

    silence_id: str = Field(examples=["20260131T120000-1a2b3c"])
    said_at: datetime
    said_by: str = Field(examples=["ann"])
    matchers: dict[str, str] = Field(examples=[{"rule": "gpu-hot"}])
    starts_at: datetime
    ends_at: datetime
    comment: str = Field(examples=["the rack is moved"])
    state: Literal["ahead", "holds", "ended"]


class Silences(BaseModel):
    """Silences: those that hold or will, and those that ended in the last 30 days."""

    data: list[Silence]
    total: int = Field(examples=[1])


class NewSilence(BaseModel):
    """A silence that is wanted, for `duration` from `starts` on."""

    model_config = ConfigDict(extra="forbid")

    matchers: Matchers
    duration: Duration = Field(description="How long: 30m, 2h, 3d; a year at most.", examples=["2h"])
    starts: Text = Field("", description="When it begins: ISO 8601; empty: now.", examples=[""])
    comment: str = Field("", max_length=LONGEST_TEXT, description="Why.", examples=["the rack is moved"])


class Remark(BaseModel):
    """What is to be known of it."""

    model_config = ConfigDict(extra="forbid")

    comment: str = Field("", max_length=LONGEST_TEXT, examples=["I look into it"])


class Told(BaseModel):
    """The bus has it. The scheduler acts on it within seconds."""

    id: str = Field(description="Of the alert, or of the silence.", examples=["20260131T120000-1a2b3c"])


AWAY: Final[dict[int | str, dict[str, Any]]] = {503: {"description": "Kafka or the store does not answer."}}
NO_ALERT: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "There is no such alert."}}
NO_SILENCE: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "There is no such silence."}}


@router.get("", response_model=AlertPage)
def alerts(
    reads: Asking,
    heard: Heard,
    page: Sorted,
    state: Annotated[
        State | Literal["open", ""],
        Query(description="In this state alone; open: pending or firing; empty: all but dropped ones."),
    ] = "",
    severity: Annotated[Severity | Literal[""], Query(description="Of this severity alone.")] = "",
    rule: Annotated[str, Query(description="Of this rule alone.")] = "",
    host: Annotated[str, Query(description="About this host alone.")] = "",
    job: Annotated[str, Query(description="About this job alone.")] = "",
    search: Annotated[str, Query(max_length=200, description="In rule, summary and the values of labels.")] = "",
    since: Annotated[str, Query(description="Open after a time: `-6h`, or ISO 8601.")] = "-7d",
    until: Annotated[str, Query(description="Begun before a time: `now`, relative, or ISO 8601.")] = "now",
) -> Any:
    """Alerts, what needs somebody first. What is pending or firing now is there whenever it began."""
    asked = {"state": state, "severity": severity, "rule": rule, "host": host, "job_id": job, "search": search}
    rows, total = paging.page_of(reads, "alerts_listed", page, **asked, **_window(since, until))
    return paging.answer(heard.alerts(rows), total, page)


def _window(since: str, until: str) -> dict[str, str]:
    now = datetime.now(UTC).replace(microsecond=0)
    times = {"since": moment_of("since", since, now), "until": moment_of("until", until, now)}
    return {name: at.isoformat() for name, at in times.items()}


@router.get("/counts", response_model=Counts)
def counts(
    reads: Asking,
    host: Annotated[str, Query(description="About this host alone.")] = "",
    job: Annotated[str, Query(description="About this job alone.")] = "",
) -> Any:
    """How many alerts are open."""
    return reads.rows("alerts_counts", host=host, job_id=job)[0]


@router.get("/rules", response_model=Rules)
def rules(reads: Asking, settings: Configured) -> Any:
    """The rules in force, as this process's settings have them."""
    try:
        known = in_force(settings.alerts)
    except RuleError as error:
        raise HTTPException(503, f"alerts.rules: {error}") from error
    firing = {row["rule"]: row for row in reads.rows("alert_rules_firing")}
    nothing = {"firing": 0, "pending": 0, "last_fired_at": None}
    found = [
        {**{name: getattr(rule, name) for name in SAME}, "labels": dict(rule.labels), "parameters": rule.values(),
         **nothing, **firing.get(rule.name, {})}
        for rule in known
    ]  # fmt: skip
    return {"data": found, "total": len(found)}


@router.get("/silences", response_model=Silences)
def silences(reads: Asking, heard: Heard) -> Any:
    """Silences, those that hold first."""
    found = _silences(reads, heard)
    return {"data": found, "total": len(found)}


@router.post("/silences", status_code=202, response_model=Told, responses=AWAY)
def create(new: NewSilence, who: Operator, known: Known, heard: Heard) -> Any:
    """Silence alerts for a while; an operator's."""
    begins = _begins(new.starts) if new.starts else None
    length_s = amounts.milliseconds(new.duration) / 1000
    if length_s > LONGEST_S:
        raise _refused("duration", "a silence lasts a year at most", new.duration)
    word = silence(new.matchers, (begins or time.time()) + length_s, who.name, new.comment, begins)
    if why := objection(word):
        raise _refused("matchers" if "matcher" in why or "expression" in why else "duration", why, new.matchers)
    _say(heard, known, word)
    audit.record(who, "silence alerts", silence=word.subject, matchers=new.matchers, duration=new.duration)
    return {"id": word.subject}


@router.delete("/silences/{silence_id}", status_code=202, response_model=Told, responses={**AWAY, **NO_SILENCE})
def end(silence_id: Id, who: Operator, reads: Asking, known: Known, heard: Heard) -> Any:
    """End a silence now; an operator's."""
    if not [row for row in _silences(reads, heard, silence_id) if row["state"] != "ended"]:
        raise missing("path", "silence_id", "no such silence holds: /api/v1/alerts/silences lists them", silence_id)
    _say(heard, known, say("unsilence", silence_id, who.name))
    audit.record(who, "unsilence alerts", silence=silence_id)
    return {"id": silence_id}


@router.post("/{alert_id}/acknowledge", status_code=202, response_model=Told, responses={**AWAY, **NO_ALERT})
def acknowledge(
    alert_id: Id, who: Operator, reads: Asking, known: Known, heard: Heard, remark: Remark | None = None
) -> Any:
    """Take care of an alert: receivers are not told again of it, but of its end; an operator's."""
    return _care("acknowledge", alert_id, who, reads, known, heard, remark)


@router.post("/{alert_id}/unacknowledge", status_code=202, response_model=Told, responses={**AWAY, **NO_ALERT})
def unacknowledge(
    alert_id: Id, who: Operator, reads: Asking, known: Known, heard: Heard, remark: Remark | None = None
) -> Any:
    """Take care of it no more; an operator's."""
    return _care("unacknowledge", alert_id, who, reads, known, heard, remark)


@router.get("/{alert_id}", response_model=One, responses=NO_ALERT)
def one(alert_id: Id, reads: Asking, heard: Heard) -> Any:
    """One alert, and what became of it."""
    row = _known(reads, alert_id)
    return {"alert": heard.alerts([row])[0], "history": reads.rows("alert_history", alert_id=alert_id)}


def _silences(reads: Reads, heard: Said, silence_id: str = "") -> list[dict[str, Any]]:
    return heard.silences(reads.rows("silences_listed", silence_id=silence_id), silence_id)


def _care(
    action: str, alert_id: str, who: Operator, reads: Reads, known: Known, heard: Said, remark: Remark | None
) -> dict[str, str]:
    row = _known(reads, alert_id)
    _say(heard, known, say(action, alert_id, who.name, remark.comment if remark else ""))
    audit.record(who, f"{action} alert", alert=alert_id, rule=row["rule"])
    return {"id": alert_id}


def _known(reads: Reads, alert_id: str) -> dict[str, Any]:
    listed = {"alert_id": alert_id, "since": "2020-01-01", "limit": 1}
    found = [*reads.rows("alerts_listed", **listed), *reads.rows("alerts_listed", state="dropped", **listed)]
    if not found:
        raise missing("path", "alert_id", "there is no such alert: /api/v1/alerts lists them", alert_id)
    return found[0]


def _say(heard: Said, known: Known, word: Word) -> None:
    try:
        heard.say(known.asker, word)
    except (NotTakenError, KafkaException) as error:
        raise HTTPException(503, str(error)) from error


def _begins(text: str) -> float:
    try:
        found = moment_of("starts", text, datetime.now(UTC).replace(microsecond=0))
    except HTTPException as error:
        raise _refused("starts", error.detail[0]["msg"], text) from error  # type: ignore[index] # as `invalid` has it
    return found.timestamp()


def _refused(field: str, why: str, given: object) -> HTTPException:
    return HTTPException(422, [{"type": "value_error", "loc": ["body", field], "msg": why, "input": given}])
