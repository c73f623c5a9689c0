"""The page of a DCGM exporter as another source of `GpuSample`: it fills what NVML does not give.

It is scraped on its own thread. Where the agent sees the same GPU through NVML, a page completes the rows of its period
and no longer: what is older is not stamped anew. Where NVML tells nothing of a GPU (no driver library in the agent's
container), the page alone makes its rows.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from warpmeter.producers.gpu.parse import stored
from warpmeter.producers.scrape.fetch import Fetcher, Page
from warpmeter.producers.scrape.page import BadPageError, PageReader, Values
from warpmeter.producers.scrape.rules import Fixed
from warpmeter.producers.source import STALE_PERIODS, AnySource, Health, Reading, Sample
from warpmeter.schemas.equals import DCGM
from warpmeter.schemas.generated.gpu_samples_pb2 import Envelope
from warpmeter.settings import Agent, Scrape

GpuSample = Envelope.GpuSample

NAME: Final = "dcgm"
LACKING_S: Final = 30.0
"""A column that NVML has not given for so long is one that it does not give: some it gives only every 10 s."""
TELL_EVERY_S: Final = 600.0
MOST_SERIES: Final = 20_000
FREE: Final = "DCGM_FI_DEV_FB_FREE"
COLUMNS: Final[Mapping[str, str]] = {
    **{dcgm: column for column, dcgm in DCGM.items()},
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "throttle_reasons",  # its name until DCGM 3.3
}
FIELDS: Final = {each.name: each for each in GpuSample.DESCRIPTOR.fields}
# DCGM's marks for "no value": 16 numbers from the first (blank, not found, not supported, not permitted), by type.
BLANKS: Final = ((0x7FFF_FFF0, 16.0), (140_737_488_355_328.0, 16.0), (float(0x7FFF_FFFF_FFFF_FFF0), 4096.0))
SCALES: Final = {"_deciwatts": 10.0, "_megabytes_per_s": 1e-6, "_joules": 1e-3}
NUMBER: Final = re.compile(r"[0-9]{1,3}")
JOB: Final = re.compile(r"[\w.\-]{1,200}")

Key = tuple[str, int | None]
"""UUID of the GPU, and number of the MIG instance."""


def factor(dcgm: str, column: str) -> float:
    """What DCGM's number is multiplied by: profiling ratios are 0-1, others per cent; bytes, watts, millijoules."""
    if column.endswith("_permille"):
        return 1000.0 if dcgm.startswith("DCGM_FI_PROF_") else 10.0
    return next((by for end, by in SCALES.items() if column.endswith(end)), 1.0)


FACTORS: Final = {dcgm: factor(dcgm, column) for dcgm, column in COLUMNS.items()}


@dataclass
class Gpu:
    """What a page says of one GPU or MIG instance."""

    index: int
    model: str = ""
    driver: str = ""
    job_ids: set[str] = field(default_factory=set)
    columns: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """One page: when it was read (monotonic seconds), for how long it stands, and its GPUs."""

    monotonic: float
    period_s: float
    gpus: Mapping[Key, Gpu]


def value(column: str, number: float, by: float) -> Any:
    """The stored value of a column; None for a blank and for what cannot be."""
    if any(first <= number < first + count for first, count in BLANKS):
        return None
    whole = stored(column, number * by)
    return bool(whole) if whole is not None and FIELDS[column].type == FieldDescriptor.TYPE_BOOL else whole


def read_gpus(page: Page, ts: float) -> dict[Key, Gpu]:
    """The GPUs of one page alone; raises BadPageError."""
    return gpus(_reader().read(page, ts))


def _reader(stale_s: float = float("inf")) -> PageReader:
    return PageReader(Fixed(frozenset(COLUMNS) | {FREE}), MOST_SERIES, stale_s)


def gpus(values: Values) -> dict[Key, Gpu]:
    """The GPUs and MIG instances of a page."""
    found: dict[Key, Gpu] = {}
    for series, number in values.of.items():
        labels = series.labels
        uuid, index = labels.get("UUID") or labels.get("uuid"), _number(labels.get("gpu", ""))
        if not uuid or index is None:
            continue
        key = (uuid, _number(labels.get("GPU_I_ID", "")))
        gpu = found.setdefault(key, Gpu(index))
        gpu.model = gpu.model or labels.get("modelName", "")
        gpu.driver = gpu.driver or labels.get("DCGM_FI_DRIVER_VERSION", "")
        if JOB.fullmatch(job := labels.get("hpc_job", "")):
            gpu.job_ids.add(job)
        _take(gpu, series.name, number)
    for gpu in found.values():
        _add_total(gpu)
    return found


