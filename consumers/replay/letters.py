"""`warpmeter dead-letters replay`: ask the engine again, and land what it takes now, each letter once.

Ingest may be at work meanwhile. A letter's rows go into a staging table, without those that the raw table has already
(by its sorting key: the message may have landed by other ways), and from there in one insert a letter under the
letter's own token. So two replays at once, or one after another was killed, drop on each other; what a killed one left
in its staging table is landed first by the next.
"""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from warpmeter import store, wire
from warpmeter.consumers.judge import Keep, Reject, verdicts
from warpmeter.consumers.letters import CUT_HEADER
from warpmeter.consumers.replay import letterbox, rollups
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.landing import insert
from warpmeter.consumers.replay.letterbox import Content, Letter, Wanted
from warpmeter.consumers.replay.rollups import BOOK, Table, named
from warpmeter.consumers.replay.staging import PREFIX, Staging, dropping, renaming
from warpmeter.consumers.shape import Look, Odd, looker
from warpmeter.consumers.sink import Away, Broken
from warpmeter.consumers.sink.clickhouse import ClickHouse, columns, insert_settings
from warpmeter.migrate import holder, literal
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Settings

AT_ONCE: Final = 50
AT_ONCE_BYTES: Final = 16 << 20
LEFT_S: Final = 3600.0
LETTER: Final = "replayed_letter"


@dataclass
class Replayed:
    """What became of the letters. `landed`: rows were inserted; `there`: the table had all of its rows before;
    `refused`: still refused, with the reason of now where the store was asked, else as before. In a dry run what would
    become of them."""

    landed: list[Letter] = field(default_factory=list)
    there: list[Letter] = field(default_factory=list)
    refused: list[tuple[Letter, str]] = field(default_factory=list)
    rows: int = 0
    finished: int = 0


class Told(Protocol):
    """Who watches."""

    def stage(self, what: str, steps: int = 0) -> None:
        """Something begins that has so many steps."""

    def step(self, steps: int) -> None:
        """So many are done."""


def replay(
    settings: Settings, wanted: Wanted, told: Told, dry_run: bool = False, now: Callable[[], float] = time.time
) -> Replayed:
    """Replay the letters that are wanted; run it again after whatever went wrong. Raises ReplayError, and
    ClickHouseError of a store that does not answer."""
    done = Replayed()
    with closing(store.connect(settings.store)) as client:
        found = letterbox.letters(client, wanted)
        for name in sorted({letter.topic for letter in found}):
            topic = TOPICS.get(name.removeprefix(f"{settings.kafka.topic_prefix}."))
            mine = [letter for letter in found if letter.topic == name]
            if topic is None:
                done.refused += [(letter, f"no topic of {settings.kafka.topic_prefix}") for letter in mine]
                continue
            _Work(settings, client, (name, topic), told, now).replay(mine, done, dry_run)
        if not dry_run:
            _finish_others(settings, client, wanted, told, done)
    return done


def _finish_others(settings: Settings, client: store.Client, wanted: Wanted, told: Told, done: Replayed) -> None:
    """Land what killed replays left of topics that no letter was found of."""
    for topic in TOPICS.values():
        name = topic.full_name(settings.kafka.topic_prefix)
        if wanted.topic in (None, name):
            _Work(settings, client, (name, topic), told, time.time).finish(done)


