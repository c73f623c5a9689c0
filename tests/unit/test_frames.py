"""Frames without a store: what is asked, types, units and figures."""

from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from warpmeter.frames import AskError, asking, dtypes, grids, plots, unit, units
from warpmeter.frames.dtypes import Column
from warpmeter.frames.frames import _regrouped
from warpmeter.queries import Statement

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 1, 31, 12, tzinfo=BERLIN)


@pytest.mark.parametrize(
    "said",
    ["2026-01-31 12:00", "2026-01-31T11:00:00Z", datetime(2026, 1, 31, 12), pd.Timestamp("2026-01-31 11:00", tz="UTC"),
     NOON.timestamp()],
)  # fmt: skip
def test_times_without_an_offset_are_of_the_zone(said: Any) -> None:
    assert asking.moment(said, BERLIN) == NOON


def test_times_before_now_and_days_are_times() -> None:
    for said in ("-24h", timedelta(hours=24), pd.Timedelta(hours=24)):
        assert abs(asking.moment(said, UTC) - datetime.now(UTC) + timedelta(hours=24)) < timedelta(minutes=5)
    assert asking.moment(date(2026, 1, 31), BERLIN) == NOON - timedelta(hours=12)
    others: tuple[Any, ...] = ("yesterday", None, [], True, float("nan"), float("inf"), 1e300, "-1000000000d", pd.NaT)
    for none in others:
        with pytest.raises(AskError, match="is no time"):
            asking.moment(none, UTC)


@pytest.mark.parametrize(
    ("said", "meant"), [(300, 300), ("15m", 900), (timedelta(hours=1), 3600), ("1d", 86400), (60.0, 60)]
)
def test_steps_are_whole_seconds(said: Any, meant: int) -> None:
    assert asking.seconds(said) == meant


@pytest.mark.parametrize("said", [0, -1, 0.5, "x", "0.5s", None, True, "-5m"])
def test_what_is_no_step_is_refused(said: Any) -> None:
    with pytest.raises(AskError, match="is no step"):
        asking.seconds(said)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("", "not of nothing"),
        ("DROP TABLE x", "not of DROP"), ("INSERT INTO x VALUES (1)", "not of INSERT"),
        ("SELECT 1; SELECT 2", "several statements"), ("SELECT 1 INTO OUTFILE 'x'", "INTO OUTFILE"),
        ("SELECT 1 into /* */ outfile 'x'", "INTO OUTFILE"), ("SELECT 1 FORMAT JSON", "no FORMAT"),
        ("SELECT 'x", "no end"),
        ("'SELECT'", "not of"),
    ],
)  # fmt: skip
def test_what_does_not_read_one_thing_is_refused(sql: str, why: str) -> None:
    with pytest.raises(AskError, match=why):
        asking.reading(sql)


def test_a_statement_keeps_its_text() -> None:
    assert asking.reading("-- why\n SELECT ';', 'INTO OUTFILE' -- x\n ;") == "-- why\n SELECT ';', 'INTO OUTFILE'"


def test_parameters_are_held_against_the_statement() -> None:
    sql = "SELECT {a:String}, {b:Nullable(UInt8)}"
    assert asking.statement(sql, {"a": "x", "b": None}, UTC).values == {"a": "x", "b": None}
    for given, why in (
        ({"a": "x"}, "give b="), ({"a": None, "b": 1}, "a is None, which String cannot be"),
        ({"a": "", "b": 1, "c": 1}, "no parameter c; it has a, b"),
    ):  # fmt: skip
        with pytest.raises(AskError, match=why):
            asking.statement(sql, given, UTC)


