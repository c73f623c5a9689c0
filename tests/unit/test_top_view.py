"""What of a list is shown: order, filter, and the chosen row while data change."""

from typing import Any

import pytest

from warpmeter.top.lists import GPUS, HOSTS, JOBS, RANKS, Column, Kind, Place
from warpmeter.top.source import Rows
from warpmeter.top.view import Table, View, asked, table

COLUMNS = ("host", "gpu", "uuid", "status", "gpu_util", "power_watts", "fb_used_bytes", "idle_s", "job_id", "total")


def gpu(host: str, number: int, util: float | None, status: str = "busy", **other: Any) -> list[Any]:
    found = {"host": host, "gpu": number, "uuid": f"GPU-{host}-{number}", "status": status, "gpu_util": util, **other}
    return [found.get(name) for name in COLUMNS]


def of(*rows: list[Any], total: int | None = None) -> Table:
    for row in rows:
        row[COLUMNS.index("total")] = len(rows) if total is None else total
    return table(GPUS, Rows(COLUMNS, rows))


def hosts_of(view: View) -> list[str]:
    return [f"{view.table.rows[at][0]}/{view.table.rows[at][1]}" for at in view.order]


ANT, BEE, COW = gpu("ant", 0, 0.5), gpu("bee", 0, 0.9), gpu("cow", 0, None)


def test_what_is_not_known_comes_last_either_way_and_equals_stay_as_they_came() -> None:
    view = View(GPUS)
    view.show(of(ANT, COW, BEE, gpu("dog", 0, 0.5)))
    view.sort_by("gpu_util")
    assert view.descending
    assert hosts_of(view) == ["bee/0", "ant/0", "dog/0", "cow/0"]
    view.sort_by("gpu_util")
    assert hosts_of(view) == ["ant/0", "dog/0", "bee/0", "cow/0"]
    view.sort_by("host")
    assert hosts_of(view) == ["ant/0", "bee/0", "cow/0", "dog/0"]


def test_the_first_row_is_chosen_until_somebody_moves_and_then_the_same_one_wherever_it_goes() -> None:
    view = View(GPUS, sort="gpu_util", descending=True, height=10)
    view.show(of(ANT, BEE))
    assert view.row["host"] == "bee"
    view.show(of(gpu("ant", 0, 0.95), BEE))
    assert view.row["host"] == "ant"  # nobody has moved
    view.choose(1)
    assert view.row["host"] == "bee"
    view.show(of(gpu("ant", 0, 0.1), BEE, gpu("cow", 0, 0.2)))
    assert (view.row["host"], view.at) == ("bee", 0)
    view.choose(0)
    view.show(of(gpu("ant", 0, 1.0), BEE))
    assert view.row["host"] == "ant"  # the first row lets go


def test_the_chosen_row_keeps_its_line_when_others_come_before_it() -> None:
    view = View(GPUS, height=5)
    view.show(of(*(gpu(f"h{number:02}", 0, 0.5) for number in range(20, 60))))
    view.choose(10)
    view.scroll(3)
    line = view.at - view.top
    view.show(of(*(gpu(f"h{number:02}", 0, 0.5) for number in range(60))))
    assert (view.row["host"], view.at - view.top) == ("h30", line)


def test_when_the_chosen_row_is_gone_the_one_in_its_place_is_chosen() -> None:
    view = View(GPUS)
    view.show(of(ANT, BEE, COW))
    view.choose(1)
    view.show(of(ANT, COW))
    assert view.row["host"] == "cow"
    view.show(of())
    assert (view.row, view.at, view.top) == ({}, 0, 0)
    view.show(of(ANT, BEE))
    assert view.row["host"] == "ant"


def test_a_row_is_seen_wherever_it_is_chosen_and_however_few_lines_there_are() -> None:
    view = View(GPUS, height=7)
    view.show(of(*(gpu(f"h{number:04}", 0, 0.5) for number in range(1000))))
    for at, height in ((999, 7), (500, 3), (0, 1), (7, 40), (10**9, 2), (-5, 2)):
        view.resize(height)
        view.choose(at)
        assert view.top <= view.at < view.top + view.height
        assert 0 <= view.top <= len(view.order)
    view.scroll(500)
    assert view.top <= view.at < view.top + view.height


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["ant/0", "ant/1", "bee/0", "cow/0"]),
        ("ANT", ["ant/0", "ant/1"]),
        ("ant idle", ["ant/1"]),
        ("util<5", ["ant/1"]),
        ("gpu_util<=90 job-7", ["bee/0"]),
        ("power>=550", ["bee/0"]),
        ("mem>40Gi", ["ant/0"]),
        ("idle>60", ["ant/1"]),
        ("util>0.05", ["ant/0", "ant/1", "bee/0"]),
        ("nope<5", []),
        ("util<", []),
        ("zebra", []),
    ],
)
def test_a_filter_is_words_and_comparisons(text: str, expected: list[str]) -> None:
    view = View(GPUS)
    view.show(
        of(
            gpu("ant", 0, 0.5, power_watts=300.0, fb_used_bytes=50 * 2**30, job_id="job-1"),
            gpu("ant", 1, 0.01, "idle", power_watts=80.0, fb_used_bytes=2**30, idle_s=120),
            gpu("bee", 0, 0.9, power_watts=550.0, fb_used_bytes=30 * 2**30, job_id="job-7"),
            gpu("cow", 0, None, "gone"),
        )
    )
    view.filter_by(text)
    assert hosts_of(view) == expected


def test_a_filter_holds_over_new_data_and_follows_the_chosen_row() -> None:
    view = View(GPUS, text="busy")
    view.show(of(ANT, BEE, gpu("cow", 0, 0.0, "idle")))
    view.choose(1)
    view.show(of(gpu("aaa", 0, 0.1), ANT, BEE))
    assert view.row["host"] == "bee"
    view.filter_by("zzz")
    view.filter_by("")
    assert len(view.order) == 3


def test_the_source_sorts_and_searches_what_it_has_too_many_of_until_it_is_known_to_have_fewer() -> None:
    view = View(GPUS, sort="power_watts", descending=True)
    view.show(of(ANT, BEE))
    view.filter_by("ant util<5")
    assert view.question() == {}
    view.show(of(ANT, BEE, total=80_000))
    assert view.question() == {"sort": "power_watts", "descending": "1", "search": "ant"}
    view.show(of(ANT), searched=True)
    assert view.question()["search"] == "ant"  # all that fit were read, but not all there are
    view.filter_by("")
    view.show(of(ANT, BEE))
    assert view.question() == {}
    ranks = View(RANKS)
    ranks.show(Table(RANKS, total=5))
    assert ranks.question() == {}


def test_the_order_goes_through_all_columns_and_around() -> None:
    view = View(HOSTS)
    seen = []
    for _ in HOSTS.columns:
        seen.append(view.sort)
        view.sort_next(1)
    assert seen == [column.name for column in HOSTS.columns]
    assert view.sort == "host"
    view.sort_next(-1)
    assert view.sort == "problems"


def test_places_ask_for_themselves_and_comparisons_need_a_number() -> None:
    assert Place().given == {}
    assert Place("host", "ant").given == {"host": "ant"}
    assert Place("job", "7").given == {"job_id": "7"}
    assert asked("util<x power>1.2.3 user<5", JOBS).compared == ()
    assert asked("power>1k", JOBS).compared == (("power_watts", ">", 1000.0),)
    assert Column("a", "A long title", Kind.COUNT).cells == 13
