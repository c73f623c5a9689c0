"""A metric of every GPU over time, as colours."""

import nicegui.elements.echart  # noqa: F401 - registers the library that the panel draws with

from warpmeter.web.panels.panel import WINDOW, Panel


class Heatmap(Panel, component="heatmap.js"):
    """`source` answers columns `host`, `gpu`, `values`: a row a GPU, a value a step."""

    def __init__(self, source: str, title: str) -> None:
        super().__init__(source, title, (*WINDOW, "metric"))
