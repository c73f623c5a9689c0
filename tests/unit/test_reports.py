"""Periods, words and files of reports, without a store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from warpmeter.cli import reportage
from warpmeter.scheduler.reports import Asked, Inline, Period, Rendered, ReportError, write
from warpmeter.scheduler.reports.columns import is_number, label, said
from warpmeter.scheduler.reports.document import Document, Section, Tile
from warpmeter.scheduler.reports.kinds import REPORTS, Finding, Shown, Table
from warpmeter.scheduler.reports.page import mail, page
from warpmeter.scheduler.reports.rendering import last_week, name
from warpmeter.scheduler.reports.telling import part_of, some, when

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
WEEK = Period(MONDAY, MONDAY + timedelta(weeks=1))


@pytest.mark.parametrize("text", ["2026-W48", "2026-w48", "2026-11-23", "2026-11-29"])
def test_a_week_is_named_by_its_number_or_a_day_in_it(text: str) -> None:
    assert reportage.week_of(text, MONDAY) == WEEK


def test_the_current_week_has_a_word() -> None:
    assert reportage.week_of("current", WEEK.end - timedelta(seconds=1)) == WEEK
    assert reportage.week_of("current", MONDAY) == WEEK


@pytest.mark.parametrize("text", ["2026-W60", "48", "yesterday", "2026-W", "-W3", "9999-W52"])
def test_what_is_no_week_is_refused(text: str) -> None:
    with pytest.raises(ReportError, match="is no week: write last, current, 2026-W48"):
        reportage.week_of(text, MONDAY)


@pytest.mark.parametrize("year", [1900, 2100])
def test_a_period_of_which_the_store_knows_nothing_is_refused(year: int) -> None:
    with pytest.raises(ReportError, match="after 2000 and before 2100"):
        Period(datetime(year, 1, 1, tzinfo=UTC), datetime(year, 1, 2, tzinfo=UTC))


def test_options_name_one_period() -> None:
    assert reportage.period(None, None, None) is None
    assert reportage.period("last", None, None) is None
    found = reportage.period(None, "2026-11-23T00:00", "2026-11-30T00:00")
    assert found == WEEK
    for given, words in (
        (("last", "1d", None), "--week names the whole period"),
        ((None, None, "now"), "--until needs --since"),
    ):
        with pytest.raises(ReportError, match=words):
            reportage.period(*given)


def test_the_last_week_is_the_last_whole_one() -> None:
    for now in (WEEK.end, WEEK.end + timedelta(days=6, hours=23)):
        assert last_week(now) == WEEK


def test_a_period_is_made_of_whole_hours() -> None:
    part = Period(MONDAY + timedelta(minutes=59), MONDAY + timedelta(hours=2, seconds=1))
    assert part.whole_hours() == Period(MONDAY, MONDAY + timedelta(hours=3))
    assert WEEK.whole_hours() == WEEK


def test_reports_are_called_by_what_they_are_of() -> None:
    assert name(Asked("fleet-weekly"), WEEK) == "fleet-weekly-2026-W48"
    assert name(Asked("captures"), Period(MONDAY, MONDAY + timedelta(hours=30))) == "captures-20261123T00-20261124T06"
    assert name(Asked("job", subject="4711"), WEEK) == "job-4711"
    assert name(Asked("job", WEEK, "4711"), WEEK) == "job-4711-2026-W48"
    told = [
        name(Asked("job", subject=subject), WEEK) for subject in ("../../etc", "a/b", "a_b", "a b", "..", "ü" * 300)
    ]
    assert len(set(told)) == len(told)
    assert not any("/" in each or each.startswith(".") or len(each) > 200 for each in told)


def test_periods_in_words() -> None:
    assert when(WEEK) == "week 48 of 2026 (23 Nov to 29 Nov 2026)"
    assert when(Period(MONDAY, MONDAY + timedelta(days=1))) == "23 Nov 2026"
    assert when(Period(MONDAY, MONDAY + timedelta(days=30))) == "23 Nov 2026 to 22 Dec 2026"
    assert when(Period(MONDAY, MONDAY + timedelta(hours=1))) == "2026-11-23 00:00 to 2026-11-23 01:00 UTC"
    assert part_of(1, WEEK, MONDAY + timedelta(hours=23, minutes=5), 4) == "in 1 of 24 hours, 4 min"
    assert part_of(3, WEEK, None) == "in 3 of 168 hours"
    assert some("abcde") == "a, b, c and 2 others"


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("wasted_share", 0.0421, "4.2 %"), ("gpu_util", None, ""), ("user", None, "not told"),
        ("energy_kwh", 1234.56, "1,234.6"),
        ("energy_cost", 1234.5, "1,234.50"), ("wasted_gpu_hours", 0.004, "0.004"), ("wasted_gpu_hours", 0, "0.0"),
        ("started_at", "2026-11-23 12:34:56.000", "2026-11-23 12:34"),
        ("starts_at", "2026-11-23 00:00:00", "2026-11-23"),
        ("rss_bytes", 1 << 30, "1 GiB"), ("step_p50_ns", 1_500_000, "1.5 ms"),
        ("duration_seconds", 90_061.0, "1 d 1 h"),
        ("hosts", ["a", "b", "c", "d", "e"], "a, b, c, d and 1 more"),
        ("launches", 12_345, "12,345"), ("heat_hours", 1, "1"), ("standing", True, "yes"),
    ],
)  # fmt: skip
def test_values_in_words(column: str, value: object, text: str) -> None:
    assert said(column, value) == text


def test_names_are_broken_within_a_word_only_where_it_is_endless() -> None:
    columns, names = ("name", "allocated_cost"), ("foundation-models of all", "x" * 90)
    table = Table("users", "Users", "", columns, tuple((each, 1.0) for each in names), ("String", "Float64"))
    html = page(Document("t", "s", "s", sections=(Section("By user", tables=(Shown(table, columns),)),)))
    cells = {name: html.split(f">{name}</td>")[0].rpartition("<td")[2] for name in names}
    assert ["anywhere" in cell for cell in cells.values()] == [False, True]


def test_columns_in_words() -> None:
    assert label("energy_cost", "EUR") == "Energy cost, EUR"
    assert label("temperature_celsius") == "Temperature, °C"
    assert label("silent_hours") == "Silent, h"
    told = {name: label(name) for name in ("fb_used_bytes", "rss_bytes", "gpu_memory_bytes", "held_back_hours")}
    assert list(told.values()) == ["GPU memory used", "RSS", "GPU memory", "Held back, in hours"]
    assert is_number("gpus", "UInt64")
    assert not is_number("xids", "Array(UInt32)")


def rendered(**more: object) -> Rendered:
    files = {"report.html": b"page", "tables/a.csv": b"x\n1\n"}
    found = Rendered(
        "captures",
        WEEK,
        "",
        "captures-2026-W48",
        "t",
        "s",
        (),
        (),
        (),
        "",
        "",
        (Inline("c", "n", "image/png", b""),),
        "",
        files,
    )
    return replace(found, **more)  # type: ignore[arg-type]


def test_a_report_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    write(rendered(), tmp_path)
    broken = rendered(files={"report.html": b"new", "report.html/below": b"a file is in the way"})
    with pytest.raises(FileExistsError, match="report"):
        write(broken, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [
        "captures-2026-W48"
    ]  # what was there is as it was, and nothing lies beside it
    assert (tmp_path / "captures-2026-W48/report.html").read_bytes() == b"page"
    write(rendered(files={"report.html": b"new"}), tmp_path)
    assert [each.name for each in (tmp_path / "captures-2026-W48").iterdir()] == ["report.html"]


def test_every_report_has_words_and_a_maker() -> None:
    from warpmeter.scheduler.reports.rendering import _MAKERS

    assert set(_MAKERS) == set(REPORTS)


def test_no_name_out_of_the_store_is_html_in_a_report() -> None:
    evil = "<script>alert(1)</script>'\"><img src=x onerror=alert(2)>"
    table = Table("t", evil, evil, ("host", "user"), ((evil, evil),), ("String", "String"))
    document = Document(
        evil, evil, evil, (Tile(evil, evil, evil),), (Finding("critical", evil, evil),),
        (Section(evil, evil, tables=(Shown(table, ("host", "user")),)),), (evil,),
    )  # fmt: skip
    for text in (page(document), mail(document, "stem")[0]):
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "&lt;script&gt;alert(1)" in text
