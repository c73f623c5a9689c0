"""An OTLP/HTTP receiver that decodes with OpenTelemetry's own messages and answers as told.

`python -m tests.otlp FILE`: as a process that can be frozen; writes its port, then the number of
values of each request that it took, to FILE.
"""

import gzip
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


@dataclass(frozen=True)
class Say:
    """One answer. `rejected`: values of a partial success."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    rejected: int = 0
    message: str = ""


@dataclass(frozen=True)
class Got:
    """One request: when it came (monotonic), what it said, and the answer to it."""

    at: float
    path: str
    headers: dict[str, str]
    request: ExportMetricsServiceRequest
    status: int

    @property
    def metrics(self) -> dict[str, Any]:
        """Its metrics by name."""
        return {
            metric.name: metric
            for resource in self.request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    @property
    def points(self) -> int:
        """How many values it has."""
        return sum(len(each.gauge.data_points) + len(each.sum.data_points) for each in self.metrics.values())


class Receiver:
    """Answers the first requests with `says`, all others with success."""

    def __init__(self, says: Sequence[Say] = (), port: int = 0) -> None:
        self.got: list[Got] = []
        self._says = list(says)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = handler.rfile.read(int(headers["content-length"]))
        packed = headers.get("content-encoding") == "gzip"
        request = ExportMetricsServiceRequest.FromString(gzip.decompress(body) if packed else body)
        say = self._says.pop(0) if self._says else Say()
        self.got.append(Got(time.monotonic(), handler.path, headers, request, say.status))
        answer = ExportMetricsServiceResponse()
        if say.rejected or say.message:
            answer.partial_success.rejected_data_points = say.rejected
            answer.partial_success.error_message = say.message
        content = answer.SerializeToString() if say.status == 200 else b"no"
        handler.send_response(say.status)
        for name, value in {"Content-Length": str(len(content)), **say.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def taken(self) -> list[Got]:
        """Requests that were answered with success."""
        return [got for got in self.got if got.status == 200]

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def main(file: Path) -> None:
    """Serve until killed."""
    receiver = Receiver()
    told = [str(receiver.port)]
    while True:
        told[1:] = [str(got.points) for got in receiver.taken()]
        fresh = file.with_suffix(".new")
        fresh.write_text("\n".join(told))
        fresh.replace(file)
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
