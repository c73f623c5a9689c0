"""What the ranks of the fleet's jobs are seen doing: sampled stacks, as an agent tells them that samples waiting too.

A kind of job has stacks, each with a share of its main thread's time that depends on what the job does at the moment:
a starved one waits for its data loader, a hung one in an all-reduce, one that saves in the file system. Each turn
draws samples by these shares.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.schemas.generated.stack_samples_pb2 import Envelope as Stacks
from warpmeter.simulate.encode import row
from warpmeter.simulate.fleet import Fleet
from warpmeter.simulate.jobs import Job
from warpmeter.stacks import identity
from warpmeter.wire import field, varint

EVERY_S: Final = 60.0
SAMPLED_S: Final = 10.0
HERTZ: Final = 19
INTERVAL_US: Final = round(1e6 / HERTZ)
_DATA: Final = "torch/utils/data"
AGAIN_S: Final = 1800.0  # frames are told again after so long
WORKERS: Final = 2  # of the data loader, that are sampled, of each rank
_FRAMES: Final = Stacks.StackSample.DESCRIPTOR.fields_by_name["frames"].number
_SAMPLES, _WEIGHT = (
    varint(Stacks.StackSample.DESCRIPTOR.fields_by_name[name].number << 3) for name in ("samples", "weight")
)


@dataclass(frozen=True)
class Doing:
    """What a job does at an instant, 0 to 1: as `simulate.gpus.Load` has it of its slot."""

    level: float
    saving: bool
    evaluating: bool
    hung: bool
    starting: bool
    starve: float
    wide: bool  # over several hosts

    @property
    def fed(self) -> float:
        """The share of time that is not spent waiting for data."""
        return 1 - self.starve


Share = Callable[[Doing], float]
Frames = tuple[str, ...]


def _under(*frames: str) -> Callable[..., Frames]:
    return lambda *more: (*frames, *more)


_main = _under("<module> (train.py:212)", "main (train.py:188)")
_step = _under(*_main("train_epoch (train.py:121)"))
_load = _under(*_step(f"__next__ ({_DATA}/dataloader.py:733)", f"_next_data ({_DATA}/dataloader.py:1482)"))
_forward = _under(
    *_step(
        "training_step (train.py:94)",
        "_call_impl (torch/nn/modules/module.py:1762)",
        "forward (model/transformer.py:311)",
        "_call_impl (torch/nn/modules/module.py:1762)",
    )
)
_backward = _under(*_step("training_step (train.py:97)", "backward (torch/_tensor.py:648)"))
_reduce = _under(
    *_step("training_step (train.py:99)", "sync_gradients (distributed/sync.py:58)"),
    "all_reduce (torch/distributed/distributed_c10d.py:2931)",
)
_save = _under(*_step("save_checkpoint (train.py:143)", "save (torch/serialization.py:967)"))


def _working(share: float) -> Share:
    return lambda now: 0.0 if now.hung or now.saving or now.starting else share * now.fed


TRAIN: Final[Mapping[Frames, Share]] = {
    _main("build (train.py:60)", "load (torch/serialization.py:1530)"): lambda now: float(now.starting),
    _load("_get_data (torch/utils/data/dataloader.py:1444)", "wait (threading.py:359)"): (
        lambda now: 0.0 if now.hung or now.saving or now.starting else 0.01 + now.starve
    ),
    _load(f"_process_data ({_DATA}/dataloader.py:1500)", f"pin_memory ({_DATA}/_utils/pin_memory.py:98)"): (
        _working(0.04)
    ),
    _forward("forward (model/attention.py:142)", "dot_product (model/attention.py:97)"): _working(0.17),
    _forward("forward (model/attention.py:139)", "apply_rotary (model/rotary.py:33)"): _working(0.05),
    _forward("forward (model/mlp.py:41)", "linear (torch/nn/functional.py:2310)"): _working(0.12),
    _forward("forward (model/norm.py:22)"): _working(0.04),
    _backward("backward (torch/autograd/__init__.py:354)", "_engine_run_backward (torch/autograd/graph.py:841)"): (
        _working(0.33)
    ),
    _reduce("wait (torch/distributed/distributed_c10d.py:505)"): (
        lambda now: 1.0 if now.hung else _working(0.16 if now.wide else 0.03)(now)
    ),
    _step("training_step (train.py:103)", "step (torch/optim/adamw.py:243)", "_adamw (torch/optim/adamw.py:612)"): (
        _working(0.08)
    ),
    _step("log_metrics (train.py:110)", "item (torch/_tensor.py:1102)"): _working(0.02),
    _step("evaluate (train.py:131)", "perplexity (evaluation.py:77)"): (
        lambda now: 0.9 if now.evaluating and not now.hung else 0.0
    ),
    _save("_save (torch/serialization.py:1268)", "write_record (torch/serialization.py:1301)"): (
        lambda now: float(now.saving and not now.hung)
    ),
}  # fmt: skip
_worker = _under(
    "<module> (train.py:212)", "_worker_loop (torch/utils/data/_utils/worker.py:349)",
    "fetch (torch/utils/data/_utils/fetch.py:52)", "__getitem__ (data/images.py:88)",
)  # fmt: skip
LOADING: Final[Mapping[Frames, Share]] = {
    _worker("read (data/store.py:41)", "readinto (fsspec/spec.py:2093)"): lambda now: 0.15 + 0.4 * now.starve,
    _worker("decode (data/images.py:61)", "open (PIL/Image.py:3513)"): lambda now: 0.1 + 0.3 * now.starve,
    _worker("augment (data/images.py:73)", "random_resized_crop (data/transforms.py:29)"): lambda _: 0.1,
    ("<module> (train.py:212)", "_worker_loop (torch/utils/data/_utils/worker.py:330)", "get (queues.py:113)"): (
        lambda now: 0.65 - 0.65 * now.starve
    ),
}
_serve = _under("<module> (serve.py:40)", "run_engine (serve.py:31)", "step (engine/llm_engine.py:412)")
INFER: Final[Mapping[Frames, Share]] = {
    _serve("schedule (engine/scheduler.py:220)"): lambda now: 0.06 * now.level,
    _serve("execute_model (engine/worker.py:318)", "forward (model/transformer.py:311)"): lambda now: 0.6 * now.level,
    _serve("execute_model (engine/worker.py:331)", "sample (engine/sampler.py:74)"): lambda now: 0.16 * now.level,
    _serve("detokenize (engine/output.py:55)", "decode (tokenizers/__init__.py:90)"): lambda now: 0.12 * now.level,
    ("<module> (serve.py:40)", "run_engine (serve.py:28)", "wait_for_requests (engine/queue.py:19)"): (
        lambda now: 1.02 - now.level
    ),
}  # fmt: skip
_shell = _under("<module> (ipykernel_launcher.py:18)", "start (ipykernel/kernelapp.py:739)")
NOTEBOOK: Final[Mapping[Frames, Share]] = {
    _shell("run_forever (asyncio/base_events.py:607)", "select (selectors.py:468)"): lambda now: (
        1.02 - min(1.0, now.level)
    ),
    _shell("run_cell (IPython/core/interactiveshell.py:3075)", "<module> (In [12]:4)", "fit (experiment.py:51)"): (
        lambda now: min(1.0, now.level)
    ),
}
HOLD: Final[Mapping[Frames, Share]] = {("<module> (setup_env.py:9)", "input (<stdin>:1)"): lambda _: 1.0}
MAIN: Final[Mapping[str, Mapping[Frames, Share]]] = {
    "train": TRAIN, "starved": TRAIN, "hang": TRAIN, "finetune": TRAIN, "debug": TRAIN, "infer": INFER,
    "notebook": NOTEBOOK, "hold": HOLD,
}  # fmt: skip
_LOADS: Final = ("train", "starved", "hang", "finetune", "debug")


@dataclass(frozen=True)
class _Thread:
    """The main thread of one process, as rows begin that tell of it: one beginning for each of its stacks."""

    stacks: Mapping[Frames, Share]
    begins: tuple[bytes, ...]


@dataclass
class _Told:
    """Which stacks of a job a host has told since when."""

    since: float
    stacks: set[Frames]

    def frames(self, stack: Frames) -> bytes:
        """The field with its frames, if they are to be told."""
        if stack in self.stacks:
            return b""
        self.stacks.add(stack)
        return b"".join(field(_FRAMES, text.encode()) for text in stack)


class Sampler:
    """Draws what an agent sees of a job on a host in a turn; the same fleet and times give the same bytes."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._rng = fleet, fleet.random(8)
        self._period_ms = round(1000 * max(EVERY_S, fleet.interval_s))
        self._threads: dict[tuple[str, int], list[_Thread]] = {}
        self._told: dict[tuple[str, int], _Told] = {}

    def forget(self, job: Job, host: int) -> None:
        """The job is over."""
        self._threads.pop((job.job_id, host), None)
        self._told.pop((job.job_id, host), None)

    def rows(self, job: Job, host: int, now: Doing, ts: float, time: bytes) -> Iterator[bytes]:
        """One turn that began at `ts`, each row as a field of an Envelope; `time` is the field that says so."""
        key = job.job_id, host
        if key not in self._threads:
            self._threads[key] = list(self._made(job, host))
        told = self._told.get(key)
        if told is None or ts - told.since >= AGAIN_S:
            told = self._told[key] = _Told(ts, set())
        turns: dict[int, list[float]] = {}
        for thread in self._threads[key]:
            shares = turns.setdefault(id(thread.stacks), _shares(thread.stacks, now))
            seen = self._rng.multinomial(round(SAMPLED_S * HERTZ), shares)
            for frames, begin, samples in zip(thread.stacks, thread.begins, seen.tolist(), strict=True):
                if samples:
                    measured = _SAMPLES + varint(samples) + _WEIGHT + varint(samples * INTERVAL_US)
                    yield row(begin + time + told.frames(frames) + measured)

    def _made(self, job: Job, host: int) -> Iterator[_Thread]:
        first = host * self._fleet.gpus
        held = range(max(job.slot.first, first), min(job.slot.last, first + self._fleet.gpus))
        for gpu in held:
            pid = job.pid(host) + 1 + (gpu - first) * (1 + WORKERS)
            yield self._thread(job, host, gpu, pid, job.command.split(" ", 1)[0], MAIN[job.kind])
            for worker in range(WORKERS if job.kind in _LOADS else 0):
                yield self._thread(job, host, gpu, pid + 1 + worker, "pt_data_worker", LOADING)

    def _thread(
        self, job: Job, host: int, gpu: int, pid: int, process: str, stacks: Mapping[Frames, Share]
    ) -> _Thread:  # fmt: skip
        common = Stacks.StackSample(
            host=self._fleet.host_names[host],
            period_ms=self._period_ms,
            sampled_ms=round(1000 * SAMPLED_S),
            source="py-spy",
            job_id=job.job_id,
            rank=gpu - job.slot.first,
            pid=pid,
            process=process,
            tid=pid,
            thread="MainThread",
            unit="microseconds",
        ).SerializeToString()
        begins = (common + Stacks.StackSample(stack=identity(frames)).SerializeToString() for frames in stacks)
        return _Thread(stacks, tuple(begins))


def _shares(stacks: Mapping[Frames, Share], now: Doing) -> list[float]:
    """Of all its time."""
    raw = np.maximum([share(now) for share in stacks.values()], 1e-9)
    return [float(share) for share in raw / raw.sum()]
