"""Versions of the contract side by side: what older ones sent means the same today, and what is sent today the same to
them. `tests/real/test_rolling_upgrade.py` lands them."""

import hashlib
import json
from typing import Any, Final

import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from tests import versions
from warpmeter import wire
from warpmeter.consumers.shape import Odd, checker
from warpmeter.schemas.topics import TOPICS

FROZEN: Final = versions.GOLDEN / "frozen.json"
OLDER: Final = versions.names()[:-1]
NOW: Final = versions.names()[-1]
PAIRS: Final = [(version, topic) for version in versions.names() for topic in versions.fields(version)]
every_pair = pytest.mark.parametrize(("version", "topic"), PAIRS, ids=[" ".join(pair) for pair in PAIRS])


def test_what_was_frozen_never_changes(update: bool) -> None:
    """Before anything is added: `--update` adds what is new, and leaves alone what there is."""
    kept: dict[str, str] = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    if update:
        _grow()
    found = {
        str(path.relative_to(versions.GOLDEN)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in ("payloads", "sent", "versions")
        for path in sorted((versions.GOLDEN / folder).rglob("*.json"))
    }
    changed = [name for name, digest in kept.items() if found.get(name) != digest]
    assert not changed, f"frozen for ever, as the messages are that stand in topics: git checkout {' '.join(changed)}"
    if update:
        FROZEN.write_text(json.dumps(found, indent=1) + "\n")
    else:
        assert found.keys() == kept.keys(), "new golden files: run `pytest tests/unit/test_versions.py --update`"


def _grow() -> None:
    """A version more where the contract grew, and what an agent of it sends."""
    now = (versions.GOLDEN / "descriptors.json").read_text()
    names = versions.names()
    if json.loads(now) != json.loads((versions.VERSIONS / f"{names[-1]}.json").read_text()):
        names.append(f"v{len(names) + 1}")
        (versions.VERSIONS / f"{names[-1]}.json").write_text(now)
    versions.SENT.mkdir(exist_ok=True)
    for name in names:
        if not (path := versions.SENT / f"{name}.json").exists():
            path.write_text(versions.written(name))


def test_the_last_version_is_the_contract_of_today() -> None:
    now = json.loads((versions.GOLDEN / "descriptors.json").read_text())
    kept = json.loads((versions.VERSIONS / f"{NOW}.json").read_text())
    assert kept == now, "the contract grew: run `pytest tests/unit/test_versions.py --update` and commit what it adds"
    assert kept.keys() == TOPICS.keys()


@every_pair
def test_what_any_version_sent_reads_today_as_it_was_meant(version: str, topic: str) -> None:
    sent = versions.sent(version)[topic]
    assert checker(TOPICS[topic])(sent.value, sent.headers) == len(sent.rows)
    assert [_plain(row) for row in wire.unpack(TOPICS[topic], sent.value)] == sent.rows


@every_pair
def test_what_is_sent_today_reads_as_it_is_meant_by_who_knows_an_older_version(version: str, topic: str) -> None:
    sent = versions.sent(NOW)[topic]
    known = {name for name, _, _ in versions.fields(version)[topic].values()}
    read = versions.envelope(version, topic).FromString(sent.value)
    expected = [{name: value for name, value in row.items() if name in known} for row in sent.rows]
    assert [_plain(row) for row in read.rows] == expected  # type: ignore[attr-defined]
    passed_on = wire.unpack(TOPICS[topic], read.SerializeToString())
    assert [_plain(row) for row in passed_on] == sent.rows, "who passes it on keeps what it does not know"


@pytest.mark.parametrize("topic", TOPICS)
def test_fields_of_later_versions_hide_nothing(topic: str) -> None:
    sent, value = versions.sent(NOW)[topic], versions.newer(topic, NOW)
    more = [*sent.headers, ("traceparent", b"00-4bf9-01"), ("agent", b"9.9")]
    assert checker(TOPICS[topic])(value, more) == len(sent.rows)
    assert [_plain(row) for row in wire.unpack(TOPICS[topic], value)] == sent.rows
    nameless = checker(TOPICS[topic])(value, None)
    assert isinstance(nameless, Odd)
    assert "no header says its type" in nameless.reason


def test_no_topic_and_no_field_ever_went() -> None:
    assert len(versions.fields("v1")["gpu-samples"]) < len(versions.fields("v2")["gpu-samples"])
    kinds = {kind for name in versions.names() for of in versions.fields(name).values() for _, kind, _ in of.values()}
    assert "group" not in kinds, "the engine does not pass over a group that it does not know"
    for older, later in zip(versions.names(), versions.names()[1:], strict=False):
        for topic, fields in versions.fields(older).items():
            assert fields.items() <= versions.fields(later)[topic].items(), (older, later, topic)


def _plain(row: Message) -> dict[str, Any]:
    """By field, as the golden files have it: only what is set."""
    found = MessageToDict(row, preserving_proto_field_name=True)
    for field, value in row.ListFields():
        if field.type == field.TYPE_BYTES:
            found[field.name] = value.hex()
        elif field.is_repeated and not (field.message_type and field.message_type.GetOptions().map_entry):
            found[field.name] = list(value)
        elif field.message_type is None:
            found[field.name] = value
    return found