def _number(label: str) -> int | None:
    """Of a GPU or MIG instance; None for what its column, of 8 bits, does not hold."""
    return int(label) if NUMBER.fullmatch(label) and int(label) <= 0xFF else None


def _take(gpu: Gpu, dcgm: str, number: float) -> None:
    gpu.numbers[dcgm] = number
    column = COLUMNS.get(dcgm)
    if column is not None and (whole := value(column, number, FACTORS[dcgm])) is not None:
        gpu.columns[column] = whole


def _add_total(gpu: Gpu) -> None:
    """The exporter's default list has all parts of the memory and not their sum."""
    parts = [gpu.columns.get("fb_used_mebibytes"), gpu.columns.get("fb_reserved_mebibytes")]
    free = value("fb_total_mebibytes", gpu.numbers.get(FREE, -1.0), 1.0)
    if "fb_total_mebibytes" not in gpu.columns and free is not None and None not in parts:
        total = stored("fb_total_mebibytes", free + sum(part for part in parts if part is not None))
        if total is not None:
            gpu.columns["fb_total_mebibytes"] = total


@dataclass
class _Row:
    """What is known of one GPU that NVML sees. `given`: when NVML last gave a column."""

    since: float
    given: dict[str, float] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    told: dict[str, str] = field(default_factory=dict)
    driver: str = ""


class Pages:
    """Where the pages meet NVML's rows. Each side puts whole objects into its own place, so no lock is needed."""

    def __init__(self, gpu_period_s: float | None) -> None:
        """`gpu_period_s`: of the rows from NVML, None when they are not asked for."""
        self._gpu_period_s = gpu_period_s
        self._told: dict[str, Told] = {}
        self._rows: dict[str, _Row] = {}
        self._seen: frozenset[Key] = frozenset()
        self._alive: float | None = None

    def put(self, endpoint: str, told: Told) -> None:
        """From an endpoint's thread: its newest page."""
        self._told[endpoint] = told

    def without_nvml(self) -> None:
        """From the GPU source: there is no NVML here, so nobody needs to wait for it."""
        self._alive = float("-inf")

    def covered(self, key: Key, monotonic: float) -> bool:
        """Whether NVML speaks for the GPU: it has rows from there, or had them until NVML said that it is gone.

        At first NVML is given the time of some ticks to have any.
        """
        if self._gpu_period_s is None:
            return False
        if self._alive is None:
            self._alive = monotonic
        alive = monotonic - self._alive <= STALE_PERIODS * max(1.0, self._gpu_period_s)
        return alive and (not self._seen or key in self._seen or (key[0], None) in self._seen)

    def complete(
        self, sample: Sample[Any], rows: Iterable[GpuSample], unsupported: Mapping[str, Collection[str]]
    ) -> None:
        """From the GPU source: fill the columns that NVML does not give, from the pages that still stand.

        `unsupported`: by uuid, columns that NVML never gives there; others are filled when NVML failed to for long.
        """
        rows = list(rows)
        parents = {row.gpu: row.uuid for row in rows if not row.HasField("gpu_instance")}
        now = sample.monotonic
        keys = [(parents.get(row.gpu, ""), row.gpu_instance) if row.HasField("gpu_instance") else (row.uuid, None)
                for row in rows]  # fmt: skip
        self._seen, self._alive = self._seen.union(keys), now
        moment = now - 0.5 * sample.period_s  # the page that is due at this very tick may come a moment later
        fresh = [told for told in list(self._told.values()) if moment - told.monotonic <= told.period_s]
        for row, key in zip(rows, keys, strict=True):
            known = self._rows.setdefault(row.uuid, _Row(now))
            for given, _ in row.ListFields():
                known.given[given.name] = now
            columns = [told.gpus[key].columns for told in fresh if key in told.gpus]
            _fill(row, known, columns, unsupported.get(row.uuid, ()), now)


def _fill(
    row: GpuSample, known: _Row, found: Sequence[Mapping[str, Any]], unsupported: Collection[str], now: float
) -> None:
    filled = {}
    for columns in found:
        for column, whole in columns.items():
            if column not in filled and _lacks(column, known, unsupported, now):
                filled[column] = whole
                setattr(row, column, whole)
    _tell(row, known, filled.keys())


