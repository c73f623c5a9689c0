"""What an optimizer step takes in the jobs that count theirs (`warpmeter run`): the memory of each process says it.

The mean over a period, of what was done in it: the steps since the read before, by the time between the last step then
and the last one now. A process that has made none since then has no row: nothing is told a second time.

The memory is a descriptor of its process (`warpmeter.hook`). Which one is remembered, and processes without one are
looked at again only now and then: data loaders are processes, too, and there are hundreds.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from warpmeter.hook import warpmeter_steps as memory
from warpmeter.producers import files
from warpmeter.producers.jobs.containers import inner_pid
from warpmeter.producers.kineto.steps import Step, candidates, content, latest
from warpmeter.producers.source import AnySource, Attribution, JobTree, Reading, Sample
from warpmeter.schemas.generated.metric_samples_pb2 import Envelope
from warpmeter.settings import Agent

MetricSample = Envelope.MetricSample

NAME: Final = "job_step_seconds"
AGAIN: Final = 4
"""Periods after which a process that counted no steps is looked at again."""
Key = tuple[int, int]
"""A pid and when its process started."""


@dataclass(frozen=True)
class Stepping:
    """A process that counts its steps: whose it is, and its last one."""

    job_id: str
    rank: int | None
    pid: int
    step: Step


Raw = Mapping[Key, Stepping]


class PaceSource:
    """`metric-samples` of the name `job_step_seconds`, with the labels job_id, rank and pid."""

    name = "paces"
    topic = "metric-samples"
    timeout_s = 10.0

    def __init__(self, agent: Agent, attribution: Attribution) -> None:
        self.period_s = agent.pace_interval_s
        self._host, self._proc, self._attribution = agent.host, files.below(agent.root, "proc"), attribution
        self._paths: dict[Key, str] = {}
        self._without: dict[Key, int] = {}
        self._reads = 0

    def read(self) -> Raw:
        """The last step of each process that counts its steps. What may not be looked at counts none."""
        self._reads += 1
        found: dict[Key, Stepping] = {}
        trees = self._attribution.trees
        for tree, key in _processes(trees):
            with suppress(OSError):
                if (step := self._step(key)) is not None:
                    found[key] = Stepping(tree.job_id, tree.rank, key[0], step)
        there = {key for _, key in _processes(trees)}
        self._paths = {key: path for key, path in self._paths.items() if key in there}
        self._without = {key: at for key, at in self._without.items() if key in there}
        return found

    def _step(self, key: Key) -> Step | None:
        path = self._paths.get(key)
        if path is None:
            if self._reads < self._without.get(key, 0):
                return None
            path = self._find(key[0])
            if path is None:
                self._without[key] = self._reads + AGAIN
                return None
            self._paths[key] = path
        try:
            return latest(content(path))
        except OSError:
            del self._paths[key]
            raise

    def _find(self, pid: int) -> str | None:
        """The descriptor of its own count, not of a parent's. Raises OSError."""
        own = int(inner_pid(files.read(f"{self._proc}/{pid}/status")) or pid)
        found = candidates(f"{self._proc}/{pid}/fd")
        return next((path for path, text in found if memory.HEAD.unpack_from(text)[1] == own), None)

    def parse(self, sample: Sample[Raw], before: Sample[Raw] | None) -> Reading:
        """What a step took each of them since the read before."""
        rows = []
        for key, now in sample.raw.items():
            then = None if before is None else before.raw.get(key)
            if then is not None and now.step.count > then.step.count and now.step.at > then.step.at:
                seconds = (now.step.at - then.step.at) / (now.step.count - then.step.count)
                rows.append(self._row(sample, now, seconds))
        return Reading(rows)

    def _row(self, sample: Sample[Raw], of: Stepping, seconds: float) -> MetricSample:
        labels = {"job_id": of.job_id, "pid": str(of.pid)}
        if of.rank is not None:
            labels["rank"] = str(of.rank)
        return MetricSample(
            host=self._host, ts=sample.ts, period_ms=sample.period_ms, source=self.name, name=NAME, labels=labels,
            value=seconds, kind="gauge", unit="seconds",
        )  # fmt: skip

    def close(self) -> None:
        """Nothing is held."""


def _processes(trees: Sequence[JobTree]) -> Iterator[tuple[JobTree, Key]]:
    for tree in trees:
        for each in tree.interpreters:
            yield tree, (each.pid, each.start)


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:
    """It asks nobody who did not offer: only what `warpmeter run` started counts steps."""
    return (PaceSource(agent, attribution),)
