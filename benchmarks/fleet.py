"""A realistic fleet for the benchmarks: jobs with phases, plateaus and noise, hangs, idle GPUs; always the same one.

65 % of the GPU time is training over whole hosts (start-up, steps, checkpoints, evaluation, now and then a hang), 15 %
inference that follows the day, 5 % notebooks, the rest idle. Values are those that NVML and DCGM would give, at the
scales that the tables store. Run as a script it prints what the fleet is like.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.generic]

GPUS: Final = 8
HBM_BYTES: Final = 80e9
PAGE: Final = 2 << 20

# Stored column -> type; the same 16 metrics that a DCGM exporter gives for a GPU.
COLUMNS: Final = {
    "gpu_util_permille": "u2",
    "sm_active_permille": "u2",
    "sm_occupancy_permille": "u2",
    "tensor_active_permille": "u2",
    "dram_active_permille": "u2",
    "fp16_active_permille": "u2",
    "fp32_active_permille": "u2",
    "fb_used_mebibytes": "u4",
    "power_deciwatts": "u2",
    "temperature_celsius": "u1",
    "sm_clock_megahertz": "u2",
    "mem_clock_megahertz": "u2",
    "pcie_tx_megabytes_per_s": "u4",
    "pcie_rx_megabytes_per_s": "u4",
    "nvlink_tx_megabytes_per_s": "u4",
    "nvlink_rx_megabytes_per_s": "u4",
}


@dataclass(frozen=True)
class Shape:
    """How large: `hosts` of 8 GPUs, `hours` up to the last whole hour, a sample each `step_s`."""

    hosts: int = 200
    hours: int = 6
    step_s: int = 10
    until: int = field(default_factory=lambda: int(time.time()) // 3600 * 3600)

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.hosts * GPUS

    @property
    def ticks(self) -> int:
        """Samples of each GPU."""
        return self.hours * 3600 // self.step_s

    @property
    def since(self) -> int:
        """Time of the first sample, in seconds since the epoch."""
        return self.until - self.hours * 3600

    @property
    def values(self) -> int:
        """Values in all, over all columns."""
        return self.gpus * self.ticks * len(COLUMNS)


@dataclass(frozen=True)
class Fleet:
    """The values: stored column to an array of GPUs by ticks; GPU `i` is number `i % 8` of host `i // 8`.

    `columns` are as the agent publishes them, `published` the same as exporters do: SI units, ratios to six decimals,
    milliwatts, single bytes per second.
    """

    shape: Shape
    columns: dict[str, Ints]
    published: dict[str, Floats]

    def host(self, gpu: int) -> str:
        """The host of a GPU."""
        return f"gpu-node-{gpu // GPUS:04d}"


class Canvas:
    """What the jobs paint on: activity of each GPU at each tick."""

    def __init__(self, shape: Shape, seed: int = 7) -> None:
        self.shape = shape
        self.rng = np.random.default_rng(seed)
        size = (shape.gpus, shape.ticks)
        names = ("sm", "occupancy", "tensor", "dram", "fp16", "fp32", "busy", "nvlink", "pcie")
        self.of: dict[str, Floats] = {name: np.zeros(size) for name in names}
        context = self.rng.choice([0, 4, 560, 634], shape.gpus, p=[0.3, 0.3, 0.2, 0.2]) * float(1 << 20)
        self.memory: Floats = np.repeat(context, shape.ticks).reshape(size)

    def noise(self, size: tuple[int, int], deviation: float, memory: float = 0.8) -> Floats:
        """AR(1) noise along time."""
        fresh = self.rng.normal(0, deviation * (1 - memory * memory) ** 0.5, size)
        out = fresh.copy()
        for tick in range(1, size[1]):
            out[:, tick] = memory * out[:, tick - 1] + fresh[:, tick]
        return out

    def paint(self, where: tuple[slice, slice], **values: Floats | float) -> None:
        """Set what is named."""
        for name, value in values.items():
            self.of[name][where] = value


Where = tuple[slice, slice]


def _size(where: Where) -> tuple[int, int]:
    return where[0].stop - where[0].start, where[1].stop - where[1].start


def train(canvas: Canvas, where: Where) -> None:
    """Steps at a plateau, after a start-up; checkpoints and evaluations in between."""
    rng, (gpus, ticks) = canvas.rng, _size(where)
    size, time_ = (gpus, ticks), np.arange(ticks)
    active, tensor = np.ones(ticks), np.ones(ticks)
    active[: min(ticks, rng.integers(10, 60))] = 0.03
    period, checkpoint = rng.integers(80, 200), rng.integers(2, 8)
    active[(time_ % period) >= period - checkpoint] = 0.02
    evaluation = rng.integers(250, 500)
    tensor[(time_ % evaluation) >= evaluation - 18] = 0.45
    base = rng.uniform(0.55, 0.95)
    sm = base * active * (1 + rng.normal(0, 0.012, (gpus, 1)) + canvas.noise(size, 0.02))
    canvas.paint(
        where,
        sm=sm,
        occupancy=sm * rng.uniform(0.25, 0.45),
        tensor=base * rng.uniform(0.35, 0.7) * active * tensor * (1 + canvas.noise(size, 0.03)),
        dram=rng.uniform(0.25, 0.6) * active * (1 + canvas.noise(size, 0.03)),
        fp32=rng.uniform(0.04, 0.14) * active * (1 + canvas.noise(size, 0.05)),
        fp16=rng.uniform(0, 0.03) * active * (1 + canvas.noise(size, 0.05)),
        busy=np.where(active > 0.5, 1.0, 0.05) * (1 + canvas.noise(size, 0.01)) + 0.02 * (active < 0.5),
        nvlink=rng.uniform(3e10, 1.6e11) * active * (1 + canvas.noise(size, 0.08)),
        pcie=rng.uniform(5e7, 3e9) * np.maximum(active, 0.1) * (1 + canvas.noise(size, 0.25)),
    )
    ramp = np.minimum(1, (time_ + 1) / rng.integers(5, 40))
    used = rng.uniform(0.6, 0.95) * HBM_BYTES * (0.3 + 0.7 * ramp) * (1 + rng.normal(0, 0.01, (gpus, 1)))
    canvas.memory[where] = used // PAGE * PAGE
    if rng.random() < 0.04 and ticks > 300:
        _hang(canvas, (where[0], slice(where[1].start + ticks * 2 // 3, where[1].stop)))


def _hang(canvas: Canvas, where: Where) -> None:
    """Kernels spin, no work is done."""
    spin = 1 - np.abs(canvas.rng.normal(0, 0.002, _size(where)))
    still = dict.fromkeys(("tensor", "fp32", "fp16", "nvlink"), 0.0)
    canvas.paint(where, sm=spin, dram=0.001, occupancy=0.03, busy=1.0, pcie=1e6, **still)


def infer(canvas: Canvas, where: Where) -> None:
    """Requests that follow the day, with gaps."""
    rng, (gpus, ticks) = canvas.rng, _size(where)
    size = (gpus, ticks)
    wave = np.sin(2 * np.pi * (np.arange(ticks) + rng.integers(0, canvas.shape.ticks)) / 1500)
    load = np.clip(0.35 + 0.25 * wave + canvas.noise(size, 0.18, 0.6), 0, 1)
    load[rng.random(size) < 0.05] = 0
    sm = load * rng.uniform(0.4, 0.9)
    canvas.paint(
        where,
        sm=sm,
        tensor=sm * rng.uniform(0.1, 0.35),
        dram=load * rng.uniform(0.4, 0.85),
        occupancy=sm * 0.22,
        fp32=load * 0.05,
        fp16=load * 0.02,
        busy=np.minimum(1, load * 1.8),
        nvlink=load * (2e10 if gpus >= 4 else 0) * (1 + canvas.noise(size, 0.1)),
        pcie=load * 3e8 * (1 + canvas.noise(size, 0.3)),
    )
    canvas.memory[where] = rng.uniform(0.85, 0.93) * HBM_BYTES // PAGE * PAGE


def notebook(canvas: Canvas, where: Where) -> None:
    """A cell is run now and then."""
    rng, (gpus, ticks) = canvas.rng, _size(where)
    on = np.zeros((gpus, ticks))
    for gpu in range(gpus):
        for _ in range(max(1, ticks // 400)):
            start = rng.integers(0, ticks)
            on[gpu, start : start + rng.integers(6, 60)] = 1
    load = on * np.clip(rng.normal(0.4, 0.2, (gpus, ticks)), 0, 1)
    busy, pcie = np.minimum(1, load * 1.5), load * 2e8 * (1 + canvas.noise((gpus, ticks), 0.3))
    fractions = {"tensor": 0.2, "dram": 0.5, "occupancy": 0.3, "fp32": 0.15, "fp16": 0.02}
    canvas.paint(where, sm=load, busy=busy, pcie=pcie, **{name: load * part for name, part in fractions.items()})
    canvas.memory[where] = rng.uniform(0.05, 0.5) * HBM_BYTES // PAGE * PAGE


def idle(_: Canvas, __: Where) -> None:
    """Nothing runs."""


Job = Callable[[Canvas, Where], None]
WHOLE_HOSTS: Final[tuple[tuple[Job, float], ...]] = ((train, 0.95), (idle, 0.05))
HALF_HOSTS: Final[tuple[tuple[Job, float], ...]] = ((infer, 0.6), (train, 0.25), (idle, 0.15))
SINGLE: Final[tuple[tuple[Job, float], ...]] = ((notebook, 0.5), (idle, 0.5))


def _fill(canvas: Canvas, gpus: slice, mix: Sequence[tuple[Job, float]], shortest: int, longest: int) -> None:
    """One job after another on the same GPUs, with pauses."""
    rng, ticks = canvas.rng, canvas.shape.ticks
    tick = 0 if rng.random() < 0.5 else int(rng.integers(0, 120))
    while tick < ticks:
        job = mix[rng.choice(len(mix), p=[share for _, share in mix])][0]
        length = int(min(ticks - tick, rng.uniform(shortest, longest)))
        if length > 3:
            job(canvas, (gpus, slice(tick, tick + length)))
        tick += length + int(rng.integers(3, 90))


def _schedule(canvas: Canvas) -> None:
    """64 % of the hosts train together, 24 % serve or tune by halves, 12 % are notebooks'."""
    hosts = canvas.shape.hosts
    training, halves = hosts * 64 // 100, hosts * 88 // 100
    host = 0
    while host < training:
        count = int(min(canvas.rng.choice([4, 8, 16, 32]), training - host))
        _fill(canvas, slice(host * GPUS, (host + count) * GPUS), WHOLE_HOSTS, 500, 2160)
        host += count
    for first in range(training * GPUS, halves * GPUS, 4):
        _fill(canvas, slice(first, first + 4), HALF_HOSTS, 400, 2160)
    for gpu in range(halves * GPUS, hosts * GPUS):
        _fill(canvas, slice(gpu, gpu + 1), SINGLE, 300, 1500)


