"""Which process belongs to which job: pure, over the table of processes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final

from warpmeter.producers.jobs.pods import Pod
from warpmeter.producers.jobs.process import Process
from warpmeter.producers.jobs.scheduler import (
    UNKNOWN,
    Membership,
    Rank,
    Scheduler,
    launch_labels,
    membership,
    pods_job,
    rank,
)

ORPHAN_S: Final = 10.0
"""Processes that outlive the topmost one of their tree are its remains for so long; then they stand for themselves."""

ENGINES: Final[Mapping[str, Scheduler]] = {"docker": "docker", "podman": "podman"}
NO_SCHEDULER: Final = frozenset({"none", *ENGINES})
"""Trees that only their tree id makes jobs; an engine of containers schedules nothing."""

SHELL: Final = re.compile("[a-z]*sh")  # as in the default expression

OFF: Final = frozenset({"off", "0", "false", "no"})

LAUNCHERS: Final = frozenset({"torchrun", "mpi"})
"""They name ranks within what somebody else scheduled."""

Key = tuple[int, int]
PodOf = Callable[[Process], Pod | None]
"""The pod that a process runs in, None when it runs in none, or in one that this node's files do not name."""


@dataclass(frozen=True)
class Tree:
    """One process tree of a job on this host: its topmost process, and the pids of all that belong to it."""

    top: Process
    job_id: str
    scheduler: Scheduler = "none"
    name: str = ""
    user: str = ""
    rank: Rank = UNKNOWN
    labels: Mapping[str, str] = field(default_factory=dict)
    pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rules:
    """What makes a job on this host. `boot`: seconds since the epoch; `hertz`: clock ticks per second."""

    host: str
    pattern: re.Pattern[str]
    ignore: re.Pattern[str] | None
    boot: float
    hertz: int

    def started_at(self, process: Process) -> float:
        """Seconds since the epoch."""
        return self.boot + process.start / self.hertz

    def own_id(self, process: Process) -> str:
        """The job id of a tree that no scheduler names."""
        return f"{self.host}:{process.pid}:{int(self.started_at(process))}"

    def ignores(self, process: Process) -> bool:
        """Whether it is none, whatever its tree looks like."""
        return self.ignore is not None and bool(
            self.ignore.search(process.tree_id) or self.ignore.search(process.command)
        )

    def matches(self, process: Process) -> bool:
        """Whether the process tree id makes it a job."""
        return not self.ignores(process) and self.pattern.search(process.tree_id) is not None


class Forest:
    """The job trees of a host. It remembers to which tree a process belonged: parents end, and children move."""

    def __init__(self, rules: Rules, pod_of: PodOf = lambda _: None) -> None:
        self._rules, self._pod_of = rules, pod_of
        self._matches: dict[tuple[Key, str], bool] = {}
        self._belongs: dict[Key, Key] = {}
        self._orphan_since: dict[Key, float] = {}

    @property
    def settled(self) -> bool:
        """Whether the trees stay as they are while no process starts, ends or becomes another."""
        return not self._orphan_since

    def trees(self, processes: Mapping[int, Process], now: float) -> list[Tree]:
        """The trees among `processes`, the topmost first; `now`: seconds that never step."""
        walk = _Walk(self._rules, processes, self._remembered(processes, now), self._match, self._pod_of)
        for process in processes.values():
            walk.top_of(process)
        self._belongs = {processes[pid].key: top for pid, top in walk.tops.items() if top is not None}
        self._matches = {seen: matched for seen, matched in self._matches.items() if _alive(seen[0], processes)}
        return _adopt_launchers(walk.grown())

    def _match(self, process: Process) -> bool:
        seen = (process.key, process.name)
        if seen not in self._matches:
            self._matches[seen] = self._rules.matches(process)
        return self._matches[seen]

    def _remembered(self, processes: Mapping[int, Process], now: float) -> dict[Key, Key]:
        """The tree of each process that outlived its parent; remains of an ended tree keep to it for a while."""
        kept: dict[Key, Key] = {}
        orphans: dict[Key, float] = {}
        for key, top in self._belongs.items():
            if key == top or not _alive(key, processes):
                continue
            if _alive(top, processes):
                kept[key] = top
                continue
            orphans[key] = self._orphan_since.get(key, now)
            if now - orphans[key] < ORPHAN_S:
                kept[key] = top
        self._orphan_since = orphans
        return kept


