"""What status, doctor, topics and migrate tell whoever runs it, on real Apache Kafka and a real engine."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers import KafkaCluster
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_bench import HALTED, Bench, make_bench
from tests.ingest_process import GPUS, IngestProcess, make_topics, settings_for
from tests.real.up import warpmeter
from tests.wait import until
from warpmeter import topics
from warpmeter.cli import doctor
from warpmeter.consumers import status
from warpmeter.settings import Kafka, Log, Metrics, Settings

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SLOW_S: Final = 90.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


def command(settings: Settings, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command beside these settings, with a data folder in which nothing runs."""
    named = {
        "STORE__DSN": settings.store.dsn,
        "KAFKA__TOPIC_PREFIX": settings.kafka.topic_prefix,
        "INGEST__GROUP": settings.ingest.group,
        "METRICS__INGEST_PORT": "0",
        **({"KAFKA__PARTITIONS": str(settings.kafka.partitions)} if settings.kafka.partitions else {}),
    }
    env = {**os.environ, **{f"WARPMETER_{name}": value for name, value in named.items()}}
    own = ("--data", str(folder / "no-up"), "--bootstrap-servers", settings.kafka.bootstrap_servers)
    return subprocess.run(warpmeter(*words, *own), env=env, capture_output=True, text=True, timeout=90)


def reported(at: Bench, folder: Path) -> dict[str, Any]:
    """What `status --json` says."""
    return dict(json.loads(command(at.settings, folder, "status", "--json").stdout))


def test_before_migrate_everything_says_migrate_and_after_it_all_goes_on(
    kafka: KafkaCluster, topic_prefix: str, tmp_path: Path
) -> None:
    with closing(EngineServer(tmp_path / "engine")) as server:
        settings = settings_for(kafka, server, topic_prefix, tmp_path)
        make_topics(settings)
        found = doctor.tables(settings)
        assert (found.verdict, found.remedy) == ("failed", "warpmeter migrate")
        with closing(IngestProcess(settings, tmp_path / "log")) as process:
            assert process.ended(SLOW_S) == HALTED
            assert "run `warpmeter migrate`" in process.said()
        said = command(settings, tmp_path, "status")
        assert said.returncode == 1
        assert "is not there: run `warpmeter migrate`" in said.stderr
        assert "no `warpmeter up` runs" not in said.stderr
        done = command(settings, tmp_path, "migrate", "--json")
        assert done.returncode == 0, done.stderr
        steps = json.loads(done.stdout)
        assert steps["done"]
        assert {"kind": "migration", "name": "0001_raw_tables"} in steps["steps"]
        assert doctor.tables(settings).verdict == "ok"
        with closing(IngestProcess(settings, tmp_path / "log")) as process:
            process.ready()
            assert process.stop(20) == 0


