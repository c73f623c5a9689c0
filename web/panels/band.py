"""What took some of the window, as bars: jobs on a host, or when its GPUs were throttled."""

from typing import Literal

from warpmeter.web.panels.panel import WINDOW, Panel


class Band(Panel, component="band.js"):
    """`source` lists jobs (`{job_id, name, from, until}`), or events, of which those that throttled are shown by GPU.

    `until` null: it still lasts.
    """

    def __init__(self, source: str, title: str = "Jobs", of: Literal["jobs", "throttle"] = "jobs") -> None:
        super().__init__(source, title, WINDOW)
        self._props["of"] = of
