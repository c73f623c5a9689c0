"""Read pages of one endpoint through prometheus-client's parsers, and each series' name and labels only once.

Between two scrapes of an exporter hardly any series comes or goes, only the numbers change. So what the parser made of
a line is kept by the text before its number, and the parser is asked again only when a line or a comment is new.
"""

import gc
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from warpmeter.producers.scrape.fetch import Page
from warpmeter.producers.scrape.rules import Rules

Role = Literal["value", "count", "hidden"]

HEAD: Final = re.compile(r'[^{ \t]*(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?')
"""A line up to its number: name and labels."""
KINDS: Final = {"unknown": "untyped", "gaugehistogram": "histogram", "stateset": "gauge"}
COUNTS: Final = {
    "counter": ("_total", ""),
    "histogram": ("_bucket", "_count", "_sum"),
    "gaugehistogram": (),
    "summary": ("_count", "_sum"),
}
STARTED: Final = "process_start_time_seconds"
MOST_LINES: Final = 50_000
"""Of a page: more take seconds of the agent's time and hundreds of MiB. Raised by a `most` above a tenth of it."""


class BadPageError(Exception):
    """A page is not in the format that it claims; the message says where."""


@dataclass(frozen=True, eq=False)
class Series:
    """One series as published. `role`: a count only grows until a reset; what is hidden is read but not published.

    `group`: what is reset together, such as the buckets of a histogram. `dates`: its value is when that group began.
    """

    name: str
    labels: Mapping[str, str]
    kind: str
    unit: str
    role: Role
    group: str
    dates: bool = False


@dataclass
class Values:
    """What a page says. `started`: when the exporter's process began, where it tells that; NaN values are left out.

    Series that are not in `of`: `over` the limit, `twice` on the page (by their labels here), or `stale`.
    """

    of: dict[Series, float] = field(default_factory=dict)
    created: dict[str, float] = field(default_factory=dict)
    started: float | None = None
    over: int = 0
    twice: int = 0
    stale: int = 0


