"""What happened on a host: XIDs, throttling, GPUs that were lost, sources that failed."""

from warpmeter.web.panels.panel import WINDOW, Panel


class Events(Panel, component="events.js"):
    """`source` lists `{at, until, kind, gpu, what, why}`, the newest first."""

    def __init__(self, source: str, title: str = "Events") -> None:
        super().__init__(source, title, WINDOW)
