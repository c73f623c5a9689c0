"""The staging table of a replay: made as the raw table is, and telling by its name how far the replay has come."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from warpmeter import cluster, migrate
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hours import Range, said
from warpmeter.consumers.replay.rollups import Table, named, on_cluster
from warpmeter.settings import Store
from warpmeter.store import Client

Stage = Literal["loading", "staged", "landing"]
STAGES: Final[tuple[Stage, ...]] = ("loading", "staged", "landing")
LETTERS: Final = ("letters", "choosing", "picked")
PREFIX: Final = "replay_"
SPAN: Final = "replayed_span"
WINDOW: Final = "non_replicated_deduplication_window = 100000, replicated_deduplication_window = 100000"


@dataclass(frozen=True)
class Run:
    """One replay of one topic's time range into `table` (of the topic table).

    `id` is in its inserts' tokens, `began` in seconds since the epoch; a `dry` one only looks.
    """

    id: str
    topic: str
    table: str
    group: str
    start: int
    end: int
    began: float
    dry: bool = False

    @property
    def wanted(self) -> Range:
        """The range."""
        return Range(self.start, self.end)

    def name(self, stage: Stage) -> str:
        """The staging table's name at a stage."""
        return f"{PREFIX}{'dry' if self.dry else stage}_{self.table}"

    def totals(self, target: str) -> str:
        """The table with what `target` must keep of its totals."""
        return f"{PREFIX}totals_{self.table}_{target}"


@dataclass(frozen=True)
class Unfinished:
    """A run that is in the store, and how far it is."""

    run: Run
    stage: Stage

    @property
    def command(self) -> str:
        """What brings it to its end."""
        run = self.run
        return f"`warpmeter replay --topic {run.topic} --from {said(run.start)} --to {said(run.end)} --yes`"

    def __str__(self) -> str:
        done = {
            "loading": "nothing was changed by it yet",
            "staged": "the range is being deleted; its rows wait in the staging table",
            "landing": "the range was deleted and is being filled from the staging table",
        }
        return f"replay of {self.run.topic}, {self.run.wanted}, is at work or was interrupted: {done[self.stage]}"


def creation(store: Store, name: str, like: str, layout: str, comment: str) -> str:
    """SQL: a table with the columns and constraints of another, without its time to live."""
    engine = cluster.passing(store, "MergeTree")
    return (
        f"CREATE TABLE {named(store, name)}{on_cluster(store)} AS {named(store, like)} ENGINE = {engine} {layout} "
        f"SETTINGS {WINDOW} COMMENT {migrate.literal(comment)}"
    )


def token_column(store: Store, name: str, column: str) -> str:
    """SQL: a column that holds the token of the insert that a row came with."""
    return (
        f"ALTER TABLE {named(store, name)}{on_cluster(store)} "
        f"ADD COLUMN {column} LowCardinality(String) DEFAULT getSetting('insert_deduplication_token')"
    )


def renaming(store: Store, before: str, after: str) -> str:
    """SQL: one atomic step."""
    return f"RENAME TABLE {named(store, before)} TO {named(store, after)}{on_cluster(store)}"


def dropping(store: Store, name: str) -> str:
    """SQL: the table is gone when this returns, or was before."""
    return f"DROP TABLE IF EXISTS {named(store, name)}{on_cluster(store)} SYNC"


class Staging:
    """The staging tables of a store. Statements are meant for one client and one thread."""

    def __init__(self, client: Client, store: Store) -> None:
        self._client = client
        self._store = store

    def found(self) -> list[Unfinished]:
        """What is there, of all topics; raises ReplayError for a table of that name that is not ours."""
        rows = self._client.query(
            "SELECT name, comment FROM system.tables "
            "WHERE database = {database:String} AND match(name, {stages:String})",
            {"database": self._store.database, "stages": f"^{PREFIX}({'|'.join(STAGES)})_"},
        ).result_rows
        return [self._read(name, comment) for name, comment in rows]

    def _read(self, name: str, comment: str) -> Unfinished:
        try:
            run = Run(**json.loads(comment))
            return next(Unfinished(run, stage) for stage in STAGES if run.name(stage) == name)
        except (ValueError, TypeError, StopIteration) as error:
            raise ReplayError(f"table {name} has the name of a replay's, and is none: rename it") from error

    def letters(self, table: str) -> list[str]:
        """Names of the staging tables of dead letters for a table, complete or not."""
        return [name for stage in LETTERS for name in self._named_like(f"{PREFIX}{stage}_{table}_")]

    def make(self, run: Run, raw: Table) -> str:
        """An empty staging table at `loading`; what an earlier run left there is dropped. Returns its name."""
        self.drop(run, "loading")
        name = run.name("loading")
        self.create(name, raw.name, f"PARTITION BY toDate(ts) ORDER BY ({', '.join(raw.key)})", asdict(run))
        self.add_token(name, SPAN)
        return name

    def create(self, name: str, like: str, layout: str, comment: Mapping[str, Any]) -> None:
        """A table with the columns and constraints of another, which keeps its rows until it is dropped."""
        self._client.command(creation(self._store, name, like, layout, json.dumps(comment)))

    def add_token(self, name: str, column: str) -> None:
        """A column that holds the token of the insert that a row came with."""
        self._client.command(token_column(self._store, name, column))

    def advance(self, run: Run, stage: Stage) -> None:
        """From the stage before to `stage`, in one atomic step."""
        before = STAGES[STAGES.index(stage) - 1]
        self._client.command(renaming(self._store, run.name(before), run.name(stage)))

    def back(self, run: Run) -> None:
        """From `landing` to `staged`: the store may have forgotten which inserts it has taken."""
        self._client.command(renaming(self._store, run.name("landing"), run.name("staged")))

    def renew(self, run: Run, now: float, run_id: str) -> Run:
        """The same run at `staged` under another id, for tokens that nobody has used."""
        fresh = replace(run, id=run_id, began=now)
        comment = migrate.literal(json.dumps(asdict(fresh)))
        self._client.command(f"ALTER TABLE {self._of(run.name('staged'))} MODIFY COMMENT {comment}")
        return fresh

    def drop(self, run: Run, stage: Stage) -> None:
        """Forget a run: first the table that says that there is something to do, then what it would be done with."""
        for name in (run.name(stage), *self._named_like(run.totals(""))):
            self._client.command(dropping(self._store, name))

    def _named_like(self, prefix: str) -> list[str]:
        rows = self._client.query(
            "SELECT name FROM system.tables WHERE database = {database:String} AND startsWith(name, {prefix:String})",
            {"database": self._store.database, "prefix": prefix},
        ).result_rows
        return [name for (name,) in rows]

    def _of(self, name: str) -> str:
        return f"{named(self._store, name)}{on_cluster(self._store)}"
