"""The job source: lists /proc, reads only what is new, and tells which process trees are jobs and what they use."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from warpmeter import log
from warpmeter.producers import files
from warpmeter.producers.jobs import engines
from warpmeter.producers.jobs.containers import Container, inner_pid
from warpmeter.producers.jobs.events import Seen, Tracker
from warpmeter.producers.jobs.kubernetes import kubelet, runtime
from warpmeter.producers.jobs.naming import Names
from warpmeter.producers.jobs.pattern import pattern_in_force
from warpmeter.producers.jobs.pods import Pod, PodFiles
from warpmeter.producers.jobs.process import Process, ProcessTable
from warpmeter.producers.jobs.trees import Forest, Key, Rules, Tree, program, unsampled
from warpmeter.producers.jobs.usage import GpuHold, ProcessUsage, TreeUsage, held, read_usage, summed
from warpmeter.producers.source import (
    AnySource,
    Attribution,
    GpuUse,
    Health,
    Interpreter,
    JobTree,
    Reading,
    Sample,
    SourceError,
)
from warpmeter.settings import Agent

HELP: Final = "run it as root, or give it CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
HELP_ROOT: Final = (
    "it is root, so the kernel or the container refuses it: give the container CAP_SYS_PTRACE and "
    "CAP_DAC_READ_SEARCH, and let no security module or user namespace stand between"
)
NO_IO: Final = (
    "this kernel counts no I/O of processes (no /proc/<pid>/io: CONFIG_TASK_IO_ACCOUNTING is off, or a sandbox), so "
    "what {count} processes of jobs read and write is unknown"
)

LOOK_S: Final = 2.0
"""Who asks out of turn waits so long for a look that is under way."""
logger = log.get("jobs")


@dataclass(frozen=True)
class JobsRaw:
    """One look at all processes. `usage`: of the trees' members, None when none was due. `hidden`: how many
    processes do not show their environment; `silent`: how many members do not show their I/O; `uncounted`: of how many
    the kernel counts none. `told`: the trees as others hear of them.
    """

    trees: Sequence[Tree]
    usage: Mapping[int, ProcessUsage] | None
    labels: Mapping[Key, Mapping[str, str]]
    hidden: int
    silent: int
    uncounted: int
    told: Sequence[JobTree] = ()


class JobSource:
    """`job-events`, and for the GPU source the job of every process.

    `read` also decides which process belongs to which job, for it reads the usage of members only. A capture asks for
    that out of turn, from a thread of its own: a job that began a moment ago has its ranks then.
    """

    name = "jobs"
    topic = "job-events"
    timeout_s = 10.0

    def __init__(self, agent: Agent, attribution: Attribution, names: Names | None = None) -> None:
        self.period_s = agent.job_interval_s
        self._agent, self._attribution = agent, attribution
        self._proc = files.below(agent.root, "proc")
        self._event_reads = max(1, round(agent.job_event_interval_s / agent.job_interval_s))
        self._reads = self._silent = self._uncounted = 0
        self._names, self._names_seen = names or Names(), -1
        self._pods = PodFiles(agent.root)
        self._inner: dict[Key, str] = {}
        self._table = ProcessTable(self._proc, agent.job_interval_s)
        self._forest: Forest | None = None
        self._tracker: Tracker | None = None
        self._trees: list[Tree] = []
        self._told: Sequence[JobTree] = ()
        self._labels: dict[Key, Mapping[str, str]] = {}
        self._keys: frozenset[Key] = frozenset()
        self._young: frozenset[Key] = frozenset()
        self._lock = Lock()
        attribution.look = self.look

    def read(self) -> JobsRaw:
        """List the processes, read the new ones, and on an event tick what the jobs use; raises OSError."""
        with self._lock:
            return self._read()

    def look(self, pids: Iterable[int]) -> Sequence[JobTree]:
        """The trees as they are now, from any thread; what was seen last where they cannot be looked at in time."""
        if not self._lock.acquire(timeout=LOOK_S):
            return self._attribution.trees
        try:
            self._grow(self._begun(), self._table.look(pids))
            return self._told
        except (OSError, SourceError) as error:
            logger.warning("processes cannot be listed for a capture", why=str(error))
            return self._attribution.trees
        finally:
            self._lock.release()

    def _grow(self, forest: Forest, changed: bool) -> None:
        """Assign the processes anew, where something changed."""
        processes = self._table.processes
        if changed or self._names.version != self._names_seen or not forest.settled:
            self._names_seen = self._names.version
            self._pods.keep(each.container for each in processes.values() if each.container is not None)
            self._trees = forest.trees(processes, self._reads * self.period_s)
            self._told = [_job_tree(tree, [processes[pid] for pid in tree.pids]) for tree in self._trees]
            self._inner = {tree.top.key: self._inner_pid(tree.top) for tree in self._trees}
            self._labels = {tree.top.key: self._labels_of(tree.top) for tree in self._trees}
            self._names.want(tree.top.container for tree in self._trees if tree.top.container is not None)

    def _read(self) -> JobsRaw:
        self._grow(self._begun(), self._table.refresh())
        usage = self._usage(due) if (due := self._due()) else None
        if usage is not None:
            self._silent = sum(member.io_denied for member in usage.values())
            self._uncounted = sum(member.io is None for member in usage.values()) - self._silent
        self._reads += 1
        hidden = sum(process.hidden for process in self._table.processes.values())
        return JobsRaw(self._trees, usage, self._labels, hidden, self._silent, self._uncounted, self._told)

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
        self._attribution.trees = raw.told
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

    def _begun(self) -> Forest:
        if self._forest is None:
            rules = rules_in_force(self._agent)
            self._forest = Forest(rules, self._pod_of)
            self._tracker = Tracker(rules, os.sysconf("SC_PAGE_SIZE"))
        return self._forest

    def _usage(self, trees: Sequence[Tree]) -> dict[int, ProcessUsage]:
        read = ((pid, read_usage(self._proc, pid)) for tree in trees for pid in tree.pids)
        return {pid: usage for pid, usage in read if usage is not None}

    def _pod_of(self, process: Process) -> Pod | None:
        pod = self._pods.pod(process.container.pod_uid) if process.container is not None else None
        if pod is None or not self._names.has_gpu((pod.namespace, pod.name)):
            return pod
        return replace(pod, has_gpu=True)

    def _inner_pid(self, top: Process) -> str:
        """Read once a tree."""
        if top.key in self._inner:
            return self._inner[top.key]
        return inner_pid(files.optional(f"{self._proc}/{top.pid}/status") or b"")

    def _labels_of(self, top: Process) -> Mapping[str, str]:
        """Of its container, and what the container's engine said by now."""
        if top.container is None:
            return {}
        name = self._pods.container_name(top.container) if top.container.pod_uid else ""
        labels = container_labels(top.container, self._inner[top.key], name)
        return {**labels, **self._names.labels(top.container)}


