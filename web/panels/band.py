"""The jobs of a host as bars over the window."""

from warpmeter.web.panels.panel import WINDOW, Panel


class Band(Panel, component="band.js"):
    """`source` lists `{job_id, name, from, until}`; `until` null: it still runs."""

    def __init__(self, source: str, title: str = "Jobs") -> None:
        super().__init__(source, title, WINDOW)
