"""Reports as a table: what was made, who got it, and the files of the chosen one."""

from warpmeter.web.panels.panel import Panel

SOURCE = "/api/v1/reports"


class Reports(Panel, component="reports.js"):
    """The latest first; the one that is `id` in the address unfolds in its row."""

    def __init__(self, limit: int = 50) -> None:
        super().__init__(SOURCE, "Reports", ())
        self._props["limit"] = limit


class Schedules(Panel, component="report_schedules.js"):
    """Which report comes when, to whom."""

    def __init__(self) -> None:
        super().__init__(f"{SOURCE}/schedules", "Schedules", ())
