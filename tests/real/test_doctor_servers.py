"""`warpmeter doctor --for PART`, on a real bus, a real engine and a real page."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Tansu
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import make_topics, settings_for, store_settings
from tests.real.up import warpmeter
from tests.web_process import WebProcess
from warpmeter.cli import servers
from warpmeter.settings import Settings, Store, Web

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


def told(part: str, settings: Settings, folder: Path) -> dict[str, Any]:
    """What the command says of a part, by check."""
    named = {
        "STORE__DSN": settings.store.dsn,
        "KAFKA__TOPIC_PREFIX": settings.kafka.topic_prefix,
        "KAFKA__PARTITIONS": "3",
    }
    env = {**os.environ, **{f"WARPMETER_{name}": value for name, value in named.items()}}
    own = ("--data", str(folder / "no-up"), "--bootstrap-servers", settings.kafka.bootstrap_servers)
    done = subprocess.run(
        warpmeter("doctor", "--for", part, "--json", *own), env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (0, 1), done.stderr
    return {each["check"]: each for each in json.loads(done.stdout)}


def test_each_part_is_told_what_it_lacks(tansu: Tansu, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> None:
    settings = settings_for(tansu, engine, topic_prefix, tmp_path)
    before = told("ingest", settings, tmp_path)
    assert before["topics"]["verdict"] == "failed", "a part that lacks its topics cannot work"
    assert before["topics"]["remedy"] == "warpmeter topics --create"
    make_topics(settings)
    after = told("ingest", settings, tmp_path)
    assert list(after) == [
        "python", "clock", "disk", "broker", "topics", "clickhouse", "cluster", "store disk", "tables", "ingest",
        "replays", "rights ingest",
    ]  # fmt: skip
    assert {
        name: each
        for name, each in after.items()
        if each["verdict"] != "ok" and name not in ("clock", "disk", "store disk")
    } == {}
    assert "MiB of" in after["store disk"]["seen"]
    away = told("store", replace(settings, store=Store(dsn="http://127.0.0.1:1")), tmp_path)
    assert {name: each["verdict"] for name, each in away.items()} == {
        "clickhouse": "failed", "cluster": "ok", "store disk": "failed", "tables": "failed", "replays": "failed",
    }  # fmt: skip


def test_a_cluster_that_the_server_does_not_know_is_said(engine: EngineServer) -> None:
    found = servers.cluster(Settings(store=replace(store_settings(engine), cluster="fleet")))
    assert (found.verdict, found.seen) == ("failed", "the server knows no cluster 'fleet'")
    away = servers.cluster(Settings(store=Store(dsn="http://user:hidden@127.0.0.1:1", cluster="fleet")))
    assert away.verdict == "failed"
    assert "hidden" not in f"{away}"


def test_the_page_is_asked_where_it_should_be(engine: EngineServer, tmp_path: Path) -> None:
    with closing(WebProcess(tmp_path, settings=Settings(store=Store(dsn=engine.url, database="warpmeter")))) as well:
        settings = Settings(web=Web(port=well.ready().port))
        assert servers.page(settings).seen == f"{well.url} answers, and its store does"
    assert "is free" in servers.page(settings).seen
    with closing(WebProcess(tmp_path)) as ill:
        found = servers.page(Settings(web=Web(port=ill.ready().port)))
    assert (found.verdict, found.seen) == ("failed", f"{ill.url} answers, and its store does not")
    other = servers.page(Settings(web=Web(port=engine.port)))
    assert other.verdict == "failed"
    assert "no page of warpmeter" in other.seen
