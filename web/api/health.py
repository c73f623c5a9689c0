"""Whether this process and its store answer."""

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from warpmeter import __version__, store
from warpmeter.web.context import Asking

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """`ok` is false, with status 503, when the store does not answer; `why` says what it said."""

    ok: bool
    version: str = Field(examples=["0.1.0"])
    why: str = ""


@router.get("/health", responses={503: {"model": Health}})
def health(reads: Asking, response: Response) -> Health:
    """Does the store answer?"""
    try:
        store.client(reads.store).query("SELECT 1")
    except store.ClickHouseError as error:
        response.status_code = 503
        return Health(ok=False, version=__version__, why=store.reason(error))
    return Health(ok=True, version=__version__)
