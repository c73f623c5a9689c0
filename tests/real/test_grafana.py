"""deploy/grafana: every query of every dashboard, filled in as the plugin does, on the real engine with a planted week.

What a panel needs of its answer is held: time first and in order, numbers, labels that are never NULL, one row of a
stat, the columns that a table's links and units are for.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]
from clickhouse_connect.driver.query import QueryResult

from deploy.grafana.source.__main__ import files
from deploy.grafana.source.model import PLUGIN, SCHEMA_VERSION
from tests.analysed import analysed, load
from tests.captures import NOON_NS
from tests.cookbook_world import Row, World, planted
from tests.grafana import ALL, Chosen, Json, Range, queries, sent, uses
from tests.tables import land, row
from tests.tracebuilder import TraceBuilder
from warpmeter.dictionary import meanings
from warpmeter.settings import Store
from warpmeter.store import Client

pytestmark = pytest.mark.long

DEPLOY: Final = Path(__file__).parents[2] / "deploy" / "grafana"
BOARDS: Final = {path.stem: json.loads(path.read_text()) for path in sorted((DEPLOY / "dashboards").glob("*.json"))}
OF_STORE: Final = {name: board for name, board in BOARDS.items() if name != "processes"}
MAY_BE_EMPTY: Final = {
    "Kernels that got slower",  # needs weeks of captures: test_trace_views.py
    "Lost by agents and ingest, published",
}
BESIDE_VIEWS: Final = {
    "device_samples", "metric_samples", "stack_samples", "stack_frames",  # no view has them, or finer than an hour
    "source_health", "dead_letters", "ingest_batches",  # ingest's own books
}  # fmt: skip
NUMBER: Final = re.compile(r"U?Int\d+|Float\d+|Bool")
TEXT: Final = ("String", "LowCardinality(String)")


def _more(world: World) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What the cookbook's week lacks: counters of CPUs and links, an exporter, steps, what waits."""
    times = [world.now - 1200 * back for back in range(1, 12)]
    about: list[Row] = [{"host": host, "ts": ts, "period_ms": 1_200_000} for host in ("ant", "bee") for ts in times]
    socket = {"kind": "socket", "device": "0", "l2_hit_ratio_permille": 800, "l3_hit_ratio_permille": 600}
    socket |= {"mem_read_megabytes_per_s": 9_000, "mem_write_megabytes_per_s": 4_000}
    nic = {"kind": "nic", "device": "eth1", "rx_kilobytes_per_s": 700, "tx_kilobytes_per_s": 300}
    disk = {"kind": "disk", "device": "sda", "read_kilobytes_per_s": 70, "write_kilobytes_per_s": 30}
    yield "device-samples", [each | device for each in about for device in (socket, nic, disk)]
    told: Row = {"source": "dcgm", "name": "DCGM_FI_DEV_FB_USED", "kind": "gauge", "value": 5.0}
    told["labels"] = {"gpu": "0", "slot": "a"}
    yield "metric-samples", [each | told for each in about]
    yield "source-health", [{"host": "ant", "ts": world.now, "period_ms": 60_000, "source": "gpu", "state": "failed"}]
    step: Row = {
        "source": "paces",
        "name": "job_step_seconds",
        "kind": "gauge",
        "labels": {"job_id": "llm-2"},
        "value": 0.5,
    }
    yield "metric-samples", [each | step for each in about]
    alert: Row = {"alert_id": "a-9", "rule": "ingest_lag", "severity": "critical", "state": "firing", "summary": "late"}
    alert |= {"labels": {"job_id": "llm-2", "host": "ant"}, "fingerprint": "f-9", "ts": world.now - 900}
    yield "alerts", [alert | {"started_at": world.now - 960, "fired_at": world.now - 900}]
    xid = {"host": "ant", "gpu": 0, "uuid": "GPU-0", "kind": "xid", "code": 31, "what": "page fault", "state": "raised"}
    yield "gpu-events", [xid | {"ts": world.now - 5000}]
    letter = {"topic": "warpmeter.gpu-samples", "topic_uuid": "5f1c7a1e-0000-4000-8000-000000000000", "offset": 9}
    yield "dead-letters", [letter | {"reason": "unreadable", "ts": world.now - 700}]
    asked = {
        "capture_id": "c-9",
        "action": "start",
        "requested_by": "ann@ant",
        "job_id": "llm-2",
        "ts": world.now - 800,
    }
    yield "capture-requests", [asked]


