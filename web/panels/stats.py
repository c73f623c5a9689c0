"""Headline figures: a value, its unit, and its change against the window before."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from warpmeter.web.panels.panel import WINDOW, Panel


@dataclass(frozen=True)
class Tile:
    """One figure: `field` of the answer, or a metric of its `metrics`; `note` is a field that tells more, in words."""

    field: str
    name: str
    unit: str = "1"
    note: str = ""
    note_unit: str = "1"


class Stats(Panel, component="stats.js"):
    """Figures out of one answer of `source`, side by side."""

    def __init__(self, source: str, title: str, tiles: Sequence[Tile], follows: Sequence[str] = WINDOW) -> None:
        super().__init__(source, title, follows)
        self._props["tiles"] = [asdict(tile) for tile in tiles]
