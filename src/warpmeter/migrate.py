"""Bring a store's tables and views to what this version needs: `sql/migrations` once each, `sql/views` always current.

A migration is a numbered file that is frozen once released: its checksum is recorded with it, and a changed, missing
or out-of-order one is refused. Views, and the time to live of every table, follow the settings on each run.
Statements are written so that a half-applied migration can simply be run again (`IF NOT EXISTS`).

    plan(client, store)                      # what --dry-run prints
    apply(client, store, pending=...)      # takes the lock, runs the plan, records it
"""

import hashlib
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, Literal

from jinja2 import Environment, StrictUndefined, Template

from warpmeter import cluster
from warpmeter.dictionary import catalogue, commenting
from warpmeter.schema_lock import HALF_DONE, LOCK_FOR, PREFIX
from warpmeter.settings import Store
from warpmeter.store import Client

WAIT_S: Final = 30.0
"""So long a migration waits for others; mostly there is nothing left to do then."""
LOOK_S: Final = 0.1
_SQL: Final = "sql"
_RECORD: Final = "schema_migrations"


class MigrationError(Exception):
    """The store cannot be migrated; the message says why and what to do."""


@dataclass(frozen=True)
class Script:
    """One file of SQL: a migration (`version` > 0) or a file of views (0). `text` is the template as it stands."""

    name: str
    text: str
    version: int = 0

    @property
    def checksum(self) -> str:
        """Of the template, so that a setting does not change it."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Step:
    """What a plan does: run `statements` and record `script` (None for a change of settings)."""

    kind: Literal["migration", "views", "ttl", "comments"]
    name: str
    statements: tuple[str, ...]
    script: Script | None = None


@dataclass(frozen=True)
class Recorded:
    """A script that the store says it has."""

    version: int
    name: str
    checksum: str


# --- the files ---------------------------------------------------------------------------------------------------


def _files(folder: str) -> list[Traversable]:
    found = (resources.files("warpmeter") / _SQL / folder).iterdir()
    return sorted((file for file in found if file.name.endswith(".sql")), key=lambda file: file.name)


def migrations() -> tuple[Script, ...]:
    """The migrations of this version, in order; raises MigrationError on a bad or doubled number."""
    scripts = []
    for file in _files("migrations"):
        number = re.fullmatch(r"(\d{4})_\w+\.sql", file.name)
        if number is None:
            raise MigrationError(f"sql/migrations/{file.name}: a migration is named NNNN_name.sql")
        scripts.append(Script(file.name.removesuffix(".sql"), file.read_text(), int(number[1])))
    versions = [script.version for script in scripts]
    if versions != list(range(1, len(versions) + 1)):
        raise MigrationError(f"migrations must be numbered 0001, 0002, … without a gap; found {versions}")
    return tuple(scripts)


def views() -> tuple[Script, ...]:
    """The files of views, in the order in which they build on each other."""
    return tuple(Script(file.name.removesuffix(".sql"), file.read_text()) for file in _files("views"))


def literal(text: str) -> str:
    """`text` as a SQL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def identifier(name: str) -> str:
    """`name` as a quoted SQL identifier; raises MigrationError on what no database should be called."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
        raise MigrationError(f"{name!r} cannot name a database or cluster: use letters, digits, '_' and '-'")
    return f"`{name}`"


def render(script: Script, store: Store) -> tuple[str, ...]:
    """The statements of a script for this store: its database, its cluster if it has one, its times to live."""
    database = identifier(store.database)
    on_cluster = _on_cluster(store).strip()
    text = _template(script.text).render(
        database=database,
        cluster=store.cluster,
        on_cluster=on_cluster,
        name=lambda table: f"{database}.`{table}`",
        local=lambda table: f"{database}.`{store.local(table)}`",
        engine=lambda engine: f"Replicated{engine}" if store.cluster else engine,
        distributed=lambda table, key: (
            f"ENGINE = Distributed({identifier(store.cluster)}, {database}, `{store.local(table)}`, {key})"
        ),
        raw_ttl_days=store.raw_ttl_days,
        minute_ttl_days=store.minute_ttl_days,
        hour_ttl_days=store.hour_ttl_days,
    )
    return tuple(cluster.placed(store, statement) for statement in statements(text))


@cache
def _template(text: str) -> Template:
    """A template, compiled once a process: that is a fifth of what a migration costs."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    environment.filters["literal"] = literal
    return environment.from_string(text)


