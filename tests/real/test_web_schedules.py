"""Schedules over the API: set, they begin captures by themselves; removed, no more; the settings' own stay theirs."""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.brokers import Tansu
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import IngestProcess, settings_for
from tests.scheduler_process import SchedulerProcess
from tests.wait import until
from warpmeter import topics
from warpmeter.captures import schedules
from warpmeter.captures.asking import Asker
from warpmeter.settings import Metrics, Schedule, Scheduler
from warpmeter.web.api.schedules import TOPIC
from warpmeter.web.app import api_app

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
FIXED = Schedule("fixed", cron="0 3 * * *", hosts=("gpu01",), duration_ms=500)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine"))) as server:
        yield server


@pytest.fixture
def api(tansu: Tansu, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Iterator[TestClient]:
    """Bus, ingest, a scheduler with one schedule of its settings, and the API."""
    base = settings_for(tansu, engine, topic_prefix, tmp_path)
    settings = replace(
        base,
        scheduler=Scheduler(group=f"{topic_prefix}-s", analyse=False, data=tmp_path / "scheduler", schedules=(FIXED,)),
        metrics=Metrics(ingest_port=0, scheduler_port=0),
    )
    topics.ensure(settings.kafka)
    with ExitStack() as stack:
        stack.enter_context(closing(IngestProcess(settings, tmp_path / "ingest.log"))).ready()
        stack.enter_context(closing(SchedulerProcess(settings, tmp_path / "scheduler.log"))).until_active()
        yield stack.enter_context(TestClient(api_app(settings), base_url="http://127.0.0.1"))


def held(api: TestClient) -> dict[str, dict[str, Any]]:
    """Schedules that hold, by name."""
    return {each["name"]: each for each in api.get("/api/v1/schedules").json()["data"]}


def captures(api: TestClient) -> int:
    """How many captures of the schedule `often` were asked for."""
    return int(api.get("/api/v1/captures", params={"by": "schedule:often"}).json()["total"])


def rests(api: TestClient, log: Path) -> bool:
    """Whether four seconds pass without a run of `often`, which is due each second: begun, or skipped for another."""
    before = captures(api), log.read_text().count("skipped")
    time.sleep(4)
    return (captures(api), log.read_text().count("skipped")) == before


def test_a_schedule_is_set_runs_and_is_removed(api: TestClient, tmp_path: Path) -> None:
    until(lambda: "fixed" in held(api), "the scheduler to tell its own", 60)
    assert held(api)["fixed"]["fixed"] is True
    endless = schedules.row(Schedule("endless", every_s=math.inf, hosts=("gpu01",), duration_ms=500), "somebody")
    Asker(api.app.state.settings.kafka, "test").put(TOPIC, {"endless": endless})  # type: ignore[attr-defined]
    until(lambda: "endless" in held(api), "what came past the API", 60)
    assert held(api)["endless"]["every_s"] is None
    body = {"every": "1s", "hosts": ["gpu01"], "duration": "500ms", "stacks": True}
    assert api.put("/api/v1/schedules/often", json=body).status_code == 202
    until(lambda: captures(api) >= 1, "a capture by itself", 90)
    assert (held(api)["often"]["every_s"], held(api)["often"]["set_by"]) == (1.0, "local")
    assert api.delete("/api/v1/schedules/often").status_code == 202
    assert api.delete("/api/v1/schedules/endless").status_code == 202
    until(lambda: not {"often", "endless"} & set(held(api)), "it to be gone", 60)
    until(lambda: rests(api, tmp_path / "scheduler.log"), "no more of it")


def test_what_cannot_be_meant_or_changed_is_refused(api: TestClient) -> None:
    until(lambda: "fixed" in held(api), "the scheduler to tell its own", 60)
    for body, word in (
        ({"hosts": ["a"]}, "one of"), ({"cron": "0 25 * * *", "hosts": ["a"]}, "cron"), ({"every": "1h"}, "target"),
        ({"every": "soon", "hosts": ["a"]}, "length of time"), ({"often": 1}, "Extra"),
    ):  # fmt: skip
        refused = api.put("/api/v1/schedules/mine", json=body)
        assert (refused.status_code, word in refused.text) == (422, True), refused.text
    assert api.put("/api/v1/schedules/fixed", json={"every": "1h", "hosts": ["a"]}).status_code == 409
    assert api.delete("/api/v1/schedules/fixed").status_code == 409
    assert api.delete("/api/v1/schedules/none").status_code == 404
