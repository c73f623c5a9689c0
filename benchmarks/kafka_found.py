"""What `kafka_fleet.py` found of a fleet: figures, their ratios to the design and to `warpmeter size`, the tables."""

import json
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.fleet import print_table
from warpmeter.simulate.hosts import DEVICES
from warpmeter.sizing import CONSTANTS, Fleet, Size

GPUS: Final = 8
MIB: Final = 1 << 20
TARGET_ROWS: Final = 80_000
"""GPU rows a second that the design is for: 10,000 hosts of 8 GPUs at 1 s."""
TARGET_ROW_BYTES: Final = 12e6 / TARGET_ROWS
"""On the bus, by the design."""


@dataclass(frozen=True)
class Load:
    """The fleet that is simulated."""

    hosts: int
    interval_s: float

    def __str__(self) -> str:
        return f"{self.hosts:,} at {self.interval_s:g} s"


@dataclass(frozen=True)
class Found:
    """One fleet, in the seconds that were measured.

    By topic a second: `messages`, `rows`, `bus_bytes` (of the broker's log), `inserts`. By part: `cores` (CPU seconds a
    second), `peak_bytes`. `merge_cores`: of the engine's merges; `ingests`: processes. `lags`: messages, one a look;
    `delays`: seconds. `insert_s`: how long one takes, by topic. `others`: cores that the rest of the machine used.
    `level_s`: from the end of the load until all of it was in the store. Of the simulator: `behind_s`, in the end, and
    `lost`, messages that the broker had not taken from it then. `gpu_row_bytes`: on the bus. `sums`, `gpu_sums`: rows,
    by who counts them.
    """

    load: Load
    seconds: float
    messages: Mapping[str, float]
    rows: Mapping[str, float]
    bus_bytes: Mapping[str, float]
    inserts: Mapping[str, float]
    cores: Mapping[str, float]
    merge_cores: float
    peak_bytes: Mapping[str, int]
    ingests: int
    lags: Sequence[int]
    delays: Mapping[str, float]
    insert_s: Mapping[str, float]
    parts: Mapping[str, int]
    others: float
    load_average: tuple[float, float]
    behind_s: float
    lost: int
    level_s: float
    gpu_row_bytes: float
    sums: Mapping[str, int]
    gpu_sums: Mapping[str, int]

    @property
    def exact(self) -> bool:
        """Every row is there once."""
        return len(set(self.sums.values())) == 1 == len(set(self.gpu_sums.values()))

    @property
    def bounded(self) -> bool:
        """The last third of the time lags no more than a tenth longer than the middle one, on average."""
        third = len(self.lags) // 3
        middle, last = self.lags[third : 2 * third], self.lags[2 * third :]
        return sum(last) * len(middle) <= 1.1 * sum(middle) * len(last)

    @property
    def rows_per_s(self) -> float:
        """Of all topics."""
        return sum(self.rows.values())

    def per_million(self, *parts: str) -> float:
        """CPU seconds of parts by a million rows of all topics."""
        return sum(self.cores[part] for part in parts) / self.rows_per_s * 1e6

    @property
    def alike(self) -> Size:
        """What `warpmeter size` is asked, so that it means what was simulated."""
        load, rows = self.load, self.rows
        stacks = rows["stack-samples"] * 60 / load.hosts / CONSTANTS["stacks_process"].value
        return Size(
            Fleet(
                hosts=load.hosts, gpus=GPUS, interval_s=load.interval_s, replication=1, processes=0,
                jobs=round(rows["job-events"] * 10 / load.hosts), devices=len(DEVICES), stacks=math.ceil(stacks),
            )
        )  # fmt: skip

    @property
    def ratios(self) -> Mapping[str, float]:
        """What was measured, by what `warpmeter size` says for the same."""
        size = self.alike
        told = {each.name: each.value for each in size.figures}
        store = size.insert_cores(size.partitions) * CONSTANTS["merges"].value
        return {
            "rows": self.rows_per_s / told["rows"],
            "messages": sum(self.messages.values()) / told["messages"],
            "bytes on the bus": sum(self.bus_bytes.values()) / told["bus"],
            "inserts": sum(self.inserts.values()) / told["inserts"],
            "cores of ingest and engine": (self.cores["ingest"] + self.cores["engine"]) / store,
            "memory of an ingest process": self.peak_bytes["ingest"] / self.ingests / CONSTANTS["ingest_memory"].value,
        }


