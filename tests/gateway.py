"""A proxy before the engine's HTTP endpoint that does to requests what networks, load balancers and servers do."""

import socket
import socketserver
import struct
import threading
from contextlib import suppress
from enum import Enum, auto
from http.client import HTTPConnection
from typing import Any, Final, cast


class Fault(Enum):
    """What becomes of an insert; anything else passes."""

    NONE = auto()
    CUT = auto()  # the connection is reset half way through the body; nothing reaches the engine
    REPLY_LOST = auto()  # the engine has done it, and the connection ends before the answer
    BAD_GATEWAY = auto()  # a load balancer's own page
    TOO_LARGE = auto()  # another one, which no retry mends
    NO_MEMORY = auto()  # the engine's own refusal, of a query that may hold a megabyte
    HANGS = auto()  # no answer, until the fault is another
    NO_TIME = auto()  # ClickHouse's refusal of what takes longer than it may
    HEAD_CUT = auto()  # the connection ends among the headers of the answer


_PAGES: Final = {Fault.BAD_GATEWAY: (502, "Bad Gateway"), Fault.TOO_LARGE: (413, "Request Entity Too Large")}
_NO_TIME: Final = b"Code: 159. DB::Exception: Timeout exceeded: elapsed 10001 ms. (TIMEOUT_EXCEEDED) (version 26.9.1)\n"


class Gateway:
    """Listens on `port` and passes requests to the engine on `engine_port`. Close it.

    `fault` is looked at for each insert into `table`, or for each request that holds `asked`, where that is given;
    `hits` counts those that met one.
    """

    def __init__(self, engine_port: int, table: str = "gpu_samples", asked: str | None = None) -> None:
        self.engine_port = engine_port
        self.table = table.encode()
        self.asked = asked
        self.fault = Fault.NONE
        self.hits = 0
        self._counting = threading.Lock()
        self.open: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Request)
        self._server.gateway = self
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def met(self) -> None:
        """One more met a fault; from any connection's thread."""
        with self._counting:
            self.hits += 1

    def close(self) -> None:
        """Stop listening; what is under way is cut."""
        self.fault = Fault.NONE
        self._server.shutdown()
        self._server.server_close()
        for each in list(self.open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False
    gateway: Gateway


class _Request(socketserver.StreamRequestHandler):
    """One connection of a client: requests with a Content-Length, one after the other."""

    def handle(self) -> None:
        gateway = cast(_Server, self.server).gateway
        gateway.open.add(self.connection)
        with suppress(OSError):
            while self._one(gateway):
                pass
        gateway.open.discard(self.connection)

    def _one(self, gateway: Gateway) -> bool:
        if not (line := self.rfile.readline()):
            return False
        method, path, _ = line.decode().split(" ", 2)
        headers = dict(self._headers())
        size = int(headers.get("content-length", 0))
        head = self.rfile.read(min(size, 200))
        meant = head.startswith(b"INSERT INTO") and gateway.table in head.partition(b"(")[0]
        if gateway.asked is not None:
            head += self.rfile.read(size - len(head))
            meant = gateway.asked.encode() in head
        fault = gateway.fault if meant else Fault.NONE
        if fault is not Fault.NONE:
            gateway.met()
        if fault is Fault.CUT:
            self.rfile.read((size - len(head)) // 2)
            return self._reset()
        body = head + self.rfile.read(size - len(head))
        while fault is Fault.HANGS and gateway.fault is Fault.HANGS:
            threading.Event().wait(0.05)
        fault = gateway.fault if fault is Fault.HANGS else fault
        if fault in _PAGES:
            return self._answer(*_PAGES[fault], {}, b"<html><title>Oh</title><h1>%s</h1></html>" % fault.name.encode())
        if fault is Fault.NO_TIME:
            return self._answer(500, "Internal Server Error", {"X-ClickHouse-Exception-Code": "159"}, _NO_TIME)
        if fault is Fault.NO_MEMORY:
            path += "&max_memory_usage=1000000"
        answer = _asked(gateway.engine_port, method, path, headers, body)
        if fault is Fault.HEAD_CUT:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-ClickHouse-Timezone: UTC\r\n")
            return False
        return self._reset() if fault is Fault.REPLY_LOST else self._answer(*answer)

    def _headers(self) -> Any:
        while line := self.rfile.readline().decode().strip():
            name, _, value = line.partition(":")
            yield name.lower(), value.strip()

    def _reset(self) -> bool:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        return False

    def _answer(self, status: int, reason: str, headers: dict[str, str], body: bytes) -> bool:
        kept = {
            k: v for k, v in headers.items() if k.lower() not in ("transfer-encoding", "content-length", "connection")
        }
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{k}: {v}" for k, v in kept.items()), f"Content-Length: {len(body)}"]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)
        return True


def _asked(
    port: int, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, str, dict[str, str], bytes]:
    upstream = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        upstream.request(method, path, body, {k: v for k, v in headers.items() if k not in ("host", "content-length")})
        reply = upstream.getresponse()
        return reply.status, reply.reason, dict(reply.getheaders()), reply.read()
    finally:
        upstream.close()
