"""An agent keeps its trace store within its limits."""

from pathlib import Path

import pytest

from tests.real import agents
from tests.real.test_captures_agent import asked, kafka, sockets
from tests.wait import until
from warpmeter.settings import Settings

__all__ = ["asked", "kafka", "sockets"]
pytestmark = pytest.mark.timeout(600)


def test_an_agent_removes_traces_that_are_too_old(asked: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "store" / "4711" / "cap"
    folder.mkdir(parents=True)
    old, other = folder / "ant_rank0_7_1_20260131T120000Z.json.gz", folder / "notes.txt"
    for file in (old, other):
        file.write_text("x")
    with agents.running(asked, log=tmp_path / "agent.log"):
        until(lambda: not old.exists(), "the old trace to go")
    assert other.exists()