class _Walk:
    """One pass: the top of every process, from its own environment, its parents, or its tree id."""

    def __init__(
        self,
        rules: Rules,
        processes: Mapping[int, Process],
        remembered: Mapping[Key, Key],
        match: Callable[[Process], bool],
        pod_of: PodOf,
    ) -> None:
        self._rules, self._processes, self._remembered, self._match = rules, processes, remembered, match
        self._pod_of = pod_of
        self.tops: dict[int, Key | None] = {}
        self.trees: dict[Key, Tree] = {}
        self._own: set[int] = set()

    def top_of(self, process: Process) -> Key | None:
        """Key of the topmost process of its tree; None when it belongs to no job."""
        chain: list[Process] = []  # a tree may be deeper than Python's stack
        above: Process | None = process
        while above is not None and above.pid not in self.tops:
            self.tops[above.pid] = None  # a cycle of stale parents ends here
            chain.append(above)
            above = self._parent(above)
        for each in reversed(chain):
            self._settle(each, self._parent(each))
        return self.tops[process.pid]

    def _settle(self, process: Process, parent: Process | None) -> None:
        if is_own(process) or (parent is not None and parent.pid in self._own):
            self._own.add(process.pid)
        else:
            above = self.tops[parent.pid] if parent is not None else None
            self.tops[process.pid] = self._decide(process, parent, above)

    def grown(self) -> list[Tree]:
        """The trees with their pids."""
        pids: dict[Key, list[int]] = {key: [] for key in self.trees}
        for pid, top in self.tops.items():
            if top in pids:
                pids[top].append(pid)
        return [replace(tree, pids=tuple(sorted(pids[key]))) for key, tree in self.trees.items()]

    def _parent(self, process: Process) -> Process | None:
        parent = self._processes.get(process.ppid)
        return parent if parent is not None and parent.start <= process.start else None

    def _decide(self, process: Process, parent: Process | None, above: Key | None) -> Key | None:
        if above is None and (above := self._remembered_top(process)) is not None and above not in self.trees:
            return above
        found, place = self._told(process)
        upper = self.trees.get(above) if above is not None else None
        if found is None:
            return above if above is not None or is_run(process) else self._by_tree_id(process, parent, place)
        if upper is not None and upper.scheduler == "kubernetes" and found.scheduler in LAUNCHERS:
            found = Membership(upper.scheduler, upper.job_id, upper.name, upper.user, upper.labels)
        job_id = found.job_id or self._launcher_id(process, parent, upper)
        if upper is not None and (upper.job_id, upper.rank) == (job_id, place):
            return above
        return self._plant(process, job_id, place, found)

    def _told(self, process: Process) -> tuple[Membership | None, Rank]:
        """What its environment and its pod say; of most processes of a host there is nothing to ask."""
        if not process.variables and process.container is None:
            return None, UNKNOWN
        return membership(process.variables, self._pod_of(process)), rank(process.variables)

    def _remembered_top(self, process: Process) -> Key | None:
        """Where it belonged while its parents lived. A top that is gone is no tree any more; one that lives is."""
        key = self._remembered.get(process.key)
        if key is not None and _alive(key, self._processes):
            return self.top_of(self._processes[key[0]])
        return key

    def _by_tree_id(self, process: Process, parent: Process | None, place: Rank) -> Key | None:
        """In a pod it is the pod's job: so it stays the same one when the kubelet tells of the pod's GPUs."""
        if not self._match(process) and (self._rules.ignores(process) or not was_run(process, parent)):
            return None
        pod = self._pod_of(process)
        found = pods_job(pod) if pod is not None else Membership(_engine(process), None)
        return self._plant(process, found.job_id or self._rules.own_id(process), place, found)

    def _launcher_id(self, process: Process, parent: Process | None, upper: Tree | None) -> str:
        """The job of a rank whose launcher has no id: the tree that it stands in, else the launcher itself."""
        return upper.job_id if upper is not None else self._rules.own_id(parent or process)

    def _plant(self, top: Process, job_id: str, place: Rank, found: Membership) -> Key:
        self.trees[top.key] = Tree(
            top=top,
            job_id=job_id,
            scheduler=found.scheduler,
            name=found.name or program(top),
            user=_user(top, found),
            rank=place,
            labels={**found.labels, **launch_labels(top.variables)},
        )
        return top.key


