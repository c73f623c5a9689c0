"""`/api/v1`: everything that the pages use, and that a program may."""

from fastapi import APIRouter

from warpmeter.web.api import captures, fleet, gpus, health, hosts, jobs, metrics, profilable, session, timeline, traces

PREFIX = "/api/v1"


def router() -> APIRouter:
    """All endpoints."""
    whole = APIRouter(prefix=PREFIX)
    for part in (health, session, fleet, metrics, hosts, gpus, jobs, timeline, captures, profilable, traces):
        whole.include_router(part.router)
    for last in (hosts.one, jobs.one):  # these catch every path below /hosts and /jobs
        whole.include_router(last)
    return whole
