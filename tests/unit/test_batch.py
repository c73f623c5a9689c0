"""Batches: what is in one, what stays out, and that its token is never another's."""

from hypothesis import given
from hypothesis import strategies as st

from warpmeter.consumers.batch import Batch, Limits, OpenBatch
from warpmeter.consumers.ledger import Declared
from warpmeter.consumers.message import Given
from warpmeter.consumers.shape import Odd
from warpmeter.consumers.span import Partition, Span
from warpmeter.wire import joined

WHERE = Partition("warpmeter.gpu-samples", 3)
LIMITS = Limits(size_bytes=100, rows=10, age_s=5.0)


def message(offset: int, payload: bytes = b"xx") -> Given:
    return Given(*WHERE, offset, payload)


def opened(first: int | None, *offsets: int, replay: Declared | None = None) -> OpenBatch:
    batch = OpenBatch(WHERE, "life", first, 0.0, replay)
    for offset in offsets:
        batch.add(message(offset), b"%d" % offset, 1)
    return batch


def declared(first: int, last: int, *rejects: int) -> Declared:
    return Declared(Span(*WHERE[:1], "life", WHERE.number, first, last), 100.0, rejects)


def test_a_batch_spans_from_what_was_settled_to_its_last_message() -> None:
    assert opened(5, 7, 9).close().token == "life/3/5-9"
    assert opened(None, 7, 9).close().token == "life/3/7-9"


def test_the_body_is_the_kept_payloads_joined_behind_one_length() -> None:
    batch = opened(0, 0, 1, 2).close()
    assert batch.body() == joined([b"0", b"1", b"2"])
    assert batch.judged({1: "bad"}).body() == joined([b"0", b"2"])
    assert batch.judged({1: "bad"}).rejected_offsets == (1,)
    assert batch.judged({1: "bad"}).token == batch.token


def test_it_closes_at_bytes_or_rows_whichever_is_first() -> None:
    batch = OpenBatch(WHERE, "life", 0, 0.0)
    batch.add(message(0), b"x" * 99, 1)
    assert not batch.full(LIMITS)
    batch.add(message(1), b"x", 1)
    assert batch.full(LIMITS)
    many = OpenBatch(WHERE, "life", 0, 0.0)
    many.add(message(0), b"x", 10)
    assert many.full(LIMITS)


def test_it_closes_by_age_counted_from_its_first_message() -> None:
    assert not opened(0, 0).due(LIMITS, 4.9)
    assert opened(0, 0).due(LIMITS, 5.0)
    assert not opened(0).due(LIMITS, 99.0)


def test_a_replay_ends_where_it_was_declared_to_whatever_its_size_and_age() -> None:
    replay = opened(5, *range(5, 30), replay=declared(5, 30))
    assert not replay.full(LIMITS)
    assert not replay.due(LIMITS, 1e9)
    replay.add(message(30), b"x", 1)
    assert replay.full(LIMITS)
    assert replay.close().span == declared(5, 30).span


def test_a_replay_keeps_its_verdicts_and_asks_nobody() -> None:
    replay = OpenBatch(WHERE, "life", 5, 0.0, declared(5, 7, 6))
    for offset in (5, 6, 7):
        replay.add(message(offset), b"%d" % offset, Odd("no header", certain=False, rows=1))
    batch = replay.close()
    assert batch.kept == [0, 2]
    assert not batch.doubts
    assert batch.acknowledged == {1}
    assert batch.at == 100.0


def test_odd_messages_are_rejects_when_certain_and_doubts_when_not() -> None:
    batch = OpenBatch(WHERE, "life", 0, 0.0)
    batch.add(message(0), b"", Odd("tombstone"))
    batch.add(message(1), b"b", Odd("no header", certain=False, rows=2))
    batch.add(message(2), b"c", 4)
    closed = batch.close()
    assert dict(closed.rejects) == {0: "tombstone"}
    assert closed.doubts == {1}
    assert (closed.kept_rows, closed.kept_bytes) == (6, 2)


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("kdr")), min_size=2, max_size=30), st.integers(0, 5))
def test_halves_are_together_the_whole(steps: list[tuple[int, str]], first: int) -> None:
    batch, offset = OpenBatch(WHERE, "life", first, 0.0), first
    for gap, kind in steps:
        offset += gap
        odd = Odd("odd", certain=kind == "r", rows=1)
        batch.add(message(offset), b"%d" % offset, 1 if kind == "k" else odd)
    whole = batch.close()
    left, right = whole.split()
    assert left.span.last + 1 == right.span.first
    assert (left.span.first, right.span.last) == (whole.span.first, whole.span.last)
    assert [*left.payloads, *right.payloads] == [*whole.payloads]
    assert left.rejected_offsets + right.rejected_offsets == whole.rejected_offsets
    assert _doubted(left) + _doubted(right) == _doubted(whole)


def _doubted(batch: Batch) -> list[int]:
    return [batch.messages[index].offset() for index in sorted(batch.doubts)]