def statements(text: str) -> tuple[str, ...]:
    """Split SQL at each `;` that ends a line; lines that are comments alone are left out."""
    lines = (line.rstrip() for line in text.splitlines() if not line.lstrip().startswith("--"))
    parts = re.split(r";\n", "\n".join(line for line in lines if line) + "\n")
    return tuple(part.strip() for part in parts if part.strip())


# --- the plan ----------------------------------------------------------------------------------------------------


def recorded(client: Client, store: Store) -> tuple[Recorded, ...]:
    """What the store says it has; nothing when it is new."""
    if not _exists(client, store, _RECORD):
        return ()
    rows = client.query(
        f"SELECT version, name, argMax(checksum, applied_at) FROM {identifier(store.database)}.{_RECORD} "
        "GROUP BY version, name ORDER BY version, name"
    ).result_rows
    return tuple(Recorded(*row) for row in rows)


def check(files: Sequence[Script], have: Sequence[Recorded]) -> None:
    """Raise MigrationError when the recorded migrations are not the first ones of `files`, unchanged."""
    applied = {record.version: record for record in have if record.version}
    known = {script.version: script for script in files}
    for version, record in applied.items():
        if version not in known:
            raise MigrationError(
                f"the store has migration {record.name}, which this version does not know: "
                "it was migrated by a newer warpmeter; install that version or later"
            )
        if known[version].checksum != record.checksum:
            raise MigrationError(
                f"migration {record.name} is not the one that was applied (its checksum differs): a released "
                "migration is never edited; restore the file and put the change into a new one. A store of another "
                "line of versions is left alone: take another folder (--data) or another database (store.database)"
            )
    missing = [script for script in files if script.version not in applied and script.version < max(applied, default=0)]
    if missing:
        raise MigrationError(
            f"migration {applied[max(applied)].name} was applied, but {missing[0].name} was not: "
            "the record of the store is damaged; restore schema_migrations"
        )


def plan(client: Client, store: Store) -> tuple[Step, ...]:
    """The steps that would bring the store up to date, none when it is. Raises MigrationError, see `check`."""
    files, have = migrations(), recorded(client, store)
    check(files, have)
    done = {record.version for record in have if record.version}
    steps = [
        Step("migration", script.name, render(script, store), script) for script in files if script.version not in done
    ]
    steps += _stale_views(store, have, bool(steps))
    comments = () if steps else _stale_comments(client, store)  # of views that are made anew: after that
    return (*steps, *_stale_ttls(client, store), *comments)


def _stale_views(store: Store, have: Sequence[Recorded], tables_change: bool) -> Iterator[Step]:
    """Views whose text changed; all of them after a migration, as they may read what it changed."""
    current = {record.name: record.checksum for record in have if not record.version}
    stale = False
    for script in views():
        stale = stale or tables_change or current.get(script.name) != script.checksum
        if stale:  # and all after it, which may build on it
            yield Step("views", script.name, render(script, store), script)


def _stale_ttls(client: Client, store: Store) -> Iterator[Step]:
    """Tables whose time to live, or place, is not what the settings say (see `stale_ttl`)."""
    rows = client.query(
        "SELECT name, engine_full, partition_key != '', storage_policy FROM system.tables "
        "WHERE database = {database:String} AND engine LIKE '%MergeTree' ORDER BY name",
        {"database": store.database},
    ).result_rows
    for name, engine, by_time, policy in rows:
        step = stale_ttl(store, name, engine, policy if by_time else None)
        if step is not None:
            yield step


_TTL: Final = re.compile(
    r" TTL toDateTime\((\w+)\) \+ toIntervalDay\((\d+)\)"
    r"(?:, toDateTime\(\w+\) \+ toIntervalDay\((\d+)\) TO VOLUME '(\w+)')?"
)


