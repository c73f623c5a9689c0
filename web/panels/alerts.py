"""Alerts as a table: what is the matter, since when, and who takes care of it."""

from warpmeter.web.panels.panel import Panel

SOURCE = "/api/v1/alerts"


class Alerts(Panel, component="alerts.js"):
    """All of them, filtered by the page's address; the chosen one (`alert` in the address) unfolds in its row.

    With `host` or `job` those about it alone, in few columns; nothing is shown where there is none.
    """

    def __init__(self, host: str = "", job: str = "", limit: int = 50) -> None:
        super().__init__(SOURCE, "Alerts")
        self._props["about"] = {"host": host, "job": job}
        self._props["details"] = not (host or job)
        self._props["limit"] = limit
        if host or job:
            self.classes("wm-quiet-when-none")


class Silences(Panel, component="silences.js"):
    """Silences that hold or will, and the way to end one."""

    def __init__(self) -> None:
        super().__init__(f"{SOURCE}/silences", "Silences", ())


class Alarms(Panel, component="alarms.js"):
    """How many alerts fire, by severity: each a way to them."""

    def __init__(self) -> None:
        super().__init__(f"{SOURCE}/counts", "Alerts now", ())
