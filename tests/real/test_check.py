"""`warpmeter check` on real brokers and the real engine: it is silent when all adds up, and finds what does not."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import HOSTS, Feed, IngestProcess, Table, make_topics, settings_for
from tests.wait import until
from warpmeter import store
from warpmeter.cli import checking
from warpmeter.cli.app import app
from warpmeter.consumers import status
from warpmeter.consumers.audit.run import Report, audit

pytestmark = pytest.mark.long

SLOW_S: Final = 120.0


class Corner:
    """One test's topics, group and store of its own, for a check looks at all of a store."""

    def __init__(self, broker: Broker, engine: EngineServer, prefix: str, folder: Path) -> None:
        self.settings = settings_for(broker, engine, prefix, folder, reject_share=1.0)
        make_topics(self.settings)
        self.feed = Feed(self.settings, prefix)
        self.table = Table(engine, prefix)
        self.log = folder / "ingest.log"

    def ingest(self, **ingest: Any) -> IngestProcess:
        return IngestProcess(replace(self.settings, ingest=replace(self.settings.ingest, **ingest)), self.log)

    def write(self, sql: str) -> None:
        with closing(store.connect(self.settings.store)) as client:
            client.command(sql)

    def check(self, since: float = 0.0) -> Report:
        """With patience: things land."""
        return audit(self.settings, since)

    @property
    def kinds(self) -> set[str]:
        """What is found when nothing lands."""
        return {finding.kind for finding in audit(self.settings, looks=1).findings}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path / "data")) as server:
        yield server


