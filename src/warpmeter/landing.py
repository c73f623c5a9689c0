"""Analysed traces into the store: what is loaded is seen whole or not at all, and replaces what was loaded before.

    load = begin(client, "capture-7", job_id="42")          # asks the store for the time
    puts = [put(client, store, load, process, tables), …]   # the rows of each rank; other processes may do it
    landed = publish(client, store, load, puts)             # from here on they are what the views show

Rows go into the tables `trace_…_loads` under the load's own number, and nobody sees them (`sql/views/50_traces.sql`).
The ranks' own rows come last, in one insert: that is the publication. Of several loads of a rank the views show the one
that began last, so two at once end with one of them, whoever is first. A load that was killed leaves rows that are
never seen; the next load of the capture takes them away.

Why it waits (`SETTLE_S`): a query takes its views of two tables one after the other. Who saw a publication must also
have seen its rows, so all are there for a moment before; and who did not must still find what is replaced, so that goes
a moment after.
"""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clickhouse_connect.driver.exceptions import DataError

from warpmeter import schema_lock
from warpmeter.cluster import quorum
from warpmeter.migrate import identifier
from warpmeter.settings import Store
from warpmeter.store import ONE_BLOCK, ClickHouseError, Client, cause, code

RANKS: Final = "trace_ranks"
TABLES: Final = (
    "trace_kernels",
    "trace_ops",
    "trace_steps",
    "trace_streams",
    "trace_collectives",
    "trace_memory",
    "trace_timeline",
)
"""What a load fills, besides the ranks' own rows."""

SETTLE_S: Final = 1.0
"""Longer than a query needs from its view of one table to that of the next."""
CHUNK_ROWS: Final = 500_000
TOGETHER_ROWS: Final = 50_000
"""From so many rows on an insert is worth its while; smaller groups wait for others of the same table."""
LOAD_FOR_MS: Final = 12 * 3_600_000
"""A load that takes longer is refused; after twice that its rows are rubbish."""
AGAIN_AFTER_S: Final = (0.5, 2.0)
"""When an insert is sent once more whose reply was lost; its token keeps it from landing twice."""

_NO_TABLE: Final = (60, 81)

Column = Any
Columns = Mapping[str, Column]
"""Rows by column: lists or arrays of one length. What is not named is the table's default: NULL, or empty."""
Tables = Mapping[str, Sequence[Columns]]
"""Rows of each table, in groups that name the same columns."""


class LandingError(Exception):
    """Nothing of a load is seen; the message says why and what to do."""


@dataclass(frozen=True)
class Process:
    """Whose trace it is. `told`: the rank is known, so that it is one of the whole capture; else it is one of its host.

    `captured_at_ns`: nanoseconds since the epoch; None counts as captured when it is loaded. `called`: what tells it
    from the others of the capture where rank and host do not.
    """

    rank: int
    host: str
    told: bool
    captured_at_ns: int | None
    called: str = ""

    @property
    def name(self) -> str:
        """What a load replaces."""
        return self.called or (str(self.rank) if self.told else f"{self.host}/{self.rank}")


@dataclass(frozen=True)
class Load:
    """A load that has begun; `id` is a UUID of version 7, greater than that of every load before."""

    id: str
    capture: str
    job_id: str = ""

    @property
    def began_ms(self) -> int:
        """Milliseconds since the epoch, by the store's clock."""
        return milliseconds(self.id)


@dataclass(frozen=True)
class Put:
    """A process whose rows are there, and the row that will say so."""

    process: Process
    row: Mapping[str, Any]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Landed:
    """A load that is seen: its `processes` and `rows`. `replaced`: processes of which an older load was seen.

    `overtaken`: those of which a load that began later is seen instead of this one. `left`: why what was replaced is
    still in the tables (the views do not show it; the next load takes it away), empty when it is gone.
    """

    capture: str
    processes: tuple[str, ...]
    rows: int
    replaced: tuple[str, ...]
    overtaken: tuple[str, ...]
    left: str = ""


def uuid7(ms: int) -> str:
    """A UUID of version 7 (RFC 9562): as text in the order of `ms`, milliseconds since the epoch."""
    random = secrets.randbits(74)
    value = ms << 80 | 7 << 76 | (random >> 62) << 64 | 2 << 62 | (random & (1 << 62) - 1)
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def milliseconds(load: str) -> int:
    """The time of a load's number."""
    return int(load[:8] + load[9:13], 16)


# --- a load ------------------------------------------------------------------------------------------------------


def begin(client: Client, capture: str, job_id: str = "") -> Load:
    """Begin a load of ranks of `capture`. Raises LandingError when the tables are not there, ClickHouseError."""
    if not capture:
        raise LandingError("a capture needs a name: give one (--capture)")
    match client.query(schema_lock.AT_WORK).result_rows:
        case [(by, 1)]:
            raise LandingError(schema_lock.half_done(by))
        case [(by, _)]:
            raise LandingError(f"a migration is at work ({by}): load when it is done")
    try:
        ((now, latest),) = client.query(
            "SELECT toUnixTimestamp64Milli(now64(3)), max(load) FROM trace_loads WHERE capture_id = {capture:String}",
            {"capture": capture},
        ).result_rows
    except ClickHouseError as error:
        if code(error) in _NO_TABLE:
            raise LandingError(
                f"the store has no tables for traces: run `warpmeter migrate` ({cause(error)})"
            ) from error
        raise
    after = milliseconds(latest) + 1 if latest else 0  # another server's clock may be ahead
    return Load(uuid7(max(now, after)), capture, job_id)


