"""A world to replay in: one test's topics, database and numbered samples, and all its tables compared as a whole."""

import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.message import Message

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.ingest_process import IngestProcess, make_topics, settings_for
from tests.tables import row
from tests.wait import until
from warpmeter import bus, migrate, store, wire
from warpmeter.consumers.replay.compare import Hour
from warpmeter.consumers.replay.hours import HOUR_S, Range, widened
from warpmeter.consumers.replay.load import Counted
from warpmeter.consumers.replay.run import Asked, Outcome, replay, unfinished
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Settings

GPUS, HOSTS, JOBS = "gpu-samples", "host-samples", "job-events"


DAMAGE: Final = {
    "deleted": ["ALTER TABLE gpu_samples DELETE WHERE gpu = 1"],
    "dropped": ["ALTER TABLE gpu_samples DROP PARTITION ID '{day}'"],
    "truncated": ["TRUNCATE TABLE gpu_samples"],
    "rollups gone": ["TRUNCATE TABLE gpu_heatmap_1m", "TRUNCATE TABLE fleet_windows_1h"],
    "everything gone": [
        "TRUNCATE TABLE gpu_samples", "TRUNCATE TABLE gpu_heatmap_1m", "TRUNCATE TABLE gpu_heatmap_1h",
        "TRUNCATE TABLE fleet_windows_1m", "TRUNCATE TABLE fleet_windows_1h",
    ],
    "doubled": ["INSERT INTO gpu_samples SELECT * FROM gpu_samples WHERE gpu < 2"],
}  # fmt: skip


class Crash(BaseException):
    """What a fuse throws: nothing that the product could catch."""


@dataclass
class Watching:
    """Goes on without a question; with a fuse it ends the replay at a stage or a step, as a crash would."""

    fuse: str = ""
    stages: list[str] = field(default_factory=list)
    answer: bool = True

    def stage(self, what: str, steps: int = 0) -> None:  # noqa: ARG002
        self.stages.append(what)
        if self.fuse and what.startswith(self.fuse):
            raise Crash(what)

    def step(self, steps: int) -> None:  # noqa: ARG002
        if self.fuse == f"step of {self.stages[-1].split()[0]}":
            raise Crash(self.fuse)

    def confirm(self, hours: Sequence[Hour], counted: Counted) -> bool:  # noqa: ARG002
        return self.answer


