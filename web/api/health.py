"""Whether this process and its store answer."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from warpmeter import __version__
from warpmeter.web.store.pulse import Pulse

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """`ok` is false, with status 503, when the store does not answer in time; `why` says more, to who is known."""

    ok: bool
    version: str = Field(examples=["0.1.0"])
    why: str = ""


@router.get("/health", responses={503: {"model": Health}})
async def health(request: Request, response: Response) -> Health:
    """Does the store answer? Anybody may ask, a load balancer for one; answered within 2 s, whatever else goes on."""
    pulse: Pulse = request.app.state.pulse
    wrong = await pulse.feel()
    known = request.state.caller is not None
    if wrong:
        response.status_code = 503
    return Health(ok=not wrong, version=__version__ if known else "", why=wrong if known else "")