def _power_and_heat(canvas: Canvas) -> tuple[Floats, Floats, Floats]:
    """Watts from the work done, degrees that follow the watts, a clock that gives way above 560 W."""
    rng, (gpus, ticks) = canvas.rng, (canvas.shape.gpus, canvas.shape.ticks)
    work = 0.75 * canvas.of["tensor"] + 0.3 * canvas.of["dram"] + 0.3 * canvas.of["sm"]
    noise = rng.normal(0, 0.25, (gpus, ticks))
    power = rng.normal(72, 4, (gpus, 1)) + 640 * work * (1 + rng.normal(0, 0.015, (gpus, ticks))) + noise
    power = np.minimum(power, 700 + rng.normal(0, 2, (gpus, ticks)))
    heat, room = np.empty((gpus, ticks)), 26 + rng.normal(3, 1.5, gpus)
    now = room + 0.055 * power[:, 0]
    for tick in range(ticks):
        now += 0.12 * (room + 0.055 * power[:, tick] - now)
        heat[:, tick] = now
    over = (power > 560) * rng.normal(0, 0.7, (gpus, ticks)).clip(0)
    return power, heat, 1980 - 15 * np.round(np.clip((power - 560) / 18, 0, 20) + over)


def generate(shape: Shape) -> Fleet:
    """The fleet of this shape; the same on every call."""
    canvas = Canvas(shape)
    _schedule(canvas)
    for name in ("sm", "occupancy", "tensor", "dram", "fp16", "fp32", "busy"):
        canvas.of[name] = np.clip(canvas.of[name], 0, 1)
    power, heat, clock = _power_and_heat(canvas)
    of = canvas.of

    def jitter() -> Floats:
        return 1 + canvas.rng.normal(0, 0.01, power.shape)

    values = {
        "gpu_util_permille": np.round(100 * of["busy"]) * 10,  # NVML gives whole per cents
        "sm_active_permille": of["sm"] * 1000,
        "sm_occupancy_permille": of["occupancy"] * 1000,
        "tensor_active_permille": of["tensor"] * 1000,
        "dram_active_permille": of["dram"] * 1000,
        "fp16_active_permille": of["fp16"] * 1000,
        "fp32_active_permille": of["fp32"] * 1000,
        "fb_used_mebibytes": canvas.memory / (1 << 20),
        "power_deciwatts": power * 10,
        "temperature_celsius": heat,
        "sm_clock_megahertz": clock,
        "mem_clock_megahertz": np.full(power.shape, 2619.0),
        "pcie_tx_megabytes_per_s": of["pcie"] * jitter() / 1e6,
        "pcie_rx_megabytes_per_s": of["pcie"] * 0.6 * jitter() / 1e6,
        "nvlink_tx_megabytes_per_s": of["nvlink"] * jitter() / 1e6,
        "nvlink_rx_megabytes_per_s": of["nvlink"] * jitter() / 1e6,
    }
    positive = {name: np.maximum(0, value) for name, value in values.items()}
    return Fleet(
        shape,
        {name: np.round(positive[name]).astype(kind) for name, kind in COLUMNS.items()},
        {name: _published(name, value) for name, value in positive.items()},
    )


