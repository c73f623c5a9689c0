"""Captures of a host's processes, which ask and write as PyTorch does: each ends in the right state."""

import gzip
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.kineto_client import asking
from tests.kineto_host import Host
from tests.real.test_disk_full import mounted
from tests.wait import until
from warpmeter.producers.source import JobTree

POLL_S = 0.2


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with Host(tmp_path).listening() as found:
        yield found


def states(host: Host) -> list[str]:
    return [event.state for event in host.events]


def test_every_process_of_a_job_is_looked_at_and_traced_over_the_same_time(host: Host) -> None:
    with asking(host.sockets, host.traces, 3, poll_s=POLL_S) as pids:
        host.trees = [JobTree("train", rank, pid, (pid,)) for rank, pid in enumerate(pids)]
        host.registered(pids)
        host.desk.take(host.command("look", job_id="train"))
        assert [(event.pid, event.rank, event.state, event.reason) for event in host.events] == [
            (pid, rank, "seen", "") for rank, pid in enumerate(pids)
        ]
        host.events.clear()
        command = host.command("start", job_id="train", start_in_s=5.0, duration_ms=1500)  # long enough to be seen
        host.desk.take(command)
        host.desk.take(command)  # a second time is no time
        ended = host.ended(3)
    assert states(host).count("accepted") == states(host).count("started") == 3
    assert {(event.state, event.pid) for event in ended} == {("captured", pid) for pid in pids}
    for event in ended:
        assert event.traced_from == pytest.approx(command.start_at, abs=0.01)
        assert event.traced_until == pytest.approx(command.start_at + 1.5, abs=0.01)
        stored = Path(event.url)
        assert stored.is_relative_to(host.store / "train" / "cap")
        raw = gzip.decompress(stored.read_bytes())
        assert (event.bytes, event.raw_bytes) == (stored.stat().st_size, len(raw))
        assert json.loads(raw)["traceEvents"]
    assert list(host.traces.iterdir()) == []


WRONG = {
    "cancels": ("failed", "cancelled_by_kineto"),
    "writes nothing": ("failed", "wrote_nothing"),
    "link": ("failed", "file_refused"),
    "hard link": ("failed", "file_refused"),
    "pipe": ("failed", "file_refused"),
    "half": ("failed", "process_ended"),
    "own profiler": ("failed", "busy"),
}


@pytest.mark.long
def test_whatever_goes_wrong_has_its_reason(host: Host) -> None:
    with ExitStack() as stack:
        pids = {
            trick: stack.enter_context(asking(host.sockets, host.traces, 1, poll_s=POLL_S, trick=trick))[0]
            for trick in WRONG
        }
        host.registered([*pids.values()])
        host.desk.take(host.command("start", pids=[*pids.values()], start_in_s=5.0))
        ended = {event.pid: event for event in host.ended(len(WRONG))}
    assert {trick: (ended[pid].state, ended[pid].reason) for trick, pid in pids.items()} == WRONG
    assert all(event.why for event in ended.values())
    assert not [path for path in host.store.rglob("*") if path.is_file()]


def test_iterations_of_a_program_without_steps_are_told(host: Host) -> None:
    with (
        asking(host.sockets, host.traces, 1, poll_s=POLL_S, trick="no steps") as (without,),
        asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (stepping,),
    ):
        host.registered([without, stepping])
        host.desk.take(host.command("start", iterations=5))
        reasons = {event.pid: (event.state, event.reason) for event in host.ended(2)}
    assert reasons == {without: ("captured", "no_step"), stepping: ("captured", "")}


@pytest.mark.long
def test_a_trace_that_is_too_large_is_refused_and_not_half_stored(host: Host) -> None:
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S, size=200_000) as (pid,):
        host.registered([pid])
        host.desk.take(host.command("start", pids=[pid], start_in_s=5.0, max_file_bytes=100_000))
        (event,) = host.ended()
    assert (event.state, event.reason) == ("failed", "too_large")
    assert not [path for path in host.store.rglob("*") if path.is_file()]
    assert list(host.traces.iterdir()) == []


