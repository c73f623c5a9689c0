"""Who asks, and what they may do."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, Request

Role = Literal["viewer", "operator"]


@dataclass(frozen=True)
class Caller:
    """Who makes a request, as the audit names them."""

    name: str
    role: Role


def caller(request: Request) -> Caller:
    """Who asks, as the middleware found it; everybody on this machine is its operator while nothing else is set."""
    found: Caller = getattr(request.state, "caller", Caller("local", "operator"))
    return found


Viewer = Annotated[Caller, Depends(caller)]
Operator = Annotated[Caller, Depends(caller)]