def _user(top: Process, found: Membership) -> str:
    """The owner of the process, whom the kernel knows: anybody may set SLURM_JOB_USER.

    Slurm's word counts where the owner is root (a container's, mapped) or has no name here.
    """
    owned = top.user not in ("", "root") and not top.user.isdecimal()
    return top.user if owned else found.user or top.user


def program(process: Process) -> str:
    """What a process is called: the script or module that an interpreter runs, else its name."""
    arguments = process.argv[1:]
    for i, argument in enumerate(arguments):
        if argument == "-m" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument == "-c":
            return f"{process.name} -c"
        if not argument.startswith("-"):
            return PurePath(argument).name if "python" in process.name else process.name
    return process.name


def unsampled(process: Process) -> bool:
    """Whether its environment asks that its stacks be left alone."""
    return process.variables.get("WARPMETER_STACKS", "").strip().lower() in OFF


def is_own(process: Process) -> bool:
    """Whether it is one of warpmeter's own processes: `python -m warpmeter…`, or the `warpmeter` command but `run`."""
    module = program(process)
    return (module == "warpmeter" and not is_run(process)) or (module.startswith("warpmeter.") and "-m" in process.argv)


def was_run(process: Process, parent: Process | None) -> bool:
    """Whether `warpmeter run` started it. It is a job also where no shell is above: a service, or its shell has ended.

    A shell is none itself, for then its scripts' jobs would be one; the expression matches what it starts.
    """
    return parent is not None and is_run(parent) and SHELL.fullmatch(process.name) is None


def is_run(process: Process) -> bool:
    """Whether it is `warpmeter run …`: what it starts is a job as if it were not there."""
    if program(process) != "warpmeter":
        return False
    words = [PurePath(argument).name for argument in process.argv]
    rest = iter(process.argv[words.index("warpmeter") + 1 :] if "warpmeter" in words else ())
    for word in rest:
        if word in ("-c", "--config"):
            next(rest, None)
        elif not word.startswith("-"):
            return word == "run"
    return False


def _engine(process: Process) -> Scheduler:
    """Who runs a process that no scheduler names: Docker or Podman, where its cgroup tells."""
    container = process.container
    return ENGINES.get(container.runtime, "none") if container is not None and not container.pod_uid else "none"


def _alive(key: Key, processes: Mapping[int, Process]) -> bool:
    process = processes.get(key[0])
    return process is not None and process.start == key[1]


def _adopt_launchers(trees: list[Tree]) -> list[Tree]:
    """A launcher matched by its tree id belongs to the job that all ranks below it name."""
    below: dict[Key, set[tuple[str, Scheduler]]] = {}
    owner = {pid: tree.top.key for tree in trees for pid in tree.pids}
    for tree in trees:
        launcher = owner.get(tree.top.ppid)
        if launcher is not None and tree.scheduler not in NO_SCHEDULER:
            below.setdefault(launcher, set()).add((tree.job_id, tree.scheduler))
    return [_adopted(tree, below.get(tree.top.key, set())) for tree in trees]


def _adopted(tree: Tree, below: set[tuple[str, Scheduler]]) -> Tree:
    if tree.scheduler not in NO_SCHEDULER or len(below) != 1:
        return tree
    job_id, scheduler = next(iter(below))
    return replace(tree, job_id=job_id, scheduler=scheduler)
