"""What was captured is analysed and loaded in a process of its own, within its memory and its time."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.captures import two_ranks
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import store_settings
from tests.tables import ask
from tests.wait import until
from warpmeter.captures.ranks import Event
from warpmeter.scheduler.analyst import Analyst
from warpmeter.scheduler.capture import Analyse
from warpmeter.settings import Log, Scheduler, Settings

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine"))) as server:
        yield server


@pytest.fixture
def settings(engine: EngineServer, tmp_path: Path) -> Settings:
    return Settings(
        store=store_settings(engine), log=Log(format="json"), scheduler=Scheduler(data=tmp_path / "scheduler")
    )


def captured(files: Sequence[str], capture_id: str, sequence: int = 1, sha256: str = "") -> Analyse:
    """A round of a capture whose traces are these files."""
    events = [
        Event(
            capture_id=capture_id, ts=time.time(), sequence=sequence, state="captured", by="agent", host=f"h{n}",
            pid=7 + n, url=file, job_id="j", raw_bytes=1000, sha256=sha256,
        )
        for n, file in enumerate(files)
    ]  # fmt: skip
    return Analyse(capture_id, sequence, tuple(events))


def analysed(settings: Settings, wanted: Analyse) -> list[Event]:
    """What is said of each trace in the end."""
    analyst, said = Analyst(settings), list[Event]()

    def done() -> bool:
        said.extend(analyst.said())
        return len(said) == len(wanted.traces)

    analyst.analyse(wanted)
    until(done, "the analysis", 200)
    assert not list(settings.scheduler.data.iterdir()), "nothing is left of it"
    return said


def loaded(engine: EngineServer, capture_id: str) -> list[tuple[object, ...]]:
    with closing(engine.client()) as client:
        return ask(
            client, "SELECT rank, host FROM trace_ranks WHERE capture_id = {c:String} ORDER BY rank", c=capture_id
        )


@pytest.mark.long
def test_ranks_are_loaded_together_and_a_broken_trace_takes_none_along(
    settings: Settings, engine: EngineServer, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("no trace")
    files = [*map(str, two_ranks(tmp_path)), f"file://{broken}", f"{tmp_path}/nowhere.json"]
    said = analysed(settings, captured(files, "mixed", 2))
    assert [(each.host, each.pid, each.state, each.reason, each.sequence) for each in said] == [
        ("h0", 7, "analysed", "", 2),
        ("h1", 8, "analysed", "", 2),
        ("h2", 9, "analysed", "analysis_failed", 2),
        ("h3", 10, "analysed", "analysis_failed", 2),
    ]
    assert "broken.json" in said[2].why
    assert loaded(engine, "mixed-2") == [(0, "h0"), (1, "h1")]


def test_a_trace_of_another_store_is_fetched_and_its_checksum_held_to(
    settings: Settings, engine: EngineServer, tmp_path: Path
) -> None:
    file = two_ranks(tmp_path)[0]
    right = hashlib.sha256(file.read_bytes()).hexdigest()
    assert [each.reason for each in analysed(settings, captured([f"local://{file}"], "fetched", sha256=right))] == [""]
    assert loaded(engine, "fetched") == [(0, "h0")]
    (said,) = analysed(settings, captured([f"local://{file}"], "other", sha256="0" * 64))
    assert "checksum" in said.why


def test_an_analysis_that_wants_too_much_memory_or_time_ends_with_the_reason(
    settings: Settings, tmp_path: Path
) -> None:
    files = [str(two_ranks(tmp_path)[0])]
    tight = replace(settings, scheduler=replace(settings.scheduler, analyse_bytes=24 << 20))
    (said,) = analysed(tight, captured(files, "tight"))
    assert said.reason == "analysis_failed"
    assert "memory" in said.why.lower()
    hurried = replace(settings, scheduler=replace(settings.scheduler, analyse_s=0.01))
    (said,) = analysed(hurried, captured(files, "hurried"))
    assert (said.reason, "longer than" in said.why) == ("analysis_failed", True)


def test_a_store_that_is_away_is_said(settings: Settings, tmp_path: Path) -> None:
    away = replace(settings, store=replace(settings.store, dsn="http://127.0.0.1:9"))
    (said,) = analysed(away, captured([str(two_ranks(tmp_path)[0])], "away"))
    assert (said.reason, "not loaded" in said.why) == ("analysis_failed", True)
