"""Every host and every job is found by its name, whatever is in it; and HEAD is answered wherever GET is."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from tests.tables import land, row
from tests.web import visitor
from warpmeter.settings import Settings, Store
from warpmeter.store import Client

NAMES: Final = (
    "plain", "a/b", "a", "a/events", "a/b/events", "events", "x/ranks", "x/hosts/ranks", "new\nline\n", "%2F", "a%2Fb",
    "?#&", "/", "//", "/a/", "ä ö", "__proto__", "..a", "a+b", "%",
    "x' OR 1=1 --", "x\\' OR 1=1 --", "'; DROP TABLE hosts --", "{host:String}",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(embedded: Store, shared_tables: Client) -> Iterator[TestClient]:
    """A host of each name with a job of that name."""
    now = time.time() // 60 * 60 - 60
    stamps = [{"host": name, "ts": now, "period_ms": 10_000} for name in NAMES]
    told = {"source": "gpu", "state": "unsupported"}
    run = {"event": "running", "started_at": now}
    landed: dict[str, list[dict[str, Any]]] = {
        "host-samples": [{**stamp, "cpu_util_permille": 300} for stamp in stamps],
        "source-health": [{**stamp, **told, "why": f"of {stamp['host']}"} for stamp in stamps],
        "job-events": [{**stamp, **run, "job_id": stamp["host"], "tree_id": stamp["host"]} for stamp in stamps],
    }
    for topic, rows in landed.items():
        land(shared_tables, topic, [row(topic, **fields) for fields in rows])
    with visitor(Settings(store=replace(embedded, database="shared"))) as client:
        yield client


@pytest.mark.parametrize("name", NAMES)
def test_a_host_and_a_job_are_found_by_their_names(site: TestClient, name: str) -> None:
    host, job = (f"/api/v1/{kind}/{quote(name, safe='')}" for kind in ("hosts", "jobs"))
    assert site.get(host).json()["host"] == name
    assert [each["why"] for each in site.get(f"{host}/sources").json()["data"]] == [f"of {name}"]
    assert [each["job_id"] for each in site.get(f"{host}/jobs").json()["data"]] == [name]
    assert site.get(f"{host}/events").status_code == 200
    assert site.get(job).json()["job_id"] == name
    assert [each["host"] for each in site.get(f"{job}/hosts").json()["data"]] in ([name], [])
    for part in ("ranks", "efficiency"):
        assert site.get(f"{job}/{part}").status_code == 200


def test_names_that_look_like_sql_are_values(site: TestClient) -> None:
    for name in ("nobody' OR '1'='1", "nobody') OR (1=1) --", "nobody\\' OR 1=1 --"):
        for kind in ("hosts", "jobs"):
            assert site.get(f"/api/v1/{kind}/{quote(name, safe='')}").status_code == 404
        assert site.get("/api/v1/jobs", params={"user": name}).json()["data"] == []


def test_a_slash_that_is_not_encoded_is_a_names_where_no_other_path_is(site: TestClient) -> None:
    assert site.get("/api/v1/hosts/a/b").json()["host"] == "a/b"
    assert site.get("/api/v1/hosts/a/b/sources").json()["data"][0]["why"] == "of a/b"
    assert "data" in site.get("/api/v1/hosts/a/events").json()


def test_what_is_not_there_is_named(site: TestClient) -> None:
    answer = site.get("/api/v1/hosts/no%2Fsuch/events")
    assert (answer.status_code, answer.json()["detail"][0]["input"]) == (404, "no/such")


@pytest.mark.parametrize(
    "path", ["/hosts", "/hosts/a%2Fevents", "/session", "/health", "/metrics", "/series?metric=cpu_util"]
)
def test_head_is_answered_as_get_is(site: TestClient, path: str) -> None:
    got, head = (site.request(method, f"/api/v1{path}") for method in ("GET", "HEAD"))
    assert (got.status_code, head.status_code, head.headers.get("content-type")) == (200, 200, "application/json")


def test_what_is_not_for_reading_is_not_for_head(site: TestClient) -> None:
    assert site.head("/api/v1/sql").status_code == 405
    assert site.head("/api/v1/hosts/nobody").status_code == 404
