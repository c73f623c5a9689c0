"""A metric over time as lines: of hosts, GPUs, jobs or devices."""

from collections.abc import Mapping, Sequence

import nicegui.elements.echart  # noqa: F401 - registers the library that the panel draws with

from warpmeter.web.panels.panel import WINDOW, Panel


class Series(Panel, component="series.js"):
    """`sources` answer as `/api/v1/series` does: a name and the address of each; with several, their lines join.

    `why`: the address of a host's sources, which tell why there is nothing to draw; `hint`: what it would need;
    `link`: `host` or `job`, of which each line is one.
    """

    def __init__(
        self,
        title: str,
        sources: Mapping[str, str] | str,
        *,
        follows: Sequence[str] = WINDOW,
        why: str | None = None,
        hint: str = "",
        link: str | None = None,
    ) -> None:
        named = {"": sources} if isinstance(sources, str) else sources
        super().__init__(list(named.values()), title, follows)
        self._props["names"] = list(named)
        self._props["why"] = why
        self._props["link"] = link
        self._props["hint"] = hint
