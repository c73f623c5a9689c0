"""Where the target of a capture runs, by the store's word: hosts of a job, or of jobs that a condition means."""

import re
from collections.abc import Sequence
from typing import Final

from warpmeter.captures import conditions
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.capture import Resolved
from warpmeter.scheduler.round import Target
from warpmeter.settings import Store
from warpmeter.store import ClickHouseError, Client, cause, client, code

_RUNS: Final = """
SELECT host, groupUniqArray(job_id), groupArray(pid) FROM job_processes
WHERE state != 'ended' AND {condition}
GROUP BY host ORDER BY host"""
_OPENED: Final = "FROM jobs WHERE state != 'ended' AND ("
_OF_JOBS: Final = f"job_id IN (SELECT job_id {_OPENED}{{where}}\n))"
SYNTAX_ERROR: Final = 62
_NAME: Final = re.compile(r"\(([A-Z][A-Z0-9_]*)\)$")
_POSITION: Final = re.compile(r"failed at position (\d+)")
_LIMITS: Final = {"readonly": 1, "max_execution_time": 10}
"""A condition is somebody's SQL: it may read, and not for long."""


def resolve(store: Store, request: Request) -> Resolved:
    """Ask the store. A condition that it refuses is final; a store that is away is not."""
    if request.where and (why := conditions.objection(request.where)):
        return Resolved(request.capture_id, (), "bad_request", why, final=True)
    try:
        return _found(request, _rows(client(store), request))
    except ClickHouseError as error:
        if request.where and code(error) is not None:
            return Resolved(request.capture_id, (), "bad_request", _refusal(error, _sql(request)[0]), final=True)
        return Resolved(request.capture_id, (), "store_away", cause(error))


def _refusal(error: ClickHouseError, sql: str) -> str:
    """What the store says to a condition, without its words: they quote values, which may be anything's."""
    named = _NAME.search(cause(error))
    said = named[1] if named else f"code {code(error)}"
    found = _POSITION.search(cause(error)) if code(error) == SYNTAX_ERROR else None
    at = int(found[1]) - len(sql[: sql.index(_OPENED) + len(_OPENED)].encode()) if found else 0
    return f"the store refuses the condition: {said}" + (f", at its byte {at}" if at > 0 else "")


def _rows(on: Client, request: Request) -> Sequence[tuple[str, list[str], list[int]]]:
    sql, values = _sql(request)
    return [tuple(row) for row in on.query(sql, values, settings=dict(_LIMITS)).result_rows]


def _sql(request: Request) -> tuple[str, dict[str, str | list[str]]]:
    asked = ["1"]
    values: dict[str, str | list[str]] = {}
    if request.job_id:
        asked.append("job_id = {job:String}")
        values["job"] = request.job_id
    if request.hosts:
        asked.append("host IN {hosts:Array(String)}")
        values["hosts"] = list(request.hosts)
    if request.where:
        asked.append(_OF_JOBS.replace("{where}", request.where))
    return _RUNS.replace("{condition}", " AND ".join(asked)), values


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