class PageReader:
    """Reads the pages of one endpoint, one after the other. `most`: series that are taken of a page, its first ones."""

    def __init__(self, rules: Rules, most: int, stale_s: float = math.inf) -> None:
        """`stale_s`: a value that the exporter itself dates is stale when it is older than this."""
        self._rules, self._most, self._stale_s = rules, most, stale_s
        self._known: dict[str, Series | None] = {}
        self._comments: list[str] = []
        self._whole = False
        self._over = self._twice = 0

    def read(self, page: Page, ts: float) -> Values:
        """The values of a page that was read at `ts` (UTC seconds); raises BadPageError, and nothing of it is used."""
        if not page.openmetrics and page.body and not page.body.endswith(b"\n"):
            raise BadPageError("it is cut off: its last line has no end")
        if (length := page.body.count(b"\n")) > (longest := max(MOST_LINES, 10 * self._most)):
            raise BadPageError(
                f"it has {length} lines, and the agent reads {longest} at most: narrow what it exports, "
                "or raise max_series to a tenth of that"
            )
        lines = [line for line in page.text.split("\n") if line]
        comments = [line for line in lines if line[0] == "#"]
        oldest = (ts - self._stale_s) * (1 if page.openmetrics else 1000)  # the text format dates in milliseconds
        values = self._quick(lines, oldest) if self._whole and comments == self._comments else None
        if values is None:
            with _no_collections():
                values = self._parsed(page, lines, ts)
            self._comments = comments
        return values

    def _quick(self, lines: list[str], oldest: float) -> Values | None:
        """By what is known of each line; None when a line is not known. `oldest`: a date before it is stale."""
        known, numbers, dropped, stale = self._known, {}, 0, 0
        for line in lines:
            if line[0] == "#":
                continue
            head, _, number = line.rpartition(" ")
            date = oldest
            try:
                if head not in known:
                    date = float(number)
                    head, _, number = head.rpartition(" ")
                series, value = known[head], float(number)
            except (KeyError, ValueError):
                return None
            if series is None:
                dropped += 1
            elif date < oldest:
                stale += 1
            else:
                numbers[series] = value
        if dropped + stale + len(numbers) != len(known):  # some vanished: who is over the limit is to be found anew
            return None
        return self._sorted(numbers, stale)

    def _sorted(self, numbers: Mapping[Series, float], stale: int) -> Values:
        values = Values(over=self._over, twice=self._twice, stale=stale)
        for series, value in numbers.items():
            if series.name == STARTED and not series.labels:
                values.started = value
            if series.dates:
                values.created[series.group] = value
            if series.role != "hidden" and not math.isnan(value):
                values.of[series] = value
        return values

    def _parsed(self, page: Page, lines: list[str], ts: float) -> Values:
        """By the parser; then each line is known."""
        found = list(_samples(page))
        data = [line.strip() for line in lines if line[0] != "#" and not line.isspace()]
        if len(found) != len(data):
            raise BadPageError(f"{len(data)} lines gave {len(found)} values")
        before, self._known, self._whole = self._known, {}, True
        self._over = self._twice = 0
        taken: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        numbers: dict[Series, float] = {}
        stale = 0
        for line, (family, sample) in zip(data, found, strict=True):
            head = _head(line)
            series = self._series(head, family, sample, before, taken)
            rest = line.rpartition(" ")[0]
            plain = (rest if sample.timestamp is None else rest.rpartition(" ")[0]) == head
            self._whole = self._whole and plain and head not in self._known
            self._known[head] = series
            if series is None:
                continue
            if sample.timestamp is not None and ts - float(sample.timestamp) > self._stale_s:
                stale += 1
            else:
                numbers[series] = float(sample.value)
        return self._sorted(numbers, stale)

    def _series(
        self, head: str, family: Metric, sample: Any, before: Mapping[str, Series | None], taken: set[Any]
    ) -> Series | None:
        """What a line is to be, None for what is not wanted; the same object as before, for rates go by it."""
        name = head.partition("{")[0] or sample.name
        wanted = self._rules.wanted(name)
        if not (wanted or name == STARTED):
            return None
        made = _series(name, family, self._rules.labels(sample.labels), wanted)
        key = (made.name, frozenset(made.labels.items()))
        if key in taken:
            self._twice += 1
            return None
        if made.role != "hidden":
            if len(taken) >= self._most:
                self._over += 1
                return None
            taken.add(key)
        old = before.get(head)
        return old if old is not None and (old.kind, old.unit) == (made.kind, made.unit) else made


@contextmanager
def _no_collections() -> Iterator[None]:
    """A long page makes a hundred thousand objects and no cycle; looking through them stops all threads for 0.3 s."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _samples(page: Page) -> Iterator[tuple[Metric, Any]]:
    """Every value with its family, in the page's order; raises BadPageError."""
    parse = openmetrics.text_string_to_metric_families if page.openmetrics else text_string_to_metric_families
    try:
        for family in parse(page.text):
            for sample in family.samples:
                yield family, sample
    except (ValueError, IndexError, KeyError, AttributeError, TypeError) as error:  # all that they raise on odd bytes
        form = "OpenMetrics" if page.openmetrics else "the text format"
        raise BadPageError(f"it is not in {form}: {str(error)[:200] or type(error).__name__}") from error


def _head(line: str) -> str:
    found = HEAD.match(line)
    return found[0] if found else line


def _series(name: str, family: Metric, labels: dict[str, str], wanted: bool) -> Series:
    """`name`: as exposed; the parsers name a counter's family without `_total`, whatever the exporter wrote."""
    kind = KINDS.get(family.type, family.type)
    suffix = name.removeprefix(family.name)
    base = family.name.removesuffix("_created")
    dates = suffix == "_created" or (kind == "gauge" and base != family.name)
    inner = sorted((key, value) for key, value in labels.items() if key not in ("le", "quantile"))
    role: Role = "count" if suffix in COUNTS.get(family.type, ()) else "value"
    if suffix == "_created" or not wanted:
        role = "hidden"
    return Series(name, labels, kind, family.unit, role, f"{base}{inner}", dates)