def _traces(folder: Path) -> list[Path]:
    """Of two ranks: two steps, each with a kernel, a copy and a collective."""
    paths = []
    for rank in (0, 1):
        built = TraceBuilder(base_ns=NOON_NS)
        built.distributed(rank, 2)
        for number in range(2):
            start, compute = 1_000_000 * number, 100_000 + 300_000 * rank
            built.step(number, start, 900_000)
            built.kernel("gemm", start, compute)
            built.copy(start + 600_000, 50_000, bytes=4096)
            built.kernel(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start + compute, 500_000 - compute, stream=20,
                collective="allreduce", in_elements=1000, out_elements=1000, dtype="Float", group="0", group_size=2,
                group_ranks=[0, 1],
            )  # fmt: skip
        paths.append(built.write(folder / f"rank{rank}.json"))
    return paths


@pytest.fixture(scope="module")
def week(shared_tables: Client, embedded: Store, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A week of four hosts, with captures, stacks, alerts, letters, and a trace of two ranks that was analysed."""
    store = replace(embedded, database="shared")
    world = planted(shared_tables, store)
    for topic, rows in _more(world):
        land(shared_tables, topic, [row(topic, **fields) for fields in rows])
    load(shared_tables, store, "real", analysed(_traces(tmp_path_factory.mktemp("traces"))))
    return world


def _ranges(world: World) -> Mapping[str, Range]:
    now = int(world.now) + 300  # what was landed a moment ago is within it
    return {"1h": Range(now - 8 * 86400, now, 3600), "1m": Range(now - 6 * 3600, now, 60)}


def _chosen(windows: str, **chosen: Any) -> Chosen:
    stacks = "stack_hours" if windows == "1h" else "stack_samples"
    return {
        "windows": windows, "stacks": stacks, "host": "ant", "job": "llm-2", "user": ALL, "capture": "real",
        "top": "20", "order": "ASC", "metric": "gpu_util_permille", "exported": "DCGM_FI_DEV_FB_USED", **chosen,
    }  # fmt: skip


def _check_over_time(title: str, answer: QueryResult) -> None:
    names, types = answer.column_names, [each.name for each in answer.column_types]
    assert names[0] == "time", title
    assert types[0].startswith("DateTime"), title
    times = [each[0] for each in answer.result_rows]
    assert times == sorted(times), title
    numbers = [name for name, kind in zip(names[1:], types[1:], strict=True) if NUMBER.search(kind)]
    labels = [name for name, kind in zip(names[1:], types[1:], strict=True) if kind in TEXT]
    assert numbers, title
    assert set(names[1:]) == {*numbers, *labels}, (title, types)
    keys = [tuple(each[0:1]) + tuple(each[names.index(name)] for name in labels) for each in answer.result_rows]
    assert len(keys) == len(set(keys)), f"{title}: two points of a line at one time"


def _check_table(title: str, panel: Json, answer: QueryResult) -> None:
    about = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
    assert about <= set(answer.column_names), (title, about - set(answer.column_names))
    assert [each.name for each in answer.column_types if re.match(r"Array|Map|Tuple", each.name)] == [], title
    fields = re.findall(r"__data\.fields\.(\w+)", json.dumps(panel))
    assert set(fields) <= set(answer.column_names), title


def _check(panel: Json, answer: QueryResult) -> None:
    title, kind = panel["title"], panel["type"]
    types = [each.name for each in answer.column_types]
    if kind in ("timeseries", "heatmap", "status-history"):
        _check_over_time(title, answer)
    elif kind == "table":
        _check_table(title, panel, answer)
    elif kind == "stat":
        assert len(answer.result_rows) == 1, title
        assert title == "State" or all(NUMBER.search(each) for each in types), (title, types)
    elif kind == "flamegraph":
        assert set(answer.column_names) == {"level", "label", "value", "self"}
    elif kind == "barchart":
        assert types[0] in TEXT, title
        assert all(NUMBER.search(each) for each in types[1:]), (title, types)
    else:
        raise AssertionError(f"{title}: {kind}")


@pytest.mark.parametrize("name", OF_STORE)
def test_every_panel_is_answered_as_its_kind_needs(week: World, shared_tables: Client, name: str) -> None:
    board, full = OF_STORE[name], set()
    asked = [panel for panel in board["panels"] if panel.get("targets")]
    several: Chosen = {"host": ALL} if name == "overview" else {}
    for windows, within in _ranges(week).items():
        for panel in asked:
            (target,) = panel["targets"]
            if panel["title"] in full and not uses(target["rawSql"]) & {"windows", "stacks"}:
                continue  # it asks the same of any range
            answer = shared_tables.query(sent(target["rawSql"], _chosen(windows, **several), within))
            if answer.result_rows:  # the driver tells no columns of an answer without rows
                _check(panel, answer)
                full.add(panel["title"])
    assert {panel["title"] for panel in asked} - full <= MAY_BE_EMPTY


@pytest.mark.parametrize("name", OF_STORE)
def test_every_variable_lists_what_was_there(week: World, shared_tables: Client, name: str) -> None:
    for variable in OF_STORE[name]["templating"]["list"]:
        if variable["type"] == "query":
            found = [
                shared_tables.query(sent(variable["query"], _chosen(windows), within)).result_rows
                for windows, within in _ranges(week).items()
            ]
            assert any(found), variable["name"]
            if variable["name"] == "windows":
                assert found == [[("1h",)], [("1m",)]]
            if variable["name"] == "host":
                assert found[0] == [("ant",), ("bee",), ("cow",), ("dog",)]


def test_choices_narrow_what_is_shown(week: World, shared_tables: Client) -> None:
    within = _ranges(week)["1h"]
    panels = [panel for panel in BOARDS["overview"]["panels"] if "targets" in panel]
    asked = {panel["title"]: panel["targets"][0]["rawSql"] for panel in panels}

    def shown(title: str, column: str, **chosen: Any) -> set[Any]:
        answer = shared_tables.query(sent(asked[title], _chosen("1h", **chosen), within))
        return {dict(zip(answer.column_names, each, strict=True))[column] for each in answer.result_rows}

    assert shown("$metric of each GPU", "name", host=["ant"]) == {"ant GPU 0", "ant GPU 1"}
    assert shown("$metric of each GPU", "name", host=ALL, top="1", order="ASC") != shown(
        "$metric of each GPU", "name", host=ALL, top="1", order="DESC"
    )
    assert shown("Jobs of the range, by their GPU hours in it", "job_id", host=ALL, user=["bob"]) == {"tune-1"}
    assert shown("GPU hours by user", "name", user=["ann", "bob"]) == {"ann", "bob"}
    assert shown("Hosts now", "host", host=["cow"]) == {"cow"}
    assert shown("Hosts now", "host", host=["co'w"]) == set()


def test_figures_are_those_of_the_samples(week: World, shared_tables: Client) -> None:
    """The mean of the fleet, its GPU hours and a job's over the whole week, worked out from the planted samples."""
    within = _ranges(week)["1h"]

    def answer(board: str, title: str) -> list[tuple[Any, ...]]:
        (sql,) = {
            panel["targets"][0]["rawSql"]
            for panel in BOARDS[board]["panels"]
            if panel["title"] == title and panel["type"] in ("stat", "table")
        }
        return [tuple(each) for each in shared_tables.query(sent(sql, _chosen("1h", host=ALL), within)).result_rows]

    ((mean, _, _),) = answer("overview", "GPU utilisation")
    every = [sample["gpu_util_permille"] / 1000 for sample in week.gpus]
    assert mean == pytest.approx(sum(every) / len(every))
    ((measured, idle),) = answer("overview", "GPU hours")
    assert measured == pytest.approx(len(week.gpus) / 3)
    assert idle == pytest.approx(sum(sample["gpu_util_permille"] < 50 for sample in week.gpus) / 3)
    held = {each[0]: each[6] for each in answer("overview", "Jobs of the range, by their GPU hours in it")}
    of_llm = [sample for sample in week.gpus if "llm-2" in sample["job_ids"]]
    assert held["llm-2"] == pytest.approx(len(of_llm) / 3)


def test_annotations_have_what_grafana_marks(week: World, shared_tables: Client) -> None:
    for board in BOARDS.values():
        for annotation in board["annotations"]["list"]:
            answer = shared_tables.query(sent(annotation["target"]["rawSql"], _chosen("1h"), _ranges(week)["1h"]))
            assert answer.column_names == ("time", "timeEnd", "text", "tags")
            assert answer.result_rows, (board["title"], annotation["name"])


def test_the_rights_that_the_page_gives_are_taken_by_the_engine_and_are_those_that_are_asked_for(
    shared_tables: Client,
) -> None:
    page = (DEPLOY.parents[1] / "docs" / "deploy" / "grafana.md").read_text()
    found = [each.strip() for block in re.findall(r"```sql\n(.*?)```", page, re.S) for each in block.split(";")]
    assert len([each for each in found if each]) == 2
    assert all("Query" in shared_tables.query(f"EXPLAIN AST {each}").result_rows[0][0] for each in found if each)
    (granted,) = re.findall(r"GRANT SELECT\((.*?)\) ON warpmeter\.dead_letters", page)
    letters = [sql for _, target in queries(BOARDS["ingest"]) if "FROM dead_letters" in (sql := target["rawSql"])]
    columns = shared_tables.query("SELECT name FROM system.columns WHERE table = 'dead_letters'").result_rows
    bare = " ".join(re.sub(r" AS \w+", "", sql) for sql in letters)
    used = {name for (name,) in columns if re.search(rf"\b{name}\b", bare)}
    assert used == set(granted.split(", "))


# --- the files ----------------------------------------------------------------------------------------------------


def test_the_files_are_what_their_description_makes() -> None:
    stale = [path.name for path, text in files().items() if path.read_text() != text]
    assert stale == [], "run `make docs`"
    assert {path.stem for path in files()} == set(BOARDS)


@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_a_dashboard_is_whole(board: Json) -> None:
    assert board["schemaVersion"] == SCHEMA_VERSION
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] not in ("row", "text"):
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "panels lie over each other"


