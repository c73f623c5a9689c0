"""What the API can be asked, out of its own description."""

from warpmeter.web.panels.panel import Panel


class Api(Panel, component="api.js"):
    """`source` is the description, OpenAPI's JSON."""

    def __init__(self, source: str, title: str) -> None:
        super().__init__(source, title, ())