Row = tuple[str, list[str]]


def _percent(value: float) -> str:
    return f"{value:.0%}"


def figures(found: Sequence[Found]) -> Iterator[Row]:
    """What was measured."""

    def each(name: str, form: Any) -> Row:
        return name, [form(one) for one in found]

    yield each("rows landed, rows/s", lambda one: f"{one.rows_per_s:,.0f}")
    yield each("of GPUs, rows/s", lambda one: f"{one.rows['gpu-samples']:,.0f}")
    yield each("messages/s", lambda one: f"{sum(one.messages.values()):,.0f}")
    yield each("on the bus, MB/s", lambda one: f"{sum(one.bus_bytes.values()) / 1e6:.2f}")
    yield each("a GPU's row on the bus, bytes", lambda one: f"{one.gpu_row_bytes:.0f}")
    yield each("inserts/s", lambda one: f"{sum(one.inserts.values()):.1f}")
    yield each("an insert of GPU rows takes, s", lambda one: f"{one.insert_s.get('gpu-samples', math.nan):.2f}")
    yield each("lag at most, s of the load", lambda one: f"{max(one.lags) / sum(one.messages.values()):.1f}")
    yield each("lag stays bounded", lambda one: "yes" if one.bounded else "NO")
    for name in found[0].delays:
        yield each(f"from sample {name}, s", lambda one, name=name: f"{one.delays[name]:.1f}")
    for part in found[0].cores:
        yield each(
            f"CPU of {part}, cores (s a million rows)",
            lambda one, part=part: f"{one.cores[part]:.2f} ({one.per_million(part):.0f})",
        )
    yield each("of the engine's, merges, cores", lambda one: f"{one.merge_cores:.2f}")
    for part in found[0].peak_bytes:
        yield each(f"memory of {part}, most MiB", lambda one, part=part: f"{one.peak_bytes[part] / MIB:,.0f}")
    yield each("parts, of them of GPU rows", lambda one: f"{sum(one.parts.values())}, {one.parts['gpu_samples']}")
    yield each("other work on the machine, cores", lambda one: f"{one.others:.2f}")
    yield each("load average, first and last", lambda one: " and ".join(f"{load:.1f}" for load in one.load_average))
    yield each("all landed after its end, s", lambda one: f"{one.level_s:.1f}")
    yield each("simulator behind in the end, s", lambda one: f"{one.behind_s:.0f}")
    yield each("messages that the broker did not take", lambda one: f"{one.lost:,}")
    yield each("rows sent = landed, each once", lambda one: f"{one.sums['sent']:,}" if one.exact else "NO")


def ratios(found: Sequence[Found]) -> Iterator[Row]:
    """To the design, and to what `warpmeter size` says."""
    yield "GPU rows/s / 80,000 of the design", [_percent(one.rows["gpu-samples"] / TARGET_ROWS) for one in found]
    yield "bytes of a GPU's row / 150 of the design", [_percent(one.gpu_row_bytes / TARGET_ROW_BYTES) for one in found]
    ours = [one.rows_per_s / one.cores["ingest"] for one in found]
    yield "rows/s that a core of ingest carries", [f"{rate:,.0f}" for rate in ours]
    wanted = [one.rows_per_s * TARGET_ROWS / one.rows["gpu-samples"] for one in found]
    yield "by those of the design's fleet", [f"{rate / all_:.2f}" for rate, all_ in zip(ours, wanted, strict=True)]
    for name in found[0].ratios:
        yield f"{name} / warpmeter size", [f"{one.ratios[name]:.2f}" for one in found]


def machine() -> str:
    """What this was measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} CPUs ({model}), {memory:.0f} GiB"


def report(found: Sequence[Found], as_json: bool) -> None:
    """Two tables, or all of it as JSON."""
    if as_json:
        whole = [{**asdict(one), "exact": one.exact, "bounded": one.bounded, "ratios": one.ratios} for one in found]
        print(json.dumps({"machine": machine(), "found": whole}, indent=2))
        return
    seconds = ", ".join(f"{one.seconds:.0f}" for one in found)
    title = f"{GPUS} GPUs a host, {seconds} s measured, all on {machine()}"
    head = ["hosts", *(str(one.load) for one in found)]
    print_table(title, head, [[name, *cells] for name, cells in figures(found)])
    print_table("Ratios", head, [[name, *cells] for name, cells in ratios(found)])