def _published(column: str, value: Floats) -> Floats:
    """What an exporter gives for a value that is not yet rounded to our scale."""
    if column in ("gpu_util_permille", "power_deciwatts"):
        return np.round(value / 1000, 2) if column == "gpu_util_permille" else np.round(value / 10, 3)
    if column.endswith("_permille"):
        return np.round(value / 1000, 6)
    if column.endswith("_megabytes_per_s"):
        return np.round(value * 1e6)
    whole = np.round(value)
    return whole * (1 << 20) if column.endswith("_mebibytes") else whole * 1e6 if column.endswith("hertz") else whole


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table in Markdown, the first column to the left."""
    widths = [max(len(line[index]) for line in [head, *rows]) for index in range(len(head))]
    print(f"\n{title}\n")
    for line in (head, ["-" * width for width in widths], *rows):
        cells = (
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print(f"| {' | '.join(cells)} |")


def shape_from_arguments(description: str) -> Shape:
    """The options `--hosts` and `--hours`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--hosts", type=int, default=200, help="hosts of 8 GPUs (default: 200)")
    parser.add_argument("--hours", type=int, default=6, help="hours at 10 s (default: 6)")
    given = parser.parse_args()
    return Shape(given.hosts, given.hours)


def main() -> None:
    """What the fleet is like."""
    shape = shape_from_arguments(__doc__ or "")
    fleet = generate(shape)
    rows = [
        [
            name,
            f"{a.mean():,.1f}",
            f"{np.median(a.astype('f8')):,.0f}",
            f"{a.max():,}",
            f"{(a == 0).mean():.0%}",
            f"{(np.diff(a.astype('i8'), axis=1) == 0).mean():.0%}",
        ]
        for name, a in fleet.columns.items()
    ]
    title = f"{shape.hosts} hosts x {GPUS} GPUs, {shape.hours} h at {shape.step_s} s: {shape.values:,} values"
    print_table(title, ["column", "mean", "median", "max", "zeros", "unchanged"], rows)


if __name__ == "__main__":
    main()