def _lacks(column: str, known: _Row, unsupported: Collection[str], now: float) -> bool:
    at = known.given.get(column)
    if column in unsupported:
        return at != now
    return now - (known.since if at is None else at) > LACKING_S


def _tell(row: GpuSample, known: _Row, filled: Collection[str]) -> None:
    """Add to what the row says of its columns' sources, and say it when it changed; the last word told is complete."""
    news = not known.filled.issuperset(filled)
    known.filled.update(filled)
    if row.column_sources:
        known.told, known.driver = dict(row.column_sources), row.driver_version
    elif not news:
        return
    row.column_sources.update(known.told)
    row.column_sources.update(dict.fromkeys(known.filled, NAME))
    row.driver_version = row.driver_version or known.driver


class DcgmPage:
    """Source of one DCGM exporter. It has rows of its own only for GPUs that NVML does not see."""

    topic: Final = "gpu-samples"

    def __init__(self, host: str, scrape: Scrape, pages: Pages) -> None:
        self.name = f"scrape/{scrape.name}"
        self.period_s, self.timeout_s = scrape.period_s, 2 * scrape.limit_s
        self._host, self._scrape, self._pages = host, scrape, pages
        self._fetcher = Fetcher(scrape)
        self._reader = _reader(STALE_PERIODS * scrape.period_s)
        self._alone: set[Key] = set()
        self._sources: dict[Key, tuple[float, frozenset[str]]] = {}

    def read(self) -> Page:
        """The page; raises SourceError when the exporter does not answer well, in time, or within the size limit."""
        return self._fetcher.fetch()

    def parse(self, sample: Sample[Page], before: Sample[Page] | None) -> Reading:  # noqa: ARG002 - values as they are
        """Hands the page on; rows for the GPUs that are on it alone."""
        try:
            found = gpus(self._reader.read(sample.raw, sample.ts))
        except BadPageError as error:
            return Reading((), [Health("page", "failed", f"{self._scrape.url}: {error}; nothing of it is published")])
        if not found:
            why = f"{self._scrape.url} has no GPU: it is not the page of a DCGM exporter, or DCGM sees none"
            return Reading((), [Health("page", "failed", why)])
        self._pages.put(self.name, Told(sample.monotonic, sample.period_s, found))
        alone = {key: gpu for key, gpu in found.items() if not self._pages.covered(key, sample.monotonic)}
        gone = [Health(uuid(key), "gone", f"no longer on {self._scrape.url}") for key in self._alone - found.keys()]
        self._alone = (self._alone | alone.keys()) - {key for key in found if key not in alone}
        return Reading([self._row(sample, key, gpu) for key, gpu in alone.items()], gone)

    def close(self) -> None:
        """Nothing is held."""

    def _row(self, sample: Sample[Page], key: Key, gpu: Gpu) -> GpuSample:
        row = GpuSample(
            host=self._host,
            ts=sample.ts,
            period_ms=sample.period_ms,
            gpu=gpu.index,
            uuid=uuid(key),
            model=gpu.model,
            gpu_instance=key[1],
            job_ids=sorted(gpu.job_ids),
            **gpu.columns,
        )
        if self._due(key, frozenset(gpu.columns), sample.monotonic):
            row.column_sources.update(dict.fromkeys(gpu.columns, NAME))
            row.driver_version = gpu.driver
        return row

    def _due(self, key: Key, columns: frozenset[str], now: float) -> bool:
        """Whether to say again where the columns come from."""
        at, told = self._sources.get(key, (float("-inf"), frozenset()))
        if columns <= told and now - at < TELL_EVERY_S:
            return False
        self._sources[key] = (now, columns)
        return True


def uuid(key: Key) -> str:
    """The page does not name a MIG instance's own UUID, so it is called by its GPU and number."""
    whole, instance = key
    return whole if instance is None else f"MIG-{whole}/{instance}"


def pages(agent: Agent) -> Pages | None:
    """Where the pages of this agent's DCGM endpoints meet NVML's rows; None without such an endpoint."""
    if not any(scrape.page == NAME for scrape in agent.scrape):
        return None
    return Pages(agent.interval_s if agent.gpu else None)


def sources(agent: Agent, told: Pages | None) -> Sequence[AnySource]:
    """A source for each DCGM endpoint of the settings."""
    if told is None:
        return []
    return [DcgmPage(agent.host, scrape, told) for scrape in agent.scrape if scrape.page == NAME]
