"""What people are told of brokers, stores and ledgers that are not there, or are somebody else's."""

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError
from confluent_kafka import KafkaError, KafkaException

from warpmeter import bus, store
from warpmeter.cli import common, status
from warpmeter.consumers.sink import Broken
from warpmeter.consumers.sink.clickhouse import classified
from warpmeter.settings import Engine, Kafka, Settings


def test_a_broker_that_is_away_is_named_with_what_to_do_whatever_the_client_calls_it() -> None:
    away = KafkaException(KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller"))
    said = bus.said(away, Kafka("k:1"))
    assert said.startswith("cannot reach Kafka at k:1; is it up, and is kafka.bootstrap_servers")
    other = KafkaException(KafkaError(KafkaError.INVALID_GROUP_ID, "no"))
    assert bus.said(other, Kafka("k:1")) == "Kafka at k:1: no"


@pytest.mark.parametrize(
    ("complaint", "what"),
    [
        ("SASL authentication error: invalid credentials", "see login, certificates and security.protocol"),
        ("SSL handshake failed: certificate verify failed", "see login, certificates and security.protocol"),
        ("Connect failed: Connection refused", "is it up, and is kafka.bootstrap_servers"),
    ],
)
def test_what_the_client_complains_of_is_said_with_what_to_do_about_that(complaint: str, what: str) -> None:
    late = KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))
    late.add_note(complaint)  # as `bus.asking` does
    assert bus.said(late, Kafka("k:1")).startswith(f"cannot reach Kafka at k:1: {complaint}; {what}")


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_a_coordinator_or_leader_that_is_being_found_is_asked_again(code: int) -> None:
    answers: list[KafkaException | int] = [KafkaException(KafkaError(code)), 5]

    def ask() -> int:
        answer = answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    assert bus.patiently(ask) == 5
    answers = [KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))]
    with pytest.raises(KafkaException):
        bus.patiently(ask)


def test_a_database_that_is_not_there_says_migrate() -> None:
    error = DatabaseError("Code: 81. DB::Exception: Database warpmeter does not exist. (UNKNOWN_DATABASE)")
    assert store.reason(error) == "database warpmeter is not there: run `warpmeter migrate`, or correct store.database"
    broken = classified("host_samples", 81, str(error))
    assert isinstance(broken, Broken)
    assert "run `warpmeter migrate`" in broken.why


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Error HTTPConnectionPool(host='a', port=8123): Read timed out. (read timeout=15) executing HTTP request",
         "ClickHouse at a:8123 does not answer in time"),
        ("Error ('Connection aborted.', RemoteDisconnected('Remote end closed')) executing HTTP request",
         "ClickHouse cut the connection"),
        ("Received ClickHouse exception, code: 60, server response: Code: 60. DB::Exception: No. (for url http://a)",
         "Code: 60. DB::Exception: No."),
    ],
)  # fmt: skip
def test_what_is_the_matter_with_the_store_is_said_without_a_librarys_words(said: str, told: str) -> None:
    found = store.reason(OperationalError(said))
    assert told in found
    assert not [word for word in ("Pool", "Error", "attempt", "http", "Received", "Remote") if word in found]


def test_a_topics_lag_names_its_worst_partition() -> None:
    rows = [{"topic": "t", "partition": number, "end": 9, "lag_messages": lag} for number, lag in ((0, 1), (1, 5))]
    assert status.by_topic(rows, [{"topic": "t"}]) == [
        {
            "topic": "t",
            "partitions": 2,
            "lag_messages": 6,
            "worst_partition": 1,
            "worst_lag_messages": 5,
            "pending_spans": 1,
        }
    ]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder as a running `up` of the embedded broker holds it."""
    folder = tmp_path / "other"
    folder.mkdir()
    run = {
        "pid": os.getpid(), "started_at": 1.0, "bootstrap_servers": "127.0.0.1:9", "embedded_bus": True,
        "dsn": "http://127.0.0.1:8123", "write_dsn": "http://127.0.0.1:8123", "database": "warpmeter",
        "metrics_ports": {}, "parts": {},
    }  # fmt: skip
    (folder / "up.json").write_text(json.dumps(run))
    return folder


def test_the_broker_of_an_up_on_another_folder_is_refused_by_name(
    elsewhere: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = json.loads((elsewhere / "up.json").read_text())["bootstrap_servers"]
    asked = Settings(engine=Engine(data=tmp_path / "mine"), kafka=Kafka(broker))
    common.refuse_elsewhere(asked)
    with (elsewhere / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(os.getpid()))
        lock.flush()
        with pytest.raises(typer.Exit) as ended:
            common.refuse_elsewhere(asked)
        assert ended.value.exit_code == 2
        assert f"--data {elsewhere}" in capsys.readouterr().err
        common.refuse_elsewhere(replace(asked, kafka=Kafka("other:9092")))
        common.refuse_elsewhere(replace(asked, engine=Engine(data=elsewhere)))
        ledger = replace(asked.ingest, ledger_dir=elsewhere / "ledger")
        common.refuse_elsewhere(replace(asked, ingest=ledger))


def test_who_named_a_broker_is_not_told_of_up() -> None:
    assert common.nothing_named(Settings())
    assert not common.nothing_named(Settings(kafka=Kafka("k:9092")))


def test_a_right_that_lacks_is_named_with_who_lacks_it_and_what_to_do() -> None:
    error = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no"))
    login = {"sasl.username": "agent", "sasl.password": "hidden"}
    said = bus.said(error, Kafka("k:1", options=login), right="Write on topic warpmeter.gpu-samples")
    assert said.startswith(
        "Kafka at k:1 refuses User:agent the right Write on topic warpmeter.gpu-samples; `warpmeter acls`"
    )
    assert "hidden" not in said
    assert "OAuth client o" in bus.said(error, Kafka("k:1", options={"sasl.oauthbearer.client.id": "o"}))
    assert "certificate /c.pem" in bus.said(error, Kafka("k:1", options={"ssl.certificate.location": "/c.pem"}))
