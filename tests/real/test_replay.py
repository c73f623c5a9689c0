"""`warpmeter replay`: a time range landed again is in the raw table and every rollup once, killed wherever."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.replay_world import GPUS, HOSTS, JOBS, Crash, Watching, World
from warpmeter.consumers.replay.errors import ReplayError

STAGES = ["reading", "comparing", "deleting", "landing", "step of landing", "removing"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(EngineServer(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture
def world(broker: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> World:
    world = World.made(broker, engine, topic_prefix, tmp_path)
    world.send()
    world.ingest()
    return world


def test_what_is_whole_is_the_same_after_a_replay(world: World) -> None:
    before = world.snapshot()
    for topic in (GPUS, HOSTS, JOBS):
        assert world.replay(topic).done
        assert world.snapshot() == before, topic