def put(client: Client, store: Store, load: Load, process: Process, tables: Tables) -> Put:
    """Insert the rows of one process, which nobody sees yet. `tables` has `RANKS` with one row.

    Raises ClickHouseError.
    """
    (done,) = put_all(client, store, load, [(process, tables)])
    return done


def put_all(client: Client, store: Store, load: Load, found: Iterable[tuple[Process, Tables]]) -> list[Put]:
    """The same for several processes, read one after the other, with few inserts. Raises ClickHouseError."""
    writer = _Writer(lambda table, columns, token: _insert(client, store, table, columns, token), load)
    done = [writer.add(process, tables) for process, tables in found]
    writer.flush()
    return done


class _Writer:
    """Rows of processes on their way: small groups with the same columns go together, large ones in chunks."""

    def __init__(self, insert: Callable[[str, Columns, str], None], load: Load) -> None:
        self._insert = insert
        self._load = load
        self._open: dict[tuple[str, tuple[str, ...]], dict[str, list[Any]]] = {}
        self._parts: Counter[str] = Counter()

    def add(self, process: Process, tables: Tables) -> Put:
        """Take a process's rows; what it had is in the store after `flush`."""
        key = _key(self._load, process)
        counts = dict.fromkeys(TABLES, 0)
        for table in TABLES:
            for chunk in _chunks(tables.get(table, ())):
                counts[table] += _rows(chunk)
                self._take(table, {**_constant(key, _rows(chunk)), **chunk})
        ((row,),) = [list(_each(group)) for group in tables[RANKS]]
        return Put(process, {**key, **row, "row_counts": counts}, counts)

    def _take(self, table: str, columns: Columns) -> None:
        if _rows(columns) >= TOGETHER_ROWS:
            self._put(table, columns)
            return
        names = tuple(columns)
        opened = self._open.setdefault((table, names), {name: [] for name in names})
        for name in names:
            opened[name] += _list(columns[name])
        if _rows(opened) >= TOGETHER_ROWS:
            self._put(table, self._open.pop((table, names)))

    def flush(self) -> None:
        """Insert what waits for more."""
        for (table, _), columns in self._open.items():
            self._put(table, columns)
        self._open.clear()

    def _put(self, table: str, columns: Columns) -> None:
        """The token names the load, and of whom the rows are: processes may be put apart."""
        whose = f"{columns['process'][0]}-{columns['process'][-1]}"
        self._insert(table, columns, f"{self._load.capture}/{whose}/{self._load.id}/{table}/{self._parts[table]}")
        self._parts[table] += 1


def publish(
    client: Client, store: Store, load: Load, puts: Sequence[Put], wait: Callable[[float], None] = time.sleep
) -> Landed:
    """Let the views show what was put, all processes in one moment, and take away what that replaces.

    Raises LandingError when a process is there twice, when rows are missing, or when the load took too long: nothing of
    it is seen then. ClickHouseError: the same, unless its reply alone was lost; load again to be sure.
    """
    refuse_doubled((each.process, str(each.row.get("file"))) for each in puts)
    fresh = _whole(client, load, puts)
    wait(SETTLE_S)
    if fresh:
        rows = {name: [each.row[name] for each in fresh] for name in fresh[0].row}
        _insert(client, store, RANKS, rows, f"{load.capture}/{load.id}/published")
    current = _current(client, load.capture)
    stale = _stale(client, load.capture, current, load.began_ms)
    names = tuple(each.process.name for each in puts)
    overtaken = tuple(name for name in names if current.get(name, "") > load.id)
    there = {process for process, other in stale.get(RANKS, ()) if other < load.id}
    landed = Landed(
        load.capture,
        tuple(name for name in names if name not in overtaken),
        sum(sum(each.counts.values()) + 1 for each in puts if each.process.name not in overtaken),
        tuple(name for name in names if name in there),
        overtaken,
    )
    return _cleaned(client, store, landed, stale, wait)


def _cleaned(client: Client, store: Store, landed: Landed, stale: "Stale", wait: Callable[[float], None]) -> Landed:
    if not stale:
        return landed
    wait(SETTLE_S)
    try:
        for table, loads in stale.items():
            _delete(client, store, table, landed.capture, loads)
    except ClickHouseError as error:
        return Landed(**{**vars(landed), "left": cause(error)})
    return landed


# --- what is refused ---------------------------------------------------------------------------------------------


def refuse_doubled(found: Iterable[tuple[Process, str]]) -> None:
    """Raise LandingError when two files of one load are the same process: one would replace the other."""
    files: dict[str, str] = {}
    for process, file in found:
        if process.name in files:
            raise LandingError(
                f"{files[process.name]} and {file} are both rank {process.rank} of one capture: nothing of the load is "
                "seen; load each under a capture of its own (--capture)"
            )
        files[process.name] = file


