"""Where the target of a capture runs, by the store's word: hosts of a job, or of jobs that a condition means."""

from collections.abc import Sequence
from typing import Final

from warpmeter.captures.wishes import Request
from warpmeter.scheduler.capture import Resolved
from warpmeter.scheduler.round import Target
from warpmeter.settings import Store
from warpmeter.store import ClickHouseError, Client, cause, client, code

_RUNS: Final = """
SELECT host, groupUniqArray(job_id), groupArray(pid) FROM job_processes
WHERE state != 'ended' AND {condition}
GROUP BY host ORDER BY host"""
_OF_JOBS: Final = "job_id IN (SELECT job_id FROM jobs WHERE state != 'ended' AND ({where}\n))"
_LIMITS: Final = {"readonly": 1, "max_execution_time": 10}
"""A condition is somebody's SQL: it may read the tables, and not for long."""


def resolve(store: Store, request: Request) -> Resolved:
    """Ask the store. A condition that it refuses is final; a store that is away is not."""
    try:
        return _found(request, _rows(client(store), request))
    except ClickHouseError as error:
        refused = code(error) is not None
        reason = "bad_request" if refused and request.where else "store_away"
        return Resolved(request.capture_id, (), reason, cause(error), final=reason == "bad_request")


def _rows(on: Client, request: Request) -> Sequence[tuple[str, list[str], list[int]]]:
    conditions = ["1"]
    values: dict[str, str | list[str]] = {}
    if request.job_id:
        conditions.append("job_id = {job:String}")
        values["job"] = request.job_id
    if request.hosts:
        conditions.append("host IN {hosts:Array(String)}")
        values["hosts"] = list(request.hosts)
    if request.where:
        conditions.append(_OF_JOBS.replace("{where}", request.where))
    sql = _RUNS.replace("{condition}", " AND ".join(conditions))
    return [tuple(row) for row in on.query(sql, values, settings=dict(_LIMITS)).result_rows]


def _found(request: Request, rows: Sequence[tuple[str, list[str], list[int]]]) -> Resolved:
    if not rows:
        meant = f"job {request.job_id}" if request.job_id else f"a job with {request.where}"
        where = f" on {', '.join(request.hosts)}" if request.hosts else ""
        why = f"{meant} is not known to run{where}; `warpmeter sql 'SELECT job_id, state FROM jobs'` shows what does"
        return Resolved(request.capture_id, (), "no_process", why)
    return Resolved(request.capture_id, tuple(_target(host, jobs, pids, request) for host, jobs, pids in rows))


def _target(host: str, jobs: Sequence[str], pids: Sequence[int], request: Request) -> Target:
    """Of one job its name, for its agent knows best which processes are its; of several on a host their processes."""
    named = tuple(request.pids)
    return Target(host, jobs[0], named) if len(jobs) == 1 else Target(host, "", named or tuple(sorted(pids)))
