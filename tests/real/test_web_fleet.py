"""What the API says of the fleet, its hosts, GPUs and jobs, held against plain SQL over the raw rows."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel

from tests.web import visitor
from tests.webworld import LONE, LOST, ODD_HOST, ODD_JOB, World, landed
from warpmeter.schemas.metrics import METRICS, Metric
from warpmeter.settings import Settings, Store
from warpmeter.store import Client
from warpmeter.web.api import fleet, gpus, hosts, jobs
from warpmeter.web.store import sparks

pytestmark = pytest.mark.timeout(600)

TABLES: Mapping[str, str] = {
    "gpu-samples": "gpu_samples",
    "host-samples": "host_samples",
    "device-samples": "device_samples",
}
KEYS: Mapping[str, str] = {
    "fleet": "'fleet'",
    "host": "host",
    "gpu": "concat(host, '/', toString(gpu), if(startsWith(uuid, 'MIG'), concat('/', uuid), ''))",
    "device": "concat(host, '/', kind, '/', device)",
    "job": "arrayJoin(job_ids)",
}
Values = dict[str, dict[int, float]]


@pytest.fixture(scope="module")
def world(shared_tables: Client) -> World:
    return landed(shared_tables)


@pytest.fixture(scope="module")
def site(embedded: Store, world: World) -> Iterator[TestClient]:
    assert world
    with visitor(Settings(store=replace(embedded, database="shared"))) as client:
        yield client


def iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat()


def told(site: TestClient, path: str, expected: int = 200, /, **asked: Any) -> Any:
    """The body of an answer."""
    answer = site.get(f"/api/v1{path}", params=asked or None)
    assert answer.status_code == expected, answer.text[:500]
    return answer.json()


def one_chart(site: TestClient, /, **asked: Any) -> dict[str, Any]:
    """The answer for one metric, with what holds of all of an answer."""
    answer: dict[str, Any] = told(site, "/series", **asked)
    (chart,) = answer.pop("charts")
    return {**answer, **chart}


def over(world: World, **more: Any) -> dict[str, Any]:
    return {"since": iso(world.since), "until": iso(world.until), **more}


def plainly(client: Client, metric: Metric, by: str, asked: Mapping[str, Any], where: str = "1") -> Values:
    """Means of each step, from the raw rows, by the plainest SQL there is; key to step to value.

    In windows, jobs that share a GPU have a part each.
    """
    step = int(asked["step"])
    first = int(datetime.fromisoformat(asked["since"]).timestamp()) // step * step
    last = math.ceil(datetime.fromisoformat(asked["until"]).timestamp() / step) * step
    weight = "1 / length(job_ids)" if by == "job" and step >= 60 else "1"
    mean = f"sum({metric.column} * {weight}) / sumIf({weight}, isNotNull({metric.column})) * {metric.factor}"
    sql = f"""SELECT {KEYS[by]} AS key, intDiv(toUnixTimestamp(ts), {step}) * {step} AS at, {mean}
        FROM {TABLES[metric.topic]} WHERE ts >= {first} AND ts < {last} AND {where} GROUP BY key, at"""
    found: Values = {}
    for key, at, value in client.query(sql).result_rows:
        if value is not None:
            found.setdefault(key, {})[at] = value
    return found


def drawn(chart: Mapping[str, Any]) -> Values:
    """The same of an answer; steps without a value left out."""
    lines = {line["key"]: zip(chart["times"], line["values"], strict=True) for line in chart["series"]}
    return {key: {at: value for at, value in line if value is not None} for key, line in lines.items()}


def near(found: Values, expected: Values, rounding: float = 1e-5) -> None:
    """Equal but for the rounding, by default to a hundredth of the stored scale of a ratio."""
    assert {key: sorted(line) for key, line in found.items() if line} == {
        key: sorted(line) for key, line in expected.items()
    }
    for key, line in expected.items():
        for at, value in line.items():
            assert found[key][at] == pytest.approx(value, rel=1e-4, abs=rounding), (key, at)


def named(name: str, topic: str) -> Metric:
    return next(metric for metric in METRICS if (metric.name, metric.topic) == (name, topic))


STEPS = [(10, 600), (60, 5400), (300, 7200), (3600, 7200)]


@pytest.mark.parametrize(("step", "length"), STEPS)
@pytest.mark.parametrize(
    ("name", "by"), [("gpu_util", "fleet"), ("power_watts", "host"), ("tensor_active", "gpu"), ("sm_active", "job")]
)
def test_series_of_gpus_are_those_of_their_samples(  # noqa: PLR0913 - what it is called with is one case
    site: TestClient, shared_tables: Client, world: World, step: int, length: int, name: str, by: str
) -> None:
    asked = {"since": iso(world.until - length), "until": iso(world.until), "step": step}
    chart = one_chart(site, metric=name, by=by, top=100, **asked)
    near(drawn(chart), plainly(shared_tables, named(name, "gpu-samples"), by, asked))
    assert chart["tier"] == ("raw" if step < 60 else "hour" if step == 3600 else "minute")
    assert chart["total"] == len(chart["series"])


@pytest.mark.parametrize(
    ("topic", "name", "by"),
    [
        ("host-samples", "cpu_util", "host"), ("host-samples", "cpu_util", "fleet"),
        ("host-samples", "files_open", "host"), ("device-samples", "rx_bytes_per_s", "device"),
        ("device-samples", "busy", "device"), ("gpu-samples", "sm_clock_max_hertz", "gpu"),
        ("gpu-samples", "fb_used_bytes", "host"), ("gpu-samples", "tensor_active", "fleet"),
    ],
)  # fmt: skip
def test_any_metric_has_its_series(
    site: TestClient, shared_tables: Client, world: World, topic: str, name: str, by: str
) -> None:
    for step, length in STEPS:
        asked = {"since": iso(world.until - length), "until": iso(world.until), "step": step}
        _has_its_series(site, shared_tables, asked, named(name, topic), by)


def _has_its_series(site: TestClient, client: Client, asked: Mapping[str, Any], metric: Metric, by: str) -> None:
    chart = one_chart(site, metric=metric.name, by=by, topic=metric.topic, top=100, **asked)
    near(drawn(chart), plainly(client, metric, by, asked))
    assert (chart["metric"], chart["unit"], chart["topic"]) == (metric.name, metric.unit, metric.topic)


@pytest.mark.long
def test_several_metrics_at_once_are_what_each_is_alone(site: TestClient, world: World) -> None:
    for by, metrics in (
        ("gpu", ["power_watts", "gpu_util", "sm_clock_max_hertz", "fp16_active", "tensor_active"]),
        ("host", ["cpu_util", "rx_bytes_per_s", "files_open", "power_watts", "mem_total_bytes"]),
        ("device", ["rx_bytes_per_s", "busy"]), ("fleet", ["tensor_active", "gpu_util", "fp16_active"]),
        ("job", ["sm_active", "power_watts"]),
    ):  # fmt: skip
        for step, length in STEPS:
            asked = {"since": iso(world.until - length), "until": iso(world.until), "step": step, "by": by, "top": 2}
            answer = told(site, "/series", metric=[*metrics, metrics[0]], **asked)
            assert [chart["metric"] for chart in answer["charts"]] == metrics
            for chart in answer["charts"]:
                alone = told(site, "/series", metric=chart["metric"], **asked)
                assert alone == {**answer, "charts": [chart]}


def test_rates_of_devices_add_up_over_a_host(site: TestClient, world: World) -> None:
    asked = over(world, metric="rx_bytes_per_s", step=600)
    alone = drawn(one_chart(site, by="device", host="cow", **asked))
    whole = drawn(one_chart(site, by="host", host="cow", kind="nic", **asked))
    for at, value in whole["cow"].items():
        assert value == pytest.approx(sum(line[at] for line in alone.values()))


def test_a_series_is_narrowed_to_a_host_a_gpu_a_job(site: TestClient, shared_tables: Client, world: World) -> None:
    metric, asked = named("sm_active", "gpu-samples"), over(world, step=60)
    for narrowed, where in (
        ({"host": ODD_HOST}, "host LIKE 'räck%'"),
        ({"host": "cow", "gpu": "1"}, "host = 'cow' AND gpu = 1"),
        ({"gpu": "MIG-b"}, "uuid = 'MIG-b'"),
        ({"job": LONE}, "host LIKE 'räck%' AND gpu = 1"),
        ({"job": ODD_JOB}, "host != 'cow'"),
    ):
        chart = one_chart(site, metric="sm_active", by="gpu", **narrowed, **asked)
        near(drawn(chart), plainly(shared_tables, metric, "gpu", asked, where))
    one = one_chart(site, metric="temperature_celsius", by="job", job=ODD_JOB, **asked)
    assert [line["key"] for line in one["series"]] == [ODD_JOB]


def test_a_job_is_looked_at_only_while_it_ran(site: TestClient, world: World) -> None:
    asked = over(world, metric="gpu_util", step=60, by="gpu", job=LOST)
    line = one_chart(site, **asked)["series"][0]
    ended = (world.until - 300 - world.since) // 60
    assert all(value is not None for value in line["values"][:ended])
    assert line["values"][ended + 1 :] == [None] * (len(line["values"]) - ended - 1)


def test_zero_is_not_unknown(site: TestClient, world: World) -> None:
    chart = one_chart(site, metric="tensor_active", by="gpu", top=100, **over(world, step=60))
    lines = {line["uuid"]: line["values"] for line in chart["series"]}
    assert set(lines["GPU-00"]) == {0}
    assert set(lines["GPU-11"]) == {None}
    heat = told(site, "/heatmap", metric="tensor_active", **over(world, step=60))["columns"]
    rows = dict(zip(heat["uuid"], heat["values"], strict=True))
    assert set(rows["GPU-00"]) == {0}
    assert set(rows["GPU-11"]) == {None}


@pytest.mark.parametrize(("step", "length"), STEPS)
def test_the_heatmap_is_that_of_the_samples(
    site: TestClient, shared_tables: Client, world: World, step: int, length: int
) -> None:
    asked = {"since": iso(world.until - length), "until": iso(world.until), "step": step}
    heat = told(site, "/heatmap", metric="power_watts", **asked)
    columns = heat["columns"]
    found: Values = {}
    for host, gpu, uuid, values in zip(*(columns[name] for name in ("host", "gpu", "uuid", "values")), strict=True):
        key = f"{host}/{gpu}" + (f"/{uuid}" if uuid.startswith("MIG") else "")
        found[key] = {heat["first"] + i * step: value for i, value in enumerate(values) if value is not None}
    near(found, plainly(shared_tables, named("power_watts", "gpu-samples"), "gpu", asked), 0.0501)  # a tenth of a watt
    assert dict(zip(columns["uuid"], columns["job_id"], strict=True))["MIG-a"] == LOST


def test_a_window_begins_with_a_whole_step_and_ends_with_one(site: TestClient, world: World) -> None:
    asked = {"metric": "gpu_util", "by": "host", "step": 300}
    since, until = world.since // 300 * 300 + 1750, world.since // 300 * 300 + 2400
    chart = one_chart(site, since=iso(since), until=iso(until), **asked)
    assert (chart["times"][0], chart["times"][-1]) == (until - 900, until - 300)
    later = one_chart(site, since=iso(since), until=iso(until + 1), **asked)
    assert later["times"][-1] == until
    assert all(len(line["values"]) == len(later["times"]) for line in later["series"])


def test_the_top_series_are_those_with_the_highest_means(site: TestClient, world: World) -> None:
    asked = over(world, metric="mem_total_bytes", by="host", topic="host-samples", step=60)
    chart = one_chart(site, top=2, **asked)
    assert [line["host"] for line in chart["series"]] == ["cow", ODD_HOST]
    assert chart["total"] == 3
    assert chart["series"][0]["mean"] == 3000 << 20


@pytest.mark.parametrize("minutes", [10, 120])
def test_statistics_are_those_of_the_samples(
    site: TestClient, shared_tables: Client, world: World, minutes: int
) -> None:
    since = world.until - minutes * 60
    found = told(site, "/fleet/statistics", since=iso(since), until=iso(world.until))
    assert found["tier"] == ("raw" if minutes == 10 else "minute")
    metrics = {each["metric"]: each for each in found["metrics"]}
    for name in ("gpu_util", "sm_active", "tensor_active", "power_watts", "temperature_celsius"):
        metric = named(name, "gpu-samples")
        sql = f"""SELECT avgIf({metric.column}, ts >= {since}), avgOrNullIf({metric.column}, ts < {since}),
            quantilesExactIf(0.5, 0.95)({metric.column}, ts >= {since})
            FROM gpu_samples WHERE ts >= {since - minutes * 60} AND ts < {world.until}"""
        mean, before, (p50, p95) = shared_tables.query(sql).result_rows[0]
        assert metrics[name]["mean"] == pytest.approx(mean * metric.factor)
        assert metrics[name]["before"] == pytest.approx(before * metric.factor)
        assert metrics[name]["change"] == pytest.approx((mean - before) * metric.factor)
        assert metrics[name]["p50"] == pytest.approx(p50 * metric.factor, rel=0.02, abs=0.005)
        assert metrics[name]["p95"] == pytest.approx(p95 * metric.factor, rel=0.02, abs=0.005)
    sql = "SELECT sum(period_ms) / 3.6e6, sumIf(period_ms, gpu_util_permille < 50) / 3.6e6 FROM gpu_samples"
    hours, idle = shared_tables.query(f"{sql} WHERE ts >= {since}").result_rows[0]
    assert (found["gpu_hours"], found["idle_gpu_hours"]) == (pytest.approx(hours), pytest.approx(idle))
    assert (found["gpus"], found["hosts"]) == (6 if minutes == 10 else 7, 3)  # one GPU is gone for ten minutes


def test_of_nothing_is_known_that_is_said(site: TestClient, world: World) -> None:
    found = told(site, "/fleet/statistics", since=iso(world.since - 7200), until=iso(world.since - 3600))
    assert {each[part] for each in found["metrics"] for part in ("mean", "p50", "p95", "before", "change")} == {None}
    assert (found["gpu_hours"], found["gpus"]) == (0, 0)


def test_states_count_each_gpu_once(site: TestClient) -> None:
    found = told(site, "/fleet/states", gpus=True)
    states = dict(zip(found["gpus"]["uuid"], found["gpus"]["state"], strict=True))
    assert len(states) == found["total"] == 7
    assert states["GPU-10"] == "gone"
    assert states["GPU-01"] in ("failing", "gone")  # gone once nothing has been heard of it for a minute
    counts = {state: list(states.values()).count(state) for state in ("busy", "idle", "failing", "gone")}
    assert {state: found[state] for state in counts} == counts


# --- lists -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "key"), [("/hosts", "host"), ("/gpus", "uuid"), ("/jobs", "job_id")])
def test_pages_of_a_list_are_the_whole_list(site: TestClient, world: World, path: str, key: str) -> None:
    window = {} if path == "/gpus" else over(world)
    whole = told(site, path, **window)
    assert whole["next"] is None
    assert whole["total"] == len(whole["data"])
    pieces: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = told(site, path, limit=2, offset=offset, **window)
        assert page["total"] == whole["total"]
        pieces += page["data"]
        offset = page["next"]
    assert [row[key] for row in pieces] == [row[key] for row in whole["data"]]
    beyond = told(site, path, offset=1000, **window)
    assert (beyond["data"], beyond["total"], beyond["next"]) == ([], whole["total"], None)
    large = told(site, path, limit=2000, **window)  # of which not each row is asked for by name
    assert (lines_of(large), large["total"]) == (lines_of(whole), whole["total"])


def lines_of(listed: Mapping[str, Any]) -> list[Any]:
    return [row.get("spark") for row in listed["data"]]


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("/hosts", ("host", "cpu_util", "first_seen_at", "gpus", "kernel")),
        ("/gpus", ("gpu", "uuid", "tensor_active", "idle_since", "status")),
        ("/jobs", ("job_id", "user", "started_at", "gpu_hours", "world_size")),
    ],
)
def test_a_list_is_sorted_by_any_column_both_ways_and_unknown_comes_last(
    site: TestClient, world: World, path: str, columns: tuple[str, ...]
) -> None:
    window = {} if path == "/gpus" else over(world)
    for column in columns:
        for sort in (column, f"-{column}"):
            values = [row[column] for row in told(site, path, sort=sort, **window)["data"]]
            known = [value for value in values if value is not None]
            assert known == sorted(known, reverse=sort.startswith("-")), sort
            assert values[len(known) :] == [None] * (len(values) - len(known))


def test_lists_are_narrowed(site: TestClient, world: World) -> None:
    def of(path: str, key: str, **asked: Any) -> list[Any]:
        return [row[key] for row in told(site, path, **asked)["data"]]

    assert of("/hosts", "host", search="O'DD") == [ODD_HOST]
    assert of("/hosts", "host", search="%") == [ODD_HOST]
    assert of("/hosts", "host", search="nothing") == []
    assert sorted(of("/gpus", "uuid", host="cow")) == ["GPU-20", "MIG-a", "MIG-b"]
    assert of("/gpus", "uuid", search="mig-A") == ["MIG-a"]
    assert of("/gpus", "uuid", status="gone", search="GPU-10") == ["GPU-10"]
    assert sorted(of("/gpus", "uuid", job=LONE)) == ["GPU-11"]
    assert of("/jobs", "job_id", user="o'neil", **over(world)) == [LOST]
    assert of("/jobs", "job_id", search="TRÄNEN", **over(world)) == [ODD_JOB]
    assert sorted(of("/jobs", "job_id", search="physics", host=ODD_HOST, **over(world))) == sorted([ODD_JOB, LONE])
    assert of("/jobs", "job_id", since=iso(world.since - 7200), until=iso(world.since - 3600)) == []
    assert len(of("/jobs", "job_id", **over(world))) == 3


def test_rows_of_hosts_and_jobs_have_a_line(site: TestClient, shared_tables: Client, world: World) -> None:
    window = over(world)
    found = told(site, "/hosts", **window)
    step = found["spark_step_s"]
    expected = plainly(shared_tables, named("gpu_util", "gpu-samples"), "host", {**window, "step": step})
    for row in found["data"]:
        times = [found["spark_since"] + index * step for index in range(len(row["spark"]))]
        line = {at: value for at, value in zip(times, row["spark"], strict=True) if value is not None}
        assert line == {at: pytest.approx(value, abs=0.001) for at, value in expected[row["host"]].items()}
    assert all(0 < len(row["spark"]) <= 31 for row in told(site, "/jobs", **window)["data"])


def test_lines_of_more_hosts_than_an_address_holds(
    site: TestClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[dict[str, Any]]:
        return list(told(site, "/hosts", search="ant", **over(world))["data"])

    with monkeypatch.context() as patched:
        before = found()
        patched.setattr(sparks, "LONGEST", 1)
        few = found()
    assert few in (before, found())  # a minute after its last word a host is silent, whatever is asked then
    assert few[0]["spark"]


# --- one host, one job -------------------------------------------------------------------------------------------


def test_what_happened_to_a_host(site: TestClient, world: World) -> None:
    events = told(site, "/hosts/ant/events", **over(world))["data"]
    found = {(event["kind"], event["what"].split(":")[0], event["at"][:19]) for event in events}
    assert ("xid", "XID 79", iso(world.since + 900)[:19]) in found
    assert ("throttle", "clocks held down for 300 s", iso(world.since + 600)[:19]) in found
    assert ("source", "perf", iso(world.since + 600)[:19]) in found
    throttle = next(event for event in events if event["kind"] == "throttle")
    assert throttle["why"] == "hw_thermal_slowdown"
    assert throttle["until"][:19] == iso(world.since + 900)[:19]
    assert [event["at"] for event in events] == sorted((event["at"] for event in events), reverse=True)
    gone = told(site, f"/hosts/{quote(ODD_HOST, safe='')}/events", **over(world))["data"]
    assert [(event["kind"], event["gpu"], event["uuid"], event["until"]) for event in gone] == [
        ("gone", 0, "GPU-10", None)
    ]


def test_what_is_known_of_a_host_with_an_odd_name(site: TestClient, world: World) -> None:
    path = f"/hosts/{quote(ODD_HOST, safe='')}"
    assert told(site, path)["host"] == ODD_HOST
    assert [gpu["uuid"] for gpu in told(site, "/gpus", host=ODD_HOST)["data"]] == ["GPU-10", "GPU-11"]
    bands = told(site, f"{path}/jobs", **over(world))["data"]
    assert sorted(band["job_id"] for band in bands) == sorted([LONE, ODD_JOB])
    assert all(band["from"][:19] == iso(world.since)[:19] for band in bands)
    sources = told(site, f"{path}/sources")["data"]
    assert [(source["subject"], source["state"]) for source in sources] == [("GPU-10", "gone")]


@pytest.mark.parametrize("job", [ODD_JOB, LONE])
def test_what_is_known_of_a_job_with_an_odd_name(
    site: TestClient, shared_tables: Client, world: World, job: str
) -> None:
    path = f"/jobs/{quote(job, safe='')}"

    def listed() -> dict[str, Any]:
        row = next(row for row in told(site, "/jobs", **over(world))["data"] if row["job_id"] == job)
        numbers = {name: pytest.approx(value) for name, value in row.items() if isinstance(value, float)}
        return {**row, **numbers, "spark": pytest.approx(row["spark"], abs=0.0011)}  # rounded, of sums in any order

    before, found, after = listed(), told(site, path, **over(world)), listed()
    assert {name: found[name] for name in before} in (before, after)  # a minute after its last word it is lost
    assert (found["job_id"], found["user"], found["account"]) == (job, "ann" if job == ODD_JOB else "bob", "physics")
    hours, wasted = shared_tables.query(
        """WITH period_ms / length(job_ids) / 3.6e6 AS part SELECT sum(part), sumIf(part, gpu_util_permille < 50)
        FROM gpu_samples WHERE has(job_ids, {job:String})""",
        {"job": job},
    ).result_rows[0]
    well = told(site, f"{path}/efficiency")
    assert (well["gpu_hours"], well["wasted_gpu_hours"]) == (pytest.approx(hours), pytest.approx(wasted))
    on = told(site, f"{path}/hosts", **over(world))["data"]
    assert [row["host"] for row in on] == found["hosts"]
    assert sum(row["gpu_hours"] for row in on) == pytest.approx(hours)


def test_ranks_stand_side_by_side_and_the_odd_one_is_marked(site: TestClient, world: World) -> None:
    ranks = told(site, f"/jobs/{quote(ODD_JOB, safe='')}/ranks", **over(world))["data"]
    assert [(rank["rank"], rank["uuid"]) for rank in ranks] == [
        (0, "GPU-00"),
        (0, "GPU-01"),
        (1, "GPU-10"),
        (1, "GPU-11"),
    ]
    assert all(rank["gpu_util"] is not None for rank in ranks)
    assert [rank["odd"] for rank in ranks] == [["tensor_active"], [], [], []]  # it is 0 on GPU-00


@pytest.mark.parametrize(
    ("path", "loc"),
    [
        *[(f"/hosts/nope{part}", ["path", "host"]) for part in ("", "/events", "/sources", "/jobs")],
        *[(f"/jobs/no/pe{part}", ["path", "job_id"]) for part in ("", "/efficiency", "/ranks", "/hosts")],
        *[(f"/{part}host=nope", ["query", "host"]) for part in ("gpus?", "heatmap?", "series?metric=gpu_util&")],
        *[(f"/{part}job=no/pe", ["query", "job"]) for part in ("heatmap?", "series?metric=cpu_util&")],
    ],
)
def test_what_is_not_there_is_named(site: TestClient, path: str, loc: list[str]) -> None:
    (why,) = told(site, path, 404)["detail"]
    assert why["loc"] == loc
    assert why["input"] in ("nope", "no/pe")
    assert why["input"] in why["msg"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/series?metric=nope", "metric"), ("/series", "metric"), ("/series?metric=cpu_util&by=gpu", "by"),
        ("/series?metric=gpu_util&by=device", "metric"), ("/series?metric=gpu_util&by=nope", "by"),
        ("/series?metric=gpu_util&topic=host-samples", "metric"), ("/series?metric=gpu_util&top=100000", "top"),
        ("/series?metric=fp16_active&by=job", "metric"), ("/series?metric=gpu_util&by=job&gpu=1", "gpu"),
        ("/series?metric=gpu_util&metric=nope", "metric"), (f"/series?{'metric=gpu_util&' * 21}", "metric"),
        ("/heatmap?metric=cpu_util", "metric"), ("/heatmap?step=90", "step"), ("/heatmap?since=-9d&step=60", "step"),
        ("/heatmap?since=soon", "since"), ("/heatmap?until=-2h", "until"), ("/heatmap?since=1970-01-01", "since"),
        ("/hosts?sort=spark", "sort"), ("/hosts?limit=0", "limit"), ("/hosts?limit=100000", "limit"),
        ("/hosts?offset=-1", "offset"), ("/hosts?state=fine", "state"), ("/gpus?status=fine", "status"),
        ("/jobs?state=fine", "state"), ("/jobs?sort=hosts", "sort"), ("/metrics?topic=nope", "topic"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_and_the_field_named(site: TestClient, path: str, field: str) -> None:
    answer = site.get(f"/api/v1{path}")
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"][0]["loc"] == ["query", field]


# --- all of them -------------------------------------------------------------------------------------------------

HOST, JOB = quote(ODD_HOST, safe=""), quote(ODD_JOB, safe="")
ALL: Mapping[str, type[BaseModel]] = {
    "/fleet/statistics": fleet.Statistics, "/fleet/states": fleet.States, "/fleet/states?gpus=true": fleet.States,
    "/series?metric=gpu_util": fleet.Charts, "/series?metric=gpu_util&since=-10m": fleet.Charts,
    "/series?metric=cpu_util&by=host": fleet.Charts, "/series?metric=rx_bytes_per_s&by=device": fleet.Charts,
    "/series?metric=gpu_util&by=job": fleet.Charts, "/heatmap": fleet.Heat, "/heatmap?since=-10m": fleet.Heat,
    "/heatmap?since=-20d": fleet.Heat, "/hosts": hosts.Hosts, "/gpus": gpus.Gpus, "/jobs": jobs.Jobs,
}  # fmt: skip
OF_ONE: Mapping[str, type[BaseModel]] = {
    f"/hosts/{HOST}": hosts.Host, f"/hosts/{HOST}/events?since=-3h": hosts.Events,
    f"/hosts/{HOST}/sources": hosts.Sources, f"/hosts/{HOST}/jobs": hosts.Bands, f"/jobs/{JOB}": jobs.OneJob,
    f"/jobs/{JOB}/efficiency": jobs.Efficiency, f"/jobs/{JOB}/ranks": jobs.Ranks, f"/jobs/{JOB}/hosts": jobs.JobHosts,
}  # fmt: skip


@pytest.mark.parametrize("path", [*ALL, *OF_ONE])
def test_an_answer_is_as_it_is_described(site: TestClient, path: str) -> None:
    model = {**ALL, **OF_ONE}[path]
    answer = told(site, path)
    model.model_validate(answer, strict=True)
    assert set(answer) <= {field.alias or name for name, field in model.model_fields.items()}
    for row in answer.get("data", []):
        described = model.model_fields["data"].annotation
        (one,) = described.__args__  # type: ignore[union-attr]
        assert set(row) == {field.alias or name for name, field in one.model_fields.items()}


@pytest.mark.long
def test_an_empty_store_has_empty_answers(own_tables: Client, empty: Store) -> None:
    assert own_tables
    with visitor(Settings(store=empty)) as site:
        for path, model in ALL.items():
            model.model_validate(told(site, path), strict=True)
        assert told(site, "/hosts")["total"] == 0
        assert told(site, "/series?metric=gpu_util")["charts"][0]["series"] == []
        for path in OF_ONE:
            told(site, path, 404)


def test_what_has_not_changed_is_not_sent_again(site: TestClient, world: World) -> None:
    closed = {"since": iso(world.since), "until": iso(world.until - 3600)}
    for path, asked in (("/heatmap", closed), ("/series", closed | {"metric": "gpu_util"}), ("/metrics", None)):
        first = site.get(f"/api/v1{path}", params=asked)
        again = site.get(f"/api/v1{path}", params=asked, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    live = site.get("/api/v1/heatmap")
    assert "etag" not in live.headers


def test_answers_are_compressed_for_who_takes_it(site: TestClient, world: World) -> None:
    plain = site.get("/api/v1/heatmap", params=over(world), headers={"accept-encoding": "identity"})
    packed = site.get("/api/v1/heatmap", params=over(world), headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(plain.content) == packed.json()


def test_old_windows_are_asked_of_what_is_still_kept(site: TestClient) -> None:
    now = datetime.now(UTC)

    def tier(days: int) -> Any:
        since = now - timedelta(days=days)
        until = since + timedelta(minutes=10)
        return told(site, "/heatmap", since=since.isoformat(), until=until.isoformat())["tier"]

    assert [tier(1), tier(20), tier(100)] == ["raw", "minute", "hour"]
