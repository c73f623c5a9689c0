"""The jobs of the fleet: who runs what, for how long, and how it behaves on its GPUs."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, NamedTuple, TypeVar
from zlib import crc32

import numpy as np

from warpmeter.simulate.fleet import Fleet, Floats, Pool, Slot

Kind = Literal["train", "starved", "hang", "finetune", "infer", "notebook", "debug", "hold", "none"]
N = TypeVar("N")

NEVER: Final = 1e12
MINUTE: Final = 60.0
HOUR: Final = 3600.0


class Profile(NamedTuple, Generic[N]):
    """How a job uses its GPUs and hosts: one number each, or one array over the slots each.

    Shares are of the peak; rates are bytes per second and GPU; times are seconds since the job's start.
    """

    sm: N
    tensor: N
    dram: N
    occupancy: N
    fp32: N
    noise: N  # standard deviation of the load, relative
    memory: N  # share of device memory held
    nvlink: N
    pcie: N
    network: N  # between hosts
    load: N  # read from storage while it works
    cores: N  # CPU cores a GPU
    rss_mebibytes: N  # host memory a GPU
    startup_s: N
    checkpoint_every_s: N
    checkpoint_s: N
    evaluate_every_s: N
    evaluate_s: N
    hang_after_s: N
    starve: N  # share of the time that it waits for data
    wave: N  # depth of the daily wave of requests
    wave_s: N
    burst_on_s: N  # a notebook computes in bursts
    burst_off_s: N


# fmt: off
IDLE: Final = Profile(
    sm=0.0, tensor=0.0, dram=0.0, occupancy=0.0, fp32=0.0, noise=0.0, memory=0.0, nvlink=0.0, pcie=0.0, network=0.0,
    load=0.0, cores=0.0, rss_mebibytes=0.0, startup_s=NEVER, checkpoint_every_s=NEVER, checkpoint_s=0.0,
    evaluate_every_s=NEVER, evaluate_s=0.0, hang_after_s=NEVER, starve=0.0, wave=0.0, wave_s=NEVER,
    burst_on_s=NEVER, burst_off_s=0.0,
)
# fmt: on


@dataclass(frozen=True)
class Job:
    """One job on all the GPUs of one slot, from `started_at` until `ends_at` (seconds since the epoch)."""

    job_id: str
    kind: Kind
    name: str
    command: str
    user: str
    scheduler: str
    tree_id: str
    labels: Mapping[str, str]
    slot: Slot
    started_at: float
    ends_at: float
    profile: Profile[float]

    def pid(self, host: int) -> int:
        """Of its topmost process on a host; any fixed number in the kernel's range will do."""
        return 10_000 + (hash((int(self.started_at), self.slot.index, host)) % 4_000_000)


@dataclass(frozen=True)
class _Work:
    """A kind of workload: its names, and how long one lasts."""

    names: Sequence[tuple[str, str]]  # job name, command
    shortest_s: float
    longest_s: float
    scheduler: Literal["slurm", "kubernetes"] = "slurm"


