"""The API, for who writes programs: what can be asked, without a script from elsewhere."""

from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.api import Api


def show() -> None:
    """Every endpoint, its parameters, and a line to try it."""
    with frame("api", "API", window=False):
        Api("/api/v1/openapi.json", "Endpoints")
