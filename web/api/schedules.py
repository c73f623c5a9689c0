"""Schedules of captures: which hold, to set one, and to remove one. The scheduler acts on it within seconds."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from confluent_kafka import KafkaException
from fastapi import APIRouter, HTTPException, Path
from pydantic import BaseModel, ConfigDict, Field

from warpmeter.captures import amounts, schedules
from warpmeter.captures.asking import NotTakenError
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Schedule
from warpmeter.web.api.captures import (
    AWAY,
    Count,
    Flops,
    Hosts,
    Iterations,
    Known,
    Length,
    Limit,
    Memory,
    Modules,
    Shapes,
    Stacks,
    Text,
)
from warpmeter.web.request.access import Operator
from warpmeter.web.request.context import Asking
from warpmeter.web.request.times import missing
from warpmeter.web.security import audit
from warpmeter.web.store.reads import Reads

router = APIRouter(tags=["schedules"])

TOPIC: Final = TOPICS["capture-schedules"]
Name = Annotated[str, Path(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", examples=["nightly"])]
LATE: Final = "60s"


class New(BaseModel):
    """A schedule: when it runs (`cron`, `every` or `at`), and what is captured then, as a capture says it."""

    model_config = ConfigDict(extra="forbid")

    cron: Text = Field("", description="Minute, hour, day, month, weekday.", examples=["0 3 * * *"])
    timezone: Text = Field("UTC", description="Of cron.", examples=["Europe/Berlin"])
    every: Length = Field("", description="Or so often.", examples=[""])
    at: Text = Field("", description="Or once, in ISO 8601.", examples=[""])
    jitter: Length = Field("", description="Each run is later by up to so much.", examples=["30s"])
    late: Length = Field(LATE, description="A missed run is made up for within so much.", examples=[LATE])
    job_id: Text = Field("", description="The processes of this job.", examples=["4711"])
    hosts: Hosts = []
    where: Text = Field("", description="Of jobs that a condition on the view jobs means.", examples=["user = 'ann'"])
    process_limit: Limit = 0
    duration: Length = Field("", description="How long to trace: 500ms (the default), 2s; or give iterations.")
    iterations: Iterations = 0
    count: Count = Field(1, description="Traces of a run.", examples=[1])
    shapes: Shapes = False
    memory: Memory = False
    stacks: Stacks = False
    flops: Flops = False
    modules: Modules = False


class Held(BaseModel):
    """A schedule that holds. `fixed`: it stands in the scheduler's settings, where alone it can be changed."""

    name: str = Field(examples=["nightly"])
    set_at: datetime
    set_by: str = Field(examples=["ann"])
    fixed: bool
    cron: str
    timezone: str
    every_s: float | None = Field(description="Null, as the two below, where it is no number: it does not run.")
    at: str
    jitter_s: float | None
    late_s: float | None
    job_id: str
    hosts: list[str]
    where: str
    process_limit: int
    duration_ms: int
    iterations: int
    count: int
    shapes: bool
    memory: bool
    stacks: bool
    flops: bool
    modules: bool


class All(BaseModel):
    """All schedules that hold, by name."""

    data: list[Held]
    total: int = Field(examples=[1])


class Set(BaseModel):
    """A schedule was set or removed; the store has it, and the scheduler acts on it, within seconds."""

    name: str = Field(examples=["nightly"])


FIXED: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "It stands in the scheduler's settings: change it there."}
}


@router.get("/schedules", response_model=All)
def held(reads: Asking) -> Any:
    """The schedules that hold."""
    found = _found(reads)
    return {"data": found, "total": len(found)}


@router.put("/schedules/{name}", status_code=202, response_model=Set, responses={**AWAY, **FIXED})
def put(name: Name, new: New, who: Operator, reads: Asking, known: Known) -> Any:
    """Set a schedule, in place of the one that is called so; an operator's."""
    wanted = _wanted(name, new)
    why = schedules.objection(wanted)
    if not why and not schedules.runs_after(wanted, datetime.now(UTC)):
        why = "it would never run: its time has gone by, or there is no such day"
    if why:
        raise HTTPException(422, [{"type": "value_error", "loc": ["body"], "msg": why}])
    _refuse_fixed(_found(reads, name))
    _tell(known, wanted, who.name, "set")
    audit.record(who, "set schedule", schedule=name, job=new.job_id, hosts=new.hosts)
    return {"name": name}


@router.delete(
    "/schedules/{name}",
    status_code=202,
    response_model=Set,
    responses={**AWAY, **FIXED, 404: {"description": "There is no such schedule."}},
)
def remove(name: Name, who: Operator, reads: Asking, known: Known) -> Any:
    """Remove a schedule: it begins no more captures. An operator's."""
    found = _found(reads, name)
    if not found:
        raise missing("path", "name", "there is no such schedule", name)
    _refuse_fixed(found)
    _tell(known, schedules.of_row(found[0]), who.name, "remove")
    audit.record(who, "remove schedule", schedule=name)
    return {"name": name}


def _found(reads: Reads, name: str = "") -> list[dict[str, Any]]:
    rows = json.loads(reads.json("schedules_listed", form="JSON", schedule=name))["data"]
    return [{**row, "fixed": row["set_by"] == schedules.SETTINGS} for row in rows]


def _refuse_fixed(found: list[dict[str, Any]]) -> None:
    if found and found[0]["fixed"]:
        raise HTTPException(409, f"{found[0]['name']} stands in the scheduler's settings: change it there")


def _wanted(name: str, new: New) -> Schedule:
    same = {
        each: getattr(new, each)
        for each in (
            "cron", "timezone", "at", "where", "process_limit", "iterations", "count", "shapes", "memory", "stacks",
            "flops", "modules",
        )
    }  # fmt: skip
    return Schedule(
        name, job=new.job_id, hosts=tuple(new.hosts), every_s=_seconds(new.every), jitter_s=_seconds(new.jitter),
        late_s=_seconds(new.late or LATE),
        duration_ms=amounts.traced_ms(new.duration, new.iterations), **same,
    )  # fmt: skip


def _seconds(text: str) -> float:
    return amounts.milliseconds(text) / 1000 if text else 0.0


def _tell(known: Known, wanted: Schedule, by: str, action: str) -> None:
    try:
        known.asker.put(TOPIC, {wanted.name: schedules.row(wanted, by, action)})
    except (NotTakenError, KafkaException) as error:
        raise HTTPException(503, str(error)) from error