def test_values_that_are_written_into_a_statement_stay_values() -> None:
    given = {"s": "it's \\ x", "n": None, "l": ["a'b", "c"], "i": "co`l"}
    sql = "SELECT {s:String}, {n:Nullable(UInt8)}, {l:Array(String)}, {i:Identifier}"
    expected = (
        r"SELECT CAST('it\'s \\ x', 'String'), CAST(NULL, 'Nullable(UInt8)'), "
        r"CAST(['a\'b', 'c'], 'Array(String)'), `co\`l`"
    )
    assert asking.inlined(Statement(sql, given)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        ("UInt8", [1, 2], "uint8"), ("Nullable(Int64)", [2**60 + 1, None], "Int64"),
        ("Float32", [1.5, None], "float32"),
        ("Nullable(Bool)", [True, None], "boolean"), ("LowCardinality(String)", ["a", "b"], "category"),
        ("LowCardinality(Nullable(String))", ["a", None], "category"), ("Nullable(String)", ["a", None], "string"),
        ("Enum8('a' = 1)", ["a"], "category"), ("SimpleAggregateFunction(max, UInt32)", [1], "uint32"),
        ("SimpleAggregateFunction(anyLast, String)", ["x"], "string"), ("Array(UInt8)", [[1], []], "object"),
        ("DateTime64(3, 'UTC')", ["2026-01-31 11:00:00.250", None], "datetime64[ms, Europe/Berlin]"),
        ("DateTime('UTC')", [], "datetime64[s, Europe/Berlin]"),
        ("Nullable(Date)", ["2026-01-31", None], "datetime64[s]"),
    ],
)  # fmt: skip
def test_columns_get_the_types_that_fit_them(kind: str, values: list[Any], dtype: str) -> None:
    found = Column("x", kind).typed(values, BERLIN)
    assert str(found.dtype) == dtype
    assert list(found.isna()) == [value is None for value in values]
    if values and dtype == "Int64":
        assert found[0] == 2**60 + 1


def test_a_name_tells_few_values_where_the_type_does_not() -> None:
    assert str(Column("state", "String").typed(["ok"], UTC).dtype) == "category"
    assert dtypes.frame([Column("a", "UInt8"), Column("a", "String")], [], UTC).dtypes.astype(str).tolist() == [
        "uint8",
        "string",
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("power_watts", "W"), ("gpu_util", "ratio 0-1"), ("gpu_hours", "h"), ("energy_kwh", "kWh"),
        ("bytes_per_s", "B/s"),
        ("late_ns", "ns"), ("wasted", "ratio 0-1"), ("host", ""), ("fb_used_bytes_max", "B"), ("processes", ""),
    ],
)  # fmt: skip
def test_a_name_tells_its_unit(name: str, told: str) -> None:
    assert units.of_name(name) == told
    assert unit(pd.Series([1.0], name=name)) == told


def test_blocks_are_cut_and_gathered() -> None:
    def blocks(*sizes: int) -> Any:
        start = 0
        for size in sizes:
            yield pd.DataFrame({"n": range(start, start + size)})
            start += size

    for sizes in ((3, 4, 5), (12,), (0, 12), (1,) * 12, ()):
        found = [pd.concat(each)["n"].tolist() for each in _regrouped(blocks(*sizes), 5)]
        assert [len(each) for each in found] == ([5, 5, 2] if sizes else [])
        assert list(chain(*found)) == list(range(sum(sizes)))


def test_a_window_has_a_step_that_suits_it() -> None:
    def steps(hours: float) -> int:
        return grids.window(NOON, NOON + timedelta(hours=hours), None).step_s

    assert [steps(hours) for hours in (1, 6, 24, 24 * 7, 24 * 90)] == [60, 120, 300, 3600, 43200]
    times = grids.window(NOON + timedelta(seconds=70), NOON + timedelta(seconds=130), 60).times(BERLIN)
    assert list(times) == [pd.Timestamp(NOON) + pd.Timedelta(minutes=minute) for minute in (1, 2)]


def heat(values: list[list[float]], **attrs: Any) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(
        [("ant", n, f"GPU-{n}") for n in range(len(values))], names=["host", "gpu", "uuid"]
    )
    times = pd.date_range("2026-01-31", periods=len(values[0]), freq="h", tz="UTC")
    found = pd.DataFrame(values, index=index, columns=times)
    found.attrs.update(attrs)
    return found


def test_a_heatmap_is_drawn_with_its_unit_from_0_to_1_and_unknown_in_grey() -> None:
    axes = plots.heatmap(heat([[0.5, np.nan]], metric="sm_active", unit="ratio 0-1", step_s=3600))
    (mesh,) = axes.collections
    assert mesh.get_clim() == (0, 1)
    assert np.ma.getmaskarray(np.ma.asarray(mesh.get_array())).tolist() == [[False, True]]
    assert axes.get_title() == "sm_active"
    assert axes.figure.axes[1].get_ylabel() == "sm_active"
    watts = plots.heatmap(heat([[1500.0, 10.0]], metric="power_watts", unit="W", step_s=3600))
    assert watts.figure.axes[1].get_ylabel() == "power_watts [W]"
    assert plots._scaled(1500.0) == "1.5 k"
    assert watts.figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[union-attr]
