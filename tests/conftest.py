"""Fixtures for all tests: the brokers, started when first asked for and shared by the run."""

import secrets
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TextIO, cast

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests import marked
from tests.brokers import Broker, KafkaCluster, KafkaMissingError, Tansu
from tests.engine import template
from warpmeter.log import Unfailing

# No test is timed, and all runs search the same: `--hypothesis-profile default` searches anew.
settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")
# Where nothing else is said structlog writes to standard output, in which tests read what a command answered.
structlog.configure(logger_factory=structlog.WriteLoggerFactory(cast(TextIO, Unfailing())))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update` writes the golden files anew, where what they hold may change at all."""
    parser.addoption("--update", action="store_true", help="write the golden files anew")


LONGEST_FIRST: Final = (
    "tests/crash/test_crash.py", "tests/real/test_up.py", "tests/real/test_replay_kafka.py",
    "tests/real/test_offsets.py", "tests/browser/test_web_demo.py", "tests/real/test_sources_apart.py",
    "tests/real/test_poison_rates.py", "tests/real/test_capture_hosts.py", "tests/browser/test_web_pages.py",
    "tests/real/test_capture_torchrun.py", "tests/real/test_fleet_by_hand.py", "tests/real/test_capture_up.py",
    "tests/real/test_trigger_torch.py", "tests/real/test_runbooks.py", "tests/browser/test_web_flame.py",
    "tests/real/test_secured.py", "tests/real/test_gpu_story.py", "tests/real/test_slurm.py",
    "tests/real/test_scheduler_election.py", "tests/real/test_agent_outages.py",
    "tests/real/test_commands_documented.py",
)  # fmt: skip
"""Files that take minutes: with several workers, one that comes last keeps all others waiting. Those that fill
a machine by themselves stand apart from one another."""


ASTRAY: Final = pytest.StashKey[list[str]]()
"""Tests whose marks are not those that their file tells of."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files in which `-m` leaves nothing are not loaded."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    return marked.needless(collection_path.read_text(), config.getoption("markexpr")) or None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Before `-m` leaves any out."""
    found = item.config.stash.setdefault(ASTRAY, [])
    found += filter(None, [marked.astray(item)])


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker takes another part of a folder first: what one has compiled the others only load.

    All have the same order in the end, by the sort below.
    """
    report = yield
    worker: dict[str, Any] | None = getattr(collector.config, "workerinput", None)
    if worker and isinstance(collector, pytest.Dir):
        begin = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = report.result[begin:] + report.result[:begin]
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first; each in one piece, as a worker takes it. A run of one process stays as it is."""
    if config.getoption("dist", "no") == "no" and not hasattr(config, "workerinput"):
        return
    place = {config.rootpath / file: number for number, file in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: (place.get(item.path, len(place)), item.path))


@pytest.fixture(scope="session", autouse=True)
def _template(tmp_path_factory: pytest.TempPathFactory) -> None:
    template.kept_in(tmp_path_factory)


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
