"""What is shown at an address that is none of ours."""

from fastapi import Request, Response
from nicegui import Client, core, ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.page import page

from warpmeter.web.pages.frame import frame


def register() -> None:
    """Show it in place of NiceGUI's own page."""
    theirs = core.app.exception_handlers[404]

    @core.app.exception_handler(404)
    async def not_there(request: Request, error: Exception) -> Response:
        if request.scope.get("endpoint") is not None and not request.scope.get("nicegui_page_path"):
            answer: Response = await theirs(request, error)  # type: ignore[misc]
            return answer
        with Client(page("", title="Not found · warpmeter"), request=request) as client:
            _show(request.url.path)
        return client.build_response(request, 404)


def _show(path: str) -> None:
    with frame("", "There is no such page", window=False), ui.element("section").classes("wm-panel"):
        words = f"Nothing of warpmeter's is at {path[:300]}. Hosts, jobs and captures are found in their lists, above."
        TextElement(tag="p", text=words).classes("wm-tight")
