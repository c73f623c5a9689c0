"""Names in paths: `{host:named}` takes one whole, whatever is in it."""

from collections.abc import MutableMapping
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.convertors import StringConvertor, register_url_convertor

BELOW: Final = ("/api/v1/hosts/", "/api/v1/jobs/", "/host/")
"""Paths that name hosts and jobs."""


class Named(StringConvertor):
    """A name, with slashes of its own: encoded (%2F) they never are the path's."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        """The name."""
        return unquote(value)


register_url_convertor("named", Named())


def path_of(scope: MutableMapping[str, Any]) -> str:
    """A request's path as the routes take it.

    Servers hand it on decoded, in which the host `a/events` is the events of `a`. So where hosts and jobs are named,
    names stay encoded until a route has told them from the rest; a slash that came as one is a name's only where the
    path fits no other route.
    """
    path: str = scope["path"]
    if not path.startswith(BELOW):
        return path
    sent: str = scope.get("raw_path", path.encode()).decode("latin-1")
    return "/".join(quote(unquote(part), safe="") for part in sent.split("/"))
