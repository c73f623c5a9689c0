"""The ledger's records, their encoding, and the laws on the twin in memory and on the file.

The same laws run on Apache Kafka in tests/real/test_ledger_kafka.py.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger_laws import LAWS, Law, declared, where
from warpmeter.consumers.ledger import (
    METADATA_MAX_BYTES,
    Declared,
    Done,
    Fatal,
    Fenced,
    Foreign,
    Ledger,
    LedgerError,
    MemoryLedger,
    Outcome,
    Retry,
    Settled,
    decode,
    encode,
    fits,
)
from warpmeter.consumers.ledger.file import FileLedger, is_held
from warpmeter.consumers.ledger.kafka import KafkaLedger, classified
from warpmeter.consumers.span import Partition, Span


@pytest.fixture(params=["memory", "file"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Ledger]:
    """Opens the same ledger again, as the next process does."""
    if request.param == "memory":
        kept = MemoryLedger()
        return lambda: kept
    open_ones: list[FileLedger] = []

    def again() -> Ledger:
        for ledger in open_ones:
            ledger.close()
        open_ones.append(FileLedger(tmp_path, "group"))
        return open_ones[-1]

    return again


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: Law, reopen: Callable[[], Ledger]) -> None:
    law(reopen, [where(0), where(1)])


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**6),
    st.sets(st.integers(0, 10**6)),
    st.integers(0, 2 * 10**12),
)
def test_a_record_survives_its_encoding(first: int, length: int, rejects: set[int], at_ms: int) -> None:
    span = Span("t", "life", 4, first, first + length)
    out = tuple(sorted(first + place for place in rejects if place <= length))
    for entry in (Declared(span, at_ms / 1000, out), Settled(Partition("t", 4), "life", first)):
        assert decode(Partition("t", 4), *encode(entry)) == entry


def test_the_records_are_what_the_design_says() -> None:
    assert encode(declared(5, 9)) == (5, '{"upto":9,"topic":"life","at":1.5}')
    assert encode(Settled(where(0), "life", 10)) == (10, '{"topic":"life"}')


@pytest.mark.parametrize(
    "metadata",
    [None, "", "x", "[]", "1", '"a"', "{}", '{"upto":9}', '{"topic":"a","upto":1,"at":1}', '{"topic":"a","upto":9}'],
)
def test_what_is_not_ours_is_foreign_and_keeps_its_offset(metadata: str | None) -> None:
    found = decode(where(0), 5, metadata)
    assert isinstance(found, Foreign)
    assert found.next == 5


@pytest.mark.long
def test_runs_of_rejects_are_short_and_too_many_do_not_fit() -> None:
    assert len(encode(declared(0, 10**6, *range(100_000)))[1]) < 100
    assert fits(declared(0, 10**6, *range(0, 1000, 2)))
    many = declared(0, 10**6, *range(0, 10**6, 2))
    assert len(encode(many)[1]) > METADATA_MAX_BYTES
    assert not fits(many)


def test_a_ledger_file_is_held_by_one_process(tmp_path: Path) -> None:
    first = FileLedger(tmp_path, "group")
    with pytest.raises(LedgerError, match="another ingest process"):
        FileLedger(tmp_path, "group")
    FileLedger(tmp_path, "other group").close()
    first.close()
    FileLedger(tmp_path, "group").close()


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_folder_that_cannot_be_used_stops_the_start_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match=r"cannot keep the ledger in .*ingest.ledger_dir"):
        FileLedger(tmp_path / name, "group")
    with pytest.raises(LedgerError, match="cannot read the ledger"):
        is_held(tmp_path / name, "group")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version":1}', '{"version":1,"records":[[1]]}'])
def test_a_damaged_ledger_file_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "ledger-group.json").write_text(text)
    with pytest.raises(LedgerError, match="damaged"):
        FileLedger(tmp_path, "group")


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ('["warpmeter.host-samples",0,"5",null]', "['warpmeter.host-samples', 0, '5', None] is not [topic, partition,"),
        ('["t",0,5,null]', "is not [topic"),
        ('["t",0,5,7]', "is not [topic"),
        ('["t","0",5,"{}"]', "is not [topic"),
        ('[null,0,5,"{}"]', "is not [topic"),
        ('["t",0,5.5,"{}"]', "is not [topic"),
        ('["t",0,-1,"{\\"topic\\":\\"life\\"}"]', "is not [topic"),
        ('{"a":1,"b":2,"c":3,"d":4}', "is not [topic"),
        ('["t",3,5,"notjson"]', "record of t[3] at offset 5: unreadable metadata 'notjson'"),
        ('["t",3,5,""]', "record of t[3] at offset 5: no metadata of ours"),
        ('["t",3,5,"{\\"topic\\":\\"life\\",\\"upto\\":4,\\"at\\":1}"]', "record of t[3] at offset 5: unreadable"),
    ],
)
def test_a_damaged_record_stops_the_start_and_is_named(tmp_path: Path, record: str, said: str) -> None:
    """Taken for another's offset it would skip what was never stored."""
    (tmp_path / "ledger-group.json").write_text(f'{{"version":1,"records":[{record}]}}')
    with pytest.raises(LedgerError, match=r"damaged .*; restore it, or empty the tables") as refused:
        FileLedger(tmp_path, "group")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b'{"version":"2","records":[]}'])
