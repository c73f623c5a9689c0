"""Old agents with today's ingest, newer agents with it, and an older ingest with today's agents and tables.

The messages are the golden ones of each version of the contract (`tests/versions.py`); what is sent goes through the
broker and the ingest process into the engine, and is read back column by column.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from clickhouse_connect.driver.client import Client

from tests import versions
from tests.brokers import Tansu
from tests.engine.template import with_tables
from tests.ingest_process import IngestProcess, make_topics, settings_for
from tests.wait import until
from warpmeter import bus, wire
from warpmeter.consumers.sink import clickhouse
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Settings

pytestmark = pytest.mark.long

NOW: Final = versions.names()[-1]
EMPTY: Final = {"string": "", "bytes": "", "bool": False, "double": 0.0}
LETTERS_OF: Final = "dead-letters"
LETTERS: Final = 3
"""Messages of those to come that today's ingest refuses."""
BEYOND: Final = "beyond"
"""The version of agents to come, as the rows below say it."""
WORDS: Final = {
    "device-samples": {"kind": "quantum"},
    "gpu-events": {"kind": "unheard-of"},
    "job-events": {"event": "paused", "scheduler": "of-later"},
    "source-health": {"state": "half-well"},
    "capture-events": {"state": "thinking"},
    "metric-samples": {"kind": "native-histogram"},
}
"""States and kinds that today's programs do not know, where the tables take any."""


@dataclass
class Landed:
    """An engine, into which all of it went."""

    settings: Settings
    client: Client
    writer: Client

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """By column, as `expected` has them; times in seconds, bytes as hex."""
        asked = {
            name: READ.get(kind, "{}").format(f"`{name}`") for name, kind, _ in versions.fields(NOW)[topic].values()
        }
        found = self.client.query(
            f"SELECT {', '.join(asked.values())} FROM {TOPICS[topic].table} {FROM.get(topic, '')}"
        )
        return [dict(zip(asked, row, strict=True)) for row in found.result_rows]

    def letters(self) -> list[tuple[str, str, bytes]]:
        """Topic without prefix, why, and the bytes of what ingest refused."""
        prefix = f"{self.settings.kafka.topic_prefix}."
        found = self.client.query(
            "SELECT topic, reason, hex(value) FROM dead_letters FINAL WHERE startsWith(topic, {prefix:String})",
            {"prefix": prefix},
        )
        return [(topic.removeprefix(prefix), why, bytes.fromhex(value)) for topic, why, value in found.result_rows]


FROM: Final = {LETTERS_OF: "FINAL WHERE startsWith(topic, 'topic ')"}
"""Letters sent, not those that ingest writes here of what it refuses; equal ones are one."""
READ: Final = {"double": "toFloat64({})", "bytes": "lower(hex({}))"}


def expected(topic: str, row: dict[str, Any], known: str = NOW) -> dict[str, Any]:
    """A row of the golden file as its table has it: what was not sent is NULL, or what Protobuf says for no value."""
    there = {name for name, _, _ in versions.fields(known)[topic].values()}
    return {
        name: row[name] if name in row and name in there else _absent(kind, label)
        for name, kind, label in versions.fields(NOW)[topic].values()
    }


def _absent(kind: str, label: str) -> Any:
    if kind == versions.ENTRY:
        return {}
    return {"optional": None, "repeated": []}.get(label, EMPTY.get(kind, 0))


@pytest.fixture(scope="module")
def landed(tansu: Tansu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Landed]:
    """Every golden message, as older agents and one of a version to come sent them, through the ingest of today."""
    folder = tmp_path_factory.mktemp("upgrade")
    with closing(with_tables(folder / "engine")) as engine, closing(engine.client()) as client:
        settings = settings_for(tansu, engine, "upgrade", folder)
        settings = replace(settings, kafka=replace(settings.kafka, partitions=1))
        make_topics(settings)
        send(settings)
        with closing(IngestProcess(settings, folder / "ingest.log")) as process, engine.client(write=True) as writer:
            made = Landed(settings, client, writer)
            lacking: dict[str, int] = {}

            def done() -> bool:
                lacking.clear()
                lacking.update(missing(made))
                return not lacking or lacking.get("letters", 0) < 0 or process.process.poll() is not None

            try:
                until(done, "all of it to land", every_s=0.5)
            finally:
                assert not lacking, f"{lacking}: {[(topic, why[:300]) for topic, why, _ in made.letters()]}: {process}"
            assert process.stop() == 0
            yield made


def send(settings: Settings) -> None:
    """Of each version and topic: its message, with its headers and without; then what is to come."""
    producer = bus.producer(settings.kafka)

    def put(topic: str, value: bytes, headers: list[tuple[str, bytes]]) -> None:
        producer.produce(TOPICS[topic].full_name(settings.kafka.topic_prefix), value, b"key", headers=list(headers))

    for version in versions.names():
        for topic, sent in versions.sent(version).items():
            put(topic, sent.value, sent.headers)
            put(topic, sent.value, [])
    for topic, sent in versions.sent(NOW).items():
        put(topic, versions.newer(topic, NOW), [*sent.headers, ("traceparent", b"00-4bf9-01")])
    for topic, words in WORDS.items():
        put(topic, *spoken(topic, words))
    put("alerts", *spoken("alerts", {"state": "snoozed"}))
    put("gpu-samples", *with_a_second_list())
    put("host-samples", *with_a_group())
    assert producer.flush(60) == 0


