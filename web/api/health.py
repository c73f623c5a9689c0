"""Whether this process and its store answer."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from warpmeter import __version__, store
from warpmeter.web.request.context import Asking

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """`ok` is false, with status 503, when the store does not answer; `why` says what it said, to who is known."""

    ok: bool
    version: str = Field(examples=["0.1.0"])
    why: str = ""


@router.get("/health", responses={503: {"model": Health}})
def health(request: Request, reads: Asking, response: Response) -> Health:
    """Does the store answer? Anybody may ask, a load balancer for one."""
    known = request.state.caller is not None
    version = __version__ if known else ""
    try:
        reads.whole("SELECT 1", {}, "JSONCompact", {})
    except store.ClickHouseError as error:
        response.status_code = 503
        return Health(ok=False, version=version, why=store.reason(error) if known else "")
    return Health(ok=True, version=version)
