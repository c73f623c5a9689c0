"""`warpmeter doctor --pid`: one process's chain, what makes it a job, whether it can be captured."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpmeter.cli import common
from warpmeter.cli.launching import below
from warpmeter.producers import files
from warpmeter.producers.jobs.explain import Explanation, advice, explain
from warpmeter.producers.kineto import explain as obstacles
from warpmeter.producers.kineto import who
from warpmeter.producers.source import SourceError
from warpmeter.settings import Agent


@dataclass(frozen=True)
class Profiling:
    """Whether a process, or what runs below it (`pids`), can be captured. `reason`: a word of docs/profiling.md."""

    possible: bool
    reason: str
    why: str
    pids: tuple[int, ...] = ()


def profiling(agent: Agent, folder: Path, pid: int) -> Profiling:
    """Ask this host's agent, whose sockets are in `folder`, and where it does not know the process, the process."""
    proc = files.below(agent.root, "proc")
    found = who.of_pid(folder, pid)
    if found is not None and found.count:
        them = "it is" if found.pids == (pid,) else f"{found.count} of its tree are"
        return Profiling(True, "", f"{them} registered: warpmeter capture --pid {pid}", found.pids)
    failure = obstacles.obstacle(proc, obstacles.worker(proc, below(proc, pid), pid), folder)
    if found is not None or failure.reason == "missing_variables":
        return Profiling(False, failure.reason, failure.why)
    why = f"no agent answers on this host, in {folder} or by the abstract name; start one: warpmeter agent"
    return Profiling(False, "agent_away", why)


def run(agent: Agent, folder: Path, pid: int, as_json: bool) -> int:
    """Say it; the exit status: 0 a job, 1 none (or no such process)."""
    try:
        found = explain(agent, pid)
    except (LookupError, SourceError) as error:
        common.fail(str(error.args[0]))
    capture = profiling(agent, folder, pid)
    if as_json:
        common.print_json({**common.plain(found), "profiling": capture})
    else:
        chain = [(link.pid, link.user, link.comm, link.name if link.name != link.comm else "") for link in found.chain]
        common.print_table(f"Ancestors of {pid}, oldest first", ("pid", "user", "comm", "completed"), chain)
        common.print_table(f"What makes {pid} a job", ("", ""), list(_told(found)))
        told = [("possible", "yes" if capture.possible else "no"), ("reason", capture.reason), ("why", capture.why)]
        rows = [(name, value) for name, value in told if value]
        common.print_table(f"Whether {pid} can be captured", ("", ""), rows)
    return int(found.job_id is None)


def _told(found: Explanation) -> Iterator[tuple[str, object]]:
    yield "process tree id", found.tree_id
    yield "expression", f"{found.pattern.text}  ({found.pattern.why})"
    yield "matched part", found.matched or "none"
    if "environ" in found.unreadable:
        yield "variables", f"not known: its environment may not be read; {advice()}"
    elif not found.variables:
        yield "variables", "none of those that schedulers and launchers set"
    yield from found.variables.items()
    if found.unreadable:
        yield "may not be read", ", ".join(f"/proc/{found.pid}/{name}" for name in found.unreadable)
    yield from _job(found)
    yield "why", found.why


def _job(found: Explanation) -> Iterator[tuple[str, object]]:
    if found.job_id is None:
        yield "job", "none"
        return
    yield "job", found.job_id
    yield "scheduler", found.scheduler
    yield "topmost process", f"{found.top}, {found.members} in its tree"
    places = {"rank": found.rank, "local rank": found.local_rank, "world size": found.world_size}
    yield from ((name, number) for name, number in places.items() if number is not None)
    yield from found.labels.items()
