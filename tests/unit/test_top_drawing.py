"""How the list looks: widths, what is cut, colours by state, and that nothing there steers the terminal."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from warpmeter.top import drawing, units
from warpmeter.top.asking import Refresh, Wish
from warpmeter.top.lists import GPUS, HOSTS, JOBS, TABS, Kind, Place, words
from warpmeter.top.source import Rows
from warpmeter.top.view import View, table


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, Kind.WATTS, ""),
        (0, Kind.COUNT, "0"),
        (0.0049, Kind.RATIO, "0%"),
        (1, Kind.RATIO, "100%"),
        (550.4, Kind.WATTS, "550 W"),
        (4400, Kind.WATTS, "4.40 kW"),
        (5_510_000, Kind.WATTS, "5.51 MW"),
        (999.6, Kind.WATTS, "1.00 kW"),
        (62_914_560_000, Kind.BYTES, "58.6 GiB"),
        (12, Kind.BYTES, "12 B"),
        (1.25e9, Kind.RATE, "1.25 GB/s"),
        (62, Kind.CELSIUS, "62°"),
        (59, Kind.SPAN, "59s"),
        (185, Kind.SPAN, "3m 5s"),
        (90_000, Kind.SPAN, "1d 1h"),
        (9.996, Kind.NUMBER, "10.0"),
        (["gpu_util", "power_watts"], Kind.TEXT, "gpu_util, power_watts"),
        ("7", Kind.COUNT, "7"),
    ],
)
def test_values_are_short_and_have_their_unit(value: Any, kind: Kind, expected: str) -> None:
    assert words(value, kind) == expected


def test_bars_and_sparks_show_nothing_for_what_is_not_known() -> None:
    assert units.spark([0.0, None, 0.5, 1.0], 10, 1.0) == "▁ ▅█"
    assert units.spark([1.0, 2.0, 4.0], 2) == "▅█"
    assert units.spark([], 5) == units.spark([1.0], 0) == ""
    assert units.bar(0.5, 4) == "██  "
    assert units.bar(2.0, 3) == "███"
    assert units.bar(0.0, 3) == "   "


NAMES = st.text(max_size=60) | st.sampled_from(
    ["gpu\x1b[31m", "tränen", "日本語のホスト名" * 4, "a\nb", "\u202eabc", "e\u0301"]
)


@settings(max_examples=30)
@given(name=NAMES, width=st.integers(1, 260), skipped=st.integers(0, 20), tab=st.sampled_from((HOSTS, GPUS, JOBS)))
def test_a_row_is_never_wider_than_the_terminal_and_steers_nothing(
    name: str, width: int, skipped: int, tab: Any
) -> None:
    row = [name if column.kind in (Kind.TEXT, Kind.STATE) else 1e15 for column in tab.columns]
    found = table(tab, Rows(tuple(column.name for column in tab.columns), [row]))
    view = View(tab)
    placed = drawing.layout(found, width, skipped)
    line, head = drawing.row_line(found, row, placed), drawing.heading(view, placed)
    cells = [sum(cell_len(text) for text, _ in each) for each in (line, head)]
    assert cells == [sum(each.width + 1 for each in placed)] * 2
    assert cells[0] <= width + 1
    assert all(text.isprintable() for text, _ in line)


def test_a_narrow_terminal_keeps_the_name_and_scrolls_to_all_other_columns() -> None:
    found = table(GPUS, Rows(tuple(column.name for column in GPUS.columns), []))
    seen = set()
    for skipped in range(len(GPUS.columns)):
        placed = drawing.layout(found, 40, skipped)
        assert placed[0].column.name == "host"
        seen |= {each.column.name for each in placed}
    assert seen == {column.name for column in GPUS.columns}


def styles(**values: Any) -> dict[str, str]:
    row = [values.get(column.name) for column in GPUS.columns]
    found = table(GPUS, Rows(tuple(column.name for column in GPUS.columns), [row]))
    placed = drawing.layout(found, 300)
    return {
        each.column.name: style for each, (_, style) in zip(placed, drawing.row_line(found, row, placed), strict=True)
    }


def test_what_idles_fails_or_is_gone_stands_out() -> None:
    failing = styles(host="a", status="failing", problems="XID 79", gpu_util=0.5)
    assert (failing["host"], failing["status"], failing["problems"]) == ("bad", "bad", "bad")
    idle = styles(host="a", status="idle", gpu_util=0.01, idle_s=60)
    assert (idle["host"], idle["status"], idle["gpu_util"], idle["idle_s"]) == ("bold", "idle", "idle", "idle")
    gone = styles(host="a", status="gone", gpu_util=0.5, problems="GPU is lost")
    assert (gone["host"], gone["status"], gone["gpu_util"]) == ("gone", "gone", "dim")
    hot = styles(host="a", status="busy", temperature_celsius=90)
    assert (hot["status"], hot["temperature_celsius"]) == ("good", "bad")


def test_the_head_flows_and_leaves_out_what_has_no_room() -> None:
    fleet = {"hosts_ok": 7, "gpus_busy": 50, "gpus_failing": 1, "jobs_running": 3, "gpu_util": 0.8, "power_watts": 5e6}
    refresh = Refresh(
        Wish(Place(), HOSTS), table(HOSTS, Rows()), fleet, {"critical": 2, "warning": 0}, {}, {"gpu_util": [0.5]}
    )
    groups = drawing.totals(refresh)
    said = ["".join(text for text, _ in group) for group in groups]
    assert said == ["Hosts 7  7 ok", "GPUs 51  50 busy  1 failing", "Jobs 3  3 running", "Alerts 2  2 critical"]
    assert len(drawing.flowed(groups, 200, 2)) == 1
    assert len(drawing.flowed(groups, 45, 9)) == 2
    assert len(drawing.flowed(groups, 10, 2)) == 2
    shown = ["".join(text for text, _ in group) for group in drawing.sparks(refresh, 200)]
    assert shown == ["GPU util ▅ 80%", "Power 5.00 MW"]
    without = Refresh(Wish(Place(), HOSTS), table(HOSTS, Rows()), fleet, None)
    assert not any("Alerts" in group[0][0] for group in drawing.totals(without))
    assert drawing.totals(Refresh(Wish(Place(), HOSTS), table(HOSTS, Rows()))) == []


def test_a_place_says_what_it_is_or_that_nothing_is_heard_of_it() -> None:
    said = drawing.about(Place("host", "ant"), {"state": "failing", "gpus": 8, "cpu_util": None, "problems": "XID 79"})
    assert ["".join(text for text, _ in group) for group in said] == ["State failing", "GPUs 8", "Problems XID 79"]
    assert drawing.about(Place(), {}) == []
    ((text, style),) = drawing.about(Place("job", "7\x1b"), {})[0]
    assert "7\N{REPLACEMENT CHARACTER}" in text
    assert style == "idle"


def test_every_column_of_every_place_has_a_query_of_its_own_names() -> None:
    for listings in TABS.values():
        for listing in listings:
            assert listing.column(listing.sort) is not None
            assert len({column.name for column in listing.columns}) == len(listing.columns)
