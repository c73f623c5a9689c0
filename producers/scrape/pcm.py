"""The page of Intel's PCM exporter (pcm-sensor-server) as a source of CPU sockets: caches and memory bandwidth.

Its series are untyped and count since it started. Those of a socket's cores bear `aggregate="socket"` and
`source="core"`, those of its uncore `source="uncore"` and neither `core` nor `aggregate`.
"""

from collections.abc import Mapping
from typing import Any, Final

from warpmeter.producers.scrape.fetch import Fetcher, Page
from warpmeter.producers.scrape.page import BadPageError, PageReader
from warpmeter.producers.scrape.rules import Fixed
from warpmeter.producers.source import Health, Reading, Sample
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Scrape

DeviceSample = Envelope.DeviceSample
Counts = Mapping[str, Mapping[str, float]]

RATES: Final = {  # column: metric, factor
    "instructions_mega_per_s": ("Instructions_Retired_Any", 1e-6),
    "cycles_mega_per_s": ("Clock_Unhalted_Thread", 1e-6),
    "l2_misses_kilo_per_s": ("L2_Cache_Misses", 1e-3),
    "l3_misses_kilo_per_s": ("L3_Cache_Misses", 1e-3),
    "mem_read_megabytes_per_s": ("DRAM_Reads", 1e-6),
    "mem_write_megabytes_per_s": ("DRAM_Writes", 1e-6),
}
CACHES: Final = {"l2": ("L2_Cache_Hits", "L2_Cache_Misses"), "l3": ("L3_Cache_Hits", "L3_Cache_Misses")}
UNCORE: Final = frozenset({"DRAM_Reads", "DRAM_Writes"})
NAMES: Final = frozenset(name for name, _ in RATES.values()) | {name for pair in CACHES.values() for name in pair}
MOST_SERIES: Final = 100_000
"""A page of two sockets with 256 threads has about 2,000 of these names; the size limit bounds it too."""
UINT32_MAX: Final = 0xFFFF_FFFF
LONGEST_PERIODS: Final = 5.0


class PcmPage:
    """Source of the sockets of one PCM exporter."""

    topic: Final = "device-samples"

    def __init__(self, host: str, scrape: Scrape) -> None:
        self.name = f"scrape/{scrape.name}"
        self.period_s, self.timeout_s = scrape.period_s, 2 * scrape.limit_s
        self._host, self._scrape = host, scrape
        self._fetcher = Fetcher(scrape)
        self._reader = PageReader(Fixed(NAMES), MOST_SERIES)
        self._last: Counts | None = None

    def read(self) -> Page:
        """The page; raises SourceError when the exporter does not answer well, in time, or within the size limit."""
        return self._fetcher.fetch()

    def parse(self, sample: Sample[Page], before: Sample[Page] | None) -> Reading:
        """A row for each socket, from the second page on."""
        earlier, self._last = self._last, None
        try:
            now = sockets(self._reader, sample)
        except BadPageError as error:
            return Reading((), [Health("page", "failed", f"{self._scrape.url}: {error}; nothing of it is published")])
        self._last = now
        if not now:
            why = f"{self._scrape.url} has no socket's counters: it is not the page of pcm-sensor-server"
            return Reading((), [Health("page", "failed", why)])
        elapsed = sample.since(before)
        if earlier is None or not elapsed or elapsed > LONGEST_PERIODS * self.period_s:
            return Reading()
        rows = [
            DeviceSample(
                host=self._host,
                ts=sample.ts,
                period_ms=sample.covers_ms(before),
                kind="socket",
                device=f"socket{socket}",
                **columns(earlier[socket], counts, elapsed),
            )
            for socket, counts in now.items()
            if socket in earlier
        ]
        return Reading(rows)

    def close(self) -> None:
        """Nothing is held."""


def sockets(reader: PageReader, sample: Sample[Page]) -> Counts:
    """Counts by socket and metric; raises BadPageError."""
    found: dict[str, dict[str, float]] = {}
    for series, value in reader.read(sample.raw, sample.ts).of.items():
        labels = series.labels
        level = "" if series.name in UNCORE else "socket"
        if "socket" in labels and "core" not in labels and labels.get("aggregate", "") == level:
            found.setdefault(labels["socket"], {})[series.name] = value
    return found


def columns(old: Mapping[str, float], new: Mapping[str, float], elapsed_s: float) -> dict[str, Any]:
    """Rates and hit ratios between two pages; none when a count went back, for then the exporter began anew."""
    grown = {name: count - old[name] for name, count in new.items() if name in old}
    if any(by < 0 for by in grown.values()):
        return {}
    found = {column: grown[name] / elapsed_s * factor for column, (name, factor) in RATES.items() if name in grown}
    for cache, (hits, misses) in CACHES.items():
        if hits in grown and misses in grown:
            loads = grown[hits] + grown[misses]
            found[f"{cache}_loads_kilo_per_s"] = loads / elapsed_s * 1e-3
            if loads:
                found[f"{cache}_hit_ratio_permille"] = grown[hits] / loads * 1000
    return {column: round(value) for column, value in found.items() if value <= UINT32_MAX}