@pytest.fixture
def at(broker: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Corner:
    return Corner(broker, engine, topic_prefix, tmp_path)


@pytest.fixture
def here(tansu: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Corner:
    """For what is the same on every broker."""
    return Corner(tansu, engine, topic_prefix, tmp_path)


def test_all_adds_up_while_rows_land_and_after_rejects_and_a_kill_and_a_stop(at: Corner) -> None:
    at.feed.good(50)
    at.feed.good(20, topic=HOSTS)
    with closing(at.ingest(settle_after_s=1e9)) as process:
        at.table.reaches(200, process, within_s=SLOW_S)
        for _ in range(10):
            at.feed.raw(b"\xff", [("type", b"GpuSample"), ("rows", b"1")])  # a span of nothing else
        at.feed.flush()
        time.sleep(1.0)
        at.feed.good(50)
        at.table.reaches(400, process, within_s=SLOW_S)
        report = at.check()
        assert (report.findings, report.skipped) == ([], [])
        process.kill()
    with closing(at.ingest()) as process:
        at.table.reaches(400, process.ready(), within_s=SLOW_S)
        until(lambda: not status.pending(at.settings), "all to be settled", SLOW_S)
        process.stop(20)
    report = at.check()
    assert (report.findings, report.skipped) == ([], [])
    lines = [line for line in report.partitions if line.topic.endswith("gpu-samples")]
    assert sum(line.rows for line in lines) == 400
    assert sum(line.unread or 0 for line in lines) == 0
    assert {(each.table, each.against) for each in report.tables} >= {
        ("gpu_samples", "ingest_batches"),
        ("gpu_samples", "gpu_heatmap_1h"),
        ("host_samples", "host_windows_1m"),
    }
    assert at.check(since=time.time() + 60).findings == []


def check_command(at: Corner, *options: str) -> tuple[int, str]:
    """Exit status and output of `warpmeter check`."""
    folder = at.settings.ingest.ledger_dir
    environment = {
        "WARPMETER_KAFKA__TOPIC_PREFIX": at.settings.kafka.topic_prefix,
        "WARPMETER_INGEST__GROUP": at.settings.ingest.group,
        **({"WARPMETER_INGEST__LEDGER_DIR": str(folder)} if folder else {}),
    }
    peers = ["--bootstrap-servers", at.settings.kafka.bootstrap_servers, "--store", at.settings.store.dsn]
    done = CliRunner().invoke(app, ["check", *peers, *options], env=environment)
    return done.exit_code, done.output


@pytest.mark.long
def test_the_command_says_by_its_status_whether_all_adds_up(here: Corner) -> None:
    here.feed.good(30)
    with closing(here.ingest(settle_after_s=1e9)) as process:  # nothing is settled, however long the kill takes to come
        here.table.reaches(here.feed.sent, process, within_s=SLOW_S)
        until(lambda: here.kinds <= {"pending"}, "what is made of the rows", SLOW_S)
        process.kill()
    code, said = check_command(here, "--json")
    assert (code, {each["kind"] for each in json.loads(said)["findings"]}) == (1, {"pending"})
    with closing(here.ingest()) as process:
        until(lambda: not status.pending(here.settings), "all to be settled", SLOW_S)
        process.stop(20)
    code, said = check_command(here, "--since", "1h")
    assert (code, "everything adds up" in said) == (0, True)
    assert check_command(here, "--since", "soon")[0] == 2


@pytest.mark.long
def test_without_a_broker_or_a_store_it_says_what_it_could_not_compare(here: Corner, engine: EngineServer) -> None:
    nowhere = replace(here.settings, kafka=replace(here.settings.kafka, bootstrap_servers="127.0.0.1:1"))
    without = audit(nowhere)
    assert without.findings == []
    assert without.tables
    assert any("cannot reach Kafka at 127.0.0.1:1" in why for why in without.skipped)
    engine.close()
    code, said = check_command(here, "--json")
    shown = json.loads(said)
    assert (code, shown["findings"]) == (1, [])
    assert any("the store" in why for why in shown["skipped"])


def other_rows(here: Corner, engine: EngineServer) -> None:
    """Rows that no span landed, as a replay and a person would insert them: they are in the book, and no spans."""
    for token in ("dead-letter/5f1c7a1e-0000-4000-8000-000000000000/0/7", "replay/20260601-5f1c/3"):
        with engine.client(write=True) as client:
            client.command(
                "INSERT INTO host_samples (host, ts) VALUES ('h', '2090-01-01 00:00:00')",
                settings={"insert_deduplication_token": token},
            )
    report = audit(here.settings, looks=1)
    assert (report.findings, report.skipped) == ([], [])
    (hosts,) = [each for each in report.tables if (each.table, each.against) == ("host_samples", "ingest_batches")]
    assert hosts.again == 1
    with engine.client(write=True) as client:
        client.command("INSERT INTO host_samples (host, ts) VALUES ('h', '2090-01-02 00:00:00')")
    assert here.kinds == set(), "an insert by hand is in the book as well"


@pytest.mark.long
def test_what_was_tampered_with_is_found(
    here: Corner, engine: EngineServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(here.ingest()) as process:
        for _ in range(3):
            here.feed.good(30)
            here.table.reaches(here.feed.sent, process, within_s=SLOW_S)
        until(lambda: not status.pending(here.settings), "all to be settled", SLOW_S)
        process.stop(20)
    assert here.kinds == set()
    other_rows(here, engine)
    _, _, first, last = here.table.query(
        "SELECT topic_uuid, partition, first, last FROM ingest_batches WHERE table = 'gpu_samples' "
        "AND partition = 0 ORDER BY first LIMIT 1 OFFSET 1"
    )[0]
    here.write(f"DELETE FROM ingest_batches WHERE table = 'gpu_samples' AND first = {first} AND partition = 0")
    assert here.kinds == {"missing", "rows"}
    here.write("DELETE FROM gpu_samples WHERE gpu = 1")
    here.write("DELETE FROM gpu_heatmap_1h WHERE gpu = 2")
    found = audit(here.settings, looks=1)
    assert {each.kind for each in found.findings} == {"missing", "rows", "rollup"}
    missing = next(each for each in found.findings if each.kind == "missing")
    assert f"no span holds {first}-{last}" in missing.seen
    assert "warpmeter replay --topic gpu-samples --from 2090-" in missing.remedy
    checking.show(found, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert {each["kind"] for each in shown["findings"]} == {"missing", "rows", "rollup"}
    checking.show(found, as_json=False)
    assert "does not add up" in capsys.readouterr().out
