"""Who can be traced, and the text that asks for it."""

import pytest

from tests.clock import FakeClock
from warpmeter.producers.kineto import configuration
from warpmeter.producers.kineto.configuration import Tracing
from warpmeter.producers.kineto.registry import PROCESSES_MAX, Registry, Sender
from warpmeter.producers.kineto.wire import ACTIVITIES, EVENTS, Poll

ROOT = 0
CHAINS = {10: (10, 5, 1), 11: (11, 5, 1), 20: (20, 1)}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def registry(clock: FakeClock) -> Registry:
    return Registry(lambda pid: CHAINS.get(pid, ()), clock.monotonic)


def asks(kinds: int = EVENTS | ACTIVITIES, *pids: int, job: int = 0) -> Poll:
    return Poll(kinds, job, pids or (1,))


def test_a_process_registers_with_its_first_poll_and_takes_what_is_wanted_once(
    registry: Registry, clock: FakeClock
) -> None:
    assert registry.offer(10, "A=1") == "unknown"
    assert registry.polled(Sender(10, ROOT), asks()) == ""
    assert registry.offer(10, "A=1") == "taken"
    assert registry.offer(10, "B=2") == "busy"
    assert registry.polled(Sender(10, ROOT), asks(EVENTS)) == ""
    clock.sleep(5)
    assert registry.polled(Sender(10, ROOT), asks()) == "A=1"
    (client,) = registry.clients()
    assert client.fetched == clock.monotonic()
    assert registry.polled(Sender(10, ROOT), asks()) == ""


def test_who_traces_is_busy(registry: Registry) -> None:
    registry.polled(Sender(10, ROOT), asks(0))
    assert registry.offer(10, "A=1") == "busy"
    registry.polled(Sender(10, ROOT), asks())
    assert registry.offer(10, "A=1") == "taken"
    assert registry.withdraw(10)
    assert not registry.withdraw(10)
    assert registry.polled(Sender(10, ROOT), asks()) == ""


def test_the_kernels_word_counts_and_a_process_of_a_container_keeps_its_own_pid(registry: Registry) -> None:
    registry.polled(Sender(10, 1000), asks(3, 7, 1))
    registry.polled(Sender(0, 1000), asks(3, 77, 70))
    ten, hidden = registry.clients()
    assert (ten.pid, ten.own_pid, ten.chain) == (10, 7, (10, 5, 1))
    assert (hidden.pid, hidden.own_pid, hidden.chain) == (77, 77, (77, 70))


def test_a_launcher_stands_for_those_it_started(registry: Registry) -> None:
    for pid in (10, 11, 20):
        registry.polled(Sender(pid, ROOT), asks(3, pid, job=9 if pid == 20 else 0))
    assert [client.pid for client in registry.among([5])] == [10, 11]
    assert [client.pid for client in registry.among([20, 10])] == [10, 20]
    assert [client.pid for client in registry.of_job(9)] == [20]
    assert [client.pid for client in registry.of_job(0)] == [10, 11]


def test_who_is_silent_for_a_minute_is_forgotten(registry: Registry, clock: FakeClock) -> None:
    registry.polled(Sender(10, ROOT), asks())
    clock.sleep(59)
    registry.polled(Sender(11, ROOT), asks())
    assert registry.forget_silent() == []
    clock.sleep(2)
    assert registry.forget_silent() == [10]


def test_a_pid_that_is_another_users_or_another_process_now_begins_anew(registry: Registry) -> None:
    registry.polled(Sender(10, ROOT), asks(3, 7))
    registry.offer(10, "A=1")
    assert registry.polled(Sender(10, 1000), asks(3, 7)) == ""
    registry.offer(10, "A=1")
    assert registry.polled(Sender(10, 1000), asks(3, 8)) == ""


def test_a_flood_of_processes_ends_at_a_limit_and_passes(registry: Registry, clock: FakeClock) -> None:
    for pid in range(100, 100 + PROCESSES_MAX):
        assert registry.polled(Sender(pid, ROOT), asks()) == ""
    assert registry.polled(Sender(10, ROOT), asks()) is None
    clock.sleep(61)
    assert registry.polled(Sender(10, ROOT), asks()) == ""
    assert len(registry.clients()) == 1


def test_the_text_asks_for_a_time_or_for_iterations_and_every_line_has_one_equals_sign() -> None:
    timed = Tracing(start_at=1.8e9 + 0.25, duration_ms=300, shapes=True, activities=("kernel", "cpu_op"))
    text = timed.text("/tmp/w.json", "c1/2")
    assert "PROFILE_START_TIME=1800000000250" in text.splitlines()
    assert "ACTIVITIES_DURATION_MSECS=300" in text.splitlines()
    assert "PROFILE_REPORT_INPUT_SHAPES=true" in text.splitlines()
    assert "PROFILE_WITH_STACK=false" in text.splitlines()
    assert "ACTIVITY_TYPES=kernel,cpu_op" in text.splitlines()
    steps = Tracing(iterations=3, iteration_roundup=100, memory=True).text("/tmp/w.json", "c1/2")
    assert "PROFILE_START_ITERATION_ROUNDUP=100" in steps.splitlines()
    assert "PROFILE_PROFILE_MEMORY=true" in steps.splitlines()
    assert "PROFILE_START_TIME" not in steps
    assert all(line.count("=") == 1 for line in [*text.splitlines(), *steps.splitlines()])


@pytest.mark.parametrize(
    ("file", "written"),
    [
        ("/tmp/a.json", "/tmp/a_7.json"), ("/tmp/a.pt.trace.json", "/tmp/a_7.pt.trace.json"), ("/tmp/a", "/tmp/a"),
        ("/tmp/a.json.json", "/tmp/a_7.json.json"),
    ],
)  # fmt: skip
def test_the_file_that_kineto_writes(file: str, written: str) -> None:
    assert configuration.written_file(Tracing().text(file, "c"), 7) == written
    assert configuration.written_file("A=1", 7) is None


def test_kineto_writes_below_its_folder_alone() -> None:
    assert configuration.allowed("/tmp/a.json")
    assert not configuration.allowed("/tmp/../etc/a.json")
    assert not configuration.allowed("/tmpfile.json")
    assert not configuration.allowed("/var/a.json")
    assert configuration.allowed("/scratch/a.json", "/scratch")