def spoken(topic: str, words: dict[str, str]) -> tuple[bytes, list[tuple[str, bytes]]]:
    """One whole row of today, with other words in it."""
    row = wire.unpack(TOPICS[topic], versions.sent(NOW)[topic].value)[0]
    for name, word in {**words, ("alert_id" if topic == "alerts" else "host"): BEYOND}.items():
        setattr(row, name, word)
    envelope = wire.pack(TOPICS[topic], "key", [row])
    return envelope.value, envelope.headers


def with_a_second_list() -> tuple[bytes, list[tuple[str, bytes]]]:
    """An Envelope that has more than rows: what the contract says that no version ever sends."""
    sent = versions.sent(NOW)["gpu-samples"]
    return sent.value + wire.field(2, b"rows of another kind"), sent.headers


def with_a_group() -> tuple[bytes, list[tuple[str, bytes]]]:
    """A row with what proto3 has no word for."""
    (row, *_) = wire.unpack(TOPICS["host-samples"], versions.sent(NOW)["host-samples"].value)
    value = wire.field(1, row.SerializeToString() + versions.group())
    return value, versions.headers(TOPICS["host-samples"], 1)


def missing(landed: Landed) -> dict[str, int]:
    """By topic, the rows that are not there yet."""
    lacking = {topic: len(wanted(topic)) - len(landed.rows(topic)) for topic in TOPICS}
    lacking["letters"] = LETTERS - len(landed.letters())
    return {topic: count for topic, count in lacking.items() if count}


def wanted(topic: str) -> list[dict[str, Any]]:
    """All rows that the table should have in the end."""
    rows: list[dict[str, Any]] = []
    for version in versions.names():
        if topic in versions.fields(version):
            rows += [expected(topic, row) for row in versions.sent(version)[topic].rows]
    if topic == LETTERS_OF:
        return rows
    today = versions.sent(NOW)[topic].rows
    rows += rows + [expected(topic, row) for row in today]
    if topic in WORDS:
        rows.append({**expected(topic, today[0]), **WORDS[topic], "host": BEYOND})
    return rows


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize("topic", TOPICS)
def test_what_agents_of_any_version_sent_is_in_its_table_with_exactly_its_values(landed: Landed, topic: str) -> None:
    assert in_order(landed.rows(topic)) == in_order(wanted(topic))


def test_what_todays_ingest_cannot_store_of_later_versions_is_a_letter_and_whole(landed: Landed) -> None:
    """A state that a table holds to a list, an Envelope with more than rows, a group (docs/deploy/upgrade.md)."""
    letters = {topic: (why, value) for topic, why, value in landed.letters()}
    assert letters.keys() == {"alerts", "gpu-samples", "host-samples"}
    assert "known_state" in letters["alerts"][0]
    assert letters["alerts"][1] == spoken("alerts", {"state": "snoozed"})[0]
    assert "has another field" in letters["gpu-samples"][0]
    assert letters["gpu-samples"][1] == with_a_second_list()[0]
    assert "Protobuf messages are corrupted or don't match" in letters["host-samples"][0]
    assert letters["host-samples"][1] == with_a_group()[0]


PAIRS: Final = [(version, topic) for version in versions.names()[:-1] for topic in versions.fields(version)]


@pytest.mark.parametrize(("version", "topic"), PAIRS, ids=[" ".join(pair) for pair in PAIRS])
def test_an_ingest_of_an_older_version_lands_what_it_knows_of_todays_messages_in_todays_tables(
    landed: Landed, version: str, topic: str
) -> None:
    """With the schema and the columns that it names in each insert."""
    sent, table = versions.sent(NOW)[topic], TOPICS[topic].table
    landed.writer.command(f"CREATE TABLE older_{version}_{table} AS {table}")
    landed.writer.raw_insert(
        f"older_{version}_{table}",
        column_names=[name for name, _, _ in versions.fields(version)[topic].values()],
        insert_block=wire.joined([versions.newer(topic, NOW)]),
        fmt="ProtobufList",
        settings={**clickhouse.insert_settings(TOPICS[topic]), "format_schema": versions.proto(version, topic)},
    )
    columns = ", ".join(
        READ.get(kind, "{}").format(f"`{name}`") for name, kind, _ in versions.fields(NOW)[topic].values()
    )
    found = landed.writer.query(f"SELECT {columns} FROM older_{version}_{table}").result_rows
    rows = [dict(zip((name for name, _, _ in versions.fields(NOW)[topic].values()), row, strict=True)) for row in found]
    assert in_order(rows) == in_order([expected(topic, row, version) for row in sent.rows])
