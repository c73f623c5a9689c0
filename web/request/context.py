"""What endpoints need of the process they are in, as FastAPI's dependencies."""

from typing import Annotated

from fastapi import Depends, Request

from warpmeter.settings import Settings
from warpmeter.web.store.reads import Reads


def settings(request: Request) -> Settings:
    """The settings of this process."""
    found: Settings = request.app.state.settings
    return found


def reads(request: Request) -> Reads:
    """The store, as this process may ask it."""
    found: Reads = request.app.state.reads
    return found


Configured = Annotated[Settings, Depends(settings)]
Asking = Annotated[Reads, Depends(reads)]
