"""View: the timeline of one rank of a capture."""

from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.timeline import Timeline


def show() -> None:
    """All of the window: the timeline scrolls by itself."""
    with frame("profiling", "Timeline", window=False):
        Timeline()
