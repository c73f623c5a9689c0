"""Captures as a table: what was asked for, how it stands, and what can be done with it."""

from warpmeter.web.panels.panel import Panel


class Captures(Panel, component="captures.js"):
    """All of them, or those of one job. `details`: the chosen one (`capture` in the address) unfolds in its row."""

    def __init__(self, job: str = "", *, details: bool = True, limit: int = 25, title: str = "Captures") -> None:
        super().__init__("/api/v1/captures", title, ())
        self._props["job"] = job
        self._props["details"] = details
        self._props["limit"] = limit
