"""`warpmeter status` tells of this fleet alone: an ingest of another one at the same port, and the log of an `up` that
has ended, are not taken for it. Neither broker nor store is needed."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from tests.brokers.process import free_ports
from warpmeter.cli import status
from warpmeter.selfmetrics import TABLE
from warpmeter.settings import Kafka, Metrics, Settings
from warpmeter.up.folder import Folder


@pytest.fixture
def port() -> Iterator[int]:
    """That of the metrics of an ingest of the default group."""
    own, registry, (free,) = TABLE["warpmeter_ingest_group"], CollectorRegistry(), free_ports(1)
    Gauge(own.name, own.meaning, own.labels, registry=registry).labels(Settings().ingest.group).set(1)
    server, thread = start_http_server(free, "127.0.0.1", registry=registry)
    yield free
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_ingest_of_another_group_at_this_hosts_port_is_not_taken_for_ours(port: int) -> None:
    ours, stranger = status.ingest_here(Settings(metrics=Metrics(ingest_port=port)), None)
    assert ours is not None
    assert (ours["at"], ours["group"], stranger) == (f"127.0.0.1:{port}", "warpmeter-ingest", None)
    ours, stranger = status.ingest_here(Settings(Kafka(topic_prefix="teamB"), metrics=Metrics(ingest_port=port)), None)
    assert ours is None
    assert stranger is not None
    assert stranger["group"] == "warpmeter-ingest"


def test_the_last_errors_of_an_up_that_has_ended_are_told_where_its_folder_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    said = {"event": "away", "level": "error", "timestamp": datetime.now(UTC).isoformat()}
    (folder.logs / "ingest.log").write_text(json.dumps(said) + "\n")
    assert status.last_errors(folder, None, named=False) == []
    (found,) = status.last_errors(folder, None, named=True)
    assert found["part"] == "ingest"