def stale_ttl(store: Store, table: str, engine: str, policy: str | None) -> Step | None:
    """What makes a table's rows live as long, and move to the volume `cold` when, as the settings say; None: they do.

    `engine` is its `engine_full`; `policy` its storage policy, None for a table that is not partitioned by time: the
    latest of each host and the like, which does not get old. A policy is never taken away: parts lie in its volumes.
    """
    found = _TTL.search(engine)
    if found is None:
        return None
    days, cold = ttl_days(store, table), store.cold_after_days
    cold = cold if policy is not None and cold < days else 0
    altered = f"ALTER TABLE {identifier(store.database)}.`{table}`{_on_cluster(store)}"
    statements = []
    if cold and policy != store.storage_policy:
        statements.append(f"{altered} MODIFY SETTING storage_policy = {literal(store.storage_policy)}")
    if (int(found[2]), int(found[3] or 0)) != (days, cold):
        move = f", toDateTime({found[1]}) + toIntervalDay({cold}) TO VOLUME 'cold'" if cold else ""
        statements.append(f"{altered} MODIFY TTL toDateTime({found[1]}) + toIntervalDay({days}){move}")
    if not statements:
        return None
    said = f"{table}: {found[2]} to {days} days" + (f", to volume cold after {cold}" if cold else "")
    return Step("ttl", said, tuple(statements))


def _stale_comments(client: Client, store: Store) -> Iterator[Step]:
    """Views that do not say what the dictionary says of them: one step for all."""
    alters = []
    for each in commenting.stale(catalogue.read(client, store.database, whole=False)):
        changes = [f"COMMENT COLUMN `{column}` {literal(text)}" for column, text in each.columns.items()]
        view = f"{identifier(store.database)}.`{each.view}`{_on_cluster(store)}"
        alters.append(f"ALTER TABLE {view} " + ", ".join([f"MODIFY COMMENT {literal(each.row)}", *changes]))
    if alters:
        yield Step("comments", "what views and their columns mean", tuple(alters))


LONG: Final = (
    "job_trees", "gpu_events", "stack_frames", "capture_requests", "capture_schedules", "capture_events", "alerts",
    "alert_words", "report_events",
)  # fmt: skip
"""Few rows, that people ask for after years."""


def ttl_days(store: Store, table: str) -> int:
    """How many days a table keeps its rows: by its name, rollups of minutes and hours longer than raw rows."""
    table = table.removesuffix("_local")
    if table == "trace_timeline_loads":
        return store.raw_ttl_days
    if table.endswith("_1h") or table.startswith("trace_") or table in LONG:
        return store.hour_ttl_days
    if table.endswith(("_1m", "_last")) or table in ("ingest_batches", "capture_commands"):
        return store.minute_ttl_days
    return store.raw_ttl_days


def _exists(client: Client, store: Store, table: str) -> bool:
    found = client.query(
        "SELECT count() FROM system.tables WHERE database = {database:String} AND name = {table:String}",
        {"database": store.database, "table": table},
    ).result_rows[0][0]
    return bool(found)


# --- running it --------------------------------------------------------------------------------------------------


def nothing_pending() -> list[str]:
    """The hook for a store that no consumer writes to."""
    return []


