"""Which lists `warpmeter top` shows: the named query of each, its columns, and what a row leads to."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from warpmeter.top import units


class Kind(Enum):
    """What a column's values are."""

    TEXT = "text"
    STATE = "state"
    COUNT = "count"
    NUMBER = "number"
    RATIO = "ratio"
    BAR = "bar"
    WATTS = "watts"
    BYTES = "bytes"
    RATE = "rate"
    CELSIUS = "celsius"
    SPAN = "span"


WIDTHS: Final[Mapping[Kind, int]] = {
    Kind.TEXT: 12, Kind.STATE: 7, Kind.COUNT: 5, Kind.NUMBER: 6, Kind.RATIO: 5, Kind.BAR: 11, Kind.WATTS: 8,
    Kind.BYTES: 9, Kind.RATE: 9, Kind.CELSIUS: 5, Kind.SPAN: 7,
}  # fmt: skip
LEFT: Final = frozenset({Kind.TEXT, Kind.STATE, Kind.BAR})
"""Kinds that begin at the left of their column; numbers end at the right of it."""


@dataclass(frozen=True)
class Column:
    """A column: `name` is the query's, `width` in cells (0: as its kind), `most` what a text column may grow to."""

    name: str
    title: str
    kind: Kind = Kind.TEXT
    width: int = 0
    most: int = 0

    @property
    def cells(self) -> int:
        """How wide it is when nothing is left over."""
        return max(self.width or WIDTHS[self.kind], len(self.title) + 1)


@dataclass(frozen=True)
class Listing:
    """A list: `query` answers it, `key` names the columns that tell its rows apart, `state` the one that colours them.

    `asked` are parameters of the query that are always the same. `leads_to` is the kind of place that a row leads to:
    host or job. `ordered`: the query sorts, filters and cuts by itself.
    """

    name: str
    title: str
    query: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    state: str = ""
    leads_to: str = ""
    sort: str = ""
    asked: tuple[tuple[str, str], ...] = ()
    ordered: bool = True

    def column(self, name: str) -> Column | None:
        """The column `name`, None when there is none."""
        return next((each for each in self.columns if each.name == name), None)


_HOST: Final = Column("host", "Host", width=14, most=40)
_STATE: Final = Column("state", "State", Kind.STATE)
_GPUS: Final = Column("gpus", "GPUs", Kind.COUNT)
_GPU: Final = Column("gpu", "GPU", Kind.COUNT, 3)
_UTIL: Final = Column("gpu_util", "GPU util", Kind.BAR)
_SM: Final = Column("sm_active", "SM", Kind.RATIO)
_TENSOR: Final = Column("tensor_active", "Tensor", Kind.RATIO)
_DRAM: Final = Column("dram_active", "DRAM", Kind.RATIO)
_MEMORY: Final = Column("fb_used_bytes", "Memory", Kind.BYTES)
_POWER: Final = Column("power_watts", "Power", Kind.WATTS)
_TEMP: Final = Column("temperature_celsius", "Temp", Kind.CELSIUS)
_CORES: Final = Column("cpu_cores", "Cores", Kind.NUMBER)
_PROBLEMS: Final = Column("problems", "Problems", width=14, most=200)