@dataclass
class World:
    """One test's corner. `start` is the first of two full hours that its samples are of."""

    settings: Settings
    log: Path
    start: int
    sent: int = 0
    _reading: dict[str, str] = field(default_factory=dict)
    before: Mapping[str, Sequence[tuple[Any, ...]]] = field(default_factory=dict)

    @classmethod
    def made(cls, broker: Broker, engine: EngineServer, prefix: str, folder: Path) -> "World":
        """Topics and a database of its own."""
        settings = settings_for(broker, engine, prefix, folder)
        settings = replace(settings, store=replace(settings.store, database=prefix))
        make_topics(settings)
        with closing(store.connect(settings.store, database="default")) as client:
            migrate.apply(client, settings.store)
        return cls(settings, folder / "ingest.log", int(time.time()) // HOUR_S * HOUR_S - 2 * HOUR_S)

    @classmethod
    def landed(cls, broker: Broker, engine: EngineServer, folder: Path) -> "World":
        """One whose samples are in, with `before` as what is to be there again."""
        world = cls.made(broker, engine, f"t{secrets.token_hex(4)}", folder)
        world.send()
        world.ingest()
        world.before = world.snapshot()
        assert all(world.before[table] for table in ("gpu_samples", "fleet_windows_1h", "job_windows_1m", "job_trees"))
        return world

    def damage(self, name: str) -> None:
        """Do to the GPUs' tables what nobody should."""
        days = [day for (day,) in self.query("SELECT DISTINCT toYYYYMMDD(ts) FROM gpu_samples")]
        for statement in DAMAGE[name]:
            for day in days if "{day}" in statement else [""]:
                self.command(statement.format(day=day))
        assert self.snapshot() != self.before

    def crash(self, topic: str, fuse: str) -> None:
        """End a replay at a stage or a step; what it leaves is told where rows are wanting."""
        with pytest.raises(Crash):
            self.replay(topic, Watching(fuse))
        with closing(store.connect(self.settings.store)) as client:
            left = unfinished(client, self.settings)
        assert bool(left) == (fuse not in ("reading", "comparing"))

    @property
    def wanted(self) -> Range:
        """Both hours."""
        return widened(self.start, self.start + 2 * HOUR_S)

    def send(self, count: int = 60, topics: Iterable[str] = (GPUS, HOSTS, JOBS)) -> None:
        """`count` messages of 4 rows a topic, numbered, spread over both hours."""
        with_rows = {GPUS: self._gpus, HOSTS: self._hosts, JOBS: self._jobs}
        for _ in range(count):
            times = [self.start + (self.sent * 4 + n) * 29.001 % (2 * HOUR_S) for n in range(4)]
            for topic in topics:
                self.put(topic, with_rows[topic](times), max(times))
            self.sent += 1
        self.flush()

    def put(
        self, topic: str, rows: Sequence[Message] | bytes, at: float, headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """One message, sent at a time (seconds since the epoch); bytes go as they are."""
        if isinstance(rows, bytes):
            envelope = wire.Envelope(topic, b"host-0", rows, TOPICS[topic].message, 1)
        else:
            envelope = wire.pack(TOPICS[topic], f"host-{self.sent % 5}", rows)
        name = TOPICS[topic].full_name(self.settings.kafka.topic_prefix)
        self.producer.produce(
            name, envelope.value, envelope.key,
            headers=list(headers or envelope.headers), timestamp=int(at * 1000),
        )  # fmt: skip
        self.producer.poll(0)

    def flush(self) -> None:
        """Until the broker has all."""
        assert self.producer.flush(60) == 0

    @property
    def producer(self) -> Any:
        if not hasattr(self, "_producer"):
            self._producer = bus.producer(self.settings.kafka, {"linger.ms": 5})
        return self._producer

    def _gpus(self, times: Sequence[float]) -> list[Message]:
        return [
            row(
                GPUS, host=f"host-{self.sent % 5}", ts=at, period_ms=1000, gpu=n, uuid=f"GPU-{n}",
                gpu_util_permille=self.sent % 1000, sm_active_permille=n, power_deciwatts=1000 + n,
                fb_used_mebibytes=self.sent, job_ids=["job-1", f"job-{self.sent % 3}"],
            )
            for n, at in enumerate(times)
        ]  # fmt: skip

    def _hosts(self, times: Sequence[float]) -> list[Message]:
        host = f"host-{self.sent % 5}"
        return [row(HOSTS, host=host, ts=at, period_ms=1000, cpu_util_permille=self.sent % 1000) for at in times]

    def _jobs(self, times: Sequence[float]) -> list[Message]:
        return [
            row(
                JOBS, host=f"host-{self.sent % 5}", ts=at, period_ms=10_000, job_id=f"job-{self.sent % 3}",
                event="running", name="train", pid=7, started_at=self.start - 60, cpu_cores_milli=1500,
                rss_mebibytes=100 + self.sent, read_bytes=1 << 20, written_bytes=self.sent, processes=2,
            )
            for at in times
        ]  # fmt: skip

    def ingest(self, within_s: float = 120.0) -> None:
        """Land all that was sent, and stop."""
        with closing(IngestProcess(self.settings, self.log)) as process:
            until(lambda: self._lag() == 0, f"all to land ({self.log})", within_s, every_s=0.2)
            assert process.stop() == 0

    def _lag(self) -> int:
        counts = {"gpu_samples": self.sent * 4, "host_samples": self.sent * 4, "job_events": self.sent * 4}
        return sum(abs(counts[table] - self.value(f"SELECT count() FROM {table}")) for table in counts)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of an answer."""
        with closing(store.connect(self.settings.store)) as client:
            return [tuple(found) for found in client.query(sql).result_rows]

    def value(self, sql: str) -> Any:
        """Its one value."""
        return self.query(sql)[0][0]

    def command(self, sql: str) -> None:
        """A statement that changes something; mutations are waited for."""
        with closing(store.connect(self.settings.store)) as client:
            client.command(sql, settings={"mutations_sync": 2})

    def replay(self, topic: str, watching: Watching | None = None, **asked: Any) -> Outcome:
        """Replay both hours of a topic in this process."""
        wanted = Asked(TOPICS[topic], asked.pop("wanted", self.wanted), **asked)
        return replay(self.settings, wanted, watching or Watching())

    def environment(self, folder: Path) -> dict[str, str]:
        """What tells a command of this corner; `folder` is where no `up` runs."""
        ledger = self.settings.ingest.ledger_dir
        named = {
            "KAFKA__BOOTSTRAP_SERVERS": self.settings.kafka.bootstrap_servers,
            "KAFKA__TOPIC_PREFIX": self.settings.kafka.topic_prefix,
            "STORE__DSN": self.settings.store.dsn,
            "STORE__DATABASE": self.settings.store.database,
            "INGEST__GROUP": self.settings.ingest.group,
            "INGEST__SESSION_TIMEOUT_S": str(self.settings.ingest.session_timeout_s),
            "ENGINE__DATA": str(folder / "nothing"),
        } | ({"INGEST__LEDGER_DIR": str(ledger)} if ledger else {})
        return {**os.environ, **{f"WARPMETER_{name}": value for name, value in named.items()}}

    def staging_tables(self) -> list[tuple[str]]:
        """What replays left: nothing, when they came to their ends."""
        mine = "database = currentDatabase() AND name LIKE 'replay%'"
        return [(str(name),) for (name,) in self.query(f"SELECT name FROM system.tables WHERE {mine}")]

    def snapshot(self) -> Mapping[str, Sequence[tuple[Any, ...]]]:
        """Every row of every raw table, and every rollup as it reads once merged; not the book of inserts."""
        tables = self.query(
            "SELECT name, engine_full, sorting_key FROM system.tables WHERE database = currentDatabase() "
            "AND total_rows > 0 AND engine LIKE '%MergeTree' "
            "AND NOT match(name, '^(schema_|replay_|ingest_batches)') ORDER BY name"
        )
        for name, engine, key in tables:
            if name not in self._reading:
                self._reading[name] = self._read_whole(name, "Aggregating" in engine, key)
        with closing(store.connect(self.settings.store)) as client:
            return {name: _rounded(client.query(self._reading[name]).result_rows) for name, *_ in tables}

    def _read_whole(self, table: str, aggregating: bool, key: str) -> str:
        if not aggregating:
            return f"SELECT * FROM {table} ORDER BY ALL"
        columns = self.query(
            "SELECT name, extract(type, 'AggregateFunction\\\\(([^,(]+(?:\\\\([^)]*\\\\))?), '), type LIKE 'Simple%' "
            f"FROM system.columns WHERE database = currentDatabase() AND table = '{table}' ORDER BY position"
        )
        read = [_merged(*column) for column in columns]
        zero = "window" in key and table.startswith("job_windows")
        nothing = "HAVING gpu_seconds + cpu_core_seconds + cpu_known_seconds > 0" if zero else ""
        return f"SELECT {', '.join(read)} FROM {table} GROUP BY {key} {nothing} ORDER BY {key}"


def _rounded(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Sums of floats differ in their last bits by the order of their parts."""
    return [tuple(round(value, 6) if isinstance(value, float) else value for value in found) for found in rows]


def _merged(name: str, function: str, simple: bool) -> str:
    if not function:
        return name
    if simple:
        return f"{function}({name}) AS {name}"
    plain, _, parameters = function.partition("(")
    return f"toString({plain}Merge{'(' + parameters if parameters else ''}({name}))"
