"""What opens the addresses of exporters: HTTP and nothing else, over in time."""

import ssl
import urllib.request
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection

from warpmeter.producers.timely import TimelyResponse


class _TimelyConnection(HTTPConnection):
    response_class = TimelyResponse


class _TimelyTLSConnection(HTTPSConnection):
    response_class = TimelyResponse


class TimelyHTTP(urllib.request.HTTPHandler):
    """For an opener: `timeout` bounds reaching the server, and then all of its answer."""

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Send the request; raises URLError, TimeoutError."""
        return self.do_open(_TimelyConnection, req)


class TimelyHTTPS(urllib.request.HTTPSHandler):
    """The same over TLS. `context`: made when the first https address is met, for it takes memory."""

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        urllib.request.AbstractHTTPHandler.__init__(self)
        self._make = context
        self._made: ssl.SSLContext | None = None

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Send the request; raises URLError, TimeoutError and what making the context raises."""
        self._made = self._made or self._make()
        return self.do_open(_TimelyTLSConnection, req, context=self._made)


def opener(context: Callable[[], ssl.SSLContext]) -> urllib.request.OpenerDirector:
    """HTTP alone, for a redirect may name files and FTP as well; no proxy, for exporters are neighbours."""
    made = urllib.request.OpenerDirector()
    for handler in (
        TimelyHTTP(),
        TimelyHTTPS(context),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    ):
        made.add_handler(handler)
    return made
