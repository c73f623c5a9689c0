"""Jobs that got slower, on planted runs: what got worse, since when, and what changed with it; clean ones are none.

`train` of ann got slower in its last two runs of ten, on another host, with another batch size and another kernel;
`slides` of ann slows down in the middle of its one run; `steady` of bob, and a `train` of cid, do what they always did.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests import captures, tables
from tests.tables import land, row, token
from tests.web import visitor
from warpmeter import landing, queries, regressions
from warpmeter.alerts.rule import builtin
from warpmeter.cli import regressing
from warpmeter.landing import Process
from warpmeter.regressions import Asked, Regression
from warpmeter.settings import Settings, Store
from warpmeter.store import Client

pytestmark = pytest.mark.long
SEED: Final = 5
RUNS: Final = 10
SLOW: Final = (8, 9)
MINUTES: Final = 170
KERNELS: Final = {"gemm": 800_000, "softmax": 90_000, "layer_norm": 40_000}


@dataclass(frozen=True)
class Planted:
    """A run: its figures by the minute after `begun`; `slow_from`: the minute from which on it is slower by a third."""

    user: str
    name: str
    number: int
    begun: datetime
    minutes: int = MINUTES
    slow_from: int | None = None
    host: str = "ant"
    command: str = "python train.py --batch 64 --lr 0.1"

    @property
    def job_id(self) -> str:
        return f"{self.name}-{self.user}-{self.number}"

    def slower(self, minute: int) -> float:
        return 1.3 if self.slow_from is not None and minute >= self.slow_from else 1.0


@pytest.fixture(scope="module")
def noon(shared_tables: Client) -> datetime:
    """The last whole hour, by the store's clock."""
    return datetime.fromtimestamp(tables.one(shared_tables, "SELECT toUnixTimestamp(toStartOfHour(now()))"), UTC)


def planted(noon: datetime) -> Iterator[Planted]:
    for number in range(RUNS):
        begun = noon - timedelta(days=RUNS - number)
        slow = number in SLOW
        yield Planted(
            "ann", "train", number, begun, slow_from=0 if slow else None, host="bee" if slow else "ant",
            command=f"python train.py --batch {128 if slow else 64} --lr 0.1",
        )  # fmt: skip
        yield Planted("bob", "steady", number, begun, host="cow")
        yield Planted("cid", "train", number, begun, host="dog")
    yield Planted("ann", "slides", 0, noon - timedelta(hours=6), minutes=350, slow_from=200, host="elk")


def rows(run: Planted, rng: random.Random) -> dict[str, list[Any]]:
    """What its agent sent, a row a minute."""
    begun, quick = run.begun.timestamp(), 1 + 0.005 * rng.gauss(0, 1)
    about = {
        "host": run.host, "job_id": run.job_id, "name": run.name, "command": run.command, "user": run.user, "pid": 7,
        "started_at": begun, "gpu_uuids": [f"GPU-{run.host}"], "gpus": [0], "world_size": 1, "rank": 0,
    }  # fmt: skip
    found: dict[str, list[Any]] = {
        "job-events": [
            row("job-events", **about, ts=begun + 60 * minute, event=event)
            for minute, event in ((0, "started"), (1, "running"), (run.minutes, "ended"))
        ],
        "gpu-samples": [],
        "metric-samples": [],
    }
    for minute in range(run.minutes):
        ts, pace = begun + 60 * minute, run.slower(minute) * quick * (1 + 0.02 * rng.gauss(0, 1))
        found["gpu-samples"].append(row(
            "gpu-samples", host=run.host, ts=ts, period_ms=60_000, gpu=0, uuid=f"GPU-{run.host}", model=f"H{run.host}",
            job_ids=[run.job_id], sm_active_permille=round(800 / pace), gpu_util_permille=990, power_deciwatts=5000,
        ))  # fmt: skip
        found["metric-samples"].append(row(
            "metric-samples", host=run.host, ts=ts, period_ms=30_000, source="paces", name="job_step_seconds",
            labels={"job_id": run.job_id, "pid": "7", "rank": "0"}, value=0.5 * pace, kind="gauge", unit="seconds",
        ))  # fmt: skip
    return found


def trace(client: Client, store: Store, run: Planted, rng: random.Random) -> None:
    """A capture of it, of one rank."""
    slow = run.user == "ann" and run.slow_from is not None
    kernels = [
        captures.kernel(
            name, round(100 * ns * (1 + 0.01 * rng.gauss(0, 1)) * (1.5 if slow and name == "softmax" else 1)), 100
        )
        for name, ns in KERNELS.items()
        if not (slow and name == "layer_norm")
    ]
    kernels += [captures.kernel("layer_norm_v2", 4_000_000, 100)] if slow else []
    at = int((run.begun + timedelta(minutes=30)).timestamp()) * 10**9
    load = landing.begin(client, f"c-{run.job_id}", run.job_id)
    step = round(5e8 * run.slower(30))
    puts = [
        landing.put(client, store, load, Process(0, run.host, True, at), captures.tables(kernels, 0, step_p50_ns=step))
    ]
    landing.publish(client, store, load, puts, lambda _: None)


