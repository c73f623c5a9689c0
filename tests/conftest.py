"""Fixtures for all tests: the brokers, started when first asked for and shared by the run."""

import secrets
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.brokers import Broker, KafkaCluster, KafkaMissingError, Tansu


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update` writes the golden files anew, where what they hold may change at all."""
    parser.addoption("--update", action="store_true", help="write the golden files anew")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written anew."""
    return bool(request.config.getoption("--update"))


def _kafka(folders: pytest.TempPathFactory, size: int) -> Iterator[KafkaCluster]:
    try:
        cluster = KafkaCluster(folders.mktemp(f"kafka-{size}"), size)
    except KafkaMissingError as missing:
        pytest.skip(str(missing))
    with closing(cluster):
        yield cluster


@pytest.fixture(scope="session")
def tansu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tansu]:
    """The embedded broker."""
    with closing(Tansu(tmp_path_factory.mktemp("tansu"))) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One Apache Kafka node; mark what uses it with `kafka`."""
    yield from _kafka(tmp_path_factory, 1)


@pytest.fixture(scope="session")
def kafka3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three Apache Kafka nodes; mark what uses them with `kafka`; leave all of them running."""
    yield from _kafka(tmp_path_factory, 3)


@pytest.fixture(scope="session", params=["tansu", pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Each broker in turn: a test that takes it runs on Tansu, and under the mark `kafka` on Apache Kafka."""
    found: Broker = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def topic_prefix() -> str:
    """A prefix of this test's own, for its topics and groups on a shared broker."""
    return f"t{secrets.token_hex(4)}"
