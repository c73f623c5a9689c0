"""Poison at every rate, from one in a million to all, and what surrounds it: budget, kills, a broker that refuses."""

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_bench import HALTED, Bench
from tests.ingest_process import GPUS, Feed, IngestProcess, Table, make_topics, settings_for
from tests.real.test_poison import await_letters, lettered, letters
from tests.wait import until
from warpmeter import wire
from warpmeter.consumers import status
from warpmeter.schemas.generated import gpu_samples_pb2

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

LIAR: Final = [("type", b"GpuSample"), ("rows", b"7")]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


def bench(broker: Broker, engine: EngineServer, prefix: str, folder: Path, **ingest: Any) -> Bench:
    """A corner with one partition, so that what stands next to each other is known."""
    settings = settings_for(broker, engine, prefix, folder, **ingest)
    settings = replace(settings, kafka=replace(settings.kafka, partitions=1))
    make_topics(settings)
    return Bench(settings, Feed(settings, prefix), Table(engine, prefix), folder / "ingest.log")


@pytest.fixture
def at(broker: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Bench:
    return bench(broker, engine, topic_prefix, tmp_path)


@pytest.fixture
def on_tansu(tansu: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Bench:
    """For rates and budgets, which are counted the same whatever broker and ledger there is."""
    return bench(tansu, engine, topic_prefix, tmp_path)


def mixed(at: Bench, places: range, bad: set[int]) -> set[int]:
    """A message at each of these offsets, poison at those in `bad`: the even ones only the engine refuses."""
    for place in places:
        if place not in bad:
            at.feed.put(at.feed.envelope(1))
        elif place % 2:
            at.feed.raw(b"\x0a\xff", LIAR)
        else:
            at.feed.put(wire.pack(GPUS, "x", [gpu_samples_pb2.Envelope.GpuSample(ts=1.8e9, gpu=place % 8)]))
    at.feed.flush()
    return bad


def complete(at: Bench, bad: set[int], process: IngestProcess, within_s: float = 120) -> None:
    """Good ones once, bad ones once in the dead letters, in the end."""
    at.table.reaches(at.feed.sent, process, within_s=within_s)
    await_letters(at, {str(place): (0, place) for place in bad}, process)
    at.once()
    found = [(letter.partition, letter.offset) for letter in letters(at)]
    assert found == [(0, place) for place in sorted(bad)]


@pytest.mark.parametrize(("messages", "every"), [(20_000, 10_000), (2_000, 100)])
def test_one_in_so_many(on_tansu: Bench, messages: int, every: int) -> None:
    at = on_tansu
    bad = mixed(at, range(messages), set(range(every - 1, messages, every)) | {every})
    with closing(at.start()) as process:
        complete(at, bad, process)
        assert process.stop() == 0
    at.spans_meet()


def test_all_bad_halts_and_after_the_budget_is_raised_all_is_accounted_for(on_tansu: Bench) -> None:
    at = on_tansu
    bad = mixed(at, range(150), set(range(110)))
    for starts in (1, 2):  # each start counts anew, so a supervisor that ignores status 78 lets some through each time
        with closing(at.start()) as process:
            assert process.ended(120) == HALTED
            assert "of the last 1000 messages" in process.said()
            assert "were refused, more than 5%" in process.said()
            assert "The last reason: " in process.said()
        assert len(lettered(at)) <= 50 * starts
    with closing(at.start(reject_share=1.0)) as process:
        complete(at, bad, process)
        assert process.stop() == 0
    at.spans_meet()


def test_exactly_the_budget_passes_over_batches_and_one_more_halts(on_tansu: Bench) -> None:
    """1,000 messages in batches of 90, each 20th bad, is 5 %."""
    at = on_tansu
    bad = mixed(at, range(1001), set(range(1, 1000, 20)))
    with closing(at.start(batch_rows=90)) as process:
        complete(at, bad, process)
        mixed(at, range(1001, 1002), {1001})
        await_letters(at, {"the 1,001st, as the first has left the window": (0, 1001)}, process)
        mixed(at, range(1002, 1004), {1003})
        assert process.ended(120) == HALTED
        assert "51 of the last 1000 messages" in process.said()


def test_more_rejects_than_a_commit_holds_go_in_parts_and_a_kill_doubles_none(at: Bench) -> None:
    rng = random.Random(8)
    bad = mixed(at, range(4000), {place for place in range(1, 4000, 2) if rng.random() < 0.8})
    with closing(at.start(reject_share=1.0, settle_after_s=1e9, batch_age_s=1.0)) as process:
        until(lambda: len(lettered(at)) > 100, "the first letters", within_s=120)
        process.kill()
    with closing(at.start(reject_share=1.0)) as process:
        complete(at, bad, process)
        until(lambda: status.pending(at.settings) == [], "all to be settled", within_s=120)
        assert process.stop() == 0
    at.spans_meet()
    name = GPUS.full_name(at.settings.kafka.topic_prefix)
    spans = at.table.value(
        f"SELECT uniqExact(first) FROM ingest_batches WHERE table = '{GPUS.table}' AND topic_uuid IN "
        f"(SELECT topic_uuid FROM dead_letters WHERE topic = '{name}')"
    )
    assert spans > 2


def test_kills_between_letters_and_settle_leave_one_letter_each(at: Bench) -> None:
    bad = set(range(0, 600, 25))
    for start in (0, 200, 400):
        mixed(at, range(start, start + 200), bad)
        before = len(lettered(at))
        with closing(at.start(settle_after_s=1e9, batch_age_s=0.1, reject_share=1.0)) as process:
            until(lambda before=before: len(lettered(at)) > before, "letters", within_s=120)  # type: ignore[misc]
            process.kill()
    with closing(at.start(reject_share=1.0)) as process:
        complete(at, bad, process.ready())
        assert process.stop() == 0
    at.spans_meet()
