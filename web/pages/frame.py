"""What is around every page: the bar with its links, the time picker, the theme, and the one style sheet."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from nicegui import context, ui
from nicegui.elements.mixins.text_element import TextElement

from warpmeter.web.pages.hasten import hasten
from warpmeter.web.panels.picker import Picker
from warpmeter.web.panels.topbar import Topbar

LINKS: Final = (
    ("overview", "/", "Overview"),
    ("hosts", "/hosts", "Hosts"),
    ("jobs", "/jobs", "Jobs"),
    ("alerts", "/alerts", "Alerts"),
    ("profiling", "/profiling", "Profiling"),
    ("reports", "/reports", "Reports"),
    ("sql", "/sql", "SQL"),
    ("api", "/api", "API"),
)
"""Key, address and name of the pages that stand in the bar."""
STYLES: Final = Path(__file__).parent.parent / "lib"


@contextmanager
def frame(here: str, heading: str, *, window: bool = True, run: str | None = None) -> Iterator[None]:
    """The page's content goes inside: a grid of panels under `heading`, the page's h1.

    `here` is the key of the page's link; without `window` there is no time picker, for pages that need none. `run` is
    the address of a job: its run time is the window until another is chosen.
    """
    ui.add_head_html(f"<style>{style()}\n:root {{ color-scheme: {_scheme()}; }}</style>")
    with context.client.layout, ui.element("header").classes("wm-head") as head:
        Topbar(LINKS, here)
    head.move(target_index=0)  # NiceGUI's q-page is the page's main landmark; the header stands before it
    with ui.element("div").classes("wm-main").props("id=content tabindex=-1"):
        with ui.element("div").classes("wm-title"):
            TextElement(tag="h1", text=heading).props["title"] = heading
            if window:
                Picker(run)
        yield
    if window:
        hasten(run)


def section(name: str) -> None:
    """A heading over the panels that follow."""
    TextElement(tag="h2", text=name)


@cache
def style() -> str:
    """All style sheets of `web/lib`, the common one first."""
    first = STYLES / "warpmeter.css"
    return "\n".join(path.read_text() for path in [first, *sorted(set(STYLES.glob("*.css")) - {first})])


def _scheme() -> str:
    """The theme that the address or the cookie names, so that no page flashes in the wrong colours."""
    request = context.client.request
    name = request.query_params.get("theme") or request.cookies.get("wm-theme")
    return name if name in ("dark", "light") else "light dark"
