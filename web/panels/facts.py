"""What one thing is: names and values of one answer."""

from collections.abc import Sequence
from dataclasses import asdict

from warpmeter.web.panels.panel import Panel
from warpmeter.web.panels.table import Column


class Facts(Panel, component="facts.js"):
    """Fields of the object that `source` answers, those that are known."""

    def __init__(self, source: str, title: str, columns: Sequence[Column]) -> None:
        super().__init__(source, title, ())
        self._props["columns"] = [asdict(column) for column in columns]
