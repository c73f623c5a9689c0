"""The time picker: the window that all panels of a page look at, and how often they look again."""

from nicegui.element import Element

from warpmeter.web.panels.panel import LIBRARY


class Picker(Element, component="picker.js", esm=LIBRARY):
    """Chooses `since`, `until` and `refresh` in the page's address.

    `run`: the address of a job in the API, whose run time is the window while the page's address names none.
    """

    def __init__(self, run: str | None = None) -> None:
        super().__init__()
        self._props["run"] = run
