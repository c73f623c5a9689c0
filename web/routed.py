"""Requests as the routes are to see them: names in a path whole, and HEAD wherever there is GET."""

from starlette.routing import Match

from warpmeter.web.request.named import path_of
from warpmeter.web.security.gate import App, Receive, Scope, Send


class Routed:
    """ASGI middleware between the gate and all else that looks at the path."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on; which route took it is told to who asked."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        inside = {**scope, "path": path_of(scope)}
        if scope["method"] == "HEAD" and not _has_head(inside):
            inside["method"] = "GET"  # the server knows what was asked, and leaves the body out
        try:
            await self._app(inside, receive, send)
        finally:
            if "route" in inside:
                scope["route"] = inside["route"]


def _has_head(scope: Scope) -> bool:
    return any(route.matches(scope)[0] == Match.FULL for route in scope["app"].routes)
