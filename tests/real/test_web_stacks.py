"""What the API says of sampled stacks, held against what was sampled."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.stackworld import (
    DECODE,
    DECODE_TOO,
    HOSTS,
    JOB,
    LOAD,
    OLD_JOB,
    STEP,
    Stacks,
    landed,
    sampled,
)
from tests.web import visitor
from warpmeter.settings import Settings, Store
from warpmeter.stacks.span import HOURS, RAW, span
from warpmeter.store import Client
from warpmeter.web.api import stacks

pytestmark = pytest.mark.timeout(300)
Paths = dict[tuple[str, ...], int]


@pytest.fixture(scope="module")
def world(shared_tables: Client) -> Stacks:
    return landed(shared_tables)


@pytest.fixture(scope="module")
def site(embedded: Store, world: Stacks) -> Iterator[TestClient]:
    assert world
    with visitor(Settings(store=replace(embedded, database="shared"))) as client:
        yield client


def iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat()


def told(site: TestClient, path: str, expected: int = 200, /, **asked: Any) -> Any:
    """The body of an answer."""
    answer = site.get(f"/api/v1/stacks/{path}", params=asked)
    assert answer.status_code == expected, answer.text[:500]
    return answer.json()


def after(world: Stacks, **more: Any) -> dict[str, Any]:
    return {"since": iso(world.middle), "until": iso(world.until), **more}


def wrong(answer: Mapping[str, Any]) -> list[str]:
    """The fields that an error names."""
    return [each["loc"][-1] for each in answer["detail"]]


def paths(columns: Mapping[str, list[Any]], name: str = "value") -> Paths:
    """Nested rows by their paths below all; held to be a tree on the way."""
    found: Paths = {}
    path: list[str] = []
    rows = list(zip(columns["level"], columns["label"], columns[name], strict=True))
    assert all(second[0] <= first[0] + 1 for first, second in pairwise(rows))
    for level, label, value in rows:
        path[level:] = [label]
        assert tuple(path[1:]) not in found
        found[tuple(path[1:])] = value
    return found


def test_a_flame_graph_is_what_was_sampled(site: TestClient, world: Stacks) -> None:
    answer = told(site, "flame", **after(world, job=JOB))
    assert paths(answer["columns"]) == sampled(world, "after")
    assert (answer["tier"], answer["unit"], answer["since"]) == ("raw", "microseconds", iso(world.middle))
    assert answer["columns"]["label"][0] == "all"
    of_self = paths(answer["columns"], "self")
    assert sum(of_self.values()) == answer["columns"]["value"][0]
    stacks.Flame.model_validate(answer)


@pytest.mark.parametrize("asked", [{"rank": 1}, {"host": HOSTS[1]}, {"pid": 101}])
def test_it_is_of_what_is_asked(site: TestClient, world: Stacks, asked: dict[str, Any]) -> None:
    assert paths(told(site, "flame", **after(world, **asked))["columns"]) == sampled(world, "after", ranks=1)


@pytest.mark.parametrize(
    ("by", "parts"),
    [
        ("host", set(HOSTS)),
        ("rank", {"rank 0", "rank 1"}),
        ("process", {"python3"}),
        ("thread", {"MainThread", "QueueFeeder"}),
    ],
)
def test_parts_are_a_level_of_their_own(site: TestClient, world: Stacks, by: str, parts: set[str]) -> None:
    columns = told(site, "flame", **after(world, job=JOB, by=by))["columns"]
    assert {label for level, label in zip(columns["level"], columns["label"], strict=True) if level == 1} == parts
    assert columns["value"][0] == sampled(world, "after")[()]


def test_without_lines_a_function_is_one(site: TestClient, world: Stacks) -> None:
    with_lines = paths(told(site, "flame", **after(world, job=JOB))["columns"])
    without = paths(told(site, "flame", **after(world, job=JOB, lines=False))["columns"])
    decode = next(value for path, value in without.items() if path and path[-1] == "decode (data/images.py)")
    assert decode == sum(value for path, value in with_lines.items() if path and path[-1] in (DECODE, DECODE_TOO))


def test_top_functions_have_their_own_time_and_all_of_it(site: TestClient, world: Stacks) -> None:
    answer = told(site, "top", **after(world, job=JOB))
    columns = answer["columns"]
    rows = {name: tuple(columns[key][at] for key in ("self", "total")) for at, name in enumerate(columns["function"])}
    truth = sampled(world, "after")
    whole = truth[()]
    assert rows[DECODE] == (truth[("<module> (train.py:90)", "epoch (train.py:40)", LOAD, DECODE)],) * 2
    assert rows["<module> (train.py:90)"] == (0, whole)
    assert sum(columns["self"]) == whole
    assert columns["self"] == sorted(columns["self"], reverse=True)
    assert len(told(site, "top", **after(world, job=JOB, top=2))["columns"]["function"]) == 2
    stacks.Top.model_validate(answer)


def test_a_function_has_a_share_at_every_minute(site: TestClient, world: Stacks) -> None:
    asked = {"since": iso(world.since), "until": iso(world.until), "job": JOB}
    answer = told(site, "share", function="decode (", **asked)
    columns = answer["columns"]
    assert answer["step_s"] == 60
    assert len(columns["start"]) == (world.until - world.since) // 60
    shares = dict(zip(columns["start"], columns["share"], strict=True))
    assert shares[iso(world.since).replace("+00:00", "Z")] == pytest.approx(30 / 200)
    assert shares[iso(world.until - 60).replace("+00:00", "Z")] == pytest.approx(60 / 200)
    stacks.Share.model_validate(answer)


def test_a_difference_is_against_the_window_before(site: TestClient, world: Stacks) -> None:
    answer = told(site, "diff", **after(world, job=JOB))
    columns = answer["columns"]
    assert answer["base_since"] == iso(2 * world.middle - world.until)
    assert paths(columns) | sampled(world, "after") == paths(columns)
    at = columns["label"].index(STEP)
    assert (columns["share"][at], columns["base_share"][at]) == (pytest.approx(0.15), pytest.approx(0.35))
    new = next(at for at, label in enumerate(columns["label"]) if label.startswith("operator<"))
    assert (columns["base"][new], columns["base_share"][new]) == (0, 0)
    stacks.Diff.model_validate(answer)


@pytest.mark.parametrize("by", ["rank", "thread"])
def test_a_difference_has_parts_as_well(site: TestClient, world: Stacks, by: str) -> None:
    asked = after(world, job=JOB, by=by)
    both, now = told(site, "diff", **asked)["columns"], told(site, "flame", **asked)["columns"]
    assert paths(both) | paths(now) == paths(both)
    assert paths(both, "base")[()] == sampled(world, "before")[()] * 2 // 3  # an hour of an hour and a half


def test_a_difference_is_against_another_job_at_its_time(site: TestClient, world: Stacks) -> None:
    answer = told(site, "diff", **after(world, job=JOB, source="py-spy", base_job=OLD_JOB))
    assert answer["base_since"] == iso(world.since)
    columns = answer["columns"]
    assert columns["base"][0] == 900_000
    assert columns["base_share"][columns["label"].index(STEP)] == 1
    other = told(site, "diff", **after(world, job=JOB, base_since=iso(world.since), base_until=iso(world.middle)))
    assert other["columns"]["base"][0] == sampled(world, "before")[()]


def test_what_there_is_to_choose_from(site: TestClient, world: Stacks) -> None:
    answer = told(site, "seen", since=iso(world.since), until=iso(world.until))
    columns = answer["columns"]
    assert columns["source"] == ["py-spy", "perf", "import"]
    assert columns["unit"] == ["microseconds", "microseconds", "bytes"]
    assert columns["ranks"][0] == [0, 1]
    assert columns["hosts"][0] == 2
    short = told(site, "seen", since=iso(world.since + 60), until=iso(world.since + 120))["columns"]
    assert short["source"] == ["py-spy"]  # the others were taken a minute before, in the same hour
    stacks.Seen.model_validate(answer)


def test_a_long_window_is_read_from_whole_hours(site: TestClient, world: Stacks) -> None:
    answer = told(site, "flame", since=iso(world.until - 7 * 3600), until=iso(world.until), job=JOB)
    assert answer["tier"] == "hour"
    assert datetime.fromisoformat(answer["since"]).minute == 0
    total = sampled(world, "before")[()] + sampled(world, "after")[()]
    assert answer["columns"]["value"][0] == total
    threads = told(site, "flame", since=iso(world.until - 7 * 3600), until=iso(world.until), job=JOB, by="thread")
    assert threads["tier"] == "raw"
    assert threads["columns"]["value"][0] == total


def test_a_window_says_where_it_is_read() -> None:
    at = [datetime(2026, 1, 1, hour, minute, tzinfo=UTC) for hour, minute in ((1, 30), (2, 30), (9, 10))]
    assert span(at[0], at[1], at[0]).windows == RAW
    assert span(at[0], at[1], at[1]).windows == HOURS
    long = span(at[0], at[2], at[0])
    assert (long.windows, long.since.hour, long.until.hour) == (HOURS, 1, 10)
    assert span(at[0], at[2], at[1], exact=True).windows == RAW


def test_units_are_not_added_up(site: TestClient, world: Stacks) -> None:
    asked = {"since": iso(world.since), "until": iso(world.until), "job": OLD_JOB}
    assert told(site, "flame", unit="bytes", **asked)["columns"]["value"][0] == 4096
    assert told(site, "flame", source="perf", **asked)["columns"]["value"][0] == 100_000


def test_sources_are_not_added_up(site: TestClient, world: Stacks) -> None:
    """Two that sampled the same would count a moment twice: an answer is of one, and says of which."""
    asked = {"since": iso(world.since), "until": iso(world.until), "job": OLD_JOB}
    for path, more in (("flame", {}), ("top", {}), ("share", {"function": "("}), ("diff", {})):
        answer = told(site, path, **asked, **more)
        name = {"top": "self", "share": "all"}.get(path, "value")
        assert answer["source"] == "py-spy"
        total = answer["columns"][name]
        assert (sum(total) if path in ("top", "share") else total[0]) == 900_000
    assert told(site, "flame", unit="bytes", **asked)["source"] == "import"
    later = {"since": iso(world.middle), "until": iso(world.until), "job": OLD_JOB}
    answer = told(site, "diff", **later, base_since=iso(world.since), base_until=iso(world.middle))
    assert (answer["source"], answer["columns"]["value"][0], answer["columns"]["base"][0]) == ("py-spy", 0, 900_000)
    assert told(site, "flame", since="-3d", until="-2d", job=OLD_JOB)["source"] == ""


def test_nothing_sampled_is_an_empty_answer(site: TestClient) -> None:
    for path in ("flame", "top", "diff", "seen"):
        columns = told(site, path, since="-3d", until="-2d", job=JOB)["columns"]
        assert not any(columns.values())


def test_what_nobody_has_heard_of_is_not_there(site: TestClient) -> None:
    for path in ("flame", "top", "diff", "seen"):
        assert wrong(told(site, path, 404, job="nobody")) == ["job"]
        assert wrong(told(site, path, 404, host="nowhere")) == ["host"]
    assert wrong(told(site, "share", 404, job="nobody", function="f")) == ["job"]
    assert wrong(told(site, "diff", 404, job=JOB, base_job="nobody")) == ["base_job"]
    assert wrong(told(site, "diff", 404, job=JOB, base_host="nowhere", since="-3d", until="-2d")) == ["base_host"]


@pytest.mark.parametrize(
    ("path", "asked", "field"),
    [
        ("flame", {"since": "yesterday"}, "since"),
        ("flame", {"rank": -1}, "rank"),
        ("flame", {"by": "colour"}, "by"),
        ("flame", {"least": 2}, "least"),
        ("flame", {"pid": 7, "since": "-60d"}, "pid"),
        ("flame", {"by": "thread", "since": "-60d"}, "by"),
        ("flame", {"unit": "hours"}, "unit"),
        ("top", {"top": 0}, "top"),
        ("share", {}, "function"),
        ("diff", {"base_since": "then"}, "base_since"),
        ("diff", {"base_since": "-1h", "base_until": "-2h"}, "base_until"),
        ("diff", {"pid": 7, "base_since": "-60d"}, "base_since"),
        ("diff", {"by": "thread", "base_since": "-60d"}, "base_since"),
    ],
)
def test_an_error_names_the_field(site: TestClient, path: str, asked: dict[str, Any], field: str) -> None:
    assert wrong(told(site, path, 422, **asked)) == [field]


def test_a_window_of_the_past_is_not_sent_twice(site: TestClient, world: Stacks) -> None:
    asked = {"since": iso(world.since), "until": iso(world.middle), "job": JOB}
    first = site.get("/api/v1/stacks/flame", params=asked)
    again = site.get("/api/v1/stacks/flame", params=asked, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_description_has_examples(site: TestClient) -> None:
    spec = json.loads(site.get("/api/v1/openapi.json").content)
    for path in ("flame", "top", "share", "diff", "seen"):
        answer = spec["paths"][f"/api/v1/stacks/{path}"]["get"]["responses"]["200"]["content"]["application/json"]
        name = answer["schema"]["$ref"].rsplit("/", 1)[1]
        columns = spec["components"]["schemas"][name]["properties"]["columns"]["$ref"].rsplit("/", 1)[1]
        assert any("examples" in each for each in spec["components"]["schemas"][columns]["properties"].values())


def test_grafana_can_draw_it(shared_tables: Client, world: Stacks) -> None:
    """Its flame graph panel wants `level`, `value` and `self` as numbers, `label` as text, depth first."""
    from warpmeter import queries

    asked = queries.get("stack_flame").statement({"since": iso(world.middle), "until": iso(world.until)})
    result = shared_tables.query(asked.sql, dict(asked.values))
    types = dict(zip(result.column_names, (each.name for each in result.column_types), strict=True))
    assert list(types) == ["level", "label", "value", "self"]
    assert types["label"] == "String"
    assert all(types[name].removeprefix("U").startswith("Int") for name in ("level", "value", "self"))


def test_a_named_query_says_which_value_is_none(site: TestClient) -> None:
    for name, value in (("least", "abc"), ("least", ""), ("rank", "x"), ("pid", "-1"), ("windows", "nonsense")):
        answer = site.get("/api/v1/queries/stack_flame", params={name: value})
        assert answer.status_code == 422, answer.text
        assert wrong(answer.json()) == [name if name != "windows" else "query"]