def rules_in_force(agent: Agent) -> Rules:
    """What makes a job on this host; raises SourceError for a broken expression, OSError without /proc."""
    try:
        expression = re.compile(pattern_in_force(agent).text)
        ignore = re.compile(agent.job_ignore) if agent.job_ignore else None
    except re.error as error:
        raise SourceError("failed", f"job_pattern or job_ignore is no regular expression: {error}") from error
    boot = boot_time(files.read(files.below(agent.root, "proc", "stat")))
    return Rules(agent.host, expression, ignore, boot, os.sysconf("SC_CLK_TCK"))


def boot_time(stat: bytes) -> float:
    """Of /proc/stat: when this machine was started, in seconds since the epoch."""
    return float(next(line for line in stat.splitlines() if line.startswith(b"btime")).split()[1])


def container_labels(container: Container, pid: str, name: str) -> dict[str, str]:
    """What the cgroup and the node's files tell of a container. `pid`: of the tree's topmost process in there."""
    labels = {
        "container_id": container.id,
        "container_pid": pid,
        "runtime": container.runtime,
        "pod_uid": container.pod_uid,
        "container": name,
    }
    return {key: value for key, value in labels.items() if value}


def _job_tree(tree: Tree, members: Sequence[Process]) -> JobTree:
    pythons = sorted((each for each in members if each.python), key=lambda each: len(each.lineage))
    return JobTree(
        tree.job_id,
        tree.rank.rank,
        tree.top.pid,
        tree.pids,
        tuple(Interpreter(each.pid, each.start, program(each)) for each in pythons),
        frozenset(each.pid for each in members if unsampled(each)),
    )


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
    """The job source, and one for each of those that know names: an engine that hangs delays no job."""
    names = Names()
    return (
        JobSource(agent, attribution, names),
        engines.EngineSource(agent, names),
        kubelet.KubeletSource(agent, names),
        runtime.RuntimeSource(agent, names),
    )


def unread(raw: JobsRaw, root: bool) -> list[Health]:
    """At most one row each for environments and for I/O, however many processes hide them; `root`: the agent is."""
    counts = {"environ": (raw.hidden, "environment"), "io": (raw.silent, "I/O")}
    rows = [
        Health(subject, "denied", f"the {what} of {_many(count)} is hidden; {HELP_ROOT if root else HELP}", count)
        for subject, (count, what) in counts.items()
        if count
    ]
    if raw.uncounted and not raw.silent:
        rows.append(Health("io", "unsupported", NO_IO.format(count=raw.uncounted), raw.uncounted))
    return rows


def _many(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
