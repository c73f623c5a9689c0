"""What `warpmeter check` makes of what it sees: holes and what explains them, the group, pending spans, days."""

from datetime import date

import pytest

from warpmeter.consumers.audit.counts import Compared, Day, Landed, Rollup, booked, findings, rolled_up
from warpmeter.consumers.audit.spans import Book, Facts, Finding, Log, Offsets, explained, holes, judged, reached
from warpmeter.consumers.ledger import Declared, Entry, Foreign, Settled
from warpmeter.consumers.span import Partition, Span

WHERE = Partition("warpmeter.gpu-samples", 2)
UUID = "5f1c7a1e-0000-4000-8000-000000000000"
OTHER = "5f1c7a1e-0000-4000-8000-00000000ffff"


def book(begin: int = 0, end: int = 99, holes: tuple[Offsets, ...] = (), overlaps: tuple[Offsets, ...] = ()) -> Book:
    return Book(3, 300, begin, end, holes, overlaps, sum(h.count for h in holes), sum(o.count for o in overlaps))


def settled(offset: int) -> Settled:
    return Settled(WHERE, UUID, offset)


def declared(first: int, last: int) -> Declared:
    return Declared(Span(WHERE.topic, UUID, WHERE.number, first, last), 1.0)


def facts(entry: Entry | None, found: Book | None = None, log: Log | None = None, attended: bool = False) -> Facts:
    return Facts(WHERE, UUID, found or book(), log or Log(0, 150), entry, attended)


def kinds(known: Facts, refused: int = 0, told: tuple[Offsets, ...] = ()) -> list[str]:
    return [each.kind for each in judged(known, [explained(hole, refused, told) for hole in holes(known)])]


@pytest.mark.parametrize(
    ("entry", "attended"),
    [(settled(100), False), (declared(100, 120), True), (declared(50, 99), True), (Foreign(WHERE, 100), False)],
    ids=["settled", "the next span is declared", "the last span is declared", "set by hand to where it was"],
)
def test_a_book_that_reaches_the_groups_record_adds_up(entry: Entry, attended: bool) -> None:
    assert kinds(facts(entry, attended=attended)) == []


def test_what_nobody_stored_is_missing_wherever_it_lies() -> None:
    between = book(begin=10, end=99, holes=(Offsets(40, 44),))
    assert holes(facts(settled(110), between)) == [Offsets(0, 9), Offsets(40, 44), Offsets(100, 109)]
    assert kinds(facts(settled(110), between)) == ["missing"] * 3


def test_what_retention_took_before_the_first_span_is_not_missing() -> None:
    assert holes(facts(settled(100), book(begin=10), Log(10, 150))) == []


def test_a_partition_that_is_settled_and_not_in_the_book_at_all_is_missing() -> None:
    known = Facts(WHERE, UUID, None, Log(3, 50), settled(20))
    assert holes(known) == [Offsets(3, 19)]


def test_a_topic_that_nobody_has_read_yet_is_not_missing() -> None:
    assert judged(Facts(WHERE, UUID, None, Log(0, 50), None), []) == []
    assert holes(Facts(WHERE, UUID, None, Log(0, 50), None)) == []


def test_spans_of_nothing_but_rejects_are_explained_by_the_dead_letters() -> None:
    hole = book(holes=(Offsets(40, 44),))
    assert kinds(facts(settled(100), hole), refused=5) == []
    (finding,) = judged(facts(settled(100), hole), [explained(Offsets(40, 44), 3)])
    assert finding.seen == "no span holds 40-44 (5 offsets, 3 are dead letters)"


def test_published_losses_explain_what_they_tell_of_and_no_more() -> None:
    hole = book(holes=(Offsets(40, 44),))
    assert kinds(facts(settled(100), hole), told=(Offsets(30, 44),)) == []
    assert kinds(facts(settled(100), hole), told=(Offsets(42, 60),)) == ["missing"]
    assert explained(Offsets(40, 44), 4, (Offsets(0, 99),)).unknown == 0


@pytest.mark.parametrize(
    ("log", "remedy"),
    [
        (Log(0, 150), "warpmeter replay --topic gpu-samples"),
        (Log(60, 150), "retention took them"),
        (None, "cannot be read any more"),
    ],
    ids=["still there", "taken by retention", "another topic by now"],
)
def test_a_hole_says_whether_it_can_still_be_filled(log: Log | None, remedy: str) -> None:
    known = Facts(WHERE, UUID, book(holes=(Offsets(40, 44),)), log, settled(100))
    (finding,) = judged(known, [explained(Offsets(40, 44), 0)])
    assert remedy in finding.remedy


def test_offsets_in_two_spans_are_doubled() -> None:
    assert kinds(facts(settled(100), book(overlaps=(Offsets(8, 9),)))) == ["doubled"]


