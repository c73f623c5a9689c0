"""OTLP over HTTP: an export every `agent.otlp_interval_s`, queued within a bound, sent from a thread of its own.

As the specification has it: gzip; 429, 502, 503 and 504 and a receiver that does not answer are tried again, after
Retry-After or with exponential back-off; every other refusal drops the export; a partial success is not sent again.
What is dropped, and what the receiver rejects, is counted by values.
"""

import gzip
import http.client
import random
import time
from base64 import b64encode
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Condition, Thread
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from warpmeter import __version__, log, selfmetrics
from warpmeter.clock import Clock
from warpmeter.producers.out.drops import Drops
from warpmeter.producers.out.latest import Latest
from warpmeter.producers.out.otlp import Request
from warpmeter.producers.source import Health
from warpmeter.producers.timely import TimelyResponse
from warpmeter.settings import Agent

TIMEOUT_S: Final = 10.0
STALL_S: Final = 10.0
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 30.0
LONGEST_RETRY_AFTER_S: Final = 300.0
LARGEST_ANSWER: Final = 1 << 20
WHY_MAX: Final = 1000
AGAIN: Final = frozenset({429, 502, 503, 504})
DROPPED: Final = {
    "full": "values dropped so far: the OTLP queue was full; the receiver is away or slow, or raise "
    "agent.otlp_queue_max_bytes",
    "refused": "values dropped so far: the OTLP receiver refused their export for good; see the log",
    "rejected": "values that the OTLP receiver did not take of exports that it took; see the log",
}


@dataclass(frozen=True)
class Export:
    """One request's body, gzipped, and how many values it holds."""

    body: bytes
    points: int


@dataclass(frozen=True)
class Answer:
    """What the receiver said, true or not. `status` 0: nothing. `retry_after_s`: None when it did not say."""

    status: int
    why: str
    retry_after_s: float | None = None
    rejected: int = 0


class Exporter:
    """An Output that pushes to an OTLP receiver."""

    name: Final = "output/otlp"
    gone: Final = False

    def __init__(self, agent: Agent, clock: Clock) -> None:
        """Connects in the background; a receiver that is away is no error."""
        self._agent, self._clock = agent, clock
        self._latest = Latest(agent, clock)
        self._sent_up_to, self._due = 0, clock.monotonic() + agent.otlp_interval_s
        self._queue: deque[Export] = deque()
        self._bytes, self._closing = 0, False
        self._failing_since: float | None = None
        self._why = ""
        self._peer = Peer(agent)
        self._drops = Drops(self.name, DROPPED, clock)
        self._log = log.get("agent").bind(source=self.name)
        self._queued = selfmetrics.gauge("warpmeter_output_queue_bytes").labels(self.name)
        self._taken = selfmetrics.counter("warpmeter_output_values_total").labels(self.name)
        self._some = Condition()
        self._thread = Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Keep the rows of one tick until the next export."""
        self._latest.publish(topic, rows)

    def pump(self) -> bool:
        """Make the export that is due."""
        now = self._clock.monotonic()
        if now >= self._due:
            missed = (now - self._due) // self._agent.otlp_interval_s
            self._due += (missed + 1) * self._agent.otlp_interval_s
            self._export()
        return False

    def health(self) -> tuple[Health, list[Health]]:
        """Not ok when the receiver took nothing for STALL_S while something waited."""
        with self._some:
            since, waiting = self._failing_since, len(self._queue)
            if since is not None and self._clock.monotonic() - since >= STALL_S:
                why = f"{self._peer.shown} takes nothing: {self._why}; {waiting} exports wait for it"
                return Health("", "failed", why), self._drops.told()
        return Health("", "ok"), self._drops.told()

    def close(self, timeout_s: float) -> None:
        """Export what came last, and send what waits while the receiver takes it."""
        self._export()
        with self._some:
            self._closing = True
            self._some.notify()
        self._thread.join(timeout_s)
        left = sum(export.points for export in self._queue)
        if left:
            self._log.warning("values_not_sent", count=left, why=self._why or "no time was left")

    def _export(self) -> None:
        rows = self._latest.rows(self._sent_up_to)
        request = Request(self._agent.host)
        request.add(rows)
        self._sent_up_to = max((kept.number for kept in rows), default=self._sent_up_to)
        if request.points:
            self._enqueue(Export(gzip.compress(request.packed(), 1, mtime=0), request.points))

    def _enqueue(self, export: Export) -> None:
        with self._some:
            self._queue.append(export)
            self._bytes += len(export.body)
            while self._bytes > self._agent.otlp_queue_max_bytes and len(self._queue) > 1:
                self._drops.add("full", self._take().points)
            self._queued.set(self._bytes)
            self._some.notify()

    def _take(self) -> Export:
        export = self._queue.popleft()
        self._bytes -= len(export.body)
        self._queued.set(self._bytes)
        return export

    def _run(self) -> None:
        wait_s = FIRST_WAIT_S
        while (export := self._next()) is not None:
            answer = self._peer.post(export.body)
            if answer.status not in AGAIN and answer.status:
                self._done(export, answer)
                wait_s = FIRST_WAIT_S
                continue
            self._failed(answer.why)
            given = answer.retry_after_s
            if not self._pause(wait_s * random.uniform(0.8, 1.2) if given is None else given):
                return
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _next(self) -> Export | None:
        """The oldest export, which stays queued until it is settled; None when closing and all is sent."""
        with self._some:
            self._some.wait_for(lambda: self._queue or self._closing)
            return self._queue[0] if self._queue else None

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try; False when the output closes: then there is none."""
        with self._some:
            return not self._some.wait_for(lambda: self._closing, seconds)

    def _done(self, export: Export, answer: Answer) -> None:
        with self._some:
            if self._queue and self._queue[0] is export:  # else it was dropped meanwhile, and counted
                self._take()
            else:
                return
            self._failing_since = None
        taken = 200 <= answer.status < 300
        lost = min(max(0, answer.rejected), export.points) if taken else export.points
        self._taken.inc(export.points - lost)
        self._drops.add("rejected" if taken else "refused", lost)
        if answer.why:
            self._log.warning("otlp_refused", status=answer.status, why=answer.why[:WHY_MAX], values=export.points)

    def _failed(self, why: str) -> None:
        with self._some:
            self._why = why
            if self._failing_since is None:
                self._failing_since = self._clock.monotonic()


