"""The command. It alone may import every stage, each inside the function that needs it."""

from warpmeter.cli.app import app

__all__ = ["app"]
