"""What each receiver was told, kept where a restart, or another scheduler that shares `scheduler.jobs_url`, finds it.

A row a receiver and alert: `number` is how often it was told that the alert fires, 0 while that is owed to it. What a
receiver was told last is kept with the alert as it was then, so that its end can be told when nothing else knows it any
more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from google.protobuf.message import DecodeError
from sqlalchemy import (
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    insert,
    select,
)
from sqlalchemy.engine import Engine
from sqlalchemy.schema import CreateTable

from warpmeter.alerts import Alert, AlertRow
from warpmeter.settings import Scheduler

WAIT_S: Final = 10
FILE: Final = "alerts.sqlite"
"""In the scheduler's folder, where no database is set."""
_TABLE: Final = Table(
    "warpmeter_alerts_told", MetaData(),
    Column("receiver", String(100), primary_key=True), Column("alert_id", String(600), primary_key=True),
    Column("number", Integer, nullable=False), Column("at", Float, nullable=False),
    Column("alert", LargeBinary, nullable=False),
)  # fmt: skip


_STANDING: Final = Table(
    "warpmeter_alerts_receivers", _TABLE.metadata,
    Column("receiver", String(100), primary_key=True), Column("at", Float, nullable=False),
    Column("failing_since", Float, nullable=False), Column("why", String(2000), nullable=False),
)  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """How a receiver takes what it is told: when it last answered or failed to, since when it fails (0: it does not),
    and why."""

    at: float
    failing_since: float = 0.0
    why: str = ""


@dataclass
class Told:
    """What a receiver knows of an alert: told `number` times that it fires, the last time `at` (seconds since the
    epoch). `number` 0: owed, since `at`."""

    alert: Alert
    number: int
    at: float


class Memory:
    """The table of it. Threads may share it. Raises SQLAlchemyError where it is away, OSError for a folder that cannot
    be made."""

    def __init__(self, settings: Scheduler) -> None:
        self._settings = settings
        self._engine: Engine | None = None
        self._lock = Lock()

    def _connected(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self._opened()
            return self._engine

    def _opened(self) -> Engine:
        url = self._settings.jobs_url
        if not url:
            self._settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
            url = f"sqlite:///{self._settings.data / FILE}"
        engine = create_engine(url, connect_args={"timeout": WAIT_S} if url.startswith("sqlite") else {})
        with engine.begin() as connection:
            for table in (_TABLE, _STANDING):
                connection.execute(CreateTable(table, if_not_exists=True))
        return engine

    def of(self, receiver: str) -> dict[str, Told]:
        """All that a receiver knows, by alert."""
        with self._connected().connect() as connection:
            rows = connection.execute(select(_TABLE).where(_TABLE.c.receiver == receiver)).all()
        alerts = {row.alert_id: (_alert(row.alert), row) for row in rows}
        return {name: Told(alert, row.number, row.at) for name, (alert, row) in alerts.items() if alert is not None}

    def put(self, receiver: str, told: Iterable[Told], forget: Iterable[str] = ()) -> None:
        """Keep these, and forget others, all of it or nothing."""
        rows = [
            {"receiver": receiver, "alert_id": each.alert.alert_id, "number": each.number, "at": each.at,
             "alert": each.alert.row().SerializeToString()}
            for each in told
        ]  # fmt: skip
        gone = [*(str(row["alert_id"]) for row in rows), *forget]
        with self._connected().begin() as connection:
            for first in range(0, len(gone), 500):
                ids = gone[first : first + 500]
                connection.execute(delete(_TABLE).where(_TABLE.c.receiver == receiver, _TABLE.c.alert_id.in_(ids)))
            if rows:
                connection.execute(insert(_TABLE), rows)

    def stands(self, receiver: str, standing: Standing) -> None:
        """Keep how a receiver stands."""
        row = {"receiver": receiver, "at": standing.at, "failing_since": standing.failing_since, "why": standing.why}
        with self._connected().begin() as connection:
            connection.execute(delete(_STANDING).where(_STANDING.c.receiver == receiver))
            connection.execute(insert(_STANDING), [row])

    def standing(self, receiver: str) -> Standing | None:
        """How a receiver stands; None where it was told of nothing yet."""
        with self._connected().connect() as connection:
            row = connection.execute(select(_STANDING).where(_STANDING.c.receiver == receiver)).one_or_none()
        return None if row is None else Standing(row.at, row.failing_since, row.why)

    def close(self) -> None:
        """Let go of it."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None


def _alert(data: bytes) -> Alert | None:
    try:
        return Alert.of_row(AlertRow.FromString(data))
    except DecodeError:
        return None
