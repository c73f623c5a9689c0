"""Launch: whether the processes of a job can be traced, to trace them once or again and again, and how it goes."""

from urllib.parse import quote

from warpmeter.web.panels.panel import Panel


class Launch(Panel, component="launch.js"):
    """Of one job. The capture that it shows is `capture` in the page's address, else the one that goes on."""

    def __init__(self, job: str) -> None:
        super().__init__(f"/api/v1/jobs/{quote(job, safe='')}/profilable", "Launch", ())
        self._props["job"] = job
