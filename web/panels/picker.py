"""The time picker: the window that all panels of a page look at, and how often they look again."""

from nicegui.element import Element

from warpmeter.web.panels.panel import LIBRARY


class Picker(Element, component="picker.js", esm=LIBRARY):
    """Chooses `since`, `until` and `refresh` in the page's address."""
