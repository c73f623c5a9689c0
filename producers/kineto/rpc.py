"""dynolog's port: its command `dyno` and scripts built on it (unitrace.py) ask for traces here.

A frame both ways: a length of four bytes in the machine's own byte order, then JSON. One request a connection. What is
malformed or unknown is closed without a word, as dynolog does.
"""

import hmac
import json
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore, Event
from typing import Any, Final

from warpmeter import __version__, log, selfmetrics
from warpmeter.producers.kineto.registry import Client, Registry

LENGTH: Final = struct.Struct("=i")
REQUEST_MAX: Final = 1 << 20
TIMEOUT_S: Final = 5.0
"""For a whole request and its reply: who drips bytes gets no longer."""
CALLERS_MAX: Final = 32
"""Connections at once, a thread each; more are closed. So stalled ones are in the way for TIMEOUT_S at most."""
LOOK_S: Final = 0.5
LOOPBACK: Final = ("127.", "::1", "localhost")

REQUESTS = selfmetrics.counter("warpmeter_kineto_rpc_total")
logger = log.get("kineto")


class RpcError(Exception):
    """The port cannot be opened, or may not be as it is set; the message says what to do."""


class BadRequestError(ValueError):
    """No request that dynolog knows."""


@dataclass(frozen=True)
class Counters:
    """Pause and resume of the GPUs' performance counters."""

    pause: Callable[[float], None]
    resume: Callable[[], None]


@dataclass(frozen=True)
class Door:
    """Where to listen. Beyond loopback only with TLS and a token, which requests then carry as `token`."""

    address: str
    port: int
    tls: ssl.SSLContext | None = None
    token: str = ""

    def check(self) -> None:
        """Raises RpcError where anybody on the network could trace other people's jobs."""
        if not self.address.startswith(LOOPBACK) and (self.tls is None or not self.token):
            raise RpcError(
                f"agent.rpc_address {self.address} is not loopback: give agent.rpc_tls_certificate, agent.rpc_tls_key "
                "and agent.rpc_token, or leave it at 127.0.0.1"
            )


class Dynolog:
    """What dynolog answers. `trace_id` names a request to Kineto."""

    def __init__(self, registry: Registry, counters: Counters, trace_id: Callable[[], str]) -> None:
        self._registry, self._counters, self._trace_id = registry, counters, trace_id
        self._functions: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
            "getStatus": lambda _: {"status": 1},
            "getVersion": lambda _: {"version": __version__},
            "setKinetOnDemandRequest": self._trace,
            "dcgmProfPause": self._pause,
            "dcgmProfResume": self._resume,
        }

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The reply to a request; raises BadRequestError for a function that there is not."""
        function = request.get("fn")
        if not isinstance(function, str) or function not in self._functions:
            raise BadRequestError(f"fn is {function!r}")
        return self._functions[function](request)

    def _trace(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        config, pids = request.get("config"), request.get("pids")
        if not isinstance(config, str) or not isinstance(pids, list):
            return {"status": "failed"}
        job, limit = request.get("job_id", 0), request.get("process_limit", 1000)
        if not all(_is_number(each) for each in (job, limit, *pids)):
            return {"status": "failed with exception = pids, job_id and process_limit are whole numbers"}
        matched = self._registry.of_job(job) if pids in ([], [0]) else self._registry.among(pids)
        return self._offered(matched, max(0, limit), f"{config}\n    REQUEST_TRACE_ID={self._trace_id()}")

    def _offered(self, matched: list[Client], limit: int, text: str) -> Mapping[str, Any]:
        triggered: list[int] = []
        busy = 0
        for client in matched:
            if len(triggered) >= limit:
                break
            if self._registry.offer(client.pid, text) == "taken":
                triggered.append(client.pid)
            else:
                busy += 1
        return {
            "activityProfilersBusy": busy,
            "activityProfilersTriggered": triggered,
            "eventProfilersBusy": 0,
            "eventProfilersTriggered": [],
            "processesMatched": [client.pid for client in matched],
        }

    def _pause(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        seconds = request.get("duration_s")
        if not isinstance(seconds, int) or isinstance(seconds, bool):
            return {"status": "failed"}
        try:
            self._counters.pause(float(seconds))
        except ValueError:
            return {"status": False}
        return {"status": True}

    def _resume(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        self._counters.resume()
        return {"status": True}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


class _Caller:
    """One connection, with one deadline for all of it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._until = connection, time.monotonic() + TIMEOUT_S

    def _patience(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)

    def read(self, size: int) -> bytes:
        """So many bytes; raises BadRequestError when there are fewer, OSError when they do not come."""
        found = bytearray()
        while len(found) < size:
            self._patience()
            part = self._connection.recv(min(size - len(found), 1 << 16))
            if not part:
                raise BadRequestError(f"{len(found)} of {size} bytes")
            found += part
        return bytes(found)

    def send(self, reply: bytes) -> None:
        """All of it; raises OSError."""
        self._patience()
        self._connection.sendall(reply)


