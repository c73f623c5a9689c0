"""The bar over every page: where one is, where one can go, the theme, and who one is."""

from collections.abc import Sequence

from nicegui.element import Element

from warpmeter.web.panels.panel import LIBRARY


class Topbar(Element, component="topbar.js", esm=LIBRARY):
    """`links`: key, address and name of each page; `here` is the key of this one."""

    def __init__(self, links: Sequence[tuple[str, str, str]], here: str) -> None:
        super().__init__()
        self._props["links"] = [{"key": key, "path": path, "name": name} for key, path, name in links]
        self._props["here"] = here
