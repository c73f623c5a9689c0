"""A metric of every GPU over time, as colours: thousands of GPUs at once, on a canvas of its own."""

from collections.abc import Sequence
from typing import Final

from warpmeter.web.panels.panel import WINDOW, Panel

CHOSEN: Final = ("metric",)


class Heatmap(Panel, component="heatmap.js"):
    """`source` answers as `/api/v1/heatmap` does: a row a GPU, a value a step.

    `metric`, `order` and `rows` (which GPUs it is zoomed to) are in the page's address.
    """

    def __init__(self, source: str, title: str, follows: Sequence[str] = (*WINDOW, *CHOSEN)) -> None:
        super().__init__(source, title, follows)