def _whole(client: Client, load: Load, puts: Sequence[Put]) -> list[Put]:
    """What can be published: all but what a later load has overtaken, whose rows that may have taken away already.

    Raises LandingError when rows of the others are missing.
    """
    ((now,),) = client.query("SELECT toUnixTimestamp64Milli(now64(3))").result_rows
    if now - load.began_ms > LOAD_FOR_MS:
        raise LandingError("the load began too long ago: nothing of it is seen; load again")
    there = _counts(client, load)
    current = _current(client, load.capture)  # after the counts: who took rows away was there before
    fresh = [each for each in puts if current.get(each.process.name, "") < load.id]
    for each in fresh:
        for table, count in each.counts.items():
            if (have := there.get((table, each.process.name), 0)) != count:
                raise LandingError(
                    f"{have} of {count} rows of rank {each.process.rank} are in {table}: nothing of the load is seen; "
                    "load again"
                )
    return fresh


def _counts(client: Client, load: Load) -> dict[tuple[str, str], int]:
    """Rows of a load that are there, by table and process."""
    counted = " UNION ALL ".join(
        f"SELECT '{table}' AS name, process, count() FROM {table}_loads "
        "WHERE capture_id = {capture:String} AND load = {load:String} GROUP BY process"
        for table in TABLES
    )
    rows = client.query(counted, {"capture": load.capture, "load": load.id}).result_rows
    return {(table, process): count for table, process, count in rows}


# --- what is replaced --------------------------------------------------------------------------------------------

Stale = Mapping[str, Sequence[tuple[str, str]]]
"""By table, the processes and loads whose rows nobody will see any more."""


def _current(client: Client, capture: str) -> dict[str, str]:
    rows = client.query(
        "SELECT process, load FROM trace_loads WHERE capture_id = {capture:String}", {"capture": capture}
    )
    return {str(process): str(load) for process, load in rows.result_rows}


def _stale(client: Client, capture: str, current: Mapping[str, str], now_ms: int) -> Stale:
    tables = (*TABLES, RANKS)  # the ranks' rows last: they say what the others belong to
    there = " UNION ALL ".join(
        f"SELECT {place} AS place, process, load FROM {table}_loads WHERE capture_id = {{capture:String}} "
        "GROUP BY process, load"
        for place, table in enumerate(tables)
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for place, process, load in sorted(map(tuple, client.query(there, {"capture": capture}).result_rows)):
        if _is_stale(load, current.get(process), now_ms):
            found.setdefault(tables[place], []).append((process, load))
    return found


def _is_stale(load: str, current: str | None, now_ms: int) -> bool:
    """Older than what is seen; or never seen, and too old to come to it."""
    if current is not None and load <= current:
        return load < current
    return now_ms - milliseconds(load) > 2 * LOAD_FOR_MS


def _delete(client: Client, store: Store, table: str, capture: str, loads: Sequence[tuple[str, str]]) -> None:
    cluster = f" ON CLUSTER {identifier(store.cluster)}" if store.cluster else ""
    client.command(
        f"DELETE FROM {store.local(f'{table}_loads')}{cluster} WHERE capture_id = {{capture:String}} "
        "AND (process, load) IN {loads:Array(Tuple(String, String))}",
        {"capture": capture, "loads": loads},
        settings={"lightweight_deletes_sync": 1},
    )


# --- rows --------------------------------------------------------------------------------------------------------


def _key(load: Load, process: Process) -> dict[str, Any]:
    return {
        "capture_id": load.capture,
        "job_id": load.job_id,
        "host": process.host,
        "rank": process.rank,
        "process": process.name,
        "captured_at": load.began_ms * 1_000_000 if process.captured_at_ns is None else process.captured_at_ns,
        "load": load.id,
        "loaded_at": load.began_ms,
    }


def _constant(key: Mapping[str, Any], rows: int) -> dict[str, Column]:
    return {name: [value] * rows for name, value in key.items()}


def _rows(columns: Columns) -> int:
    return len(next(iter(columns.values()), ()))


def _list(column: Column) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)  # an array's own numbers are Python's


def _chunks(groups: Sequence[Columns]) -> Iterator[Columns]:
    for columns in groups:
        for first in range(0, _rows(columns), CHUNK_ROWS):
            yield {name: column[first : first + CHUNK_ROWS] for name, column in columns.items()}


def _each(columns: Columns) -> Iterator[dict[str, Any]]:
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _insert(client: Client, store: Store, table: str, columns: Columns, token: str) -> None:
    """Insert as one block under a token; once more where the reply was lost."""
    settings = {**ONE_BLOCK, **quorum(store), "insert_deduplication_token": token}
    for pause in (*AGAIN_AFTER_S, None):
        try:
            client.insert(
                store.local(f"{table}_loads"),
                list(columns.values()),
                column_names=list(columns),
                column_oriented=True,
                settings=settings,
            )
            return
        except DataError:
            raise
        except ClickHouseError as error:
            if pause is None or code(error) is not None:
                raise
            time.sleep(pause)
