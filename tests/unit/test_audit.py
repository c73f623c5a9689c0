"""What `warpmeter check` makes of what it sees: holes and what explains them, the group, pending spans, days."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from warpmeter.consumers.audit.blame import findings, no_hours
from warpmeter.consumers.audit.counts import BOOK, Compared, Day, Figure, Landed, Rollup, booked, differing, rolled_up
from warpmeter.consumers.audit.spans import Book, Facts, Finding, Log, Offsets, explained, holes, judged, reached
from warpmeter.consumers.ledger import Declared, Entry, Foreign, Settled
from warpmeter.consumers.replay.hours import Range
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


def test_the_command_has_the_hours_where_they_are_known() -> None:
    noon = int(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp())
    known = facts(settled(100), book(holes=(Offsets(40, 44),), overlaps=(Offsets(8, 9),)))
    known = replace(known, times={Offsets(40, 44): Range(noon, noon + 3600), Offsets(8, 9): Range(noon, noon + 7200)})
    hole, twice = judged(known, [explained(Offsets(40, 44), 0)])
    asked = "`warpmeter replay --topic gpu-samples --from 2026-06-01T12:00Z --to 2026-06-01T"
    assert f"{asked}13:00Z`" in hole.remedy
    assert f"{asked}14:00Z`" in twice.remedy


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
    return booked("gpu_samples", rows, (spans, spans), since).wrong


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
    found = booked("gpu_samples", {MONDAY: 104, TUESDAY: 60}, (spans, spans), MONDAY)
    assert (found.wrong, [day.day for day in found.days], found.again) == ([], [MONDAY], 1)


def test_while_rows_land_the_table_lies_between_two_looks_at_the_book() -> None:
    later = (*SPANS, Landed(TUESDAY, TUESDAY, 7))
    for rows in (56, 60, 63):
        assert booked("gpu_samples", {MONDAY: 104, TUESDAY: rows}, (SPANS, later), MONDAY).wrong == []
    assert booked("gpu_samples", {MONDAY: 104, TUESDAY: 64}, (SPANS, later), MONDAY).wrong


def test_a_rollup_that_lost_or_doubled_rows_is_found() -> None:
    rollup = Rollup("gpu_heatmap_1m", "gpu_samples")
    assert rolled_up(rollup, {MONDAY: 100}, {MONDAY: 100}, {MONDAY: 100}).wrong == []
    assert rolled_up(rollup, {MONDAY: 100}, {MONDAY: 99}, {MONDAY: 99}).wrong
    assert rolled_up(rollup, {MONDAY: 100}, {MONDAY: 101}, {MONDAY: 101}).wrong
    assert rolled_up(rollup, {}, {}, {MONDAY: 1}).wrong == []  # it came after the table was counted
    assert rolled_up(rollup, {MONDAY: 9, TUESDAY: 1}, {TUESDAY: 1}, {TUESDAY: 1}, TUESDAY).wrong == []
    assert rolled_up(rollup, {MONDAY: 0.1 + 0.2}, {MONDAY: 0.3}, {MONDAY: 0.3}).wrong == []


HEATMAP, FLEET = "gpu_heatmap_1h", "fleet_windows_1h"
COVERED = Figure("s covered", 1000)


def day_of(raw: int, booked_rows: int | None, **rolled: int) -> list[Compared]:
    """One day's rows of the table, the book and rollups; each rollup covers as many seconds."""
    found = [Compared("gpu_samples", name, (Day(MONDAY, raw, rows, rows),)) for name, rows in rolled.items()]
    found += [
        Compared("gpu_samples", name, (Day(MONDAY, raw * 1000, rows * 1000, rows * 1000),), figure=COVERED)
        for name, rows in rolled.items()
    ]
    if booked_rows is not None:
        found.append(Compared("gpu_samples", BOOK, (Day(MONDAY, raw, booked_rows, booked_rows),)))
    return found


def at_noon(_table: str, _rollup: str, _day: date) -> list[Range]:
    noon = int(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp())
    return [Range(noon, noon + 3600)]


def test_a_table_that_lost_rows_while_book_and_rollups_agree_is_one_finding_and_the_rollups_are_right() -> None:
    (found,) = findings(day_of(1234, 1300, gpu_heatmap_1h=1300, fleet_windows_1h=1300), at_noon)
    assert found == Finding(
        "rows",
        "gpu_samples 2026-06-01",
        "gpu_samples has 1,234 rows (of them wrong: 12:00-13:00 UTC), "
        "ingest_batches, fleet_windows_1h and gpu_heatmap_1h say 1,300 rows",
        "the raw table lost rows (deleted, or a part of it is gone); its rollups are right. "
        "`warpmeter replay --topic gpu-samples --from 2026-06-01T12:00Z --to 2026-06-01T13:00Z` mends it",
    )


