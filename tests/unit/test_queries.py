"""Named queries: their headers are read, their parameters resolved, and bad ones refused with what to do."""

import pytest

from warpmeter import queries
from warpmeter.cli.asking import shown
from warpmeter.queries import Parameter, QueryError

TEXT = """-- Who is it? More words
-- on another line.
-- @since -24h  start of the window
-- @host -  the host
SELECT {host:String}, {since:DateTime('UTC')};
"""
NOON = 1_800_000_000.0


class At:
    """A clock that stands still."""

    def now(self) -> float:
        return NOON

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def test_a_header_says_what_it_is() -> None:
    query = queries.parse("who", TEXT)
    assert query.question == "Who is it?"
    assert query.description == "Who is it? More words on another line."
    assert query.parameters == (
        Parameter("since", "DateTime('UTC')", "-24h", "start of the window"),
        Parameter("host", "String", None, "the host"),
    )
    assert query.sql == "SELECT {host:String}, {since:DateTime('UTC')}"


def test_defaults_are_filled_in_and_times_resolved() -> None:
    values = queries.parse("who", TEXT).statement({"host": "-24h"}, At()).values
    assert values == {"since": "2027-01-14 08:00:00", "host": "-24h"}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("now", "2027-01-15 08:00:00"),
        ("-90s", "2027-01-15 07:58:30"),
        ("-1.5h", "2027-01-15 06:30:00"),
        ("-1w", "2027-01-08 08:00:00"),
        ("2026-11-29T12:00:00+02:00", "2026-11-29 10:00:00"),
        ("2026-11-29 12:00:00", "2026-11-29 12:00:00"),
        ("2026-11-29", "2026-11-29 00:00:00"),
    ],
)
def test_times_are_taken_as_people_say_them(said: str, meant: str) -> None:
    assert queries.parse("who", TEXT).statement({"host": "h", "since": said}, At()).values["since"] == meant


def test_what_is_missing_unknown_or_no_time_is_refused() -> None:
    query = queries.parse("who", TEXT)
    with pytest.raises(QueryError, match=r"who needs host \(the host\)"):
        query.statement({})
    with pytest.raises(QueryError, match="no parameter hots; it has since = -24h, host"):
        query.statement({"hots": "h"})
    with pytest.raises(QueryError, match="'yesterday' is no time: write now"):
        query.statement({"host": "h", "since": "yesterday"})
    with pytest.raises(QueryError, match="'-9999999d' is no time: it lies before all calendars"):
        query.statement({"host": "h", "since": "-9999999d"})
    with pytest.raises(QueryError, match=r"there is no query nonsense; there are .*fleet_overview"):
        queries.get("nonsense")


@pytest.mark.parametrize("text", ["-- Who?\nSELECT {a:String}", "SELECT 1", "-- Who?\n-- @a -  it\nSELECT 1"])
def test_a_header_that_does_not_fit_its_sql_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match=r"sql/queries/x.sql"):
        queries.parse("x", text)


def test_every_shipped_query_asks_a_question() -> None:
    assert len(queries.names()) >= 12
    for query in queries.every():
        assert query.question.endswith("?"), query.name
        assert all(parameter.meaning for parameter in query.parameters)


def test_what_follows_from_a_metric_is_filled_in() -> None:
    text = "-- How much?\n-- @metric power_watts  which\nSELECT {metric_sum:Identifier} * {metric_factor:Float64}"
    query = queries.parse("much", text)
    assert [parameter.name for parameter in query.parameters] == ["metric"]
    assert query.statement({}).values == {
        "metric": "power_watts",
        "metric_column": "power_deciwatts",
        "metric_sum": "power_deciwatts_sum",
        "metric_count": "power_deciwatts_count",
        "metric_factor": "0.1",
        "metric_decimals": "3",
        "metric_stored_decimals": "1",
    }
    with pytest.raises(QueryError, match=r"GPUs have no metric watts; they have gpu_util, .*power_watts"):
        query.statement({"metric": "watts"})


MANY = """-- How much of each?
-- @metric power_watts  which, or several
SELECT [
    ({metric:String}, sum({metric_sum:Identifier}))  -- each metric
]"""


def test_several_metrics_are_one_query_with_a_line_for_each() -> None:
    query = queries.parse("many", MANY)
    assert query.statement({"metric": "gpu_util"}).sql == query.sql
    both = query.statement({"metric": "gpu_util,power_watts"})
    assert both.sql.splitlines()[1:3] == [
        "    ({metric_0:String}, sum({metric_sum_0:Identifier})),",
        "    ({metric_1:String}, sum({metric_sum_1:Identifier}))",
    ]
    assert both.values["metric"] == "gpu_util,power_watts"
    assert {name: value for name, value in both.values.items() if name != "metric"} == {
        "metric_0": "gpu_util", "metric_sum_0": "gpu_util_permille_sum",
        "metric_1": "power_watts", "metric_sum_1": "power_deciwatts_sum",
    }  # fmt: skip
    with pytest.raises(QueryError, match="GPUs have no metric watts"):
        query.statement({"metric": "gpu_util,watts"})
    with pytest.raises(QueryError, match="hottest takes one metric at a time"):
        queries.parse("hottest", MANY.replace("  -- each metric", "")).statement({"metric": "gpu_util,power_watts"})


def test_a_query_for_several_metrics_names_them_in_no_other_line() -> None:
    several = [query for query in queries.every() if query.many]
    assert len(several) >= 4
    for query in several:
        (line,) = [line for line in query.sql.splitlines() if line.endswith(queries.EACH)]
        named = [name for name in ("metric", *queries.METRICS) if f"{{{name}" in query.sql.replace(line, "")]
        assert (query.name, named) == (query.name, [])


def test_a_query_is_shown_with_each_value_that_it_takes() -> None:
    told = shown(queries.get("series_host"), {"host_metric": "cpu_util", "since": "2026-01-01 00:00:00"}).splitlines()
    assert {"-- param_since=2026-01-01 00:00:00", "-- param_metric_sum=cpu_util_permille_sum"} < set(told)
    assert "\n".join(told).endswith(queries.get("series_host").sql)


def test_a_query_that_is_not_given_what_it_needs_is_shown_without_values() -> None:
    assert "param_" not in shown(queries.get("job_ranks"), {})
