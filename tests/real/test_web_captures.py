"""Captures over HTTP: asked for, followed, ended, and their traces fetched; on a real bus, with a real scheduler."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from tests.brokers import Tansu
from tests.capture_site import JOB, SUM, TRACE, Storing, running
from tests.scheduler_process import Heard, say
from tests.wait import until
from tests.web import visitor
from warpmeter.captures import asking
from warpmeter.captures.ranks import Event
from warpmeter.settings import Settings, Token, Web
from warpmeter.web.captures import looking

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
VIEWER = Token("bob", "viewer", "viewer-of-this-test")
OPERATOR = Token("ann", "operator", "operator-of-this-test")


@dataclass
class World:
    """Bus, store, scheduler and agents of h0 and h1, on which JOB runs; h2 runs it too, and its agent is away."""

    settings: Settings
    site: TestClient
    agents: Storing
    requests: Heard

    def told(self, path: str, status: int = 200, **asked: Any) -> Any:
        answer = self.site.get(f"/api/v1{path}", params=asked)
        assert answer.status_code == status, answer.text
        return answer.json()

    def ask(self, status: int = 202, **body: Any) -> Any:
        answer = self.site.post("/api/v1/captures", json={"duration": "500ms", **body})
        assert answer.status_code == status, answer.text
        return answer.json()

    def until_ended(self, capture_id: str) -> dict[str, Any]:
        """How it stands once it has ended."""
        until(lambda: self.told(f"/captures/{capture_id}")["state"] == "ended", "the capture to end")
        return dict(self.told(f"/captures/{capture_id}"))

    def captured(self, **body: Any) -> str:
        """A capture of h0 and h1 that has ended."""
        name = str(self.ask(**{"job_id": JOB, "hosts": ["h0", "h1"], **body})["capture_id"])
        self.until_ended(name)
        return name


@pytest.fixture(scope="module")
def world(tansu: Tansu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        site = stack.enter_context(running(tansu, tmp_path_factory.mktemp("captures")))
        requests = stack.enter_context(closing(Heard(site.settings.kafka, "capture-requests")))
        client = stack.enter_context(visitor(site.settings))
        yield World(site.settings, client, site.agents, requests)


def test_a_capture_is_asked_for_followed_listed_and_downloaded_in_parts(world: World) -> None:
    asked = world.site.post("/api/v1/captures", json={"job_id": JOB, "hosts": ["h0", "h1"], "shapes": True})
    assert asked.status_code == 202
    name = asked.json()["capture_id"]
    assert asked.headers["location"] == asked.json()["follow"] == f"/api/v1/captures/{name}"
    assert name in [row["capture_id"] for row in world.told("/captures")["data"]]  # at once, before the store has it
    row = world.until_ended(name)
    assert (row["captured"], row["processes"], row["why"]) == (4, 4, "4 of 4 processes captured")
    assert (row["requested_by"], row["duration_ms"], row["shapes"], row["job_id"]) == ("local", 500, True, JOB)
    ranks = world.told(f"/captures/{name}/ranks")
    assert [(each["host"], each["pid"], each["state"], each["stored"]) for each in ranks["data"]] == [
        (host, pid, "captured", True) for host in ("h0", "h1") for pid in (1, 2)
    ]
    _is_downloaded_in_parts(world.site, name)
    # Another process of the web heard nothing of it: it has all that from the store.
    with visitor(world.settings) as fresh:
        until(lambda: fresh.get(f"/api/v1/captures/{name}").json().get("state") == "ended", "ingest to land it")
        (stored,) = fresh.get("/api/v1/captures", params={"job": JOB, "search": name}).json()["data"]
        assert {**row, "summary": ""} == stored
        assert fresh.get(f"/api/v1/captures/{name}/ranks").json()["data"] == ranks["data"]
        _is_downloaded_in_parts(fresh, name)


def _is_downloaded_in_parts(site: TestClient, name: str) -> None:
    files = site.get(f"/api/v1/traces/{name}/files").json()
    assert (files["total"], {each["sha256"] for each in files["data"]}) == (4, {SUM})
    href = files["data"][0]["href"]
    whole = site.get(href)
    assert (whole.status_code, whole.content == TRACE, whole.headers["etag"]) == (200, True, f'"{SUM}"')
    assert whole.headers["content-disposition"].startswith('attachment; filename="h0_1.json.gz"')
    head = site.head(href)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(TRACE)))
    for asked, part in (("bytes=10-19", TRACE[10:20]), ("bytes=-7", TRACE[-7:]), ("bytes=3000000-", TRACE[3_000_000:])):
        answer = site.get(href, headers={"range": asked, "accept-encoding": "gzip"})
        first = TRACE.index(part)
        assert (answer.status_code, answer.content == part) == (206, True)
        assert answer.headers["content-range"] == f"bytes {first}-{first + len(part) - 1}/{len(TRACE)}"
    assert site.get(href, headers={"range": "bytes=99999999-"}).status_code == 416
    assert site.get(href, headers={"range": "bytes=0-1", "if-range": '"another"'}).content == TRACE
    assert site.get(href, headers={"range": "bytes=0-1", "if-range": f'"{SUM}"'}).content == TRACE[:2]
    assert site.get(href, headers={"if-none-match": f'"{SUM}"'}).status_code == 304


def test_what_an_agent_says_is_shown_within_a_second(world: World) -> None:
    world.told("/captures/nothing", 404)
    name = world.captured()
    late = [_seen_after_s(world, name, pid) for pid in (100, 101, 102)]
    assert sorted(late)[1] < 1.0, late  # of three: one machine stands still now and then


def _seen_after_s(world: World, name: str, pid: int) -> float:
    event = Event(capture_id=name, ts=time.time(), sequence=1, state="seen", by="agent", host="h0", pid=pid)
    say(world.settings.kafka, [event])
    said = time.monotonic()

    def known() -> bool:
        return pid in [row["pid"] for row in world.told(f"/captures/{name}/ranks")["data"]]

    until(known, "the event to be shown")
    return time.monotonic() - said


def test_asked_twice_by_one_name_it_is_one_capture(world: World) -> None:
    name = f"mine-{time.time_ns()}"
    body: dict[str, Any] = {"job_id": JOB, "hosts": ["h0"], "capture_id": name}
    assert world.ask(**body)["capture_id"] == name
    assert world.ask(200, **body)["capture_id"] == name
    others: tuple[dict[str, Any], ...] = ({"duration": "2s"}, {"shapes": True}, {"hosts": ["h1"]}, {"pids": [100]})
    for other in others:
        assert "called" in world.ask(409, **{**body, **other})["detail"]
    world.until_ended(name)
    until(lambda: world.ask(200, **body)["state"] == "ended", "the end to be known to who asks again")
    assert "called" in world.ask(409, **{**body, "shapes": True})["detail"]
    assert [each.capture_id for each in world.requests.rows].count(name) == 1


@pytest.mark.parametrize("action", ["cancel", "detach"])
def test_a_continuous_capture_goes_on_until_it_is_ended(world: World, action: str) -> None:
    name = world.ask(hosts=["h0"], pids=[1], mode="continuous", interval="1s")["capture_id"]
    until(lambda: world.told(f"/captures/{name}")["captured"] >= 1, "a first trace")
    assert name in [row["capture_id"] for row in world.told("/captures", state="running")["data"]]
    answer = world.site.post(f"/api/v1/captures/{name}/{action}")
    assert (answer.status_code, answer.headers["location"]) == (202, f"/api/v1/captures/{name}")
    row = world.until_ended(name)
    assert row["reason"] == ("cancelled_by_request" if action == "cancel" else "")
    again = world.site.post(f"/api/v1/captures/{name}/{action}")
    assert (again.status_code, again.json()["state"]) == (200, "ended")


def test_why_a_process_cannot_be_traced_is_its_agents_word(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "LOOK_S", 8.0)  # on a busy machine agents that are there take a second or two
    found = world.told(f"/jobs/{quote(JOB, safe='')}/profilable")
    assert (found["ready"], found["total"], found["hosts"], found["silent"]) == (4, 5, 3, 1)
    assert found["why"] == "4 of 5 processes can be traced; 1 of 3 hosts do not answer"
    (silent,) = [each for each in found["data"] if not each["ready"]]
    assert (silent["host"], silent["rank"], silent["reason"]) == ("h2", 2, "agent_away")
    assert "does it run there" in silent["why"]
    assert world.told("/jobs/nothing/profilable", 404)["detail"][0]["loc"] == ["path", "job_id"]
    assert not [each for each in world.told("/captures")["data"] if each["capture_id"].startswith("look-")]


def test_what_lies_outside_of_the_store_is_not_given_out(world: World) -> None:
    world.agents.outside = True
    try:
        name = world.captured()
    finally:
        world.agents.outside = False
    href = world.told(f"/traces/{name}/files")["data"][0]["href"]
    refused = world.site.get(href)
    assert (refused.status_code, "outside of the trace store" in refused.json()["detail"]) == (404, True)


REFUSED = (
    ({"duration": "7"}, "duration"), ({"duration": "700s"}, "duration"),
    ({"duration": "1s", "iterations": 3}, "iterations"),
    ({"memory": True, "iterations": 3, "duration": ""}, "memory"), ({"mode": "continuous"}, "interval"),
    ({"job_id": ""}, "job_id"),
    ({"pids": [1]}, "pids"), ({"max_bytes": "much"}, "max_bytes"), ({"where": "1"}, "where"), ({"count": -1}, "count"),
    ({"capture_id": "../x"}, "capture_id"), ({"job_id": "a\x00"}, "job_id"), ({"iterations": 1 << 32}, "iterations"),
)  # fmt: skip


@pytest.mark.parametrize(("body", "field"), REFUSED)
def test_what_cannot_be_carried_out_is_refused_by_its_field(world: World, body: dict[str, Any], field: str) -> None:
    refused = world.ask(422, **{"job_id": "j", **body})
    assert refused["detail"][0]["loc"] == ["body", field]
    assert refused["detail"][0]["msg"]


def test_only_an_operator_captures_and_is_named(world: World) -> None:
    settings = replace(world.settings, web=Web(tokens=(VIEWER, OPERATOR)))
    with visitor(settings, authorization=f"Bearer {VIEWER.token}") as viewer:
        assert viewer.post("/api/v1/captures", json={"job_id": JOB}).status_code == 403
        name = world.captured()
        until(lambda: viewer.get(f"/api/v1/captures/{name}").status_code == 200, "ingest to land it")
        assert viewer.post(f"/api/v1/captures/{name}/cancel").status_code == 403
    with visitor(settings, authorization=f"Bearer {OPERATOR.token}") as operator:
        name = operator.post("/api/v1/captures", json={"hosts": ["h0"]}).json()["capture_id"]
        assert operator.get(f"/api/v1/captures/{name}").json()["requested_by"] == "ann"


def test_a_bus_that_is_away_is_said_and_nothing_is_begun_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "TAKEN_S", 1.0)
    away = replace(world.settings, kafka=replace(world.settings.kafka, bootstrap_servers="127.0.0.1:9"))
    with visitor(away) as site:
        answer = site.post("/api/v1/captures", json={"job_id": JOB})
        assert (answer.status_code, "did not take the request; is it up?" in answer.json()["detail"]) == (503, True)
        assert site.get(f"/api/v1/jobs/{quote(JOB, safe='')}/profilable").status_code == 503
