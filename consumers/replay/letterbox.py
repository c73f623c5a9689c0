"""The dead letters as the store has them: which there are, one of them whole, and which have been replayed.

A letter is replayed when `ingest_batches` has an insert under a token of its own, `dead-letter/<topic UUID>/
<partition>/<offset>/<attempt>`: no state beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from warpmeter import wire
from warpmeter.consumers.letters import DEAD, DeadLetter
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.migrate import literal
from warpmeter.schemas.topics import TOPICS
from warpmeter.store import Client

TOKEN: Final = "dead-letter"
_NAME: Final = "concat(topic_uuid, '/', toString(partition), '/', toString(offset))"
_REPLAYED: Final = (
    "(SELECT arrayStringConcat(arraySlice(splitByChar('/', token), 2, 3), '/') AS letter, max(inserted_at) AS at, "
    f"count(DISTINCT token) AS attempts FROM ingest_batches WHERE startsWith(token, '{TOKEN}/') GROUP BY letter)"
)


@dataclass(frozen=True)
class Wanted:
    """Which letters: of a topic (full name), with `reason` in their reason, refused at or after `since` (seconds since
    the epoch), at just this `place` (UUID or None, partition, offset); `replayed` ones are left out unless asked."""

    topic: str | None = None
    reason: str | None = None
    since: float | None = None
    place: tuple[str | None, int, int] | None = None
    replayed: bool = False


@dataclass(frozen=True)
class Group:
    """Letters of one topic and reason."""

    topic: str
    reason: str
    messages: int
    bytes: int
    first_at: datetime
    last_at: datetime
    example: str


@dataclass(frozen=True)
class Letter:
    """One letter without its bytes. `replayed_at` is None while it was not replayed."""

    topic: str
    uuid: str
    partition: int
    offset: int
    ts: datetime
    reason: str
    key: str
    bytes: int
    replayed_at: datetime | None
    attempts: int = 0

    @property
    def place(self) -> str:
        """TOPIC/PARTITION/OFFSET."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def token(self) -> str:
        """The next insert's token: one that was used means that its rows were there, and were deleted since."""
        return f"{TOKEN}/{self.uuid}/{self.partition}/{self.offset}/{self.attempts + 1}"


@dataclass(frozen=True)
class Content:
    """What the message was."""

    key: bytes
    value: bytes
    headers: Mapping[str, str]


def _where(wanted: Wanted) -> tuple[str, dict[str, Any]]:
    uuid, partition, offset = wanted.place or (None, None, None)
    conditions = {
        "topic = {topic:String}": wanted.topic,
        "positionCaseInsensitiveUTF8(reason, {reason:String}) > 0": wanted.reason,
        "ts >= fromUnixTimestamp64Milli({since:Int64})": wanted.since,
        "topic_uuid = {uuid:String}": uuid,
        "partition = {partition:UInt32}": partition,
        "offset = {offset:UInt64}": offset,
    }
    since = None if wanted.since is None else int(wanted.since * 1000)
    values = (wanted.topic, wanted.reason, since, uuid, partition, offset)
    names = ("topic", "reason", "since", "uuid", "partition", "offset")
    asked = [condition for condition, value in conditions.items() if value is not None]
    if not wanted.replayed:
        asked.append(f"{_NAME} NOT IN (SELECT letter FROM {_REPLAYED})")
    given = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    return " AND ".join(asked) or "1", given


def groups(client: Client, wanted: Wanted) -> list[Group]:
    """How many there are of each topic and reason, the most first."""
    where, values = _where(wanted)
    rows = client.query(
        "SELECT topic, reason, count() AS messages, sum(length(value)), min(ts), max(ts), "
        "argMax(concat(toString(partition), '/', toString(offset)), ts) "
        f"FROM dead_letters FINAL WHERE {where} GROUP BY topic, reason ORDER BY messages DESC, topic, reason",
        values,
    ).result_rows
    return [Group(*(*row[:6], f"{row[0]}/{row[6]}")) for row in rows]


def letters(client: Client, wanted: Wanted, most: int | None = None) -> list[Letter]:
    """Single ones, the newest first."""
    where, values = _where(wanted)
    limit = f"LIMIT {int(most)}" if most is not None else ""
    rows = client.query(
        "SELECT topic, topic_uuid, partition, offset, ts, reason, key, length(value), "
        "if(done.attempts > 0, done.at, NULL), done.attempts FROM ("
        "SELECT topic, topic_uuid, partition, offset, ts, reason, toValidUTF8(key) AS key, value, "
        f"{_NAME} AS name FROM dead_letters FINAL WHERE {where}) AS found "
        f"LEFT JOIN {_REPLAYED} AS done ON done.letter = found.name ORDER BY ts DESC, topic, partition, offset {limit}",
        values,
    ).result_rows
    return [Letter(*row) for row in rows]


def one(client: Client, topic: str, partition: int, offset: int) -> Letter:
    """The letter at a place; of the topic's last life, when there was more than one. Raises ReplayError."""
    found = letters(client, Wanted(topic, place=(None, partition, offset), replayed=True), 1)
    if not found:
        raise ReplayError(f"there is no dead letter {topic}/{partition}/{offset}; `warpmeter dead-letters list --each`")
    return found[0]


def contents(client: Client, of: Sequence[Letter]) -> list[Content]:
    """The bytes of letters, in their order."""
    asked = ", ".join(f"({literal(each.topic)}, {literal(each.uuid)}, {each.partition}, {each.offset})" for each in of)
    rows = client.query(
        "SELECT topic, topic_uuid, partition, offset, hex(key), hex(value), headers FROM dead_letters FINAL "
        f"WHERE (topic, topic_uuid, partition, offset) IN ({asked})"
    ).result_rows
    found = {tuple(row[:4]): Content(bytes.fromhex(row[4]), bytes.fromhex(row[5]), row[6]) for row in rows}
    return [found[(each.topic, each.uuid, each.partition, each.offset)] for each in of]


def unknown(client: Client, topic: str, uuid: str, envelopes: Iterable[wire.Envelope]) -> list[wire.Envelope]:
    """Those of the dead letters of a topic's life that the table does not have."""
    rows = client.query(
        "SELECT partition, offset FROM dead_letters WHERE topic = {topic:String} AND topic_uuid = {uuid:String}",
        {"topic": topic, "uuid": uuid},
    ).result_rows
    known = {tuple(row) for row in rows}
    return [each for each in envelopes if _place(each) not in known]


def _place(envelope: wire.Envelope) -> tuple[int, int]:
    row = wire.unpack(DEAD, envelope.value)[0]
    assert isinstance(row, DeadLetter)
    return row.partition, row.offset


def parsed(place: str, prefix: str) -> tuple[str, int, int]:
    """TOPIC/PARTITION/OFFSET, the topic with or without the prefix. Raises ReplayError."""
    topic, *numbers = place.rsplit("/", 2)
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise ReplayError(f"{place!r} is no letter: write TOPIC/PARTITION/OFFSET, as in gpu-samples/3/1024")
    short = topic.removeprefix(f"{prefix}.").replace("_", "-")
    full = TOPICS[short].full_name(prefix) if short in TOPICS else topic
    return full, int(numbers[0]), int(numbers[1])