def apply(
    client: Client,
    store: Store,
    pending: Callable[[], list[str]] = nothing_pending,
    report: Callable[[Step], None] = lambda _: None,
    wait_s: float = WAIT_S,
    busy: Callable[[], str | None] = lambda: None,
) -> tuple[Step, ...]:
    """Bring the store up to date and return the steps that were run; `report` is called before each.

    `client` must be connected to a database that exists (`store.connect(settings, database="default")`).
    `pending` names spans that were declared but have not landed: their replay must meet the very tables and views it
    met before, so nothing is changed while there is one. `busy` says who may declare more at any moment, None when
    nobody does; both are asked again under the lock, which a consumer that starts looks for before it inserts.
    A migration that stands half done (`HALF_DONE`) is finished whatever is pending: ingest inserts nothing until then.
    Raises MigrationError on these, on another migration that is at work for longer than `wait_s`, and on what `check`
    refuses; ClickHouseError when a statement fails: run it again after mending the cause.
    """
    if not plan(client, store) and half_done(client, store) is None:
        return ()
    _refuse_writers(client, store, pending, busy)
    _bootstrap(client, store)
    with _lock(client, store, wait_s):
        steps = plan(client, store)
        if steps:
            _refuse_writers(client, store, pending, busy)
        with _marked(client, store, steps):
            for step in steps:
                report(step)
                _run(client, store, step)
            after = () if not steps else (*_stale_ttls(client, store), *_stale_comments(client, store))
            for step in after:  # of what was only just made
                report(step)
                _run(client, store, step)
    return (*steps, *after)


def half_done(client: Client, store: Store) -> str | None:
    """Who began a migration that stands half done (host and pid), or is at work on it; None when there is none."""
    rows = client.query(
        "SELECT comment FROM system.tables WHERE database = {database:String} AND name = {name:String}",
        {"database": store.database, "name": HALF_DONE},
    ).result_rows
    return str(rows[0][0]) if rows else None


@contextmanager
def _marked(client: Client, store: Store, steps: Sequence[Step]) -> Iterator[None]:
    """Say that the tables are half migrated until all steps are done; after an error, or a kill, it stays said."""
    table = _lock_of(store, HALF_DONE)
    if any(step.kind == "migration" for step in steps):
        client.command(
            f"CREATE TABLE IF NOT EXISTS {table} (x UInt8) ENGINE = Memory COMMENT {literal(holder())}",
            settings=cluster.ddl(store),
        )
    yield
    client.command(f"DROP TABLE IF EXISTS {table}", settings=cluster.ddl(store))


def _refuse_writers(
    client: Client, store: Store, pending: Callable[[], list[str]], busy: Callable[[], str | None]
) -> None:
    if why := busy():
        raise MigrationError(why)
    if half_done(client, store) is not None:
        return
    if waiting := pending():
        raise MigrationError(
            f"{len(waiting)} span(s) are declared but not stored ({', '.join(waiting[:3])}): "
            "let `warpmeter ingest` finish them (it stores them first thing when it starts), stop it, then migrate"
        )


def _bootstrap(client: Client, store: Store) -> None:
    for statement in bootstrap(store):
        client.command(statement, settings=cluster.ddl(store))


def bootstrap(store: Store) -> tuple[str, str]:
    """What is there before the first migration: the database, and the record of what was applied."""
    database, on = identifier(store.database), _on_cluster(store)
    engine = cluster.everywhere(store, "MergeTree", _RECORD)
    return (
        f"CREATE DATABASE IF NOT EXISTS {database}{on}",
        f"CREATE TABLE IF NOT EXISTS {database}.{_RECORD}{on} (version UInt32, name String, checksum String, "
        f"applied_at DateTime64(3, 'UTC'), applied_by String) ENGINE = {engine} "
        "ORDER BY (version, name) COMMENT 'what warpmeter migrate has applied; version 0 are views'",
    )


def _on_cluster(store: Store) -> str:
    return f" ON CLUSTER {identifier(store.cluster)}" if store.cluster else ""


def _run(client: Client, store: Store, step: Step) -> None:
    for statement in step.statements:
        client.command(statement, settings=cluster.ddl(store))
        if same := _the_same_again(statement):
            client.command(same, settings=cluster.ddl(store))
    if step.script is None:
        return
    client.command(
        f"INSERT INTO {identifier(store.database)}.{_RECORD} SELECT {{version:UInt32}}, {{name:String}}, "
        "{checksum:String}, now64(3, 'UTC'), {by:String}",
        {
            "version": step.script.version,
            "name": step.script.name,
            "checksum": step.script.checksum,
            "by": holder(),
        },
        settings={"async_insert": 0, "insert_deduplication_token": uuid.uuid4().hex}
        | (dict(cluster.QUORUM) if store.cluster else {}),
    )