def test_members_are_told_with_host_and_pid_and_the_log_counts_partitions(
    kafka: KafkaCluster, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = make_bench(kafka, engine, topic_prefix, tmp_path)
    with closing(at.start()) as process:
        process.ready()
        name = f"warpmeter-ingest@{socket.gethostname()}:{process.process.pid}"
        (member,) = status.group(at.settings)
        assert member.client == name
        found = reported(at, tmp_path)
        assert [(each["client"], each["partitions"]) for each in found["members"]] == [(name, member.partitions)]
        process.stop(20)
        taken = next(line for line in map(json.loads, process.said().splitlines()) if "taken" in line["event"])
    assert taken["partitions"] == member.partitions
    assert taken["topics"][GPUS.full_name(topic_prefix)] == 3
    assert "gpu-samples[0]" not in process.said()


def test_the_doctor_finds_nothing_wrong_with_ingest_that_runs_under_load(
    kafka: KafkaCluster, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at, stop = make_bench(kafka, engine, topic_prefix, tmp_path), threading.Event()

    def load() -> None:
        while not stop.wait(0.05):
            at.feed.good(3)

    with closing(at.start(batch_age_s=0.1)) as process:
        process.ready()
        feeding = threading.Thread(target=load)
        feeding.start()
        try:
            until(lambda: at.table.rows() > 0, "rows to land", SLOW_S)
            found = [doctor.ingest(at.settings) for _ in range(8)]
        finally:
            stop.set()
            feeding.join()
        assert {each.verdict for each in found} == {"ok"}, found
        assert "--reset-offsets" not in f"{found}"
        at.table.reaches(at.feed.sent, process)
        process.kill()


def test_a_partition_of_nothing_but_rejects_is_not_behind(
    kafka: KafkaCluster, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = make_bench(kafka, engine, topic_prefix, tmp_path, partitions=1)

    def lag() -> int | list[str]:
        """How far it is behind, or why that is not known at the moment."""
        problems: list[str] = []
        rows = status.lag(at.settings, problems)
        name = GPUS.full_name(topic_prefix)
        return problems or next(int(row["lag_messages"]) for row in rows if row["topic"] == name)

    for _ in range(3):
        at.feed.raw(b"\xff")
    at.feed.flush()
    until(lambda: lag() == 3, "the messages to be there", SLOW_S)
    with closing(at.start()) as process:
        until(lambda: lag() == 0, "them to be refused and settled", SLOW_S)
        process.stop(20)
    assert at.table.rows() == 0


def test_a_broker_that_is_away_is_said_in_the_same_words_everywhere(engine: EngineServer, tmp_path: Path) -> None:
    with nobody() as where:
        settings = replace(Settings(), kafka=Kafka(where), store=replace(Settings().store, dsn=engine_dsn(engine)))
        assert f"cannot reach Kafka at {where}" in doctor.broker(settings).seen
        for words in (("status",), ("topics",)):
            assert f"cannot reach Kafka at {where}" in command(settings, tmp_path, *words).stderr, words


@contextmanager
def nobody() -> Iterator[str]:
    """An address at which nobody listens, and nobody else can meanwhile: its port is held."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def engine_dsn(engine: EngineServer) -> str:
    """The engine, as a reader names it."""
    return f"http://127.0.0.1:{engine.port}"


def test_one_copy_on_three_brokers_is_a_warning_and_on_one_is_said(
    kafka: KafkaCluster, kafka3: KafkaCluster, topic_prefix: str, tmp_path: Path
) -> None:
    one = Settings(kafka=Kafka(kafka.bootstrap_servers, topic_prefix, partitions=1))
    three = Settings(kafka=Kafka(kafka3.bootstrap_servers, topic_prefix, partitions=1, replication_factor=1))
    for settings in (one, three):
        topics.ensure(settings.kafka)
    found = doctor.topic_table(one)
    assert found.verdict == "ok"
    assert "one copy of every message" in found.seen
    until(lambda: doctor.topic_table(three).verdict == "warning", "every node to know the topics", SLOW_S)
    found = doctor.topic_table(three)
    assert "on a cluster of 3 brokers" in found.seen
    said = command(three, tmp_path, "topics")
    assert (said.returncode, "on a cluster of 3 brokers" in said.stderr) == (0, True), said.stderr


def test_every_line_of_ingest_is_json_also_those_of_the_kafka_client(engine: EngineServer, tmp_path: Path) -> None:
    with ExitStack() as stack:
        settings = replace(
            Settings(), kafka=Kafka(stack.enter_context(nobody())), log=Log(format="json"),
            metrics=Metrics(ingest_port=0), store=replace(Settings().store, dsn=engine_dsn(engine)),
        )  # fmt: skip
        process = stack.enter_context(closing(IngestProcess(settings, tmp_path / "log")))
        until(lambda: "Connection refused" in process.said(), "the client to complain", SLOW_S)
        process.stop(20)
        lines = [json.loads(line) for line in process.said().splitlines()]
    assert "kafka client" in {line["event"] for line in lines}


def test_the_doctor_looks_at_the_disk_of_the_folder_that_is_named(tmp_path: Path) -> None:
    settings = replace(Settings(), engine=replace(Settings().engine, data=tmp_path / "yet" / "to be made"))
    assert f"free at {tmp_path}" in doctor.disk(settings).seen
