"""Any Prometheus exporter as a source: scrape its page, publish every value that matches.

Formats: Prometheus' text exposition format, and OpenMetrics where an exporter answers with it.
"""

import gzip
import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final

from warpmeter.producers.source import AnySource, Attribution, Health, Reading, Sample, SourceError
from warpmeter.schemas.generated.metric_samples_pb2 import Envelope
from warpmeter.settings import Agent, Scrape

MetricSample = Envelope.MetricSample

TIMEOUT_S: Final = 5.0
LARGEST: Final = 16 << 20
"""Bytes of a page, unpacked; a larger one is refused whole: half a page would look like vanished metrics."""
CHUNK: Final = 1 << 16
ACCEPT: Final = "text/plain;version=0.0.4;q=0.9,*/*;q=0.1"

LINE: Final = re.compile(
    r"([A-Za-z_:][\w:]*)[ \t]*(?:\{(.*)\})?[ \t]*(\S+)(?:[ \t]+-?[\d.]+)?(?:[ \t]+#.*)?[ \t]*", re.ASCII
)
LABEL: Final = re.compile(r'[ \t,]*([A-Za-z_]\w*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"', re.ASCII)
ESCAPE: Final = re.compile(r'\\([\\n"])')
UNESCAPED: Final = {"n": "\n", '"': '"', "\\": "\\"}


@dataclass(frozen=True)
class Value:
    """One value of a page."""

    name: str
    labels: dict[str, str]
    value: float


class PrometheusSource:
    """Source of `metric-samples` from one endpoint."""

    topic = "metric-samples"
    timeout_s = 2 * TIMEOUT_S

    def __init__(self, host: str, scrape: Scrape) -> None:
        """`scrape.match` selects metrics by their whole name; raises re.error when it is no regular expression."""
        self.name = f"scrape/{scrape.name}"
        self.period_s = scrape.period_s
        self._host, self._scrape = host, scrape
        self._match = re.compile(scrape.match)
        # Exporters are neighbours: a proxy of the environment is not meant for them.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read(self) -> bytes:
        """The page; raises SourceError when the endpoint does not answer well, in time, or within the size limit."""
        request = urllib.request.Request(self._scrape.url, headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                packed = response.headers.get("Content-Encoding") == "gzip"
                return _bounded(gzip.GzipFile(fileobj=response) if packed else response, self._scrape.url)
        except TimeoutError as error:
            raise SourceError("timeout", f"{self._scrape.url} did not answer within {TIMEOUT_S:g} s") from error
        except (urllib.error.URLError, OSError, EOFError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise SourceError("failed", f"{self._scrape.url}: {reason}") from error

    def parse(self, sample: Sample[bytes], before: Sample[bytes] | None) -> Reading:  # noqa: ARG002 - values as they are
        """A row for every value; NaN means 'no value' in this format and gives none."""
        broken: list[str] = []
        rows = [
            MetricSample(
                host=self._host,
                ts=sample.ts,
                period_ms=sample.period_ms,
                source=self._scrape.name,
                name=found.name,
                labels=found.labels,
                value=found.value,
            )
            for found in values(sample.raw.decode(errors="replace"), self._match, broken)
        ]
        why = f"{len(broken)} lines of {self._scrape.url} are not in the text format, e.g. {broken[:1]}"
        return Reading(rows, [Health("page", "failed", why, len(broken))] if broken else ())

    def close(self) -> None:
        """Nothing is held."""


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:  # noqa: ARG001 - as of all source modules
    """A source for each endpoint of the settings."""
    return [PrometheusSource(agent.host, scrape) for scrape in agent.scrape]


def _bounded(response: "IO[bytes] | gzip.GzipFile", url: str) -> bytes:
    """All of a response, in time and within LARGEST: a socket's timeout alone lets a slow sender go on for ever."""
    deadline, parts, size = time.monotonic() + TIMEOUT_S, [], 0
    while part := response.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise SourceError("failed", f"{url} is over {LARGEST >> 20} MiB; narrow what it exports")
        if time.monotonic() > deadline:
            raise SourceError("timeout", f"{url} was still sending after {TIMEOUT_S:g} s")
    return b"".join(parts)


def values(page: str, match: re.Pattern[str], broken: list[str]) -> Iterator[Value]:
    """The values whose name matches; lines that are not in the format are added to `broken`.

    Measured on a page of 2,000 values with four labels: 3.5 µs a line, prometheus-client's own parser 16, which would
    be a third of the agent's budget for a page every 10 s. A test holds that both read the same.
    """
    wanted: dict[str, bool] = {}
    for line in page.split("\n"):
        if not line or line[0] == "#" or line.isspace():
            continue
        parsed = LINE.fullmatch(line.strip())
        value = _number(parsed[3]) if parsed else None
        if parsed is None or value is None:
            broken.append(line[:100])
            continue
        name = parsed[1]
        if name not in wanted:
            wanted[name] = match.fullmatch(name) is not None
        if wanted[name] and not math.isnan(value):
            yield Value(name, _labels(parsed[2]) if parsed[2] else {}, value)


def _labels(text: str) -> dict[str, str]:
    return {name: _unescaped(value) if "\\" in value else value for name, value in LABEL.findall(text)}


def _unescaped(text: str) -> str:
    return ESCAPE.sub(lambda found: UNESCAPED[found[1]], text)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
