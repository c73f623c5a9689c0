"""Who asks, and what they may do.

An endpoint that only shows takes `Viewer`, one that changes or costs something `Operator`; who is neither never gets
that far (`warpmeter.web.security`).
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import Depends, HTTPException, Request

Role = Literal["viewer", "operator"]
Kind = Literal["token", "proxy", "local"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator")


@dataclass(frozen=True)
class Caller:
    """Who makes a request, as the audit and a capture's `requested_by` name them.

    `kind` is who vouches for the name: a token of the settings (also in a session), or the proxy, whose users may be
    called like a token.
    """

    name: str
    role: Role
    kind: Kind = "token"

    @property
    def key(self) -> str:
        """Of nobody else."""
        return f"{self.kind} {self.name}"


LOCAL: Final = Caller("local", "operator", "local")
"""Everybody on this machine, while no authentication is set up: the page is on loopback alone then."""


def caller(request: Request) -> Caller:
    """Who asks, as the gate before the application found it; 401 for who is nobody."""
    found: Caller | None = getattr(request.state, "caller", None)
    if found is None:
        raise HTTPException(401, "say who you are: Authorization: Bearer TOKEN")
    return found


def operator(found: Annotated[Caller, Depends(caller)]) -> Caller:
    """Who asks, if they are an operator; else 403, which says what is missing."""
    if found.role != "operator":
        raise HTTPException(403, f"{found.name} has the role {found.role}; this needs the role operator")
    return found


Viewer = Annotated[Caller, Depends(caller)]
Operator = Annotated[Caller, Depends(operator)]