@pytest.mark.long
def test_a_full_disk_is_told_whether_it_is_the_stores_or_the_processs(host: Host, tmp_path: Path) -> None:
    small = tmp_path / "small"
    with (
        mounted(host.store, 1),
        mounted(small, 2),
        asking(host.sockets, host.traces, 1, poll_s=POLL_S, size=4_000_000, trick="noise") as (large,),
        asking(host.sockets, small, 1, poll_s=POLL_S, size=4_000_000) as (cramped,),
    ):
        host.registered([large, cramped])
        host.desk.take(host.command("start", pids=[large, cramped], start_in_s=5.0))
        ended = {event.pid: event for event in host.ended(2)}
        assert not [path for path in host.store.rglob("*") if path.is_file()]
        until(lambda: not list(small.iterdir()), "what was written of it to be removed")
    assert {event.reason for event in ended.values()} == {"disk_full"}
    assert "trace store" in ended[large].why
    assert str(small) in ended[cramped].why


@pytest.mark.long
def test_while_one_runs_a_second_is_refused_and_looks_say_busy(host: Host) -> None:
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (pid,):
        host.registered([pid])
        host.desk.take(host.command("start", pids=[pid], start_in_s=4.0))
        host.desk.take(host.command("look", pids=[pid], capture_id="second"))
        host.desk.take(host.command("start", pids=[pid], capture_id="second", start_in_s=4.0))
        busy = [event for event in host.events if event.capture_id == "second"]
        assert [(event.state, event.reason) for event in busy] == [("seen", "busy"), ("failed", "busy")]
        assert host.ended(2)[-1].state == "captured"


@pytest.mark.long
def test_a_capture_is_cancelled_before_and_while_it_traces_and_leaves_no_file(host: Host) -> None:
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (pid,):
        host.registered([pid])
        host.desk.take(host.command("start", pids=[pid], start_in_s=5.0, duration_ms=2000))
        until(lambda: (client := host.registry.client(pid)) is not None and client.tracing, "it to be at work")
        host.desk.take(host.command("cancel", sequence=0))
        (event,) = host.ended()
        assert (event.state, event.reason) == ("cancelled", "cancelled_by_request")
        host.desk.take(host.command("look", pids=[pid], capture_id="second"))
        assert host.events[-1].reason == "busy"
        until(lambda: (client := host.registry.client(pid)) is not None and not client.tracing, "it to be done")
        until(lambda: not list(host.traces.iterdir()), "its file to be removed")
    assert not host.store.exists()


def test_a_process_that_took_a_cancelled_request_is_busy_until_it_has_traced(host: Host) -> None:
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (pid,):
        host.registered([pid])
        host.desk.take(host.command("start", pids=[pid], start_in_s=20.0))
        until(lambda: (client := host.registry.client(pid)) is not None and client.fetched, "it to take it")
        host.desk.take(host.command("cancel", sequence=0))
        host.desk.take(host.command("look", pids=[pid], capture_id="second"))
    assert [(event.state, event.reason) for event in host.events[1:]] == [
        ("cancelled", "cancelled_by_request"), ("seen", "busy"),
    ]  # fmt: skip


def test_who_has_ended_is_not_meant_though_it_was_registered_a_moment_ago(host: Host) -> None:
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (pid,):
        host.registered([pid])
    host.desk.take(host.command("look"))
    assert [(event.state, event.reason) for event in host.events] == [("seen", "no_process")]


def test_a_process_that_is_stopped_does_not_ask_and_is_given_up_before_its_start(host: Host) -> None:
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (pid,):
        host.registered([pid])
        os.kill(pid, signal.SIGSTOP)
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it to stand still")
        with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (other,):
            host.registered([other])  # so what the first one had asked already is answered
        host.desk.take(host.command("start", pids=[pid], start_in_s=2.5))
        (event,) = host.ended()
        assert (event.state, event.reason) == ("failed", "not_polling")
        client = host.registry.client(pid)
        assert client is not None
        assert client.wanted == ""


def test_who_is_not_registered_is_told_with_what_it_lacks(host: Host) -> None:
    folder, asks = str(host.sockets), {"KINETO_USE_DAEMON": "1"}
    lacking: list[tuple[dict[str, str], str, str]] = [
        ({}, "missing_variables", "KINETO_USE_DAEMON=1"),
        ({**asks, "KINETO_IPC_SOCKET_DIR": "/elsewhere"}, "missing_variables", "KINETO_IPC_SOCKET_DIR=/elsewhere"),
        ({**asks, "KINETO_IPC_SOCKET_DIR": folder}, "not_registered", "has not loaded PyTorch"),
    ]
    with ExitStack() as stack:
        asleep = [stack.enter_context(subprocess.Popen(["sleep", "60"], env=given)) for given, _, _ in lacking]
        for process in asleep:
            stack.callback(process.kill)
        host.trees = [JobTree("train", rank, process.pid, (process.pid,)) for rank, process in enumerate(asleep)]
        host.desk.take(host.command("look", job_id="train"))
        host.desk.take(host.command("start", job_id="train"))
    looked, started = host.events[: len(lacking)], host.events[len(lacking) :]
    for event, (_, reason, words) in zip(looked, lacking, strict=True):
        assert (event.state, event.reason) == ("seen", reason), event
        assert words in event.why
    assert [(event.state, event.reason) for event in started] == [("failed", reason) for _, reason, _ in lacking]


