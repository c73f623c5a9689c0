"""Where the time went: a flame graph of sampled stacks, with its table of functions."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from warpmeter.web.panels.panel import WINDOW, Panel

STACKS: Final = "/api/v1/stacks"
CHOICES: Final = ("by", "lines", "process", "rank", "source", "base", "base_job")
"""What is asked for: `flame.NAME` in the page's address, beside `flame.q` and `flame.zoom`, which ask nothing."""


class Flame(Panel, component="flame.js"):
    """Stacks of a `host` or a `job`; `why`: the address of a host's sources, which tell why there are none."""

    def __init__(self, of: Mapping[str, str], why: str | None = None) -> None:
        follows = (*WINDOW, *(f"flame.{name}" for name in CHOICES))
        super().__init__(f"{STACKS}?{urlencode(of)}", "Flame graph", follows)
        self._props["why"] = why
