"""The timeline by the API: rectangles against brute force, the same at every zoom; search, ranges, links of events."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.captures import columns
from tests.timelines import landed, linked, random
from tests.web import visitor
from warpmeter import landing
from warpmeter.landing import RANKS, Process
from warpmeter.settings import Settings, Store
from warpmeter.store import Client
from warpmeter.web.traces import timelines

pytestmark = pytest.mark.timeout(600)

Row = dict[str, Any]
MANY = 60_000


@pytest.fixture(scope="module")
def world(shared_tables: Client, embedded: Store, tmp_path_factory: pytest.TempPathFactory) -> Client:
    folder, store = tmp_path_factory.mktemp("traces"), replace(embedded, database="shared")
    landed(shared_tables, store, "random/1", [random(seed).write(folder / f"{seed}.json") for seed in (1, 2)])
    landed(shared_tables, store, "linked", [linked().write(folder / "linked.json")])
    _many(shared_tables, store)
    return shared_tables


def _many(client: Client, store: Store) -> None:
    """Lanes and depths without end: more rectangles than an answer holds."""
    load = landing.begin(client, "many")
    events = {
        "kind": ["operator"] * MANY, "thread": ["1/1"] * MANY, "lane": [at % 10 for at in range(MANY)],
        "depth": [at // 10 % 10 for at in range(MANY)], "start_ns": [at // 100 * 1_000 for at in range(MANY)],
        "duration_ns": [700] * MANY, "name": [f"n{at % 7}" for at in range(MANY)],
    }  # fmt: skip
    tables: landing.Tables = {RANKS: [columns([{"file": "many.json"}])], "trace_timeline": [events]}
    put = landing.put(client, store, load, Process(0, "ant", True, None), tables)
    landing.publish(client, store, load, [put], lambda _: None)


@pytest.fixture(scope="module")
def site(embedded: Store, world: Client) -> Iterator[TestClient]:
    assert world
    with visitor(Settings(store=replace(embedded, database="shared"))) as client:
        yield client


def told(site: TestClient, capture: str, what: str = "", status: int = 200, **asked: Any) -> Any:
    answer = site.get(f"/api/v1/traces/{capture}/timeline{what}", params=asked)
    assert answer.status_code == status, answer.text[:500]
    return answer.json()


def rows(found: Mapping[str, list[Any]]) -> list[Row]:
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


def stored(client: Client, capture: str, rank: int = 0) -> list[Row]:
    sql = "SELECT lane, depth, start_ns, duration_ns, name FROM trace_timeline WHERE capture_id = {c:String}"
    return list(client.query(f"{sql} AND rank = {{r:UInt32}}", {"c": capture, "r": rank}).named_results())


def drawn(events: list[Row], since: int, until: int, bucket: int) -> list[tuple[int, ...]]:
    """What should be drawn, by the definition: lane, depth, start, duration, busy, count."""
    parts: dict[tuple[int, int, int, int], list[Row]] = defaultdict(list)
    for each in events:
        start, length = each["start_ns"], each["duration_ns"]
        if length >= bucket and start < until and start + length >= since:
            parts[each["lane"], each["depth"], 1, start].append(each)
        elif length < bucket and since <= start < until:
            parts[each["lane"], each["depth"], 0, start // bucket].append(each)
    found = []
    for (lane, depth, *_), those in parts.items():
        first = min(each["start_ns"] for each in those)
        last = max(each["start_ns"] + each["duration_ns"] for each in those)
        found.append((lane, depth, first, last - first, sum(each["duration_ns"] for each in those), len(those)))
    return sorted(found)


def test_rectangles_are_those_of_the_definition(site: TestClient, world: Client) -> None:
    rng = Random(7)
    for rank in (0, 1):
        events = stored(world, "random/1", rank)
        end = max(each["start_ns"] + each["duration_ns"] for each in events)
        for _ in range(6):
            since = rng.randrange(end)
            until = min(end, since + rng.choice((3_000, 200_000, 5_000_000, end)))
            width = rng.choice((50, 400, 1024))
            answer = told(site, "random/1", rank=rank, since_ns=since, until_ns=until, width=width)
            found = rows(answer["events"])
            assert len(found) == answer["count"]
            figures = ("lane", "depth", "start_ns", "duration_ns", "busy_ns", "count")
            assert sorted(tuple(each[name] for name in figures) for each in found) == drawn(
                events, since, until, answer["bucket_ns"]
            )


def test_the_name_of_a_rectangle_is_that_of_most_of_its_time(site: TestClient, world: Client) -> None:
    names = {each["id"]: each["name"] for each in rows(told(site, "random/1", "/lanes")["names"])}
    events = stored(world, "random/1")
    end = max(each["start_ns"] for each in events)
    answer = told(site, "random/1", until_ns=end, width=40)
    checked = 0
    of: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for event in events:
        of[event["lane"], event["depth"]].append(event)
    for each in rows(answer["events"]):
        if each["count"] == 1 or each["duration_ns"] == 0:
            continue
        took: Counter[str] = Counter()
        for event in of[each["lane"], each["depth"]]:
            within = each["start_ns"] <= event["start_ns"] < each["start_ns"] + each["duration_ns"]
            if within and event["duration_ns"] < answer["bucket_ns"]:
                took[event["name"]] += event["duration_ns"]
        assert took[names[each["name"]]] == max(took.values())
        checked += 1
    assert checked > 20


def test_every_zoom_holds_the_same_events(site: TestClient, world: Client) -> None:
    events = stored(world, "random/1")
    end = max(each["start_ns"] + each["duration_ns"] for each in events)
    for level in (14, 17, 20, 24):
        length = 256 << level
        count = busy = 0
        for since in range(0, end, length):
            answer = told(site, "random/1", since_ns=since, until_ns=since + length, width=256)
            assert answer["bucket_ns"] == 1 << level
            begun = [each for each in rows(answer["events"]) if each["start_ns"] >= since]
            count += sum(each["count"] for each in begun)
            busy += sum(each["busy_ns"] for each in begun)
        assert (count, busy) == (len(events), sum(each["duration_ns"] for each in events))


def test_an_answer_is_bounded_whatever_is_asked(site: TestClient) -> None:
    answer = told(site, "many", until_ns=600_000, width=8192)
    assert answer["count"] <= timelines.MOST
    assert answer["bucket_ns"] > 64
    assert sum(answer["events"]["count"]) == MANY
    fine = told(site, "many", until_ns=60_000, width=8192)
    assert (fine["bucket_ns"], fine["count"]) == (16, 6_000)


def test_lanes_steps_and_ranks(site: TestClient) -> None:
    answer = told(site, "linked", "/lanes")
    lanes = rows(answer["lanes"])
    assert [each["sort"] for each in lanes] == ["stream", "waits", "thread", "thread", "python"]
    assert (lanes[0]["stream"], lanes[0]["events"], lanes[0]["busy_ns"]) == (7, 2, 20_700)
    assert (lanes[2]["thread_name"], lanes[2]["depths"]) == ("thread 100 (trainer)", 4)
    assert [(step["name"], step["start_ns"], step["duration_ns"]) for step in rows(answer["steps"])] == [
        ("ProfilerStep#3", 0, 100_000)
    ]
    assert [each["rank"] for each in rows(told(site, "random/1", "/lanes", rank=1)["ranks"])] == [0, 1]


def test_a_kernel_leads_to_its_call_its_operators_and_their_python(site: TestClient) -> None:
    (hit,) = rows(told(site, "linked", "/search", q="gemm<")["hits"])
    found = told(site, "linked", "/event", lane=hit["lane"], depth=hit["depth"], start_ns=hit["start_ns"])
    assert (found["event"]["correlation"], found["event"]["arguments"]) == (12, {"occupancy": 0.25})
    assert (found["call"]["name"], found["call"]["start_ns"]) == ("cudaLaunchKernel", 4_000)
    assert [each["name"] for each in found["launched_by"]] == ["ProfilerStep#3", "aten::linear", "aten::addmm"]
    assert [each["name"] for each in found["python"]] == ["train.py(7): step", "nn.Module: Linear_0"]


def test_an_operator_leads_to_what_it_launched_and_to_its_backward(site: TestClient) -> None:
    (hit,) = rows(told(site, "linked", "/search", q="addmm", mode="regex")["hits"])
    found = told(site, "linked", "/event", lane=hit["lane"], depth=hit["depth"], start_ns=hit["start_ns"])
    assert [each["name"] for each in found["around"]] == ["ProfilerStep#3", "aten::linear"]
    assert (found["launches"]["events"], found["launches"]["total_ns"]) == (2, 20_700)
    assert [each["kind"] for each in found["launches"]["first"]] == ["memcpy", "kernel"]
    assert [each["name"] for each in found["paired"]] == ["AddmmBackward0"]
    assert found["event"]["sequence"] == 5
    call = told(site, "linked", "/event", lane=hit["lane"], depth=3, start_ns=3_000)
    assert (call["launches"]["events"], call["launches"]["first"][0]["kind"]) == (1, "memcpy")
    told(site, "linked", "/event", 404, lane=hit["lane"], depth=3, start_ns=3_001)


def test_search_counts_and_pages(site: TestClient, world: Client) -> None:
    events = sorted(each["start_ns"] for each in stored(world, "random/1") if "LINEAR" in each["name"].upper())
    middle = events[len(events) // 2]
    answer = told(site, "random/1", "/search", q="LineaR", limit=10, from_ns=middle)
    assert (answer["total"], answer["before"]) == (len(events), sum(at < middle for at in events))
    assert answer["hits"]["start_ns"] == events[answer["before"] :][:10]
    found: list[int] = []
    offset: int | None = 0
    while offset is not None:
        page = told(site, "random/1", "/search", q="linear", limit=200, offset=offset)
        found += page["hits"]["start_ns"]
        offset = page["next"]
    assert found == events
    assert told(site, "random/1", "/search", q="^LINEAR$", mode="regex")["total"] == 0
    assert told(site, "random/1", "/search", q="a.m")["total"] == 0
    problem = told(site, "random/1", "/search", 422, q="(", mode="regex")
    assert problem["detail"][0]["loc"] == ["query", "q"]


def test_a_range_sums_what_lies_in_it(site: TestClient, world: Client) -> None:
    since, until = 100_000, 3_000_000
    inside: Counter[tuple[int, str]] = Counter()
    for each in stored(world, "random/1"):
        within = min(each["start_ns"] + each["duration_ns"], until) - max(each["start_ns"], since)
        if within > 0:
            inside[each["lane"], each["name"]] += within
    found = rows(told(site, "random/1", "/range", since_ns=since, until_ns=until, top=5000))
    assert {(each["lane"], each["name"]): each["total_ns"] for each in found if each["total_ns"]} == dict(inside)


def test_what_a_browser_has_is_not_sent_again(site: TestClient) -> None:
    about = told(site, "linked", "/lanes")
    named = {"process": about["process"], "load": about["load"], "until_ns": 1_000}
    path = "/api/v1/traces/linked/timeline"
    first = site.get(path, params=named)
    assert "immutable" in first.headers["cache-control"]
    again = site.get(path, params=named, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "immutable" not in site.get(path, params={"until_ns": 1_000}).headers["cache-control"]
    assert site.get(path, params={"until_ns": 2_000}).headers["etag"] != first.headers["etag"]


@pytest.mark.parametrize("what", ["", "/lanes", "/range", "/search", "/event"])
def test_a_load_that_nobody_knows_is_not_there(site: TestClient, what: str) -> None:
    about = told(site, "linked", "/lanes")
    asked = {"until_ns": 1_000, "q": "x", "lane": 0, "start_ns": 0}
    for capture, process, load in (
        ("nobody's/capture", about["process"], about["load"]),
        ("linked", "no process", about["load"]),
        ("linked", about["process"], "no load"),
    ):
        answer = site.get(
            f"/api/v1/traces/{capture}/timeline{what}", params={"process": process, "load": load, **asked}
        )
        assert (answer.status_code, "/lanes" in answer.text) == (404, True)
        assert "immutable" not in answer.headers.get("cache-control", "")


def test_what_is_not_there_or_makes_no_sense(site: TestClient) -> None:
    assert "rank 9 of capture 'linked'" in told(site, "linked", "/lanes", 404, rank=9)["detail"][0]["msg"]
    told(site, "nobody's/capture", "/lanes", 404)
    problem = told(site, "linked", "", 422, since_ns=5, until_ns=5)
    assert problem["detail"][0]["loc"] == ["query", "until_ns"]
    told(site, "linked", "", 422, width=0)


def test_lanes_deeper_than_an_answer_lose_what_is_innermost(site: TestClient, world: Client, embedded: Store) -> None:
    store = replace(embedded, database="shared")
    load = landing.begin(world, "deep")
    events = {
        "kind": ["frame"] * MANY, "thread": ["1/1"] * MANY, "lane": [at // 30_000 for at in range(MANY)],
        "depth": [at % 30_000 for at in range(MANY)], "start_ns": [5] * MANY, "duration_ns": [7] * MANY,
        "name": ["f"] * MANY,
    }  # fmt: skip
    tables: landing.Tables = {RANKS: [columns([{"file": "deep.json"}])], "trace_timeline": [events]}
    put = landing.put(world, store, load, Process(0, "ant", True, None), tables)
    landing.publish(world, store, load, [put], lambda _: None)
    answer = told(site, "deep", until_ns=1_000)
    assert 0 < answer["count"] <= timelines.MOST
    assert max(answer["events"]["depth"]) < 30_000
