"""`/api/v1`: everything that the pages use, and that a program may."""

from fastapi import APIRouter

from warpmeter.web.api import fleet, health, session

PREFIX = "/api/v1"


def router() -> APIRouter:
    """All endpoints."""
    whole = APIRouter(prefix=PREFIX)
    for part in (health.router, session.router, fleet.router):
        whole.include_router(part)
    return whole
