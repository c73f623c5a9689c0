"""`warpmeter dead-letters`: list, show, and replay after the cause was mended; what landed lands no second time."""

import json
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from google.protobuf.message import Message

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.ingest_process import IngestProcess
from tests.replay_world import GPUS, HOSTS, Crash, Watching, World
from tests.tables import row
from tests.wait import until
from warpmeter import store
from warpmeter.consumers.replay import letterbox
from warpmeter.consumers.replay.letterbox import Wanted
from warpmeter.consumers.replay.letters import Replayed, replay

CHECKS = "CHECK agent_version != 'bad'"
COMMAND = [sys.executable, "-m", "warpmeter", "dead-letters"]
TOMBSTONE = "a tombstone: no value"
HOPELESS = b"\xff\xff\xff"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(EngineServer(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture(scope="module")
def landed(tansu: Broker, engine: EngineServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Ten messages that a constraint refuses, and one that is no Envelope, among good ones; then no constraint."""
    world = World.made(tansu, engine, f"t{secrets.token_hex(4)}", tmp_path_factory.mktemp("world"))
    world.command(f"ALTER TABLE host_samples ADD CONSTRAINT version {CHECKS}")
    world.command("CREATE OR REPLACE TABLE host_samples_judge AS host_samples ENGINE = Null")
    world.send(30, [HOSTS])
    for number in range(10):
        world.put(HOSTS, bad(world, number), world.start + number)
    world.put(HOSTS, HOPELESS, world.start)
    world.flush()
    with closing(IngestProcess(world.settings, world.log)) as process:
        count = "SELECT uniqExact(partition, offset) FROM dead_letters"
        until(lambda: world.value(count) == 11, "all letters", every_s=0.2)
        until(lambda: world.value("SELECT count() FROM host_samples") == 120, "the good ones", every_s=0.2)
        assert process.stop() == 0
    world.command("ALTER TABLE host_samples DROP CONSTRAINT version")
    world.command("CREATE OR REPLACE TABLE host_samples_judge AS host_samples ENGINE = Null")
    return world


def bad(world: World, number: int) -> list[Message]:
    ts = world.start + 60 * number
    return [
        row(HOSTS, host="mended", ts=ts + n, period_ms=1000, agent_version="bad", cpu_util_permille=number)
        for n in range(3)
    ]


@pytest.fixture
def world(landed: World) -> Iterator[World]:
    """The letters as if none had been replayed."""
    yield landed
    landed.command("ALTER TABLE host_samples DELETE WHERE host = 'mended'")
    for table in ("host_windows_1m", "host_windows_1h"):
        landed.command(f"ALTER TABLE {table} DELETE WHERE host = 'mended'")
    landed.command("ALTER TABLE ingest_batches DELETE WHERE startsWith(token, 'dead-letter/')")
    forget(landed)
    assert landed.staging_tables() == []


def forget(world: World) -> None:
    """Let the tables forget the tokens that they have seen, as after a week."""
    for (table,) in world.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' "
        "AND match(name, '^(host_|ingest_batches)')"
    ):
        for window in (0, 100_000):
            world.command(f"ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = {window}")


def again(
    world: World, watching: Watching | None = None, wanted: Wanted | None = None, dry_run: bool = False
) -> Replayed:
    return replay(world.settings, wanted or Wanted(), watching or Watching(), dry_run)


def once(world: World) -> None:
    """All ten are in the raw table and the rollups once."""
    assert world.query("SELECT count(), uniqExact(ts) FROM host_samples WHERE host = 'mended'") == [(30, 30)]
    for table in ("host_windows_1m", "host_windows_1h"):
        assert world.value(f"SELECT sum(samples) FROM {table} WHERE host = 'mended'") == 30


def test_list_counts_by_reason_and_names_each(world: World) -> None:
    with closing(store.connect(world.settings.store)) as client:
        groups = letterbox.groups(client, Wanted())
        assert [(group.messages, group.topic) for group in groups] == [
            (10, full(world)), (1, full(world)),
        ]  # fmt: skip
        assert "version" in groups[0].reason
        assert len(letterbox.letters(client, Wanted(reason="VERSION"))) == 10
        assert len(letterbox.letters(client, Wanted(topic=full(world)), 4)) == 4
        assert letterbox.letters(client, Wanted(topic="other")) == []
        assert letterbox.letters(client, Wanted(since=4e9)) == []


def full(world: World) -> str:
    return f"{world.settings.kafka.topic_prefix}.{HOSTS}"


def test_what_is_accepted_now_lands_once_however_often(world: World) -> None:
    would = again(world, dry_run=True)
    assert (len(would.landed), would.rows, len(would.refused)) == (10, 30, 1)
    assert world.value("SELECT count() FROM host_samples WHERE host = 'mended'") == 0
    done = again(world)
    assert (len(done.landed), done.rows, len(done.refused)) == (10, 30, 1)
    once(world)
    more = again(world)
    assert (len(more.landed), len(more.refused)) == (0, 1)
    everything = again(world, wanted=Wanted(replayed=True))
    assert (len(everything.landed), len(everything.there)) == (0, 10)
    once(world)
    with closing(store.connect(world.settings.store)) as client:
        assert len(letterbox.letters(client, Wanted())) == 1
        assert sum(each.replayed_at is not None for each in letterbox.letters(client, Wanted(replayed=True))) == 10


@pytest.mark.long
def test_long_after_when_the_store_has_forgotten_the_tokens(world: World) -> None:
    again(world)
    forget(world)
    world.command("ALTER TABLE ingest_batches DELETE WHERE startsWith(token, 'dead-letter/')")
    done = again(world)
    assert (len(done.landed), len(done.there)) == (0, 10)
    once(world)
    assert len(again(world).there) == 0


@pytest.mark.long
def test_what_was_deleted_since_lands_again(world: World) -> None:
    again(world)
    for table in ("host_samples", "host_windows_1m", "host_windows_1h"):
        world.command(f"ALTER TABLE {table} DELETE WHERE host = 'mended'")
    assert len(again(world, wanted=Wanted(replayed=True)).landed) == 10
    once(world)


def test_rows_that_landed_by_other_ways_are_left_out(world: World) -> None:
    outcome = world.replay(HOSTS)
    assert (outcome.done, outcome.rejected) == (True, 1)
    once(world)
    done = again(world)
    assert (len(done.landed), len(done.there)) == (0, 10)
    world.command("ALTER TABLE host_samples DELETE WHERE host = 'mended' AND cpu_util_permille = 3")
    assert again(world, wanted=Wanted(replayed=True)).rows == 3
    assert world.value("SELECT count() FROM host_samples WHERE host = 'mended'") == 30


@pytest.mark.long
def test_a_crash_anywhere_and_the_same_again(world: World) -> None:
    """Between two letters; where a process is killed is below."""
    with pytest.raises(Crash):
        again(world, Watching("step of landing"))
    done = again(world)
    assert len(done.landed) + done.finished == 10
    once(world)


@pytest.mark.long
@pytest.mark.parametrize("line", ["asking", "landing"])
def test_kill_9_and_the_same_again(world: World, tmp_path: Path, line: str) -> None:
    command, environment = [*COMMAND, "replay", "--yes"], world.environment(tmp_path)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        assert any(each.startswith(line) for each in process.stderr), "it ended before"
        process.kill()
    again(world)
    once(world)


@pytest.mark.long
def test_two_at_once_land_it_once(world: World) -> None:
    threads = [threading.Thread(target=again, args=(world,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    once(world)


def a_tombstone(world: World) -> str:
    """A letter as ingest writes it of a message without a value."""
    life = world.value("SELECT any(topic_uuid) FROM dead_letters")
    world.command(
        "INSERT INTO dead_letters (topic, topic_uuid, partition, offset, ts, reason) "
        f"VALUES ('{full(world)}', '{life}', 0, 987654, now64(3), '{TOMBSTONE}')"
    )
    return f"{full(world)}/0/987654"


def test_the_command(world: World, tmp_path: Path) -> None:
    def run(*words: str, status: int = 0) -> bytes:
        environment = world.environment(tmp_path)
        done = subprocess.run([*COMMAND, *words], capture_output=True, timeout=200, env=environment)
        assert done.returncode == status, done.stderr.decode()
        return done.stdout

    listed = json.loads(run("list", "--json"))
    assert [group["messages"] for group in listed] == [10, 1]
    hopeless = listed[1]["example"]
    shown = json.loads(run("show", hopeless, "--json"))
    assert (shown["hex"], shown["rows"]) == (HOPELESS.hex(), [])
    shown_reason = shown["reason"]
    assert run("show", hopeless, "--raw") == HOPELESS
    for words in (("list",), ("list", "--each")):
        assert hopeless in run(*words).decode(), "whole, on one line, in a pipe"
    run("list", "--since", "soon", status=2)
    assert run("list", "--topic", GPUS) == b"none\n"
    shown = run("show", listed[0]["example"].removeprefix(f"{world.settings.kafka.topic_prefix}.")).decode()
    assert "mended" in shown
    assert "version" in shown
    done = json.loads(run("replay", listed[0]["example"], "--yes", "--json"))
    assert (done["landed"], done["rows"]) == ([listed[0]["example"]], 3)
    run("replay", "--topic", HOSTS, status=2)
    done = json.loads(run("replay", "--topic", HOSTS, "--yes", "--json", status=1))
    assert (len(done["landed"]), [each["letter"] for each in done["refused"]]) == (9, [hopeless])
    once(world)
    assert json.loads(run("list", "--topic", GPUS, "--json")) == []
    tombstone = a_tombstone(world)
    try:
        done = json.loads(run("replay", hopeless, tombstone, "--yes", "--json", status=1))
        kept = world.query("SELECT reason, count() FROM dead_letters WHERE value = '' GROUP BY reason")
    finally:
        world.command("ALTER TABLE dead_letters DELETE WHERE value = ''")
    assert kept == [(TOMBSTONE, 1)]
    reasons = {each["letter"]: each["reason"] for each in done["refused"]}
    assert reasons.pop(tombstone) == TOMBSTONE, "an empty value is all that is left of it"
    assert reasons[hopeless] == shown_reason, "it is the same, and written again nowhere"
    assert world.value("SELECT count() FROM dead_letters") == world.value(
        "SELECT uniqExact(partition, offset) FROM dead_letters"
    )
