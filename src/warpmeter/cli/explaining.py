"""`warpmeter doctor --pid`: one process's chain and what makes it a job, for people and as JSON."""

from collections.abc import Iterator

from warpmeter.cli import common
from warpmeter.producers.jobs.explain import Explanation, advice, explain
from warpmeter.producers.source import SourceError
from warpmeter.settings import Agent


def run(agent: Agent, pid: int, as_json: bool) -> int:
    """Say it; the exit status: 0 a job, 1 none (or no such process)."""
    try:
        found = explain(agent, pid)
    except (LookupError, SourceError) as error:
        common.fail(str(error.args[0]))
    if as_json:
        common.print_json(found)
    else:
        chain = [(link.pid, link.user, link.comm, link.name if link.name != link.comm else "") for link in found.chain]
        common.print_table(f"Ancestors of {pid}, oldest first", ("pid", "user", "comm", "completed"), chain)
        common.print_table(f"What makes {pid} a job", ("", ""), list(_told(found)))
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
