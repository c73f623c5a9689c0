"""The SQL console: a statement, and its rows as a table."""

import nicegui.elements.aggrid  # noqa: F401 - registers the library that the panel draws with

from warpmeter.web.panels.panel import Panel


class Console(Panel, component="console.js"):
    """Runs what its text area holds through `source`; the statement is in the address, behind `#`."""

    def __init__(self, source: str, title: str, first: str) -> None:
        super().__init__(source, title, ())
        self._props["first"] = first