_TRAIN: Final = (
    ("llama-8b-pretrain", "python3.11 train.py --config configs/llama3-8b.yaml"),
    ("llama-70b-fsdp", "python3.11 -m torchtitan.train --job.config_file llama3_70b.toml"),
    ("moe-64e", "python3.11 pretrain_gpt.py --num-experts 64 --expert-model-parallel-size 8"),
    ("vit-22b", "python3.11 main.py --arch vit_22b --data /data/laion"),
    ("genome-lm", "python3.11 train_evo.py --context 131072"),
    ("weather-gnn", "python3.11 train.py experiment=era5_025deg"),
    ("diffusion-xl", "python3.11 train_sdxl.py --resolution 1024 --mixed_precision bf16"),
)
_WORK: Final[Mapping[Kind, _Work]] = {
    "train": _Work(_TRAIN, 40 * MINUTE, 6 * HOUR),
    "starved": _Work((("imagenet-resnet", "python3.11 main.py --workers 2 /nfs/imagenet"),), 30 * MINUTE, 4 * HOUR),
    "hang": _Work(_TRAIN, 2 * HOUR, 6 * HOUR),
    "finetune": _Work((("qlora-13b", "python3.11 finetune.py --adapter lora"),), 20 * MINUTE, 90 * MINUTE),
    "infer": _Work(
        (
            ("llm-gateway", "python3 -m vllm.entrypoints.openai.api_server --model llama-3-70b"),
            ("embedder", "python3 -m sglang.launch_server --model bge-m3 --is-embedding"),
            ("reranker", "python3 serve.py --model rerank-v2"),
        ),
        3 * HOUR,
        24 * HOUR,
        "kubernetes",
    ),
    "notebook": _Work((("jupyter", "python3.11 -m jupyterlab --no-browser"),), 20 * MINUTE, 2 * HOUR),
    "debug": _Work((("debug", "python3.11 train.py --max-steps 200"),), 2 * MINUTE, 8 * MINUTE),
    "hold": _Work((("interactive", "python3.11 -i setup_env.py"),), 30 * MINUTE, 3 * HOUR),
}
_MIX: Final[Mapping[Pool, Mapping[Kind, float]]] = {
    "train": {"train": 0.78, "starved": 0.1, "hang": 0.04, "hold": 0.03, "none": 0.05},
    "serve": {"infer": 0.5, "finetune": 0.28, "hold": 0.1, "none": 0.12},
    "interactive": {"notebook": 0.4, "debug": 0.2, "hold": 0.12, "none": 0.28},
}
_HEALTHY: Final[Mapping[Pool, Mapping[Kind, float]]] = {
    "train": {"train": 0.95, "none": 0.05},
    "serve": {"infer": 0.58, "finetune": 0.3, "none": 0.12},
    "interactive": {"finetune": 0.5, "debug": 0.22, "none": 0.28},
}
"""Without those that hold GPUs and do not use them."""
_USERS: Final = ("amara", "chen", "dmitri", "elif", "farah", "goran", "hana", "ines", "jonas", "kofi", "lena", "mateo")
_ACCOUNTS: Final = ("foundation", "vision", "biology", "climate", "speech")
_TREES: Final = {
    "slurm": "systemd/slurmstepd/bash/python3.11",
    "kubernetes": "systemd/containerd-shim-runc-v2/python3",
}


def profile(kind: Kind, rng: np.random.Generator) -> Profile[float]:
    """Draw how one job of a kind behaves; shapes as seen on real clusters, numbers within what an H100 does."""
    u = rng.uniform
    # fmt: off
    if kind in ("train", "starved", "hang", "finetune", "debug"):
        short = kind in ("finetune", "debug")
        return IDLE._replace(
            sm=u(0.55, 0.95), tensor=u(0.35, 0.7), dram=u(0.25, 0.6), occupancy=u(0.25, 0.45), fp32=u(0.04, 0.14),
            noise=0.02, memory=u(0.6, 0.95), nvlink=u(3e10, 1.6e11), pcie=u(5e7, 3e9), network=u(1e9, 1e10),
            load=u(2e7, 2e8), cores=u(3, 9), rss_mebibytes=u(12e3, 60e3), startup_s=u(10, 30) if short else u(60, 300),
            checkpoint_every_s=u(300, 900) if short else u(800, 2000), checkpoint_s=u(10, 60),
            evaluate_every_s=u(1500, 4000), evaluate_s=u(90, 240),
            hang_after_s=u(0.6, 1.4) * HOUR if kind == "hang" else NEVER,
            starve=u(0.45, 0.75) if kind == "starved" else 0.0,
        )
    if kind == "infer":
        return IDLE._replace(
            sm=u(0.4, 0.9), tensor=u(0.1, 0.35), dram=u(0.4, 0.85), occupancy=0.22, fp32=0.05, noise=0.25,
            memory=u(0.85, 0.93), nvlink=2e10, pcie=3e8, load=1e5, cores=u(2, 5), rss_mebibytes=u(8e3, 24e3),
            startup_s=u(60, 180), wave=u(0.5, 0.9), wave_s=u(1.0, 6.0) * HOUR,
        )
    if kind == "notebook":
        return IDLE._replace(
            sm=u(0.2, 0.7), tensor=0.2, dram=0.4, occupancy=0.3, fp32=0.15, noise=0.3, memory=u(0.05, 0.5), pcie=2e8,
            load=1e6, cores=u(0.5, 2), rss_mebibytes=u(2e3, 30e3), startup_s=u(20, 120),
            burst_on_s=u(40, 300), burst_off_s=u(200, 1200),
        )
    # fmt: on
    return IDLE._replace(memory=u(0.05, 0.8), cores=0.01, rss_mebibytes=u(1_000, 8_000), startup_s=NEVER)


