"""Jobs that got slower: than their own past runs, or within one; and what changed with it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from warpmeter import regressions as finding
from warpmeter.regressions import Asked
from warpmeter.web.request.access import Viewer
from warpmeter.web.request.context import Asking
from warpmeter.web.store.answers import Answers, told

router = APIRouter(tags=["jobs"])


class Moved(BaseModel):
    """A metric that got worse."""

    metric: str = Field(examples=["step_seconds"])
    unit: str
    before: float
    now: float
    change: float = Field(description="Of what it was: 0.25 is a quarter more.")


class KernelChange(BaseModel):
    """A kernel that came, went or got slower."""

    what: Literal["came", "went", "slower"]
    name: str
    short_name: str
    gpu_model: str
    before: float | None = Field(description="Seconds of one run of it; null where it did not run.")
    now: float | None
    share: float = Field(description="Of the GPU time.")


class Differs(BaseModel):
    """Something about the runs that is not the same."""

    what: str = Field(examples=["command"])
    before: str
    now: str


class Regression(BaseModel):
    """A job that got slower."""

    text: str = Field(description="All of it in a sentence.")
    change: float = Field(description="By how much what is named first got worse, of what it was.")
    sort: Literal["between_runs", "within_run"]
    user: str
    name: str
    job_id: str
    since: str = Field(description="Start of the first run that was slower, or the moment within the run.")
    since_job: str
    last_seen_at: str
    runs: int = Field(description="Runs before that it is held against.")
    metrics: list[Moved]
    kernels: list[KernelChange]
    differs: list[Differs]


class Regressions(BaseModel):
    """The largest change first."""

    data: list[Regression]


@router.get("/regressions", response_class=Response, responses=told(Regressions))
def regressions(
    _: Viewer, reads: Asking, answers: Answers,
    since: Annotated[
        str, Query(max_length=100, description="Of runs that were there since then: `-7d` or ISO 8601.")
    ] = "-7d",
    until: Annotated[str, Query(max_length=100, description="End of the window.")] = "now",
    name: Annotated[str, Query(max_length=400, description="Of jobs of this name alone.")] = "",
    user: Annotated[str, Query(max_length=400, description="Of this user alone.")] = "",
    job_id: Annotated[str, Query(max_length=400, description="Of this run alone.")] = "",
) -> Response:  # fmt: skip
    """Jobs that got slower, and what changed with it."""

    def rows(query: str, given: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
        return reads.rows(query, **given)

    found = finding.found(rows, Asked(since, until, name, user, job_id))
    return answers.json({"data": [each.told() for each in found]})
