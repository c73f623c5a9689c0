"""What a replay reads, holds back, takes out and puts in: its pure parts."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.tables import row
from warpmeter import wire
from warpmeter.consumers.ledger import Declared, Entry, Settled
from warpmeter.consumers.replay.book import mended
from warpmeter.consumers.replay.compare import Hour, loss
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.hours import HOUR_S, Range, widened
from warpmeter.consumers.replay.landing import Chunk, chunked
from warpmeter.consumers.replay.letterbox import Letter, parsed
from warpmeter.consumers.replay.letters import parts
from warpmeter.consumers.replay.load import Within
from warpmeter.consumers.replay.offsets import Held, Landed, gone, pieces
from warpmeter.consumers.replay.pending import named, waiting
from warpmeter.consumers.replay.rollups import Table, View, deletes, derived, neutral
from warpmeter.consumers.span import Partition, Span
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Store

T = 500_000 * HOUR_S
WANTED = Range(T, T + HOUR_S)
WHERE = Partition("w.gpu-samples", 1)
NEW = Held(WHERE, low=0, since=40, at_start=50, end=100)


def span(first: int, last: int, start: float = 0.0, end: float = 1.0) -> Landed:
    """A span whose rows lie from `start` to `end` seconds after the range's start."""
    return Landed(first, last, T + start, T + end)


def told(held: Held, *spans: Landed) -> list[tuple[int, int, bool]]:
    return [(piece.first, piece.last, piece.booked) for piece in pieces(held, spans, WANTED)]


def test_a_range_is_widened_to_the_hours_that_hold_it() -> None:
    assert widened(T + 1.5, T + HOUR_S) == WANTED
    assert widened(T, T + HOUR_S + 0.001) == Range(T, T + 2 * HOUR_S)
    assert [hour.start for hour in widened(T, T + 2 * HOUR_S).hours] == [T, T + HOUR_S]
    with pytest.raises(ValueError, match="--from and --to"):
        widened(T, T)


def test_without_spans_all_that_may_hold_the_range_is_read() -> None:
    assert told(NEW) == [(40, 99, False)]
    assert told(replace(NEW, low=60)) == [(60, 99, False)]
    assert told(replace(NEW, end=40)) == []


def test_spans_of_other_times_are_not_read_and_those_of_the_range_are_wherever_they_lie() -> None:
    before, of_it, late = span(0, 9, -9e3, -8e3), span(10, 19), span(80, 89)
    others = span(20, 79, 2 * HOUR_S, 3 * HOUR_S)
    assert told(NEW, before, of_it, others, late) == [(10, 19, True), (80, 89, True), (90, 99, False)]


def test_what_no_span_holds_is_read_apart_so_that_it_can_be_booked() -> None:
    assert told(NEW, span(0, 49), span(60, 99)) == [(0, 49, True), (50, 59, False), (60, 99, True)]
    assert told(NEW, span(30, 60), span(50, 99)) == [(30, 99, True)]
    assert told(NEW, span(40, 120)) == [(40, 99, True)]


def test_it_is_gone_when_a_span_of_the_range_or_its_start_lies_before_the_topic_begins() -> None:
    late = replace(NEW, low=60)
    assert gone(NEW, [span(0, 99)], WANTED) is None
    assert "w.gpu-samples[1] begins at offset 60" in str(gone(late, [span(50, 59)], WANTED))
    assert gone(late, [span(50, 59, -9e3, -8e3)], WANTED) is None
    assert gone(replace(late, at_start=60), [], WANTED) is not None
    assert gone(replace(late, at_start=61), [], WANTED) is None


def test_the_book_is_mended_only_where_all_rows_are_in_the_range() -> None:
    over = span(20, 29, HOUR_S - 1, HOUR_S + 1)
    assert mended([span(0, 9), span(10, 19)], [], WANTED) == []
    assert mended([span(0, 9, 1, 2), span(5, 14, 0, 1), span(14, 19)], [], WANTED) == [span(0, 19, 0, 2)]
    assert mended([span(0, 22), over], [over], WANTED) == []
    assert mended([span(0, 9)], [span(10, 19)], WANTED) == [span(10, 19)]


def test_a_rollup_that_holds_more_than_the_raw_table_is_a_loss_and_doubled_rows_are_none() -> None:
    whole = Hour(T, in_table=10, different=10, in_rollups=10, staged=10, missing=0)
    assert loss([whole]) is None
    assert loss([replace(whole, in_table=20, in_rollups=20)]) is None
    assert loss([replace(whole, in_table=0, different=0)]) is None
    assert replace(whole, in_table=4, staged=8).lost == 2
    assert replace(whole, missing=3).lost == 3
    assert "3 rows that the tables hold" in str(loss([whole, replace(whole, missing=3)]))


def test_chunks_are_of_one_hour_and_of_a_bounded_size() -> None:
    seconds = [(T, 4), (T + 5, 4), (T + 6, 4), (T + HOUR_S, 1), (T + HOUR_S + 1, 99), (T + HOUR_S + 2, 1)]
    assert chunked(seconds, 8) == [
        Chunk(T, T + 6, 8),
        Chunk(T + 6, T + 7, 4),
        Chunk(T + HOUR_S, T + HOUR_S + 1, 1),
        Chunk(T + HOUR_S + 1, T + HOUR_S + 2, 99),
        Chunk(T + HOUR_S + 2, T + HOUR_S + 3, 1),
    ]


