"""Why a process can, or cannot, be profiled: its agent is asked."""

from typing import Annotated, Any, Final

from confluent_kafka import KafkaException
from fastapi import APIRouter, Depends, HTTPException, Query, Request

from warpmeter.captures.asking import NotTakenError
from warpmeter.web.api.listed import Profilable
from warpmeter.web.captures.looking import Looked, Looking
from warpmeter.web.request.times import missing

router = APIRouter(tags=["captures"])
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "Nothing is known of such a job."},
    503: {"description": "Kafka or the store does not answer."},
}


def looking_of(request: Request) -> Looking:
    """Who asks agents, in this process."""
    found: Looking = request.app.state.looking
    return found


@router.get("/jobs/{job_id:named}/profilable", response_model=Profilable, responses=RESPONSES)
def profilable(
    job_id: str,
    looking: Annotated[Looking, Depends(looking_of)],
    limit: Annotated[
        int, Query(ge=1, le=10_000, description="Processes to show, those that cannot be traced first.")
    ] = 1000,
) -> Any:
    """Can the processes of a job be traced, and if not, why, and what is to be done? Asks their agents, up to 3 s."""
    try:
        found = looking.at(job_id)
    except (NotTakenError, KafkaException) as error:
        raise HTTPException(503, str(error)) from error
    if not found.known:
        raise missing("path", "job_id", "nothing is known of such a job", job_id)
    if not found.hosts:
        ended = found.ended_at[:19].replace("T", " ")
        why = f"the job has ended, at {ended} UTC: what does not run cannot be traced"
        return {**_counted(job_id, found), "running": False, "why": why, "data": []}
    rows = sorted(found.processes, key=lambda row: bool(row["ready"]))[:limit]
    return {**_counted(job_id, found), "running": True, "why": _said(found), "data": rows}


def _counted(job_id: str, found: Looked) -> dict[str, Any]:
    ready = sum(row["ready"] for row in found.processes)
    total = sum(row["pid"] is not None for row in found.processes)
    return {"job_id": job_id, "ready": ready, "total": total, "hosts": found.hosts, "silent": found.silent}


def _said(found: Looked) -> str:
    ready = sum(row["ready"] for row in found.processes)
    total = sum(row["pid"] is not None for row in found.processes)
    silent = f"; {found.silent} of {found.hosts} hosts do not answer" if found.silent else ""
    return f"{ready} of {total} processes can be traced{silent}"