def test_where_nothing_runs_the_host_says_so(host: Host) -> None:
    host.desk.take(host.command("look", job_id="none"))
    host.desk.take(host.command("start", job_id="none"))
    host.desk.take(host.command("look", pids=[1 << 22]))
    assert [(event.state, event.reason, event.HasField("pid")) for event in host.events] == [
        ("seen", "no_process", False), ("failed", "no_process", False), ("seen", "no_process", True),
    ]  # fmt: skip


def test_a_process_in_a_container_is_known_by_its_pid_here_and_its_file_is_read_where_it_lies(host: Host) -> None:
    """Namespaces of its own for pids and mounts: it calls itself by another pid, and nobody else sees its folder."""
    inside = f'mount -t tmpfs none "{host.traces}" && exec "$@"'
    within = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, "sh"]
    if (refused := subprocess.run([*within, "true"], capture_output=True, text=True)).returncode:
        pytest.skip(f"needs namespaces, which take root: {refused.stderr.strip()}")
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S, within=within) as (inner,):
        until(host.registry.clients, "it to register", 60)
        (client,) = host.registry.clients()
        assert client.own_pid == inner != client.pid
        host.desk.take(host.command("start", pids=[client.pid], start_in_s=5.0))
        (event,) = host.ended()
        assert list(host.traces.iterdir()) == []
    assert (event.state, event.pid) == ("captured", client.pid)
    assert json.loads(gzip.decompress(Path(event.url).read_bytes()))["traceEvents"]


@pytest.mark.long
def test_a_store_that_takes_nothing_is_tried_until_the_deadline(host: Host) -> None:
    host.store.write_text("no folder")
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (pid,):
        host.registered([pid])
        host.desk.take(host.command("start", 9.0, pids=[pid], start_in_s=5.0))
        (event,) = host.ended()
    assert (event.state, event.reason) == ("failed", "upload_failed")


def test_an_order_that_came_too_late_or_for_another_host_does_nothing(host: Host) -> None:
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (pid,):
        host.registered([pid])
        host.desk.take(host.command("start", pids=[pid], expires_at=time.time() - 1))
        host.desk.take(host.command("start", pids=[pid], host="gpu02"))
        assert host.events == []
        assert not host.desk.busy


def test_what_kineto_cannot_be_told_is_refused(host: Host) -> None:
    host.desk.take(host.command("start", activities=["cpu_op\nACTIVITIES_LOG_FILE=/etc/x"]))
    assert [(event.state, event.reason) for event in host.events] == [("failed", "bad_request")]


def test_a_process_that_ended_while_no_agent_ran_is_told_by_the_next(host: Host) -> None:
    with asking(host.sockets, host.traces, 1, poll_s=POLL_S) as (pid,):
        host.registered([pid])
        host.desk.take(host.command("start", start_in_s=20.0))
        host.desk.close()
    host.desk = host.new_desk()
    (event,) = host.ended()
    assert (event.state, event.reason, event.pid) == ("failed", "process_ended", pid)


def test_an_agent_that_is_started_again_goes_on_with_what_was_under_way(host: Host) -> None:
    with asking(host.sockets, host.traces, 2, poll_s=POLL_S) as pids:
        host.registered(pids)
        command = host.command("start", start_in_s=5.0, duration_ms=2000)
        host.desk.take(command)
        until(lambda: (client := host.registry.client(pids[0])) is not None and client.tracing, "it to be at work")
        host.desk.tick()
        host.desk.close()
        host.desk = host.new_desk()
        host.desk.take(command)  # it reads it again, and does not begin anew
        ended = host.ended(2)
    assert {(event.state, event.pid) for event in ended} == {("captured", pid) for pid in pids}
    assert states(host).count("accepted") == 2
