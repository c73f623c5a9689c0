"""Why there is nothing to show: what is likely of what the store knows, the most telling first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from warpmeter.cli import common
from warpmeter.stacks.span import Span

Row = Mapping[str, Any]
Ask = Callable[..., Sequence[Row]]
"""Rows of a named query, by its name, with what it is given."""
WORST: Final = ("denied", "failed", "timeout", "gone", "unsupported", "paused")
"""States of a source, what explains the most first: one that may not look matters more than one that rests."""
HOSTS, NAMED = 3, 8
ELSE: Final = (
    "Agents sample Python processes of jobs where warpmeter[agent] is installed and [agent] stacks is on, but for "
    "those with WARPMETER_STACKS=off in their environment: `warpmeter doctor` says on a host what stands between; "
    "`warpmeter stacks import` brings in what other profilers took"
)


@dataclass(frozen=True)
class Sought:
    """What was looked for in vain: `of` are further words of whose it is to be, by their names."""

    job: str
    host: str
    source: str
    unit: str
    of: Mapping[str, object]
    at: Span


def because(ask: Ask, sought: Sought) -> str:
    """A sentence or two, for who looked; raises as `ask` does."""
    seen = ask("stack_seen", host=sought.host, job_id=sought.job, **sought.at.asked())
    found = _others(seen, sought) or _not_known(ask, sought) or _another_time(ask, sought)
    return found or " ".join([*_said(ask, sought), ELSE])


def _others(seen: Sequence[Row], sought: Sought) -> str:
    """There are some, but not of what was asked for."""
    of_source = [row for row in seen if sought.source in ("", row["source"]) and row["unit"] == sought.unit]
    if not of_source:
        there = ", ".join(f"{row['source']} (--unit {row['unit']})" for row in seen)
        return f"There are others then: of {there}" if there else ""
    if not sought.of:
        return ""
    processes = _listed(name for row in of_source for name in row["processes"])
    ranks = _listed(rank for row in of_source for rank in row["ranks"])
    return f"There are others then: of processes {processes or 'without names'}, of ranks {ranks or 'none'}"


def _listed(names: Iterable[object]) -> str:
    found = sorted(set(names), key=lambda each: (str(type(each)), each))
    return ", ".join(map(str, found[:NAMED])) + (", …" if len(found) > NAMED else "")


def _not_known(ask: Ask, sought: Sought) -> str:
    if sought.job and not ask("known_job", job_id=sought.job)[0]["known"]:
        return f"Nothing has been heard of a job {sought.job}: `warpmeter queries jobs_listed` has those of a day"
    if sought.host and not ask("known_host", host=sought.host)[0]["known"]:
        return f"Nothing has been heard of a host {sought.host}: `warpmeter queries hosts_listed` has all"
    return ""


def _another_time(ask: Ask, sought: Sought) -> str:
    ran = ask("job_listed", job_id=sought.job) if sought.job else ()
    if not ran:
        return ""
    first, last = (_utc(ran[0][name]) for name in ("started_at", "last_seen_at"))
    if first < sought.at.until and last >= sought.at.since:
        return ""
    return f"It ran from {common.said(first)} to {common.said(last)}: without --since, that is the window"


def _utc(at: datetime) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def _said(ask: Ask, sought: Sought) -> Iterator[str]:
    """What the agents say of it now, on the hosts in question."""
    hosts = [sought.host] if sought.host else []
    if sought.job and not hosts:
        hosts = list(dict.fromkeys(str(row["host"]) for row in ask("job_trees_of", job_id=sought.job)))[:HOSTS]
    for host in hosts:
        rows = [row for row in ask("host_sources", host=host) if row["source"] == "stacks" and not row["silent"]]
        rows = [row for row in rows if row["state"] in WORST and _of(row["subject"], sought.source)]
        told = sorted(rows, key=lambda row: WORST.index(row["state"]))
        for row in told[:1]:
            yield f"On {host} sampling is {row['state']}: {row['why'] or 'no reason given'}."


def _of(subject: str, source: str) -> bool:
    """Whether a complaint explains why there is nothing of a source; '' is any but perf, which few hosts have."""
    return subject != "native" and subject.startswith("perf") == (source == "perf")
