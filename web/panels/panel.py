"""What all panels are: an element whose JavaScript gets a source, and which parts of the address it follows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nicegui.element import Element

LIBRARY: Final = {"warpmeter-ui": str(Path(__file__).parent.parent / "lib")}
"""The modules that panels share, `import … from "warpmeter-ui"`."""
WINDOW: Final = ("since", "until")


class Panel(Element, esm=LIBRARY):
    """Draws what `source`, an address of the API or several, answers.

    `follows`: parameters of the page's address that are sent along; a change of one fetches again.
    """

    def __init__(self, source: str | Sequence[str], title: str, follows: Sequence[str] = WINDOW) -> None:
        super().__init__()
        self._props["source"] = source if isinstance(source, str) else list(source)
        self._props["title"] = title
        self._props["follows"] = list(follows)
