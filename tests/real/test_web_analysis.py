"""What the API says of an analysed capture is what `warpmeter analyze --json` says of its files, to the nanosecond."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel

from tests.analysed import Analysed, analysed, load
from tests.capture_world import Agent, Process, World, on
from tests.captures import two_ranks
from tests.pagetraces import training
from tests.tables import land, row
from tests.traces import FOLDER, needs_traces
from tests.web import visitor
from warpmeter.analysis.findings import job_findings
from warpmeter.settings import Settings, Store
from warpmeter.store import Client
from warpmeter.web.api import analysis_rows as models

STRANGE = "run 7/α ranks?=#%&" + "x" * 300
PARTS = (
    "span", "busy", "idle", "compute", "comm", "mem", "comm_compute_overlap", "mem_compute_overlap", "mem_comm_overlap",
    "exposed_comm", "exposed_mem", "total",
)  # fmt: skip
CAUSES = ("input", "sync", "allocation", "launching", "device", "unknown")
ANSWERS: Mapping[str, type[BaseModel]] = {
    "ranks": models.Ranks, "breakdown": models.Breakdown, "findings": models.Findings, "stragglers": models.Stragglers,
    "kernels": models.Kernels, "operators": models.Operators, "steps": models.Steps, "idle": models.Streams,
    "collectives": models.Collectives, "skew": models.SkewedPage, "memory": models.Memory, "diff": models.Diff,
    "diff_kernels": models.ChangedPage, "diff_operators": models.ChangedOperators,
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """The API over a store of some captures, each with what analysis says of it."""

    client: TestClient
    captures: Mapping[str, Analysed]

    def get(self, capture: str, what: str, code: int = 200, **asked: Any) -> Any:
        """An answer about a capture, which is what its description says."""
        given = {"base": "before", **asked} if what.startswith("diff") else asked
        answer = self.client.get(f"/api/v1/traces/{quote(capture, safe='')}/{what}", params=given)
        assert answer.status_code == code, answer.text[:500]
        if code == 200:
            ANSWERS[what].model_validate(answer.json())
        return answer.json()

    def rows(self, capture: str, what: str, **asked: Any) -> list[dict[str, Any]]:
        """The rows of a list."""
        found: list[dict[str, Any]] = self.get(capture, what, **asked)["data"]
        return found


def ns(seconds: float | None) -> int | None:
    """Seconds as the nanoseconds that they are of."""
    return None if seconds is None else round(seconds * 1e9)


def columns(found: Sequence[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Some fields of each row; those of time in nanoseconds."""
    return [tuple(ns(each[name]) if name.endswith("_seconds") else each[name] for name in names) for each in found]


