"""`/api/v1`: everything that the pages use, and that a program may."""

from typing import Any, Final

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from warpmeter.web.api import (
    alerts,
    analysis,
    captures,
    console,
    fleet,
    gpus,
    health,
    hosts,
    jobs,
    metrics,
    profilable,
    queries,
    regressions,
    reports,
    schedules,
    session,
    stacks,
    timeline,
    traces,
)
from warpmeter.web.request.lengths import bounded

PREFIX = "/api/v1"


class Problem(BaseModel):
    """Why there is no answer, and what to do."""

    detail: str = Field(examples=["say who you are: Authorization: Bearer TOKEN"])


GATE: Final[dict[int | str, dict[str, Any]]] = {
    400: {"model": Problem, "description": "The body cannot be read: it is no text of JSON."},
    401: {"model": Problem, "description": "The caller is not known."},
    403: {"model": Problem, "description": "The caller may not, or a page of another site asks."},
    413: {"model": Problem, "description": "The body is too large."},
    421: {"model": Problem, "description": "The server does not go by that name."},
    429: {"model": Problem, "description": "Too many; Retry-After says when again."},
    503: {"model": Problem, "description": "The store does not answer."},
}
"""What any endpoint may answer as well."""


def router() -> APIRouter:
    """All endpoints."""
    whole = APIRouter(prefix=PREFIX, responses=GATE, dependencies=[Depends(bounded)])
    for part in (
        health,
        session,
        fleet,
        metrics,
        hosts,
        gpus,
        jobs,
        regressions,
        stacks,
        timeline,
        captures,
        alerts,
        schedules,
        reports,
        profilable,
        analysis,
        traces,
        queries,
        console,
    ):
        whole.include_router(part.router)
    for last in (hosts.one, jobs.one):  # these catch every path below /hosts and /jobs
        whole.include_router(last)
    return whole