HOSTS: Final = Listing(
    "hosts", "Hosts", "live_hosts", ("host",),
    (
        _HOST, _STATE, _GPUS, _UTIL, _SM, Column("gpu_power_watts", "Power", Kind.WATTS),
        Column("cpu_util", "CPU", Kind.RATIO), Column("mem_used", "Mem", Kind.RATIO),
        Column("load1", "Load", Kind.NUMBER), Column("network_bytes_per_s", "Net", Kind.RATE),
        Column("storage_bytes_per_s", "Disk", Kind.RATE), Column("seen_s", "Seen", Kind.SPAN), _PROBLEMS,
    ),
    state="state", leads_to="host", sort="host",
)  # fmt: skip
GPUS: Final = Listing(
    "gpus", "GPUs", "live_gpus", ("host", "gpu", "uuid"),
    (
        _HOST, _GPU, Column("status", "State", Kind.STATE), _UTIL, _SM, _TENSOR, _DRAM, _MEMORY, _POWER, _TEMP,
        Column("idle_s", "Idle", Kind.SPAN), Column("job_id", "Job", width=14, most=40), _PROBLEMS,
        Column("model", "Model", width=21, most=30), Column("uuid", "UUID", width=40),
    ),
    state="status", leads_to="host", sort="host",
)  # fmt: skip
JOBS: Final = Listing(
    "jobs", "Jobs", "live_jobs", ("job_id",),
    (
        Column("job_id", "Job", width=14, most=40), Column("name", "Name", width=12, most=24),
        Column("user", "User", width=9, most=16), _STATE, Column("hosts", "Hosts", Kind.COUNT), _GPUS,
        Column("gpus_idle", "Idle", Kind.COUNT), Column("gpus_failing", "Bad", Kind.COUNT), _UTIL, _SM, _POWER,
        Column("running_s", "Running", Kind.SPAN), _CORES, Column("rss_bytes", "RSS", Kind.BYTES),
        Column("gpu_memory_bytes", "GPU mem", Kind.BYTES), Column("account", "Account", width=9, most=16),
        Column("command", "Command", width=14, most=200),
    ),
    state="state", leads_to="job", sort="job_id",
)  # fmt: skip
_LATELY: Final = ("since", "-15m")
RANKS: Final = Listing(
    "ranks", "Ranks, 15 min", "job_ranks", ("host", "uuid"),
    (
        Column("rank", "Rank", Kind.COUNT), _HOST, _GPU, Column("pid", "PID", Kind.COUNT, 8), _UTIL, _SM, _TENSOR,
        _DRAM, _MEMORY, _POWER, _TEMP, Column("odd", "Odd in", width=14, most=200),
    ),
    leads_to="host", sort="rank", asked=(_LATELY,), ordered=False,
)  # fmt: skip
JOB_HOSTS: Final = Listing(
    "hosts", "Hosts, 15 min", "job_hosts", ("host",),
    (
        _HOST, _STATE, _GPUS, _UTIL, _SM, _TENSOR, _DRAM, Column("power_watts", "W a GPU", Kind.WATTS), _CORES,
        Column("rss_bytes_max", "RSS most", Kind.BYTES), Column("ranks", "Ranks", width=14, most=60),
    ),
    state="state", leads_to="host", sort="host", asked=(_LATELY,), ordered=False,
)  # fmt: skip

TABS: Final[Mapping[str, tuple[Listing, ...]]] = {
    "": (HOSTS, GPUS, JOBS),
    "host": (GPUS, JOBS),
    "job": (GPUS, RANKS, JOB_HOSTS),
}
"""The lists of a place by its kind; '' is the fleet."""
FACTS: Final[Mapping[str, Listing]] = {"host": HOSTS, "job": JOBS}
"""The list whose one row says what a place is."""
MOST: Final = 10_000
"""Rows of a list that are asked for at once; of more, those that come first by the order chosen."""


@dataclass(frozen=True)
class Place:
    """What is looked at: the fleet (''), a host or a job."""

    kind: str = ""
    name: str = ""

    @property
    def tabs(self) -> tuple[Listing, ...]:
        """Its lists."""
        return TABS[self.kind]

    @property
    def given(self) -> dict[str, str]:
        """It as parameters of a query."""
        return {} if not self.kind else {"host" if self.kind == "host" else "job_id": self.name}


def words(value: object, kind: Kind) -> str:
    """A value as its column shows it; '' for what is not known."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    form = _FORMS.get(kind)
    return str(value) if form is None else form(float(str(value)))


_FORMS: Final = {
    Kind.COUNT: lambda value: f"{value:.0f}",
    Kind.NUMBER: units.three,
    Kind.RATIO: units.ratio,
    Kind.BAR: units.ratio,
    Kind.WATTS: units.watts,
    Kind.BYTES: units.size,
    Kind.RATE: units.rate,
    Kind.CELSIUS: lambda value: f"{value:.0f}°",
    Kind.SPAN: units.span,
}
