"""The job source: lists /proc, reads only what is new, and tells which process trees are jobs and what they use."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.jobs.events import Seen, Tracker
from warpmeter.producers.jobs.pattern import pattern_in_force
from warpmeter.producers.jobs.process import ProcessTable
from warpmeter.producers.jobs.trees import Forest, Key, Rules, Tree
from warpmeter.producers.jobs.usage import GpuHold, ProcessUsage, TreeUsage, held, read_usage, summed
from warpmeter.producers.source import AnySource, Attribution, GpuUse, Health, Reading, Sample, SourceError
from warpmeter.settings import Agent

CONTAINER: Final = re.compile(rb"[0-9a-f]{64}")
HELP: Final = "run it as root, or give it CAP_SYS_PTRACE"
HELP_ROOT: Final = (
    "it is root, so the kernel or the container refuses it: give the container CAP_SYS_PTRACE, and let no security "
    "module or user namespace stand between"
)
NO_IO: Final = (
    "this kernel counts no I/O of processes (no /proc/<pid>/io: CONFIG_TASK_IO_ACCOUNTING is off, or a sandbox), so "
    "what {count} processes of jobs read and write is unknown"
)


@dataclass(frozen=True)
class JobsRaw:
    """One look at all processes. `usage`: of the trees' members, None when none was due.

    `hidden`: how many processes do not show their environment; `silent`: how many members do not show their I/O;
    `uncounted`: of how many the kernel counts none.
    """

    trees: Sequence[Tree]
    usage: Mapping[int, ProcessUsage] | None
    labels: Mapping[Key, Mapping[str, str]]
    hidden: int
    silent: int
    uncounted: int


class JobSource:
    """`job-events`, and for the GPU source the job of every process.

    `read` also decides which process belongs to which job, for it reads the usage of members only.
    """

    name = "jobs"
    topic = "job-events"
    timeout_s = 10.0

    def __init__(self, agent: Agent, attribution: Attribution) -> None:
        self.period_s = agent.job_interval_s
        self._agent, self._attribution = agent, attribution
        self._proc = files.below(agent.root, "proc")
        self._event_reads = max(1, round(agent.job_event_interval_s / agent.job_interval_s))
        self._reads = self._silent = self._uncounted = 0
        self._table = ProcessTable(self._proc, agent.job_interval_s)
        self._forest: Forest | None = None
        self._tracker: Tracker | None = None
        self._trees: list[Tree] = []
        self._labels: dict[Key, Mapping[str, str]] = {}
        self._keys: frozenset[Key] = frozenset()
        self._young: frozenset[Key] = frozenset()

    def read(self) -> JobsRaw:
        """List the processes, read the new ones, and on an event tick what the jobs use; raises OSError."""
        if self._forest is None:
            self._begin()
        assert self._forest is not None
        processes = self._table.processes
        if self._table.refresh() or not self._forest.settled:
            self._trees = self._forest.trees(processes, self._reads * self.period_s)
            self._labels = {tree.top.key: self._labels_of(tree) for tree in self._trees}
        usage = self._usage(due) if (due := self._due()) else None
        if usage is not None:
            self._silent = sum(member.io_denied for member in usage.values())
            self._uncounted = sum(member.io is None for member in usage.values()) - self._silent
        self._reads += 1
        hidden = sum(process.hidden for process in processes.values())
        return JobsRaw(self._trees, usage, self._labels, hidden, self._silent, self._uncounted)

    def _due(self) -> Sequence[Tree]:
        """The trees to measure now: all on an event tick, else those first seen by the read before.

        So what a new job uses is known within two reads, not only at the next event tick.
        """
        keys = frozenset(tree.top.key for tree in self._trees)
        young, self._young, self._keys = self._young, keys - self._keys, keys
        if self._reads % self._event_reads == 0:
            return self._trees
        return [tree for tree in self._trees if tree.top.key in young]

    def parse(self, sample: Sample[JobsRaw], before: Sample[JobsRaw] | None) -> Reading:  # noqa: ARG002 - it remembers
        """Events of one tick."""
        raw = sample.raw
        assert self._tracker is not None
        self._attribution.set_jobs({pid: tree.job_id for tree in raw.trees for pid in tree.pids})
        rows = self._tracker.events(
            Seen(
                ts=sample.ts,
                monotonic=sample.monotonic,
                trees=raw.trees,
                usage=None if raw.usage is None else _by_tree(sample.monotonic, raw.trees, raw.usage),
                gpus=_by_gpu(raw.trees, self._attribution.gpu_uses(sample.monotonic)),
                labels=raw.labels,
            )
        )
        return Reading(rows, unread(raw, os.geteuid() == 0))

    def close(self) -> None:
        """Nothing is held."""

    def _begin(self) -> None:
        pattern = pattern_in_force(self._agent)
        try:
            expression = re.compile(pattern.text)
            ignore = re.compile(self._agent.job_ignore) if self._agent.job_ignore else None
        except re.error as error:
            raise SourceError("failed", f"job_pattern or job_ignore is no regular expression: {error}") from error
        hertz = os.sysconf("SC_CLK_TCK")
        rules = Rules(self._agent.host, expression, ignore, boot_time(files.read(f"{self._proc}/stat")), hertz)
        self._forest = Forest(rules)
        self._tracker = Tracker(rules, os.sysconf("SC_PAGE_SIZE"))

    def _usage(self, trees: Sequence[Tree]) -> dict[int, ProcessUsage]:
        read = ((pid, read_usage(self._proc, pid)) for tree in trees for pid in tree.pids)
        return {pid: usage for pid, usage in read if usage is not None}

    def _labels_of(self, tree: Tree) -> Mapping[str, str]:
        """Read once a tree: its container, and its pid in there."""
        known = self._labels.get(tree.top.key)
        if known is not None:
            return known
        folder = f"{self._proc}/{tree.top.pid}"
        return container_labels(files.optional(f"{folder}/cgroup"), files.optional(f"{folder}/status"))


def boot_time(stat: bytes) -> float:
    """Of /proc/stat: when this machine was started, in seconds since the epoch."""
    return float(next(line for line in stat.splitlines() if line.startswith(b"btime")).split()[1])


def container_labels(cgroup: bytes | None, status: bytes | None) -> dict[str, str]:
    """`container`: its id, from the cgroup's path. `container_pid`: the pid in the innermost pid namespace."""
    labels = {}
    if cgroup and (found := CONTAINER.findall(cgroup)):
        labels["container"] = found[-1].decode()
    line = next((line for line in (status or b"").splitlines() if line.startswith(b"NSpid:")), b"")
    if len(pids := line.split()[1:]) > 1:
        labels["container_pid"] = pids[-1].decode()
    return labels


