"""`warpmeter status`: what runs, how far behind it is, how fresh the tables are, and what went wrong last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from warpmeter import store
from warpmeter.cli import common
from warpmeter.settings import Settings
from warpmeter.up import logs
from warpmeter.up.folder import Folder, Running

FRESHNESS: Final = """
SELECT table, sum(rows) AS rows, count() AS spans, max(max_ts) AS newest,
       dateDiff('millisecond', max(max_ts), now64(3)) / 1000 AS behind_s
FROM ingest_batches WHERE inserted_at > now() - INTERVAL 1 DAY GROUP BY table ORDER BY table
"""
UNHEALTHY: Final = """
SELECT host, source, subject, state, why, last_seen_at FROM source_health_now
WHERE state NOT IN ('ok', 'unsupported') AND NOT silent
ORDER BY host, source, subject LIMIT 50
"""
LOG_LINES: Final = 3


@dataclass(frozen=True)
class Part:
    """One process of a running `up`; memory in bytes, CPU time in seconds since its start."""

    name: str
    pid: int
    state: str
    rss_bytes: int | None
    cpu_s: float | None


@dataclass(frozen=True)
class Report:
    """All of it; `problems` is what could not be asked, in words."""

    parts: Sequence[Part]
    freshness: Sequence[Mapping[str, Any]]
    lag: Sequence[Mapping[str, Any]]
    unhealthy: Sequence[Mapping[str, Any]]
    errors: Sequence[Mapping[str, Any]]
    problems: Sequence[str]


def report(settings: Settings, data: Path) -> Report:
    """Ask everything that can be asked; nothing here raises for a part that does not answer."""
    folder, problems = Folder(data), list[str]()
    running = folder.running()
    parts = [_part(name, pid) for name, pid in (running.parts.items() if running else ())]
    freshness = _asked(settings, FRESHNESS, problems)
    unhealthy = _asked(settings, UNHEALTHY, problems) if freshness else []
    lag = _lag(settings, problems)
    if running is None and problems:
        problems.append(f"no `warpmeter up` runs on {data}; name your Kafka and ClickHouse, or start it")
    return Report(parts, freshness, lag, unhealthy, _errors(folder, running), problems)


def _part(name: str, pid: int) -> Part:
    import psutil

    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return Part(name, pid, "running", process.memory_info().rss, times.user + times.system)
    except psutil.NoSuchProcess:
        return Part(name, pid, "stopped", None, None)


def _asked(settings: Settings, sql: str, problems: list[str]) -> list[dict[str, Any]]:
    try:
        with store.connect(settings.store) as client:
            return list(client.query(sql).named_results())
    except store.ClickHouseError as error:
        problems.append(f"store: {store.reason(error).splitlines()[0]}")
        return []


def _lag(settings: Settings, problems: list[str]) -> list[Mapping[str, Any]]:
    from warpmeter.consumers import status

    return status.lag(settings, problems)


def _errors(folder: Folder, running: Running | None) -> list[dict[str, Any]]:
    """The last warnings and errors of each part since `up` was started."""
    since = datetime.fromtimestamp(running.started_at if running else 0.0, UTC).isoformat()
    return [
        {"part": path.stem, "at": entry["timestamp"], "said": logs.worded(entry)}
        for path in sorted(folder.logs.glob("*.log"))
        for entry in logs.problems(path, LOG_LINES)
        if str(entry.get("timestamp", "")) >= since
    ]


def show(found: Report, as_json: bool) -> None:
    """Print it: one JSON document, or tables that leave out what is empty."""
    if as_json:
        common.print_json(found)
        return
    for problem in found.problems:
        common.err.print(f"[yellow]![/] {problem}", highlight=False)
    parts = [(p.name, common.coloured(p.state), p.pid, _mebibytes(p.rss_bytes), _seconds(p.cpu_s)) for p in found.parts]
    _table("parts", ("part", "state", "pid", "memory", "CPU"), parts)
    lag = [row for row in found.lag if row["end"]]  # a partition that never held a message says nothing
    for title, rows in (
        ("tables", found.freshness),
        ("lag", lag),
        ("sick", found.unhealthy),
        ("last errors", found.errors),
    ):
        _table(title, list(rows[0]) if rows else (), [list(row.values()) for row in rows])


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        common.print_table(title, columns, rows)


def _mebibytes(size: int | None) -> str:
    return "" if size is None else f"{size >> 20} MiB"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"