@pytest.fixture(scope="module")
def site(shared_tables: Client, embedded: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    store, folder = replace(embedded, database="shared"), tmp_path_factory.mktemp("traces")
    captures = {
        "before": analysed([training(rank=rank).write(folder / f"before{rank}.json") for rank in (0, 1)]),
        "after": analysed([training(rank=0, name="gemm_v2").write(folder / "after0.json"), slower(folder)]),
        "straggler": analysed(two_ranks(folder)),
    }
    for name, found in captures.items():
        load(shared_tables, store, name, found)
    load(shared_tables, store, STRANGE, captures["straggler"])
    load(shared_tables, store, "untold", captures["straggler"], told=False)
    asked_for(shared_tables)
    with visitor(Settings(store=store)) as client:
        yield Site(client, captures)


def slower(folder: Path) -> Path:
    """Rank 1 of a later capture: what ran in 60 µs takes 90, another kernel twice as long, its last step, too."""
    built = training(rank=1, name="gemm_v2")
    for event in built.events:
        if event["name"] == "gemm_v2":
            event["dur"] = 90
        elif event["name"] == "small_0":
            event["dur"] = 1.4
        elif event["name"] == "ProfilerStep#2":
            event["dur"] = 1990
    return built.write(folder / "after1.json")


def asked_for(client: Client) -> None:
    """Captures of the scheduler: `new` under way, `waiting` for the analysis, one that it failed on, one of nothing."""
    words: dict[str, Sequence[tuple[float, str, str]]] = {
        "new": (), "waiting": Process(1).words, "broken": Process(1).words, "none": ((0.0, "failed", "wrote_nothing"),),
    }  # fmt: skip
    for name, said in words.items():
        agents = [Agent("ant", [Process(1, 0, words=said)])]
        world = World(agents, resolve=on("ant", job_id="j"), now=time.time() - (5 if name == "new" else 60))
        world.ask(job_id="j", capture_id=name, requested_by="ann")
        for _ in range(8 if name == "new" else 0):
            world.step()
        world = world if name == "new" else world.until_ended(capture_id=name)
        land(client, "capture-requests", world.requests)
        land(client, "capture-events", world.events)
    why = {"state": "analysed", "reason": "analysis_failed", "why": "no trace: it is empty", "by": "analysis"}
    failed = row("capture-events", capture_id="broken", ts=time.time(), sequence=1, host="ant", pid=1, rank=0, **why)
    land(client, "capture-events", [failed])


# --- figures ---------------------------------------------------------------------------------------------------------


def test_each_rank_and_their_sum_read_as_in_the_report(site: Site) -> None:
    for name, of in site.captures.items():
        ranks = site.rows(name, "ranks")
        assert [row["rank"] for row in ranks] == [each.rank for each in of.reports]
        for row_, report in zip(ranks, of.reports, strict=True):
            assert {part: ns(row_[f"{part}_seconds"]) for part in PARTS} == {
                part: getattr(report, f"{part}_ns") for part in PARTS
            }
            assert report.idle_causes is not None
            waited = asdict(report.idle_causes)
            assert {part: ns(row_[f"idle_{part}_seconds"]) for part in CAUSES} == {
                part: waited[f"{part}_ns"] for part in CAUSES
            }
            assert (row_["events"], row_["steps"]) == (report.events, len(report.steps))
        whole, alone = site.get(name, "breakdown"), site.get(name, "breakdown", rank=1)
        assert (whole["ranks"], alone["ranks"]) == (2, 1)
        for part in PARTS[:-1]:
            each = [getattr(report, f"{part}_ns") for report in of.reports]
            assert (ns(whole[f"{part}_seconds"]), ns(alone[f"{part}_seconds"])) == (sum(each), each[1])


def test_kernels_read_as_in_the_report_with_their_launch_delay(site: Site) -> None:
    for report in site.captures["after"].reports:
        found = site.rows("after", "kernels", rank=report.rank, limit=200)
        names = ("name", "kernel", "sort", "count", "total_seconds", "min_seconds", "max_seconds", "share")
        assert columns(found, *names) == [
            (k.name, k.short_name, k.sort, k.count, k.total_ns, k.min_ns, k.max_ns, k.share) for k in report.kernels
        ]
        delays = [each["launch_delay_seconds"] for each in found]
        assert delays == [
            k.launch_delay_mean_ns and pytest.approx(k.launch_delay_mean_ns / 1e9) for k in report.kernels
        ]
    both = site.captures["after"].reports
    gemm = next(each for each in site.rows("after", "kernels", search="GEMM_V2"))
    each = [next(k for k in report.kernels if k.name == "gemm_v2") for report in both]
    assert (gemm["ranks"], gemm["count"], ns(gemm["total_seconds"])) == (2, 6, sum(k.total_ns for k in each))
    assert (gemm["slowest_rank"], gemm["slowest_over_fastest"]) == (1, 1.5)


def test_operators_steps_and_streams_read_as_in_the_report(site: Site) -> None:
    for report in site.captures["after"].reports:
        assert report.operators is not None
        operators = site.rows("after", "operators", rank=report.rank)
        told = {each.name: (each.count, each.gpu_self_ns, each.cpu_self_ns) for each in report.operators.by_name}
        found = columns(operators, "operator", "calls", "gpu_self_seconds", "cpu_self_seconds")
        assert {name: rest for name, *rest in found} == {name: list(rest) for name, rest in told.items()}
        shapes = site.rows("after", "operators", rank=report.rank, by_shape=True)
        assert {each["dims"] for each in shapes if each["operator"] == "aten::mm"} == {"[[4096,1024],[1024,4096]]"}
        steps = site.rows("after", "steps", rank=report.rank)
        parts = (
            "during_compute_seconds",
            "during_exposed_comm_seconds",
            "during_exposed_mem_seconds",
            "during_idle_seconds",
        )
        assert columns(steps, "step", "duration_seconds", *parts) == [
            (
                s.name,
                s.duration_ns,
                s.during.compute_ns,
                s.during.exposed_comm_ns,
                s.during.exposed_mem_ns,
                s.during.idle_ns,
            )
            for s in report.steps
        ]
        streams = site.rows("after", "idle", rank=report.rank)
        waits = ("busy_seconds", "idle_seconds", "host_wait_seconds", "kernel_wait_seconds", "other_seconds")
        assert sorted(columns(streams, "device", "stream", *waits)) == sorted(
            (s.device, s.stream, s.busy_ns, s.idle.idle_ns, s.idle.host_wait_ns, s.idle.kernel_wait_ns, s.idle.other_ns)
            for s in report.streams
        )


def test_the_odd_step_is_marked_and_its_rank_named(site: Site) -> None:
    steps = site.rows("after", "steps")
    assert [(each["step"], each["ranks"], each["odd"], each["slowest_rank"]) for each in steps][2] == (
        "ProfilerStep#2",
        2,
        True,
        1,
    )
    assert [each["odd"] for each in steps] == [False, False, True]
    assert [each["odd"] for each in site.rows("before", "steps")] == [False] * 3


def test_copies_and_memory_read_as_in_the_report(site: Site) -> None:
    (report, _) = site.captures["before"].reports
    found = site.get("before", "memory", rank=0)
    assert columns(found["copies"], "operation", "count", "total_seconds", "min_seconds", "max_seconds", "bytes") == [
        (each.name, each.count, each.total_ns, each.min_ns, each.max_ns, each.bytes)
        for each in report.memory_operations
    ]
    (copies,) = report.memory_operations
    assert copies.gb_per_s is not None
    assert found["copies"][0]["bytes_per_s"] == pytest.approx(copies.gb_per_s * 1e9)
    assert found["copies"][0]["paths"] == [path for path, _ in copies.paths]
    assert report.memory is not None
    assert [(each["device_type"], each["peak_bytes"]) for each in found["devices"]] == [
        ("gpu", report.memory[0].peak_bytes)
    ]
    assert [each["module"] for each in found["devices"][0]["holders"]] == [
        each.module for each in report.memory[0].holders
    ]


def test_findings_are_in_words_with_what_to_do(site: Site) -> None:
    (report, _) = site.captures["before"].reports
    found = site.rows("before", "findings", rank=0)
    assert columns(found, "id", "text", "advice", "value", "unit", "cost_seconds") == [
        (each.id, each.text, each.advice, each.value, each.unit, each.cost_ns) for each in report.findings
    ]
    told = job_findings(site.captures["straggler"].job)
    between = {each["id"]: each for each in site.rows("straggler", "findings") if each["worst_rank"] is None}
    assert {"straggler_rank", "load_imbalance"} <= between.keys()
    assert sorted((each["id"], each["text"], each["advice"], each["value"]) for each in between.values()) == sorted(
        (each.id, each.text, each.advice, each.value) for each in told
    )
    assert between["straggler_rank"]["text"].startswith(
        "Rank 1 comes last to 4 of 4 collectives, 1.2 ms after the last but one"
    )
    costs = [each["cost_seconds"] for each in site.rows("straggler", "findings")]
    assert costs == sorted(costs, reverse=True)


def test_collectives_and_stragglers_read_as_those_of_the_job(site: Site) -> None:
    told = site.captures["straggler"].job
    (late,) = site.rows("straggler", "stragglers")
    (expected,) = told.stragglers
    assert columns(
        [late], "rank", "last", "of", "cost_seconds", "late_seconds", "worst_seconds", "waited_seconds", "cause"
    ) == [
        (
            expected.rank,
            expected.last,
            expected.of,
            expected.cost_ns,
            expected.late_ns,
            expected.worst_ns,
            expected.waited_ns,
            expected.cause,
        )
    ]
    (met,), (collective,) = site.rows("straggler", "collectives"), told.collectives
    assert columns([met], "kind", "bytes", "collectives", "wait_seconds", "total_seconds", "transfer_p50_seconds") == [
        (
            collective.kind,
            collective.bytes,
            collective.count,
            collective.wait_ns,
            collective.total_ns,
            collective.transfer_p50_ns,
        )
    ]
    assert (met["last_rank"], met["late"]) == (1, 4)
    skewed = site.rows("straggler", "skew")
    assert columns(skewed, "meeting", "last_rank", "skew_seconds", "cause") == [
        (meeting, 1, 300_000, "slow_kernels" if meeting else "") for meeting in range(4)
    ]


# --- two captures ----------------------------------------------------------------------------------------------------


def test_two_captures_differ_as_the_command_says(site: Site) -> None:
    told = site.captures["after"].since(site.captures["before"])
    found = site.get("after", "diff")
    assert (found["unit"], told.unit) == ("step", "step")
    for part in told.parts:
        name = part.part.replace("_ns", "_seconds")
        assert (found["before"][name] * 1e9, found["after"][name] * 1e9) == pytest.approx(
            (part.before_ns, part.after_ns), abs=1
        )
    assert found["after"]["kernels_seconds"] * 1e9 == pytest.approx(told.kernels_ns.after_ns)
    kernels = {each["name"]: each for each in site.rows("after", "diff_kernels", limit=500)}
    assert {name: (k["status"], k["before_count"], k["after_count"]) for name, k in kernels.items()} == {
        each.name: (each.status, each.before_count, each.after_count) for each in told.kernels
    }
    for each in told.kernels:
        mine = kernels[each.name]
        ours = mine["change_seconds"], mine["by_number_seconds"], mine["by_duration_seconds"]
        assert [1e9 * one for one in ours] == pytest.approx(
            [each.change_ns, each.by_number_ns, each.by_duration_ns], abs=1e-3
        )
    operators = {each["operator"]: each["change_gpu_seconds"] * 1e9 for each in site.rows("after", "diff_operators")}
    assert {each.name: pytest.approx(each.change_ns, abs=1e-3) for each in told.operators_gpu} == {
        name: change for name, change in operators.items() if name in {each.name for each in told.operators_gpu}
    }


def test_of_two_captures_what_got_slower_alone(site: Site) -> None:
    assert [each["kernel"] for each in site.rows("after", "diff_kernels", status="came")] == ["gemm_v2"]
    assert [each["kernel"] for each in site.rows("after", "diff_kernels", status="slower")] == ["small_0"]
    assert site.rows("after", "diff_kernels", status="slower", search="gemm") == []
    assert [each["kernel"] for each in site.rows("after", "diff_kernels", limit=1)] == ["gemm_v2"]


def test_a_base_that_is_not_analysed_or_the_same_is_refused(site: Site) -> None:
    (detail,) = site.get("after", "diff", code=422, base="no such")["detail"]
    assert detail["loc"] == ["query", "base"]
    assert "no such" in detail["msg"]
    assert "choose another" in site.get("after", "diff", code=409, base="after")["detail"]


# --- what is there --------------------------------------------------------------------------------------------------


def test_captures_that_are_analysed_are_listed_and_found(site: Site) -> None:
    found = site.client.get("/api/v1/traces", params={"search": "strag"}).json()
    models.CapturesAnalysed.model_validate(found)
    assert [(each["capture_id"], each["ranks"], each["hosts"]) for each in found["data"]] == [("straggler", 2, ["ant"])]
    assert site.client.get("/api/v1/traces").json()["total"] == 5


@pytest.mark.parametrize("what", ANSWERS)
def test_any_name_works(site: Site, what: str) -> None:
    site.get(STRANGE, what)


def test_lists_page_sort_and_filter(site: Site) -> None:
    first = site.get("before", "kernels", limit=5, sort="kernel")
    second = site.get("before", "kernels", limit=5, sort="kernel", offset=first["next"])
    names = [each["kernel"] for each in first["data"] + second["data"]]
    assert (first["total"], names) == (23, sorted(names))
    assert [each["sort"] for each in site.rows("before", "kernels", kind="memcpy")] == ["memcpy"]
    assert [each["operator"] for each in site.rows("before", "kernels", search="aten::mm")] == ["aten::mm"]
    (detail,) = site.get("before", "kernels", code=422, sort="-nothing")["detail"]
    assert detail["loc"] == ["query", "sort"]


def test_an_answer_that_is_known_is_not_sent_again(site: Site) -> None:
    path = "/api/v1/traces/before/kernels"
    tag = site.client.get(path).headers["etag"]
    assert site.client.get(path, headers={"if-none-match": tag}).status_code == 304


@pytest.mark.parametrize("what", ANSWERS)
def test_what_nobody_captured_is_not_found_and_named(site: Site, what: str) -> None:
    asked = "no/such capture"
    if what in ("ranks", "kernels"):
        (detail,) = site.get(asked, what, code=404)["detail"]
        assert asked in detail["msg"]
        assert detail["loc"] == ["path", "capture"]
    else:
        site.get(asked, what, code=404)


def test_a_rank_that_is_not_there_and_one_that_is_several(site: Site) -> None:
    (detail,) = site.get("before", "kernels", code=404, rank=7)["detail"]
    assert detail["msg"] == "rank 7 of before is not analysed; there are 0, 1"
    (detail,) = site.get("untold", "kernels", code=422, rank=0)["detail"]
    assert "ant/0, ant/1" in detail["msg"]
    gemm = site.rows("untold", "kernels", process="ant/1", search="gemm")
    assert [ns(each["total_seconds"]) for each in gemm] == [1_600_000]


@pytest.mark.parametrize(
    ("name", "state", "says"),
    [
        ("new", "capturing", "is being captured"),
        ("waiting", "waiting", "captured and not analysed yet (1 trace)"),
        ("broken", "failed", "its analysis failed: no trace: it is empty"),
        ("none", "failed", "nothing of none was captured"),
    ],
)
def test_what_is_not_analysed_says_how_far_it_is(site: Site, name: str, state: str, says: str) -> None:
    found = site.get(name, "ranks")
    assert (found["state"], found["data"], found["processes"]) == (state, [], 1)
    assert says in found["why"]
    assert says in site.get(name, "kernels", code=409)["detail"]


@needs_traces
def test_real_traces_read_as_their_reports(site: Site, shared_tables: Client, embedded: Store) -> None:
    real = analysed([FOLDER / f"hta_trace_filter_2ranks_rank{rank}.json.gz" for rank in (0, 1)])
    load(shared_tables, replace(embedded, database="shared"), "real", real)
    for report in real.reports:
        (row_,) = [each for each in site.rows("real", "ranks") if each["rank"] == report.rank]
        assert {part: ns(row_[f"{part}_seconds"]) for part in PARTS} == {
            part: getattr(report, f"{part}_ns") for part in PARTS
        }
        kernels = site.rows("real", "kernels", rank=report.rank, limit=1000)
        assert columns(kernels, "name", "count", "total_seconds") == [
            (k.name, k.count, k.total_ns) for k in report.kernels
        ]
        copies = site.get("real", "memory", rank=report.rank)["copies"]
        assert columns(copies, "operation", "count", "total_seconds", "bytes") == [
            (each.name, each.count, each.total_ns, each.bytes) for each in report.memory_operations
        ]
    told = {each.rank: each.cost_ns for each in real.job.stragglers if each.last}
    assert {each["rank"]: ns(each["cost_seconds"]) for each in site.rows("real", "stragglers")} == told
