"""Overview: how the fleet is doing, and where to look."""

from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.heatmap import Heatmap


def show() -> None:
    """The whole fleet over the chosen window."""
    with frame("overview", "Overview"):
        Heatmap("/api/v1/heatmap", title="GPUs")