def test_a_group_that_ingest_would_not_go_on_from_is_found_before_it_starts() -> None:
    assert kinds(facts(Foreign(WHERE, 40))) == ["position"]
    assert kinds(facts(None)) == ["position"]
    assert kinds(facts(Settled(WHERE, OTHER, 7))) == ["position"]


def test_a_declared_span_is_a_finding_only_while_nobody_is_there_to_store_it() -> None:
    assert kinds(facts(declared(100, 120), attended=False)) == ["pending"]
    (finding,) = judged(facts(declared(50, 99)), [])
    assert finding.kind == "pending"
    assert "stored, and not yet settled" in finding.seen


def test_what_retention_took_unread_is_lost_and_a_topic_that_ends_before_the_book_is_told() -> None:
    assert kinds(facts(settled(100), log=Log(120, 150))) == ["lost"]
    assert kinds(facts(settled(100), log=Log(0, 90))) == ["beyond"]
    assert kinds(facts(settled(100), log=Log(0, 1, exact=False))) == []


def test_the_record_of_another_life_reaches_nothing() -> None:
    assert reached(facts(Settled(WHERE, OTHER, 100))) is None
    assert reached(facts(Foreign(WHERE, 7))) == 7


MONDAY, TUESDAY, WEDNESDAY = date(2026, 6, 1), date(2026, 6, 2), date(2026, 6, 3)
SPANS = (Landed(MONDAY, MONDAY, 100), Landed(MONDAY, TUESDAY, 10), Landed(TUESDAY, TUESDAY, 50))


def of(rows: dict[date, int], since: date = MONDAY, spans: tuple[Landed, ...] = SPANS) -> list[Day]:
    return booked("gpu_samples", rows, spans, spans, since).wrong


def test_a_span_over_midnight_may_lie_on_either_side_but_all_in_all_it_must_be_there() -> None:
    assert of({MONDAY: 104, TUESDAY: 56}) == []
    assert [day.found for day in of({MONDAY: 104, TUESDAY: 55})] == [159]
    assert [day.day for day in of({MONDAY: 99, TUESDAY: 61})] == [MONDAY, TUESDAY]


def test_days_before_the_first_are_not_compared_nor_what_reaches_into_it() -> None:
    assert of({TUESDAY: 54}, TUESDAY) == []
    assert of({TUESDAY: 49}, TUESDAY) == [Day(TUESDAY, 49, 50, 60)]


def test_rows_that_are_in_no_book_are_found() -> None:
    assert of({MONDAY: 105, TUESDAY: 55, WEDNESDAY: 1}) == [Day(WEDNESDAY, 1, 0, 0)]


def test_days_that_were_stored_again_are_left_out() -> None:
    spans = (*SPANS, Landed(TUESDAY, TUESDAY, 60, again=True))
    found = booked("gpu_samples", {MONDAY: 104, TUESDAY: 60}, spans, spans, MONDAY)
    assert (found.wrong, [day.day for day in found.days], found.again) == ([], [MONDAY], 1)


def test_while_rows_land_the_table_lies_between_two_looks_at_the_book() -> None:
    later = (*SPANS, Landed(TUESDAY, TUESDAY, 7))
    for rows in (56, 60, 63):
        assert booked("gpu_samples", {MONDAY: 104, TUESDAY: rows}, SPANS, later, MONDAY).wrong == []
    assert booked("gpu_samples", {MONDAY: 104, TUESDAY: 64}, SPANS, later, MONDAY).wrong


def test_a_rollup_that_lost_or_doubled_rows_is_found() -> None:
    rollup = Rollup("gpu_heatmap_1m", "gpu_samples")
    assert rolled_up(rollup, {MONDAY: 100}, {MONDAY: 100}, {MONDAY: 100}).wrong == []
    assert rolled_up(rollup, {MONDAY: 100}, {MONDAY: 99}, {MONDAY: 99}).wrong
    assert rolled_up(rollup, {MONDAY: 100}, {MONDAY: 101}, {MONDAY: 101}).wrong
    assert rolled_up(rollup, {}, {}, {MONDAY: 1}).wrong == []  # it came after the table was counted
    assert rolled_up(rollup, {MONDAY: 9, TUESDAY: 1}, {TUESDAY: 1}, {TUESDAY: 1}, TUESDAY).wrong == []
    assert rolled_up(rollup, {MONDAY: 0.1 + 0.2}, {MONDAY: 0.3}, {MONDAY: 0.3}).wrong == []


def test_findings_say_what_differs_and_what_to_do() -> None:
    wrong = (Day(MONDAY, 1234, 1300, 1300),)
    assert findings(
        [Compared("gpu_samples", "ingest_batches", wrong), Compared("a", "b", (Day(MONDAY, 1, 1, 1),))]
    ) == [
        Finding(
            "rows",
            "gpu_samples 2026-06-01",
            "gpu_samples has 1,234, ingest_batches says 1,300",
            "rows were deleted, or a part of the table is lost: `warpmeter replay` stores them anew",
        )
    ]
