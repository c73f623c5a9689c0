"""HTTP servers that answer as exporters do, or as they should not."""

import gzip
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """An HTTP server that answers each GET with `answer`; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def page(content: bytes | Callable[[], bytes], status: int = 200, **headers: str) -> Answer:
    """An answer with a body."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(content() if callable(content) else content)

    return answer


def packed(content: bytes) -> Answer:
    """An answer with a body packed by gzip."""
    return page(gzip.compress(content), Content_Encoding="gzip")