class Peer:
    """The receiver, over one connection that is kept while it stands."""

    def __init__(self, agent: Agent) -> None:
        url = urlsplit(agent.otlp_url)
        self._path = (url.path.rstrip("/") or "/v1/metrics") + (f"?{url.query}" if url.query else "")
        self.shown = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{self._path}"
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(url.hostname or "", url.port, timeout=TIMEOUT_S)
        self._connection.response_class = TimelyResponse
        self._headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": f"warpmeter/{__version__}",
            **_basic(url),
            **agent.otlp_headers,
        }

    def post(self, body: bytes) -> Answer:
        """Send one request; never raises. A connection that was closed while it rested is no failure."""
        rested = self._connection.sock is not None
        try:
            return self._post(body)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self._connection.close()
            if not rested:
                return Answer(0, str(error) or type(error).__name__)
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a header that cannot be sent
            self._connection.close()
            return Answer(0, str(error) or type(error).__name__)
        return self.post(body)

    def _post(self, body: bytes) -> Answer:
        if self._connection.sock is not None:
            self._connection.sock.settimeout(TIMEOUT_S)  # the last answer left less
        self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        content = response.read(LARGEST_ANSWER)
        if not response.isclosed():  # a receiver that goes on and on
            self._connection.close()
        if 200 <= response.status < 300:
            return _partial(response.status, content)
        what = f"{response.status} {response.reason}"
        return Answer(response.status, what, retry_after_s(response.headers.get("Retry-After"), time.time()))


def _basic(url: SplitResult) -> dict[str, str]:
    """The header for a user and password in the URL."""
    if url.username is None:
        return {}
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _partial(status: int, content: bytes) -> Answer:
    answer = ExportMetricsServiceResponse()
    with suppress(DecodeError):  # it took the export; what it says of it is in a language of its own
        answer.ParseFromString(content)
    partial = answer.partial_success
    return Answer(status, partial.error_message, rejected=partial.rejected_data_points)


def retry_after_s(header: str | None, now: float) -> float | None:
    """Seconds of a Retry-After header: a number or an HTTP date, within bounds; None without one that can be read."""
    if not header:
        return None
    try:
        seconds = float(header) if header.strip().isdigit() else parsedate_to_datetime(header).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)
