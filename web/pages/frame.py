"""What is around every page: name, links, time picker, theme."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nicegui import ui

LINKS: Final = {"overview": ("/", "Overview"), "profiling": ("/profiling", "Profiling")}
STYLE: Final = Path(__file__).parent.parent / "lib" / "warpmeter.css"


@contextmanager
def frame(here: str) -> Iterator[None]:
    """The page's content goes inside; `here` is the key of its link."""
    ui.add_css(STYLE)
    with ui.element("header").classes("wm-head"), ui.element("nav").props('aria-label="Pages"'):
        for key, (address, name) in LINKS.items():
            ui.link(name, address).classes("wm-here" if key == here else "")
    with ui.element("main").classes("wm-main"):
        yield
