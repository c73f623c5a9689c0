"""What is simulated: the hosts, their GPUs, and the slots that jobs are given."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Pool = Literal["train", "serve", "interactive"]

MODEL: Final = "NVIDIA H100 80GB HBM3"
GROUPS: Final = (1, 2, 4, 8, 16, 32, 64, 128)  # hosts of one training job


@dataclass(frozen=True)
class Fleet:
    """The size and the pace of a fleet; the same `seed` and start give the same bytes.

    `interval_s`: what one sample stands for. `faults_per_hour`: over the whole fleet, of all kinds. `healthy`: nothing
    goes wrong, no job leaves idle what it holds, and each runs as those of its name and user did before.
    Raises ValueError for sizes that make no fleet.
    """

    hosts: int = 64
    gpus: int = 8
    interval_s: float = 1.0
    seed: int = 7
    faults_per_hour: float = 6.0
    name: str = "gpu"
    healthy: bool = False

    def __post_init__(self) -> None:
        if self.hosts < 1 or not 1 <= self.gpus <= 64 or self.interval_s < 0.1 or self.faults_per_hour < 0:
            raise ValueError("a fleet has hosts >= 1, 1 to 64 GPUs each, an interval >= 0.1 s, faults_per_hour >= 0")

    @property
    def size(self) -> int:
        """GPUs of the fleet; GPU `i` is on host `i // gpus`."""
        return self.hosts * self.gpus

    @cached_property
    def host_names(self) -> tuple[str, ...]:
        """`gpu-0001`, …"""
        return tuple(f"{self.name}-{number:04d}" for number in range(1, self.hosts + 1))

    @cached_property
    def uuids(self) -> tuple[str, ...]:
        """NVML's form, `GPU-…`, of every GPU."""
        raw = np.random.default_rng([self.seed, 1]).bytes(16 * self.size)
        return tuple(f"GPU-{UUID(bytes=raw[at : at + 16], version=4)}" for at in range(0, len(raw), 16))

    def random(self, stream: int) -> np.random.Generator:
        """An independent stream of random numbers of this fleet."""
        return np.random.default_rng([self.seed, stream])


@dataclass(frozen=True)
class Slot:
    """GPUs `first` up to `last` (not included) that one job after another gets as a whole."""

    index: int
    pool: Pool
    first: int
    last: int

    @property
    def gpus(self) -> range:
        """Indices over the fleet."""
        return range(self.first, self.last)


def slots(fleet: Fleet) -> tuple[Slot, ...]:
    """Divide the fleet: about 64 % for training over whole hosts, 24 % in half hosts, 12 % in single GPUs."""
    interactive = max(fleet.hosts >= 3, round(0.12 * fleet.hosts))
    serve = max(1, round(0.24 * fleet.hosts)) if fleet.hosts != 3 else 0
    train = fleet.hosts - interactive - serve
    half = max(1, fleet.gpus // 2)
    cuts: list[tuple[Pool, int]] = [("train", size * fleet.gpus) for size in _groups(fleet, train)]
    for _ in range(serve):
        cuts += [("serve", half), ("serve", fleet.gpus - half)] if fleet.gpus > 1 else [("serve", 1)]
    cuts += [("interactive", 1)] * (interactive * fleet.gpus)
    out: list[Slot] = []
    first = 0
    for index, (pool, size) in enumerate(cuts):
        out.append(Slot(index, pool, first, first + size))
        first += size
    return tuple(out)


def _groups(fleet: Fleet, hosts: int) -> list[int]:
    rng, cap = fleet.random(2), max(min(2, hosts), hosts // 3)
    out: list[int] = []
    while hosts:
        fitting = [size for size in GROUPS if size <= min(cap, hosts)]
        out.append(int(rng.choice(fitting)) if out else fitting[-1])
        hosts -= out[-1]
    return out
