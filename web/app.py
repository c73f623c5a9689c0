"""The application: API and pages, on one port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.security import HTTPBearer

from warpmeter import __version__
from warpmeter.settings import Settings
from warpmeter.web import api, errors
from warpmeter.web.alerts.said import Said
from warpmeter.web.captures.heard import Captures
from warpmeter.web.captures.live import Live
from warpmeter.web.captures.looking import Looking
from warpmeter.web.joined import Joined
from warpmeter.web.kept import Kept
from warpmeter.web.routed import Routed
from warpmeter.web.security import login
from warpmeter.web.security.gate import FORMS, App, Gate, Receive, Scope, Send
from warpmeter.web.security.identity import Identity
from warpmeter.web.store.console import Console
from warpmeter.web.store.pulse import Pulse
from warpmeter.web.store.reads import Reads

BEARER = HTTPBearer(auto_error=False, description="A token of web.tokens.")
GZIP_LEVEL = 1
"""A heatmap of 10,000 GPUs takes 112 ms at 1 and 489 ms at 5, for a few percent of the bytes."""


def api_app(settings: Settings, pages: App | None = None) -> FastAPI:
    """The API alone, behind the gate: as many a process as one likes, and none loads the library of the pages.

    `pages` answers what is not the API's. Raises TokenError where a token's file cannot be used.
    """
    app = FastAPI(
        title="warpmeter", version=__version__, docs_url=None, redoc_url=None, openapi_url=f"{api.PREFIX}/openapi.json",
        lifespan=_closing,
    )  # fmt: skip
    app.state.settings = settings
    app.state.reads = Reads(settings.store, settings.web)
    app.state.captures = Captures(settings, app.state.reads, Live(settings.kafka))
    app.state.said = Said()
    app.state.looking = Looking(app.state.captures)
    app.state.pulse = Pulse(settings.store)
    app.state.console = Console(app.state.reads)
    app.state.identity = Identity(settings.web)
    if pages is not None:
        app.add_middleware(Beside, pages=Kept(pages))
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=GZIP_LEVEL)
    app.add_middleware(Joined)
    app.add_middleware(Routed)
    app.add_middleware(Gate, web=settings.web, identity=app.state.identity)
    login.register(app)
    errors.register(app)
    told = [Depends(BEARER)] if settings.web.tokens else []  # for the description; the gate has looked already
    app.include_router(api.router(), dependencies=told)
    return app


@asynccontextmanager
async def _closing(app: FastAPI) -> AsyncIterator[None]:
    yield
    await run_in_threadpool(app.state.captures.live.close)


def create(settings: Settings) -> FastAPI:
    """The whole application, API and pages; one a process, for NiceGUI keeps its pages by process.

    Raises as `api_app` does.
    """
    from nicegui import core, ui

    from warpmeter.web import pages
    from warpmeter.web.pages import nonce

    nonce.install()
    pages.register()
    app = api_app(settings, core.app)
    ui.run_with(
        app, title="warpmeter", dark=None, tailwind=False, gzip_middleware_factory=None, show_welcome_message=False,
        binding_refresh_interval=None, language="en-US",
    )  # fmt: skip
    app.router.routes.pop()  # mounted there, the pages would answer for every method that the API does not know
    return app


class Beside:
    """ASGI middleware: what is not the API's, nor the login's, is a page."""

    def __init__(self, app: App, pages: App) -> None:
        self._app, self._pages = app, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on."""
        page = scope["type"] in ("http", "websocket") and not scope["path"].startswith(("/api/", *FORMS))
        await (self._pages if page else self._app)(scope, receive, send)