@dataclass
class Queue:
    """Gives each slot one job after another, with gaps. At `start` the fleet is in mid-flight, or has just come up."""

    fleet: Fleet
    slots: Sequence[Slot]
    start: float
    in_flight: bool = True
    jobs: list[Job | None] = field(init=False)
    profiles: Floats = field(init=False)
    started_at: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._rng = self.fleet.random(3)
        self._number = int(self.start) % 100_000_000  # a later run of the same fleet gives other numbers
        self._due: list[tuple[float, int]] = []
        self.jobs = [None] * len(self.slots)
        self.profiles = np.tile(np.array([IDLE]).T, (1, len(self.slots)))
        self.started_at = np.full(len(self.slots), self.start)
        self._free_at = np.zeros(len(self.slots))
        for slot in self.slots:
            self._fill(slot, self.start, self._first_kind(slot), running=self.in_flight)

    @property
    def profile(self) -> Profile[Floats]:
        """Of all slots."""
        return Profile(*self.profiles)

    def advance(self, now: float) -> tuple[list[Job], list[Job]]:
        """The jobs that ended and those that started, up to `now`."""
        ended, started = [], []
        while self._due and self._due[0][0] <= now:
            _, index = heapq.heappop(self._due)
            job = self.jobs[index]
            if job is not None:
                ended.append(job)
                self._clear(index, now + self._rng.uniform(1, 12) * MINUTE)
            elif (new := self._fill(self.slots[index], now, self._kind(self.slots[index]))) is not None:
                started.append(new)
        return ended, started

    def fail(self, index: int, at: float, free_at: float) -> None:
        """The job of a slot, if any, ends at `at`; the next one starts no sooner than `free_at`."""
        self._free_at[index] = free_at
        self._due = [entry for entry in self._due if entry[1] != index]
        self._due.append((free_at if self.jobs[index] is None else at, index))
        heapq.heapify(self._due)

    def _clear(self, index: int, until: float) -> None:
        self.jobs[index] = None
        self.profiles[:, index] = IDLE
        heapq.heappush(self._due, (max(until, float(self._free_at[index])), index))

    def _first_kind(self, slot: Slot) -> Kind:
        """A job over several hosts and one that holds idle GPUs are there from the first minute."""
        if slot.index == len(self.slots) - 1:
            return "finetune" if self.fleet.healthy else "hold"
        return "train" if slot.index == 0 and slot.pool == "train" else self._kind(slot)

    def _kind(self, slot: Slot) -> Kind:
        mix = (_HEALTHY if self.fleet.healthy else _MIX)[slot.pool]
        return list(mix)[int(self._rng.choice(len(mix), p=list(mix.values())))]

    def _fill(self, slot: Slot, now: float, kind: Kind, running: bool = False) -> Job | None:
        if kind == "none":
            self._clear(slot.index, now + self._rng.uniform(3, 40) * MINUTE)
            return None
        work = _WORK[kind]
        lasts = self._rng.uniform(work.shortest_s, work.longest_s)
        begun = now - (self._rng.uniform(0.05, 0.8) * lasts if running else 0.0)
        job = self._job(slot, kind, round(begun, 2), begun + lasts)
        self.jobs[slot.index] = job
        self.profiles[:, slot.index] = job.profile
        self.started_at[slot.index] = job.started_at
        heapq.heappush(self._due, (job.ends_at, slot.index))
        return job

    def _job(self, slot: Slot, kind: Kind, started_at: float, ends_at: float) -> Job:
        rng, work = self._rng, _WORK[kind]
        self._number += int(rng.integers(1, 9))
        name, command = work.names[int(rng.integers(len(work.names)))]
        slurm = work.scheduler == "slurm"
        user = _USERS[int(rng.integers(len(_USERS)))] if slurm else "serving"
        return Job(
            job_id=str(self._number) if slurm else f"serving/{name}-{self._number}",
            kind=kind,
            name=name,
            command=command,
            user=user,
            scheduler=work.scheduler,
            tree_id=_TREES[work.scheduler],
            labels=self._labels(slot, slurm),
            slot=slot,
            started_at=started_at,
            ends_at=ends_at,
            profile=profile(kind, self._as_before(name, user) if self.fleet.healthy else rng),
        )

    def _as_before(self, name: str, user: str) -> np.random.Generator:
        return np.random.default_rng([self.fleet.seed, crc32(f"{name} {user}".encode())])

    def _labels(self, slot: Slot, slurm: bool) -> dict[str, str]:
        if not slurm:
            return {"namespace": "serving"}
        account = _ACCOUNTS[int(self._rng.integers(len(_ACCOUNTS)))]
        return {"account": account, "partition": slot.pool}
