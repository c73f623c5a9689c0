"""What a host's agent can read, and why not what it cannot."""

from warpmeter.web.panels.panel import Panel


class Sources(Panel, component="sources.js"):
    """`source` lists `{source, subject, state, why, last_seen_at, silent}`."""

    def __init__(self, source: str, title: str = "Sources of the agent") -> None:
        super().__init__(source, title, ())
