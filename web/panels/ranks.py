"""The ranks of a job side by side: the odd one is marked."""

from warpmeter.web.panels.panel import WINDOW, Panel


class Ranks(Panel, component="ranks.js"):
    """`source` lists a row a rank with the means of its metrics, and whether and why it is unlike the others."""

    def __init__(self, source: str, title: str) -> None:
        super().__init__(source, title, WINDOW)