def test_a_ledger_file_of_rubbish_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ledger-group.json").write_bytes(content)
    with pytest.raises(LedgerError, match="damaged"):
        FileLedger(tmp_path, "group")


def test_a_ledger_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "ledger-group.json").mkdir()
    with pytest.raises(LedgerError, match=r"cannot read .*ledger-group\.json: Is a directory"):
        FileLedger(tmp_path, "group")


def test_a_ledger_file_of_a_newer_version_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "ledger-group.json").write_text('{"version":2,"records":[]}')
    with pytest.raises(LedgerError, match="newer warpmeter"):
        FileLedger(tmp_path, "group")


def test_a_full_disk_is_tried_again_and_loses_nothing(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path, "group")
    assert ledger.declare([declared(0, 4)]) == Done()
    blocker = tmp_path / "ledger-group.new"
    blocker.mkdir()
    assert isinstance(ledger.declare([declared(5, 9)]), Retry)
    assert ledger.recall([where(0)]) == {where(0): declared(0, 4)}
    blocker.rmdir()
    assert ledger.declare([declared(5, 9)]) == Done()
    ledger.close()
    assert FileLedger(tmp_path, "group").recall([where(0)]) == {where(0): declared(5, 9)}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_MEMBER_ID, Fenced),
        (KafkaError.ILLEGAL_GENERATION, Fenced),
        (KafkaError.FENCED_INSTANCE_ID, Fenced),
        (KafkaError.REBALANCE_IN_PROGRESS, Retry),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, Retry),
        (KafkaError.NOT_COORDINATOR, Retry),
        (KafkaError._TIMED_OUT, Retry),
        (KafkaError._TRANSPORT, Retry),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Retry),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Fatal),
        (KafkaError.OFFSET_METADATA_TOO_LARGE, Fatal),
    ],
)
def test_commit_errors_are_typed(code: int, kind: type[Outcome]) -> None:
    assert isinstance(classified(KafkaError(code)), kind)


class Member:
    """The few calls of a consumer that the ledger makes; `members` are its successive member ids."""

    def __init__(self, members: list[str], forgetful: bool = False) -> None:
        self.members = members
        self.forgetful = forgetful
        self.kept: list[TopicPartition] = []
        self.raising: KafkaException | None = None

    def memberid(self) -> str:
        return self.members.pop(0) if len(self.members) > 1 else self.members[0]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        if self.raising is not None:
            raise self.raising
        self.kept = offsets
        return offsets

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[SimpleNamespace]:
        assert partitions
        assert timeout > 0
        return [
            SimpleNamespace(
                topic=item.topic,
                partition=item.partition,
                offset=item.offset,
                metadata=None if self.forgetful else item.metadata,
                error=None,
            )
            for item in self.kept
        ]


def kafka_ledger(member: Member) -> KafkaLedger:
    return KafkaLedger(cast(Consumer, member))


def test_a_member_that_left_the_group_while_it_committed_is_fenced() -> None:
    """A client without a session commits as nobody, and an empty group takes that."""
    assert isinstance(kafka_ledger(Member(["a", ""])).declare([declared(0, 4)]), Fenced)
    assert isinstance(kafka_ledger(Member(["a", "b"])).declare([declared(0, 4)]), Fenced)
    member = Member([""])
    assert isinstance(kafka_ledger(member).declare([declared(0, 4)]), Fenced)
    assert member.kept == []


def test_a_broker_that_keeps_no_metadata_is_found_out_at_the_first_declare() -> None:
    outcome = kafka_ledger(Member(["a"], forgetful=True)).declare([declared(0, 4)])
    assert isinstance(outcome, Fatal)
    assert "ingest.ledger_dir" in outcome.why
    assert kafka_ledger(Member(["a"])).declare([declared(0, 4, 2)]) == Done()


def test_a_refused_commit_is_typed() -> None:
    member = Member(["a"])
    member.raising = KafkaException(KafkaError(KafkaError.UNKNOWN_MEMBER_ID))
    assert isinstance(kafka_ledger(member).settle([Settled(where(0), "life", 5)]), Fenced)