SUM = "SimpleAggregateFunction(sum, Float64)"
TABLES = {
    name: Table(name, types, key)
    for name, types, key in (
        ("raw", {"host": "String", "ts": "DateTime"}, ("host", "ts")),
        ("other", {"host": "String", "ts": "DateTime"}, ("host", "ts")),
        ("own_1m", {"host": "String", "window": "DateTime", "n": SUM}, ("host", "window")),
        ("shared_1m", {"window": "DateTime", "a": SUM, "b": SUM}, ("window",)),
        ("shared_1h", {"window": "DateTime", "a": SUM, "b": SUM}, ("window",)),
        ("last", {"host": "String", "at": "SimpleAggregateFunction(max, DateTime)"}, ("host",)),
        ("totals", {"host": "String", "n": SUM}, ("host",)),
        ("ingest_batches", {"rows": "UInt64"}, ()),
    )
}
VIEWS = [
    View(f"{source}_{target}", source, target, "SELECT", frozenset(columns))
    for source, target, columns in (
        ("raw", "own_1m", ("host", "window", "n")),
        ("raw", "shared_1m", ("window", "a")),
        ("other", "shared_1m", ("window", "b")),
        ("shared_1m", "shared_1h", ("window", "a", "b")),
        ("raw", "last", ("host", "at")),
        ("raw", "totals", ("host", "n")),
        ("raw", "ingest_batches", ("rows",)),
    )
]


def test_windows_of_one_table_are_deleted_and_of_shared_ones_its_columns_are_zeroed() -> None:
    rollups = derived("raw", TABLES, VIEWS)
    assert [table.name for table in rollups.windows] == ["own_1m"]
    assert [(each.table.name, each.columns) for each in rollups.shared] == [
        ("shared_1m", ("a",)),
        ("shared_1h", ("a",)),
    ]
    assert [table.name for table in rollups.totals] == ["totals"]
    statements = list(deletes(Store(cluster="c"), TABLES["raw"], rollups, WANTED))
    assert [statement.split(" WHERE")[0] for statement in statements] == [
        "ALTER TABLE `warpmeter`.`shared_1m` ON CLUSTER `c` UPDATE `a` = 0",
        "ALTER TABLE `warpmeter`.`shared_1h` ON CLUSTER `c` UPDATE `a` = 0",
        "ALTER TABLE `warpmeter`.`own_1m` ON CLUSTER `c` DELETE",
        "ALTER TABLE `warpmeter`.`raw` ON CLUSTER `c` DELETE",
    ]


def test_what_adds_nothing_to_a_column() -> None:
    assert neutral("SimpleAggregateFunction(sum, UInt64)") == neutral("SimpleAggregateFunction(max, UInt8)") == "0"
    assert neutral("SimpleAggregateFunction(max, Nullable(UInt16))") == "NULL"
    assert neutral("SimpleAggregateFunction(max, Int64)") is None
    assert neutral("AggregateFunction(argMax, UInt8, DateTime)") is None


def test_a_shared_window_that_zero_would_change_is_refused() -> None:
    least = {**TABLES, "shared_1m": Table("shared_1m", {"window": "x", "a": "SimpleAggregateFunction(min, UInt8)"}, ())}
    with pytest.raises(ReplayError, match="cannot be taken back"):
        derived("raw", least, VIEWS)


def test_so_many_letters_are_read_at_once_as_memory_should_hold() -> None:
    sizes = [9 << 20, 9 << 20, *[1] * 60]
    letters = [Letter("t", "u", 0, n, datetime.now(UTC), "why", "k", size, None) for n, size in enumerate(sizes)]
    assert [len(some) for some in parts(letters)] == [1, 50, 11]
    assert [letter for some in parts(letters) for letter in some] == letters
    assert letters[3].token == "dead-letter/u/0/3/1"


def test_letters_are_named_by_topic_partition_and_offset() -> None:
    assert parsed("gpu-samples/3/17", "w") == parsed("w.gpu-samples/3/17", "w") == ("w.gpu-samples", 3, 17)
    assert parsed("x/gone/3/17", "w") == ("x/gone", 3, 17)
    with pytest.raises(ReplayError, match="TOPIC/PARTITION/OFFSET"):
        parsed("gpu-samples/3", "w")


def test_messages_count_when_they_have_a_row_in_the_range_and_are_decoded_only_where_the_book_leaves_it_open() -> None:
    topic = TOPICS["gpu-samples"]
    within = Within(topic, [span(50, 59, -9, 9), span(0, 9), span(10, 19, 2 * HOUR_S, 3 * HOUR_S)], WANTED)
    here, other = (wire.pack(topic, "h", [row(topic.name, host="h", ts=at)]).value for at in (T + 1, T - 1))
    assert within(0, b"not looked at")
    assert not within(10, b"not looked at")
    for offset in (20, 55):  # in no span, and in one of which a part is in the range
        assert within(offset, here)
        assert not within(offset, other)


def test_spans_that_wait_are_named_by_topic_and_all_of_them_are_counted() -> None:
    found: list[Entry] = [Declared(Span("w.gpu-samples", "u", n, 10, 19), 0.0) for n in range(7)]
    other = Declared(Span("w.gpu-samples", "before", 7, 10, 19), 0.0)
    some = waiting([*reversed(found), other, Settled(WHERE, "u", 3)], "u")
    assert some == found
    assert named(some[:1]) == "w.gpu-samples[0] 10-19"
    assert named(some).endswith("w.gpu-samples[4] 10-19, … and 2 more")