def _the_same_again(statement: str) -> str | None:
    """What makes a view the one that it was, after a statement that changed its query.

    `MODIFY QUERY` leaves it under another identity in deduplication until it is loaded again, so that every replay
    over the change, or over the next restart of the store, would double its rollup (seen with 26.9). Renamed there
    and back it is known as before.
    """
    found = re.match(r"ALTER TABLE (\S+)\s+(ON CLUSTER \S+\s+)?MODIFY QUERY", statement)
    if found is None:
        return None
    view, on_cluster = found[1], (found[2] or "").strip()
    other = f"{view.removesuffix('`')}_renamed" + ("`" if view.endswith("`") else "")
    return f"RENAME TABLE {view} TO {other}, {other} TO {view} {on_cluster}".strip()


def holder() -> str:
    """Who takes a lock: host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"


@contextmanager
def _lock(client: Client, store: Store, wait_s: float) -> Iterator[None]:
    """Advisory lock between migrations: a table of our own is made, then the others' are looked at.

    Making a table is atomic on a server, and `ON CLUSTER` statements run in one order on all of its servers, so of
    two that overlap the later sees the earlier: who sees no other alone goes on. Of several that see each other the
    one whose name is first (the oldest, by the server's clock) keeps its table and waits; the others take theirs away,
    and make one anew when none is left. A lock older than LOCK_FOR, or one in an embedded engine's folder that another
    process left (only one can have it open), is a dead process's and is removed. It holds off other migrations, and
    consumers that start (`schema_lock`).
    """
    deadline = time.monotonic() + wait_s
    own = _make_lock(client, store)
    try:
        while others := _others(client, store, own):
            if time.monotonic() >= deadline:
                raise MigrationError(
                    f"{next(iter(others.values()))}: wait for it; "
                    f"if it is dead, its lock ends by itself after {LOCK_FOR.seconds // 60} minutes"
                )
            if min(others) < own:
                _drop_lock(client, store, own)
                _until_none(client, store, deadline)
                own = _make_lock(client, store)
            else:
                time.sleep(LOOK_S)
        yield
    finally:
        _drop_lock(client, store, own)


def _make_lock(client: Client, store: Store) -> str:
    """Make a table of our own; names of locks are in the order of the server's clock."""
    ((now,),) = client.query("SELECT toUnixTimestamp64Milli(now64(3))").result_rows
    name = f"{PREFIX}{now:013}_{uuid.uuid4().hex}"
    client.command(
        f"CREATE TABLE {_lock_of(store, name)} (x UInt8) ENGINE = Memory COMMENT {literal(holder())}",
        settings=cluster.ddl(store),
    )
    return name


def _drop_lock(client: Client, store: Store, name: str) -> None:
    client.command(f"DROP TABLE IF EXISTS {_lock_of(store, name)}", settings=cluster.ddl(store))


def _lock_of(store: Store, name: str) -> str:
    return f"{identifier(store.database)}.`{name}`{_on_cluster(store)}"


def _until_none(client: Client, store: Store, deadline: float) -> None:
    """Wait until nobody has a lock, at most until `deadline` (monotonic)."""
    while _others(client, store, "") and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _others(client: Client, store: Store, own: str) -> dict[str, str]:
    """Locks of other migrations that live, with what to say of each; dead ones are removed."""
    rows = client.query(
        "SELECT name, comment, metadata_modification_time, now() FROM system.tables "
        "WHERE database = {database:String} AND startsWith(name, {prefix:String}) AND name != {own:String} "
        "ORDER BY name",
        {"database": store.database, "prefix": PREFIX, "own": own},
    ).result_rows
    found = {}
    for name, by, since, now in rows:
        if _dead(store, by, since, now):
            _drop_lock(client, store, name)
        else:
            found[name] = f"another migration is at work ({by}, for {(now - since).seconds} s)"
    return found


def _dead(store: Store, by: str, since: datetime, now: datetime) -> bool:
    return now - since > LOCK_FOR or (store.dsn.startswith("chdb:") and by != holder())
