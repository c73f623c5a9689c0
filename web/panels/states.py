"""How many GPUs are busy, idle, failing or gone; each a filter of the page's tables."""

from warpmeter.web.panels.panel import Panel


class States(Panel, component="states.js"):
    """Counts of `source`; choosing one puts it into the address as `gpus`."""

    def __init__(self, source: str, title: str) -> None:
        super().__init__(source, title, ())
