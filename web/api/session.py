"""Who the caller is, so that a page can say it and offer what they may do."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from warpmeter.web.request.access import Role, Viewer
from warpmeter.web.security.identity import AMBIENT, By, Identity

router = APIRouter(tags=["session"])


class Session(BaseModel):
    """Who asks. `guarded`: callers must say who they are; else everybody on this machine is its operator."""

    name: Annotated[str, Field(examples=["ann"])]
    role: Annotated[Role, Field(examples=["operator"])]
    by: Annotated[By, Field(description="What they are known by.", examples=["cookie"])]
    guarded: bool
    csrf: Annotated[str, Field(description="To be sent as X-CSRF-Token with what changes something; may be empty.")]
    sql: Annotated[bool, Field(description="They may use the SQL console.")]


@router.get("/session")
def session(request: Request, who: Viewer) -> Session:
    """Who am I, and what may I do?"""
    web, identity = request.app.state.settings.web, request.app.state.identity
    assert isinstance(identity, Identity)
    csrf = identity.sessions.csrf(who) if request.state.by in AMBIENT else ""
    may_ask = bool(web.sql) and who.role == "operator"
    return Session(name=who.name, role=who.role, by=request.state.by, guarded=web.guarded, csrf=csrf, sql=may_ask)