def _by_tree(monotonic: float, trees: Sequence[Tree], usage: Mapping[int, ProcessUsage]) -> dict[Key, TreeUsage]:
    members = {tree.top.key: [usage[pid] for pid in tree.pids if pid in usage] for tree in trees}
    return {key: summed(monotonic, found) for key, found in members.items() if found}


def _by_gpu(trees: Sequence[Tree], uses: Sequence[GpuUse] | None) -> dict[Key, GpuHold] | None:
    if uses is None:
        return None
    by_pid: dict[int, list[GpuUse]] = {}
    for use in uses:
        by_pid.setdefault(use.pid, []).append(use)
    return {tree.top.key: held(tree.pids, by_pid) for tree in trees}


def sources(agent: Agent, attribution: Attribution) -> Sequence[AnySource]:
    """The job source."""
    return (JobSource(agent, attribution),)


def unread(raw: JobsRaw, root: bool) -> list[Health]:
    """At most one row each for environments and for I/O, however many processes hide them; `root`: the agent is."""
    counts = {"environ": (raw.hidden, "their environment"), "io": (raw.silent, "their I/O")}
    rows = [
        Health(subject, "denied", f"{count} processes hide {what} from the agent; {HELP_ROOT if root else HELP}", count)
        for subject, (count, what) in counts.items()
        if count
    ]
    if raw.uncounted and not raw.silent:
        rows.append(Health("io", "unsupported", NO_IO.format(count=raw.uncounted), raw.uncounted))
    return rows