@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_variables_that_are_used_are_defined_and_those_that_are_defined_are_used(board: Json) -> None:
    defined = {variable["name"] for variable in board["templating"]["list"]}
    used = uses(json.dumps({key: value for key, value in board.items() if key != "templating"}))
    used |= {name for variable in board["templating"]["list"] for name in uses(str(variable.get("query", "")))}
    assert used == defined
    for variable in board["templating"]["list"]:  # what one asks for comes before it
        before = {each["name"] for each in board["templating"]["list"][: board["templating"]["list"].index(variable)]}
        assert uses(str(variable.get("query", ""))) <= before, variable["name"]


@pytest.mark.parametrize("board", OF_STORE.values(), ids=list(OF_STORE))
def test_queries_ask_what_stays(board: Json) -> None:
    stable = {name for name, words in meanings.words().items() if words.stable}
    asked = [target["rawSql"] for _, target in queries(board)]
    asked += [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    for sql in asked:
        own = set(re.findall(r"(\w+) AS\s*\(", sql))
        for name in re.findall(r"(?:FROM|(?<!ARRAY )JOIN)\s+([a-z]\w*(?:\$\{windows\})?|\$\{stacks\})(?![\w(])", sql):
            meant = {"${stacks}": ["stack_samples", "stack_hours"]}.get(name)
            meant = meant or [name.replace("${windows}", window) for window in ("1m", "1h")]
            assert name in own or set(meant) <= stable | BESIDE_VIEWS, name


def test_links_lead_to_dashboards_and_variables_that_are_there() -> None:
    uids = {board["uid"]: {each["name"] for each in board["templating"]["list"]} for board in BOARDS.values()}
    links = {url for board in BOARDS.values() for url in re.findall(r'"url": "(/d/[^"]+)"', json.dumps(board))}
    assert links
    for url in links:
        uid, rest = url.removeprefix("/d/").split("/", 1)
        assert set(re.findall(r"var-(\w+)=", rest)) <= uids[uid], url


def test_grafana_is_provisioned_with_the_source_and_the_folder() -> None:
    (source,) = yaml.safe_load((DEPLOY / "provisioning" / "datasources" / "warpmeter.yaml").read_text())["datasources"]
    targets = [target for board in OF_STORE.values() for _, target in queries(board)]
    assert {tuple(target["datasource"].values()) for target in targets} == {(source["type"], source["uid"])}
    (provider,) = yaml.safe_load((DEPLOY / "provisioning" / "dashboards" / "warpmeter.yaml").read_text())["providers"]
    assert provider["type"] == "file"
    assert provider["options"]["path"] == "/var/lib/grafana/dashboards/warpmeter"
    page = (DEPLOY.parents[1] / "docs" / "deploy" / "grafana.md").read_text()
    assert provider["options"]["path"] in page
    assert PLUGIN in page
    assert all(f"`{board['uid']}`" in page for board in BOARDS.values())