def framed(reply: Mapping[str, Any]) -> bytes:
    """A reply as it travels: keys sorted and without blanks, as dynolog's."""
    text = json.dumps(reply, sort_keys=True, separators=(",", ":")).encode()
    return LENGTH.pack(len(text)) + text


def request_of(caller: _Caller) -> Mapping[str, Any]:
    """The request; raises BadRequestError or OSError."""
    (size,) = LENGTH.unpack(caller.read(LENGTH.size))
    if not 0 < size <= REQUEST_MAX:
        raise BadRequestError(f"a request of {size} bytes")
    try:
        found = json.loads(caller.read(size))
    except (ValueError, RecursionError) as error:
        raise BadRequestError("no JSON") from error
    if not isinstance(found, dict):
        raise BadRequestError("no JSON object")
    return found


class Server:
    """The port, answered by a few threads."""

    def __init__(self, door: Door, dynolog: Dynolog) -> None:
        """Open it; raises RpcError."""
        door.check()
        self._door, self._dynolog = door, dynolog
        try:
            self._listener = socket.create_server((door.address, door.port), backlog=50)
        except OSError as error:
            raise RpcError(
                f"cannot listen on {door.address}:{door.port}: {error.strerror}; does dynolog run on this host? Stop "
                "it, set agent.rpc_port, or agent.rpc = false"
            ) from error
        self._listener.setblocking(False)
        self._room = BoundedSemaphore(CALLERS_MAX)

    @property
    def port(self) -> int:
        """Where it listens."""
        found: int = self._listener.getsockname()[1]
        return found

    def run(self, stop: Event) -> None:
        """Answer until `stop`."""
        with (
            self._listener,
            ThreadPoolExecutor(CALLERS_MAX, "kineto-rpc") as workers,
            selectors.DefaultSelector() as selector,
        ):
            selector.register(self._listener, selectors.EVENT_READ)
            while not stop.is_set():
                if selector.select(LOOK_S):
                    self._accept(workers)

    def _accept(self, workers: ThreadPoolExecutor) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptor is left
            return
        if not self._room.acquire(blocking=False):
            REQUESTS.labels("too_many").inc()
            connection.close()
            return
        workers.submit(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        outcome = "ignored"
        try:
            outcome = self._answered(connection)
        except (BadRequestError, OSError) as error:  # ssl.SSLError is an OSError
            logger.debug("ignored a request to dynolog's port", why=str(error))
        finally:
            REQUESTS.labels(outcome).inc()
            with suppress(OSError):
                connection.close()
            self._room.release()

    def _answered(self, connection: socket.socket) -> str:
        connection.settimeout(TIMEOUT_S)
        if self._door.tls is not None:
            connection = self._door.tls.wrap_socket(connection, server_side=True)
        with connection:
            caller = _Caller(connection)
            request = request_of(caller)
            if self._door.token and not hmac.compare_digest(str(request.get("token", "")), self._door.token):
                return "denied"
            caller.send(framed(self._dynolog.answer(request)))
        return "answered"
