"""Which processes of a host a command means: pure, over who is registered and which trees are of jobs.

Where ranks are known, one process a rank is meant: not the launcher above it, which loads PyTorch as well and would be
traced doing nothing, and not the workers below it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warpmeter.producers.kineto.registry import Client
from warpmeter.producers.source import JobTree


@dataclass(frozen=True)
class Target:
    """One process that is meant; `client` None: it is not registered. `pids`: the tree's, of one that is not."""

    pid: int
    rank: int | None
    job_id: str
    client: Client | None
    pids: tuple[int, ...] = ()


def targets(job_id: str, pids: Sequence[int], clients: Sequence[Client], trees: Sequence[JobTree]) -> list[Target]:
    """The processes of a job, or those with these pids; both when both are given, and all that ask when neither.

    A pid that could not be traced itself (a launcher, a shell) stands for all below it. By rank, then pid.
    """
    ranked = {tree.job_id for tree in trees if tree.rank is not None}
    meant = [tree for tree in trees if tree.rank is not None or tree.job_id not in ranked]
    wanted = [tree for tree in meant if job_id in ("", tree.job_id)]
    found = [target for tree in wanted for target in _of_tree(tree, clients, job_id != "" and not pids)]
    if not job_id:
        found += _without_tree(clients, trees)
    if pids:
        launchers = set(pids) - {target.pid for target in found}
        found = [target for target in found if target.pid in pids or _below(target, launchers)]
        found += _missed(pids, found, clients, trees, job_id)
    return sorted(found, key=lambda target: (target.rank is None, target.rank, target.pid))


def _of_tree(tree: JobTree, clients: Sequence[Client], also_absent: bool) -> Iterable[Target]:
    members = set(tree.pids)
    found = sorted((client for client in clients if client.pid in members), key=lambda client: len(client.chain))
    if tree.rank is not None:
        found = found[:1]
    if not found and also_absent:
        return [Target(tree.top, tree.rank, tree.job_id, None, tree.pids)]
    return [Target(client.pid, tree.rank, tree.job_id, client) for client in found]


def _without_tree(clients: Sequence[Client], trees: Sequence[JobTree]) -> list[Target]:
    """Those that are of no job; also not the launcher of one, which no job is made of where no shell started it."""
    known = {pid for tree in trees for pid in tree.pids}
    ranked = {pid for tree in trees if tree.rank is not None for pid in tree.pids}
    known |= {pid for client in clients if client.pid in ranked for pid in client.chain}
    return [Target(client.pid, None, "", client) for client in clients if client.pid not in known]


def _below(target: Target, pids: set[int]) -> bool:
    return target.client is not None and not pids.isdisjoint(target.client.chain)


def _missed(
    pids: Sequence[int], found: Sequence[Target], clients: Sequence[Client], trees: Sequence[JobTree], job_id: str
) -> list[Target]:
    """Of the pids that were named those for which nothing stands: a launcher that registered itself, or none."""
    covered = {pid for target in found if target.client is not None for pid in target.client.chain}
    known, tree_of = {client.pid: client for client in clients}, {pid: tree for tree in trees for pid in tree.pids}
    missed = []
    for pid in dict.fromkeys(pids):
        tree = tree_of.get(pid)
        if pid not in covered and (not job_id or (tree is not None and tree.job_id == job_id)):
            rank, job = (tree.rank, tree.job_id) if tree is not None else (None, "")
            missed.append(Target(pid, rank, job, known.get(pid), (pid,)))
    return missed