def test_a_rollup_that_differs_from_book_and_table_is_one_finding_with_each_figure_named() -> None:
    (found,) = findings(day_of(1300, 1300, gpu_heatmap_1h=1234, fleet_windows_1h=1300), at_noon)
    assert (found.kind, found.where) == ("rollup", "gpu_heatmap_1h 2026-06-01")
    assert found.seen == (
        "gpu_heatmap_1h has 1,234 rows and 1,234 s covered (of them wrong: 12:00-13:00 UTC), "
        "gpu_samples says 1,300 rows and 1,300 s covered"
    )
    assert "--from 2026-06-01T12:00Z --to 2026-06-01T13:00Z" in found.remedy
    assert "gpu_samples agrees with ingest_batches and is right until then" in found.remedy


def test_what_table_and_rollups_both_lost_is_told_of_both() -> None:
    (found,) = findings(day_of(1234, 1300, gpu_heatmap_1h=1234, fleet_windows_1h=1234), no_hours)
    assert found.seen == "gpu_samples has 1,234 rows, and so do its rollups, ingest_batches says 1,300 rows"
    assert "--from 2026-06-01T00:00Z --to 2026-06-02T00:00Z" in found.remedy
    kinds = [each.kind for each in findings(day_of(1234, 1300, gpu_heatmap_1h=1300, fleet_windows_1h=1234), no_hours)]
    assert kinds == ["rows", "rollup"]


def test_without_the_book_the_rollups_that_agree_tell_which_is_wrong() -> None:
    (found,) = findings(day_of(1234, None, gpu_heatmap_1h=1300, fleet_windows_1h=1300), no_hours)
    assert "the raw table lost rows" in found.remedy
    (found,) = findings(day_of(1234, None, gpu_heatmap_1h=1300, fleet_windows_1h=1234), no_hours)
    assert found.kind == "rollup"
    assert "is right" not in found.remedy


def test_all_three_that_differ_are_all_told_and_none_is_called_right() -> None:
    found = findings(day_of(1, 3, gpu_heatmap_1h=2, fleet_windows_1h=3), no_hours)
    assert [each.kind for each in found] == ["rows", "rollup", "rollup"]
    assert not any("right" in each.remedy for each in found)


def test_findings_say_what_differs_and_what_to_do() -> None:
    wrong = (Day(MONDAY, 1234, 1300, 1300),)
    assert findings([Compared("gpu_samples", BOOK, wrong), Compared("a", "b", (Day(MONDAY, 1, 1, 1),))], no_hours) == [
        Finding(
            "rows",
            "gpu_samples 2026-06-01",
            "gpu_samples has 1,234 rows, ingest_batches says 1,300 rows",
            "rows were deleted, or a part of the table is lost: "
            "`warpmeter replay --topic gpu-samples --from 2026-06-01T00:00Z --to 2026-06-02T00:00Z` mends it",
        )
    ]


def test_hours_in_which_table_and_rollup_differ_are_told_as_runs() -> None:
    raw = {0: 5, 3600: 5, 7200: 5, 14_400: 5}
    assert differing(raw, {0: 5, 3600: 4, 14_400: 6}, {0: 5, 3600: 4, 7200: 4, 14_400: 6}) == [
        Range(3600, 10_800), Range(14_400, 18_000),
    ]  # fmt: skip
    assert differing({0: 5}, {0: 4}, {0: 6}) == []


def test_a_position_says_what_is_seen_and_apart_from_it_what_to_do() -> None:
    (found,) = judged(facts(Foreign(WHERE, 40)), [])
    assert "kafka-consumer-groups.sh" not in found.seen
    assert found.remedy.startswith("Stop all consumers")
    assert "--topic warpmeter.gpu-samples:2 --to-offset 100" in found.remedy


def test_days_of_an_unfinished_replay_are_left_out() -> None:
    found = booked("gpu_samples", {MONDAY: 1, TUESDAY: 60}, (SPANS, SPANS), MONDAY, {MONDAY})
    assert [day.day for day in found.days] == [TUESDAY]
    rollup = Rollup("gpu_heatmap_1m", "gpu_samples")
    assert rolled_up(rollup, {MONDAY: 1}, {}, {}, without={MONDAY}).days == ()
