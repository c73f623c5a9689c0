"""Overview: how the fleet is doing, and where to look."""

from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.heatmap import Heatmap
from warpmeter.web.panels.panel import WINDOW
from warpmeter.web.panels.series import Series


def show() -> None:
    """The whole fleet over the chosen window."""
    with frame("overview", "Overview"):
        Series("By host", "/api/v1/series?by=host&top=20", follows=(*WINDOW, "metric"), link="host")
        Heatmap("/api/v1/heatmap", title="GPUs")
