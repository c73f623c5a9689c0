"""The application: API and pages, on one port."""

from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware

from warpmeter import __version__
from warpmeter.settings import Settings
from warpmeter.web import api, errors
from warpmeter.web.reads import Reads
from warpmeter.web.security import login
from warpmeter.web.security.gate import Gate
from warpmeter.web.security.identity import Identity

GZIP_LEVEL = 1
"""A heatmap of 10,000 GPUs takes 112 ms at 1 and 489 ms at 5, for a few percent of the bytes."""


def api_app(settings: Settings) -> FastAPI:
    """The API alone, behind the gate: as many a process as one likes, and none loads the library of the pages.

    Raises TokenError where a token's file cannot be used.
    """
    app = FastAPI(
        title="warpmeter", version=__version__, docs_url=None, redoc_url=None, openapi_url=f"{api.PREFIX}/openapi.json"
    )
    app.state.settings = settings
    app.state.reads = Reads(settings.store, settings.web)
    app.state.identity = Identity(settings.web)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=GZIP_LEVEL)
    app.add_middleware(Gate, web=settings.web, identity=app.state.identity)
    login.register(app)
    errors.register(app)
    app.include_router(api.router())
    return app


def create(settings: Settings) -> FastAPI:
    """The whole application, API and pages; one a process, for NiceGUI keeps its pages by process.

    Raises as `api_app` does.
    """
    from nicegui import ui

    from warpmeter.web import pages
    from warpmeter.web.pages import nonce

    app = api_app(settings)
    nonce.install()
    pages.register()
    ui.run_with(
        app, title="warpmeter", dark=None, tailwind=False, gzip_middleware_factory=None, show_welcome_message=False,
        binding_refresh_interval=None,
    )  # fmt: skip
    return app
