"""Ask the API in this process, as a browser or a program on this machine does."""

from fastapi.testclient import TestClient

from warpmeter.settings import Settings
from warpmeter.web.app import api_app

HERE = "http://127.0.0.1"


def visitor(settings: Settings, **headers: str) -> TestClient:
    """A client of an application of its own, by the name that is answered to; it follows no redirects.

    `headers`: sent along with each request, `_` for `-`.
    """
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return TestClient(api_app(settings), base_url=HERE, headers=sent, follow_redirects=False)