class _Work:
    """The letters of one topic."""

    def __init__(
        self,
        settings: Settings,
        client: store.Client,
        of: tuple[str, Topic],
        told: Told,
        now: Callable[[], float],
    ) -> None:
        self._settings, self._client, self._told, self._now = settings, client, told, now
        self._store = settings.store
        self._name, self._topic = of
        self._look: Look = looker(self._topic, bool(settings.kafka.schema_registry_url))
        self._sink = ClickHouse(lambda: client, {self._name: self._topic}, {}, self._store.insert_quorum)
        self._staging = Staging(client, self._store)
        self._run = uuid.uuid4().hex

    def _table(self, stage: str) -> str:
        return f"{PREFIX}{stage}_{self._topic.table}_{self._run}"

    def replay(self, letters: Sequence[Letter], done: Replayed, dry_run: bool) -> None:
        """All of them, the oldest first."""
        raw, _ = rollups.read(self._client, self._store, self._topic.table)
        if not dry_run:
            self.finish(done)
        self._make(self._table("letters"), raw)
        try:
            if not dry_run:
                self._refuse_range()
            kept = self._load(sorted(letters, key=lambda letter: letter.ts), done)
            self._pick(raw)
        except Exception:
            self._drop("letters")
            self._drop("choosing")
            raise
        fresh = self._fresh(self._table("choosing"))
        done.landed += [letter for letter in kept if letter.token in fresh]
        done.there += [letter for letter in kept if letter.token not in fresh]
        done.rows += sum(fresh.values())
        if dry_run:
            self._drop("letters")
            self._drop("choosing")
            return
        self._rename("choosing", "picked")
        self._drop("letters")
        self._mark([letter for letter in kept if letter.token not in fresh and not letter.attempts])
        self._reasons([(letter, why) for letter, why in done.refused if letter.topic == self._name])
        self._land(raw, self._table("picked"))

    # --- what killed ones left -------------------------------------------------------------------------------------

    def finish(self, done: Replayed) -> None:
        """Land what is complete in the staging table of another, be it dead or alive: the tokens are the same."""
        for name in self._staging.letters(self._topic.table):
            if name.startswith(f"{PREFIX}picked_"):
                raw, _ = rollups.read(self._client, self._store, self._topic.table)
                done.finished += self._land(raw, name)
            elif not self._alive(name):
                self._client.command(dropping(self._store, name))

    def _alive(self, name: str) -> bool:
        """Whether the replay that fills a table may be at work: its process, or for some time one of another host."""
        rows = self._client.query(
            "SELECT comment, dateDiff('second', metadata_modification_time, now()) FROM system.tables "
            "WHERE database = {database:String} AND name = {name:String}",
            {"database": self._store.database, "name": name},
        ).result_rows
        if not rows:
            return False
        host, _, pid = json.loads(rows[0][0])["by"].rpartition(":")
        if f"{host}:{os.getpid()}" == holder():
            return Path(f"/proc/{pid}").exists() and rows[0][1] <= LEFT_S
        return bool(rows[0][1] <= LEFT_S)

    def _refuse_range(self) -> None:
        found = [each for each in self._staging.found() if each.run.table == self._topic.table]
        if found:
            raise ReplayError(f"{found[0]}: wait for it, or bring it to its end with {found[0].command}")

    # --- filling ---------------------------------------------------------------------------------------------------

    def _make(self, name: str, raw: Table) -> None:
        self._staging.create(name, raw.name, f"ORDER BY ({', '.join(raw.key)})", {"by": holder()})
        self._staging.add_token(name, LETTER)

    def _load(self, letters: Sequence[Letter], done: Replayed) -> list[Letter]:
        """Fill the staging table with what is acceptable now; returns those."""
        self._told.stage(f"asking the store about letters of {self._topic.name}", len(letters))
        kept: list[Letter] = []
        for some in parts(letters):
            payloads = self._judged(some, done)
            for letter, payload in payloads:
                self._put(letter, payload)
                kept.append(letter)
            self._told.step(len(some))
        return kept

    def _judged(self, letters: Sequence[Letter], done: Replayed) -> list[tuple[Letter, bytes]]:
        asked: list[tuple[Letter, bytes]] = []
        for letter, content in zip(letters, letterbox.contents(self._client, letters), strict=True):
            payload = self._payload(content)
            if isinstance(payload, Odd):
                # A letter keeps less than the message was (no value is an empty one in it, headers that cannot be
                # read are not there): what it was refused for then is the better reason.
                done.refused.append((letter, letter.reason))
            else:
                asked.append((letter, payload))
        found = verdicts([payload for _, payload in asked], lambda each: self._sink.ask(self._name, each))
        if isinstance(found, Away | Broken):
            raise ReplayError(f"{found.why}; nothing was changed")
        kept = []
        for each, verdict in zip(asked, found, strict=True):
            match verdict:
                case Keep():
                    kept.append(each)
                case Reject(reason):
                    done.refused.append((each[0], reason))
        return kept

    def _payload(self, content: Content) -> bytes | Odd:
        """What would go in, or why the wire alone says that it cannot."""
        if CUT_HEADER in content.headers:
            return Odd(
                "only a part of its bytes is here, the rest stayed on the topic: `warpmeter replay` reads it there"
            )
        headers = [(name, value.encode()) for name, value in content.headers.items()]
        payload, seen = self._look(content.value, headers)
        return seen if isinstance(seen, Odd) and seen.certain else payload

    def _put(self, letter: Letter, payload: bytes) -> None:
        settings: dict[str, Any] = {**insert_settings(self._topic), "insert_deduplication_token": letter.token}
        names = columns(self._topic)
        self._client.raw_insert(self._table("letters"), names, wire.joined([payload]), settings, "ProtobufList")

    def _pick(self, raw: Table) -> None:
        """The rows that the raw table does not have, each once, into a table of their own."""
        self._make(self._table("choosing"), raw)
        key = ", ".join(dict.fromkeys((*raw.key, "ts")))
        names = ", ".join(f"`{name}`" for name in raw.types)
        loaded = named(self._store, self._table("letters"))
        everywhere = named(self._store, self._topic.table)
        there = (
            f"SELECT {key} FROM {everywhere} WHERE ts >= (SELECT min(ts) FROM {loaded}) "
            f"AND ts <= (SELECT max(ts) FROM {loaded}) AND ({key}) IN (SELECT {key} FROM {loaded})"
        )
        picked = (
            f"SELECT {names}, {LETTER} FROM {loaded} WHERE ({key}) NOT IN ({there}) "
            f"ORDER BY {LETTER} LIMIT 1 BY {names}"
        )
        insert(self._client, self._store, f"{self._table('choosing')} ({names}, {LETTER})", picked, "picked")

    def _fresh(self, name: str) -> dict[str, int]:
        """Rows to land by their letter's token."""
        rows = self._client.query(
            f"SELECT {LETTER}, count() FROM {named(self._store, name)} GROUP BY {LETTER} ORDER BY {LETTER}"
        ).result_rows
        return {token: int(count) for token, count in rows}

    def _rename(self, before: str, after: str) -> None:
        self._client.command(renaming(self._store, self._table(before), self._table(after)))

    def _drop(self, stage: str) -> None:
        self._client.command(dropping(self._store, self._table(stage)))

    # --- landing ---------------------------------------------------------------------------------------------------

    def _land(self, raw: Table, name: str) -> int:
        """Insert every letter of a staging table, and drop it; how many there were."""
        try:
            tokens = self._fresh(name)
            self._told.stage(f"landing letters of {self._topic.name}", len(tokens))
            names = ", ".join(f"`{each}`" for each in raw.types)
            for token in tokens:
                rows = f"SELECT {names} FROM {named(self._store, name)} WHERE {LETTER} = '{token}'"
                insert(self._client, self._store, f"{raw.name} ({names})", rows, token)
                self._told.step(1)
            self._client.command(dropping(self._store, name))
        except store.ClickHouseError:
            if name in self._staging.letters(self._topic.table):
                raise
            return 0  # another replay has landed and dropped it
        return len(tokens)

    def _mark(self, letters: Iterable[Letter]) -> None:
        """A row in the book of inserts for each letter whose rows were in the table before: it is done as well."""
        for letter in letters:
            at = ", ".join(["now64(3, 'UTC')"] * 3)
            rows = f"SELECT '{self._topic.table}', 0, {at}, '{letter.token}'"
            into = f"{self._store.local(BOOK)} (table, rows, min_ts, max_ts, inserted_at, token)"
            insert(self._client, self._store, into, rows, letter.token)

    def _reasons(self, refused: Iterable[tuple[Letter, str]]) -> None:
        """Write the reason of now in place of the one there was, where it is another: no letter is there twice."""
        places: dict[str, list[str]] = {}
        for letter, why in refused:
            if why != letter.reason:
                place = f"({literal(letter.topic)}, {literal(letter.uuid)}, {letter.partition}, {letter.offset})"
                places.setdefault(why, []).append(place)
        dead = f"{named(self._store, self._store.local('dead_letters'))}{rollups.on_cluster(self._store)}"
        for why, some in places.items():
            self._client.command(
                f"ALTER TABLE {dead} UPDATE reason = {literal(why)} "
                f"WHERE (topic, topic_uuid, partition, offset) IN ({', '.join(some)})",
                settings={"mutations_sync": 2},
            )


def parts(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """In their order, as many at once as memory should hold."""
    some: list[Letter] = []
    for letter in letters:
        if some and (len(some) == AT_ONCE or sum(each.bytes for each in some) + letter.bytes > AT_ONCE_BYTES):
            yield some
            some = []
        some.append(letter)
    if some:
        yield some
