"""`warpmeter status`: what runs, how far behind it is, how fresh the tables are, and what went wrong last."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.markup import escape

from warpmeter import store
from warpmeter.cli import common
from warpmeter.settings import Settings
from warpmeter.terminal import printable
from warpmeter.up import logs
from warpmeter.up.folder import Folder, Running

FRESHNESS: Final = """
WITH inserted_at + INTERVAL 1 HOUR AS ahead  -- of a clock that is wrong: one such sample stood for the table's newest
SELECT table, sum(rows) AS rows, count() AS spans,
       maxOrNullIf(if(max_ts <= ahead, max_ts, min_ts), min_ts <= ahead) AS newest,
       dateDiff('millisecond', newest, now64(3)) / 1000 AS behind_s
FROM ingest_batches WHERE inserted_at > now() - INTERVAL 1 DAY GROUP BY table ORDER BY table
"""
UNHEALTHY: Final = """
SELECT host, source, subject, state, why, last_seen_at FROM source_health_now
WHERE state NOT IN ('ok', 'unsupported') AND NOT silent
ORDER BY host, source, subject LIMIT 50
"""
LOG_LINES: Final = 3
PATIENCE_S: Final = 5
LOW_DISK_BYTES: Final = 128 << 20  # the engine starts with 64 MiB or more, and reserves for every insert and merge


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
    """All of it; `problems` is what does not answer, or does not run, in words.

    `ingest` is what the one consumer behind this host's metrics port says of itself, None when none of this group
    answers; `stranger` is one of another group there; `members` are all consumers of the group, as the broker knows
    them; `pending` are the spans that are declared and not known to have landed; `lag` has a row a partition.
    """

    parts: Sequence[Part]
    ingest: Mapping[str, Any] | None
    freshness: Sequence[Mapping[str, Any]]
    lag: Sequence[Mapping[str, Any]]
    pending: Sequence[Mapping[str, Any]]
    unhealthy: Sequence[Mapping[str, Any]]
    errors: Sequence[Mapping[str, Any]]
    problems: Sequence[str]
    members: Sequence[Mapping[str, Any]] = ()
    stranger: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class _Bus:
    """What broker and ledger say."""

    lag: Sequence[Mapping[str, Any]]
    pending: Sequence[Mapping[str, Any]]
    problems: Sequence[str]
    members: Sequence[Mapping[str, Any]] = ()


def report(settings: Settings, data: Path, named: bool = False) -> Report:
    """Ask everything that can be asked, side by side; nothing here raises or waits for a part that does not answer.

    `named`: the folder was asked for, and is not only where an `up` would be; see `last_errors`.
    """
    folder = Folder(data)
    running = folder.running()
    with ThreadPoolExecutor(3, "status") as pool:
        tables, on_bus = pool.submit(_tables, settings), pool.submit(_bus, settings)
        consumer = pool.submit(ingest_here, settings, running)
    freshness, unhealthy, problems = tables.result()
    problems += [why for why in on_bus.result().problems if not (problems and why.startswith("store: "))]
    problems += _room(folder) if running is not None else []
    if running is None and problems and common.nothing_named(settings):
        problems.append(f"no `warpmeter up` runs on {data}; name your Kafka and ClickHouse, or start it")
    parts = [_part(name, pid) for name, pid in (running.parts.items() if running else ())]
    errors = last_errors(folder, running, named)
    found, (ingest, stranger) = on_bus.result(), consumer.result()
    return Report(
        parts, ingest, freshness, found.lag, found.pending, unhealthy, errors, problems, found.members, stranger
    )


def _room(folder: Folder) -> list[str]:
    free = shutil.disk_usage(folder.root).free
    return [f"disk: {folder.root} has {free >> 20} MiB left: make room"] if free < LOW_DISK_BYTES else []


def _tables(settings: Settings) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    problems: list[str] = []
    freshness = _asked(settings, FRESHNESS, problems)
    return freshness, _asked(settings, UNHEALTHY, problems) if freshness else [], problems


def _bus(settings: Settings) -> _Bus:
    from warpmeter.consumers import status
    from warpmeter.consumers.start import Tool, remedy

    problems: list[str] = []
    lag, entries = status.standing(settings, problems)
    if not lag:
        return _Bus([], [], problems)
    members = status.attending(settings)
    if members is not None and not members:
        problems.append(
            f"nobody ingests: group {settings.ingest.group} has no member; start `warpmeter ingest`, or see its log for"
            " why it halted"
        )
        found = status.refusals(settings)
        if not isinstance(found, str) and found.refused and not found.running:
            problems.append(f"ingest cannot start: {remedy(found.refused, Tool.of(settings))}")
    return _Bus(lag, status.declared(entries), problems, [asdict(each) for each in members or ()])


def ingest_here(settings: Settings, running: Running | None) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What the ingest behind this host's metrics port says of itself: as ours, or as that of another group, whose
    metrics are there."""
    from warpmeter.consumers import status

    port = running.metrics_ports.get("ingest") if running else settings.metrics.ingest_port
    found = status.consumer(settings.metrics, port) if port else None
    if found is None:
        return None, None
    row = {"at": f"{settings.metrics.listen}:{port}", **asdict(found)}
    return (row, None) if running or found.group in ("", settings.ingest.group) else (None, row)


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
        with store.connect(settings.store, patience_s=PATIENCE_S) as client:
            return list(client.query(sql).named_results())
    except store.ClickHouseError as error:
        problems.append(f"store: {store.reason(error).splitlines()[0]}")
        return []


def last_errors(folder: Folder, running: Running | None, named: bool) -> list[dict[str, Any]]:
    """The last warnings and errors of each part since `up` was started; of one that has ended, where it is `named`."""
    if running is None and not named:
        return []
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
        common.err.print(f"[yellow]![/] {escape(printable(problem))}", highlight=False)
    parts = [(p.name, common.coloured(p.state), p.pid, _mebibytes(p.rss_bytes), _seconds(p.cpu_s)) for p in found.parts]
    _table("parts", ("part", "state", "pid", "memory", "CPU"), parts)
    for title, rows in (
        ("ingest here", [found.ingest] if found.ingest else []),
        ("ingest of another group here", [found.stranger] if found.stranger else []),
        ("ingest everywhere", found.members),
        ("tables", found.freshness),
        ("lag", by_topic(found.lag, found.pending)),
        ("sick", found.unhealthy),
        ("last errors", found.errors),
    ):
        _table(title, list(rows[0]) if rows else (), [list(row.values()) for row in rows])


def by_topic(lag: Sequence[Mapping[str, Any]], pending: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a topic that ever held a message: how far behind in all, its worst partition and how far behind that is,
    and spans declared."""
    spans = Counter(row["topic"] for row in pending)
    partitions = {row["topic"]: [each for each in lag if each["topic"] == row["topic"]] for row in lag if row["end"]}
    return [
        {
            "topic": topic,
            "partitions": len(rows),
            "lag_messages": sum(row["lag_messages"] for row in rows),
            "worst_partition": (worst := max(rows, key=lambda row: row["lag_messages"]))["partition"],
            "worst_lag_messages": worst["lag_messages"],
            "pending_spans": spans[topic],
        }
        for topic, rows in sorted(partitions.items())
    ]


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        common.print_table(title, columns, rows)


def _mebibytes(size: int | None) -> str:
    return "" if size is None else f"{size >> 20} MiB"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"