@pytest.fixture(scope="module")
def known(shared_tables: Client, embedded: Store, noon: datetime) -> Client:
    """All runs, landed."""
    rng = random.Random(SEED)
    told: dict[str, list[Any]] = {}
    runs = list(planted(noon))
    for run in runs:
        for topic, some in rows(run, rng).items():
            told.setdefault(topic, []).extend(some)
    for number, (topic, some) in enumerate(told.items()):
        land(shared_tables, topic, some, token(number, number))
    for run in [each for each in runs if each.name == "train"]:
        trace(shared_tables, Store(dsn=embedded.dsn, database="shared"), run, rng)
    return shared_tables


def told(found: Regression) -> tuple[str, str, str]:
    return found.sort, found.name, found.job_id


def test_what_got_slower_is_found_and_nothing_else(known: Client) -> None:
    found = regressions.found(known)
    assert sorted(map(told, found)) == [
        ("between_runs", "train", "train-ann-9"), ("within_run", "slides", "slides-ann-0"),
    ]  # fmt: skip
    assert found[0].change >= found[1].change


def test_of_a_run_it_is_named_what_got_worse_since_when_and_what_changed(known: Client, noon: datetime) -> None:
    (found,) = regressions.found(known, Asked(name="train"))
    assert [each.metric for each in found.metrics] == ["step_seconds", "traced_step_seconds", "sm_active"]
    step, traced, active = found.metrics
    assert [step.before, step.now] == pytest.approx([0.5, 0.65], rel=0.02)
    assert [traced.before, traced.now] == pytest.approx([0.5, 0.65])
    assert [active.before, active.now] == pytest.approx([0.8, 0.8 / 1.3], rel=0.02)
    assert (found.since, found.since_job, found.runs) == (noon - timedelta(days=2), "train-ann-8", 8)
    assert {(each.what, each.name) for each in found.kernels} == {
        ("slower", "softmax"), ("came", "layer_norm_v2"), ("went", "layer_norm"),
    }  # fmt: skip
    assert [(each.what, each.before, each.now) for each in found.differs] == [
        ("GPU model", "Hant", "Hbee"), ("hosts", "1 in the runs before", "bee not among them"),
        ("command", "--batch 64", "--batch 128"),
    ]  # fmt: skip
    assert found.text.startswith("train of ann is slower than in the runs before since ")
    assert "step 499 ms → 653 ms (+31%)" in found.text
    assert "kernel softmax" in found.text
    assert "GPU model: Hant → Hbee" in found.text


def test_within_a_run_the_moment_is_named(known: Client, noon: datetime) -> None:
    (found,) = regressions.found(known, Asked(name="slides"))
    assert abs(found.since - (noon - timedelta(hours=6) + timedelta(minutes=200))) <= timedelta(minutes=10)
    assert [each.metric for each in found.metrics] == ["step_seconds", "sm_active"]
    assert found.metrics[0].change == pytest.approx(0.3, abs=0.02)


def test_a_window_before_it_and_other_names_have_none(known: Client, noon: datetime) -> None:
    before = Asked(
        since=f"{noon - timedelta(days=7):%Y-%m-%d %H:%M:%S}", until=f"{noon - timedelta(days=3):%Y-%m-%d %H:%M:%S}"
    )
    assert regressions.found(known, before) == []
    for asked in (Asked(name="steady"), Asked(user="cid"), Asked(name="nobody's"), Asked(job_id="train-cid-9")):
        assert regressions.found(known, asked) == []
    (found,) = regressions.found(known, Asked(job_id="train-ann-8"))
    assert found.job_id == "train-ann-8"
    with pytest.raises(queries.QueryError, match="empty"):
        regressions.found(known, Asked(since="now", until="-1h"))


def test_command_and_api_say_what_was_found(known: Client, embedded: Store, capsys: pytest.CaptureFixture[str]) -> None:
    settings, asked = Settings(store=Store(dsn=embedded.dsn, database="shared")), Asked(name="train")
    said = [each.told() for each in regressions.found(known, asked)]
    regressing.show(settings, asked, as_json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(said))
    regressing.show(settings, asked, as_json=False)
    table = capsys.readouterr().out
    assert all(word in table for word in ("train-ann-9", "8 runs before", "step 499 ms", "--batch 128", "layer_norm"))
    site = visitor(settings)
    answer = site.get("/api/v1/regressions", params={"name": "train"})
    assert (answer.status_code, answer.json()["data"]) == (200, json.loads(json.dumps(said)))
    assert site.get("/api/v1/regressions", params={"since": "whenever"}).status_code == 422


def alerted(client: Client, at: datetime) -> list[dict[str, Any]]:
    """What the built-in rule says at a moment."""
    rule = builtin()["job-slower-than-runs"]
    result = client.query(rule.sql, parameters={**rule.values(), "now": f"{at:%Y-%m-%d %H:%M:%S}.000"})
    return list(result.named_results())


def test_the_built_in_rule_begins_with_each_run_that_is_slow(known: Client, noon: datetime) -> None:
    for number in SLOW:
        (fired,) = alerted(known, noon - timedelta(days=RUNS - number) + timedelta(minutes=100))
        assert (fired["job_id"], fired["job"], fired["user"]) == (f"train-ann-{number}", "train", "ann")
        assert (fired["starts"], fired["metric"], fired["runs"]) == (1, "step", number)
        assert fired["value"] == pytest.approx(0.3, abs=0.03)


def test_the_built_in_rule_says_nothing_of_clean_runs(known: Client, noon: datetime) -> None:
    for back in range(3, RUNS - 4):
        for minute in (45, 100, 160):
            assert alerted(known, noon - timedelta(days=back) + timedelta(minutes=minute)) == []
