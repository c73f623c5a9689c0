"""Why a process is a job, or is none: the decision of the job source for one pid, with all that it went by."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.jobs.engines import EngineSource
from warpmeter.producers.jobs.kubernetes.kubelet import KubeletSource
from warpmeter.producers.jobs.naming import Names
from warpmeter.producers.jobs.pattern import Pattern, pattern_in_force
from warpmeter.producers.jobs.pods import Pod, PodFiles
from warpmeter.producers.jobs.process import Process, ProcessTable, parse_stat
from warpmeter.producers.jobs.source import HELP, HELP_ROOT, rules_in_force
from warpmeter.producers.jobs.trees import Forest, Rules, Tree, is_own
from warpmeter.producers.source import SourceError
from warpmeter.settings import Agent

DECIDING: Final = {
    "slurm": ("SLURM_JOB_ID",),
    "torchrun": ("TORCHELASTIC_RUN_ID",),
    "mpi": ("PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
}
"""The variables by which a scheduler's job is known."""
READ: Final = ("environ", "exe", "io")
"""Of a process's files those that the kernel shows to its own user and to root only."""


@dataclass(frozen=True)
class Link:
    """One ancestor, or the process itself. `comm` as the kernel has it, `name` as completed."""

    pid: int
    user: str
    comm: str
    name: str


@dataclass(frozen=True)
class Explanation:
    """What was seen of one process and what follows.

    `chain`: oldest first. `matched`: the part of the tree id that the expression found, '' when none. `variables`: of
    its environment those that tell of jobs; no other is read. `unreadable`: its files that may not be read. `top`: the
    job's topmost process on this host, None when it is no job; `why` says what decided.
    """

    pid: int
    chain: Sequence[Link]
    tree_id: str
    pattern: Pattern
    matched: str
    variables: Mapping[str, str]
    unreadable: Sequence[str]
    labels: Mapping[str, str]
    top: int | None
    job_id: str | None
    scheduler: str
    rank: int | None
    local_rank: int | None
    world_size: int | None
    members: int
    why: str


def explain(agent: Agent, pid: int) -> Explanation:
    """Look at one process as the agent does; raises LookupError for none, SourceError for a broken expression."""
    proc = files.below(agent.root, "proc")
    table = ProcessTable(proc, agent.job_interval_s)
    table.refresh()
    process = table.processes.get(pid)
    if process is None:
        raise LookupError(_absent(proc, pid))
    names, pods = _named(agent, process), PodFiles(agent.root)

    def pod_of(other: Process) -> Pod | None:
        pod = pods.pod(other.container.pod_uid) if other.container is not None else None
        return replace(pod, has_gpu=names.has_gpu((pod.namespace, pod.name))) if pod is not None else None

    rules = rules_in_force(agent)
    trees = Forest(rules, pod_of).trees(table.processes, 0.0)
    tree = next((tree for tree in trees if pid in tree.pids), None)
    chain = _chain(table.processes, process)
    unreadable = [name for name in READ if _hidden(f"{proc}/{pid}/{name}")]
    return _explained(process, chain, tree, rules, pattern_in_force(agent), unreadable, names)


def advice() -> str:
    """What to do about what may not be read."""
    return HELP_ROOT if os.geteuid() == 0 else HELP


def _explained(  # noqa: PLR0913 - everything that was seen
    process: Process,
    chain: Sequence[Process],
    tree: Tree | None,
    rules: Rules,
    pattern: Pattern,
    unreadable: Sequence[str],
    names: Names,
) -> Explanation:
    found = rules.pattern.search(tree.top.tree_id if tree is not None else process.tree_id)
    engine = names.labels(process.container) if process.container is not None else {}
    return Explanation(
        pid=process.pid,
        chain=[Link(each.pid, each.user, each.comm, each.name) for each in chain],
        tree_id=process.tree_id,
        pattern=pattern,
        matched=found.group(0) if found is not None else "",
        variables=dict(sorted(process.variables.items())),
        unreadable=unreadable,
        labels={**engine, **(tree.labels if tree is not None else {})},
        top=tree.top.pid if tree is not None else None,
        job_id=tree.job_id if tree is not None else None,
        scheduler=tree.scheduler if tree is not None else "none",
        rank=tree.rank.rank if tree is not None else None,
        local_rank=tree.rank.local_rank if tree is not None else None,
        world_size=tree.rank.world_size if tree is not None else None,
        members=len(tree.pids) if tree is not None else 0,
        why=_why_job(process, tree, rules) if tree is not None else _why_none(process, chain, rules),
    )


def _why_job(process: Process, tree: Tree, rules: Rules) -> str:
    top = tree.top
    if tree.scheduler == "kubernetes":
        by = f"the pod that pid {top.pid} runs in"
    elif tree.scheduler in DECIDING:
        set_there = [name for name in DECIDING[tree.scheduler] if name in top.variables]
        by = f"{', '.join(set_there)} of pid {top.pid}" if set_there else f"the ranks that pid {top.pid} started"
    else:
        by = f"the expression, which matches the tree id of pid {top.pid}"
        if not rules.matches(top):
            by = f"`warpmeter run`, which started pid {top.pid}"
    where = "it is the topmost process" if process.pid == top.pid else f"it is below pid {top.pid}, the topmost process"
    return f"a job by {by}; {where} of its tree"


def _why_none(process: Process, chain: Sequence[Process], rules: Rules) -> str:
    own = next((each for each in chain if is_own(each)), None)
    if own is not None:
        return f"pid {own.pid} ({own.command}) is warpmeter's own: neither it nor what it starts is ever a job"
    ignore = rules.ignore
    if ignore is not None and (ignore.search(process.tree_id) or ignore.search(process.command)):
        return f"job_ignore ({ignore.pattern}) matches its tree id or command line"
    hidden = [each.pid for each in chain if each.hidden]
    if hidden:
        pids = ", ".join(map(str, hidden))
        return (
            f"the expression does not match its tree id, and whether a scheduler names it is not known: "
            f"the environment of pid {pids} may not be read; {advice()}"
        )
    return (
        "the expression does not match its tree id, and no variable of Slurm, torchrun or MPI, nor a pod with GPUs, "
        "makes it a job; agent.job_pattern is the expression"
    )


def _chain(processes: Mapping[int, Process], process: Process) -> list[Process]:
    chain = [process]
    while (parent := processes.get(chain[0].ppid)) is not None and parent not in chain:
        chain.insert(0, parent)
    return chain


def _named(agent: Agent, process: Process) -> Names:
    """Ask the kubelet, and the engine of the process's container, once."""
    names = Names()
    kubelet, engines = KubeletSource(agent, names), EngineSource(agent, names)
    if process.container is None:
        return names
    try:
        names.set_gpu_pods(kubelet.found())
    except SourceError:
        pass  # the agent's own health row tells; what the files and the environment say stands
    finally:
        kubelet.close()
    names.want([process.container])
    names.set_containers(engines.read().known)
    return names


def _absent(proc: str, pid: int) -> str:
    try:
        stat = parse_stat(files.read(f"{proc}/{pid}/stat"))
    except (OSError, ValueError):
        return f"there is no process {pid}"
    if stat.kernel:
        return f"{pid} ({stat.comm}) is a thread of the kernel"
    return f"{pid} ({stat.comm}) has ended and waits for its parent to take its status"


def _hidden(path: str) -> bool:
    try:
        if path.endswith("/exe"):
            os.readlink(path)  # noqa: PTH115
        else:
            Path(path).open("rb").close()
    except PermissionError:
        return True
    except OSError:
        return False
    return False
