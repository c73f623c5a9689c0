"""One process in a capture: every history of looks ends in one final state; and which processes are meant."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter import tansu
from warpmeter.captures import FINAL, REASONS
from warpmeter.producers.kineto.captures import (
    AT_WORK_S,
    FETCH_S,
    GONE_S,
    GRACE_S,
    NO_MEMORY,
    Capture,
    CaptureCommand,
    Failure,
    Look,
    Member,
    Told,
    advance,
    tracing_of,
)
from warpmeter.producers.kineto.commands import EMBEDDED
from warpmeter.producers.kineto.registry import Client
from warpmeter.producers.kineto.targets import targets
from warpmeter.producers.kineto.upload import Stored
from warpmeter.producers.source import JobTree

NOW, START, DEADLINE = 1000.0, 1013.0, 1060.0
STORED = Stored("/store/t", 10, 100, "abc", START, START + 0.5, stepped=True)


def capture(**more: Any) -> Capture:
    """One that was offered now; by iterations when `iterations` are given."""
    when = {} if "iterations" in more else {"start_at": START, "duration_ms": 500}
    command = CaptureCommand(capture_id="c", host="h", deadline_at=DEADLINE, **{**when, **more})
    return Capture(command, Member(7, 1, 7, 0), "/tmp", "t.json", NOW)


def story(begun: Capture, *looks: Look) -> list[Told]:
    """What is told on the way."""
    told = []
    for look in looks:
        begun, state = advance(begun, look)
        if state is not None:
            told.append(state)
    return told


def test_a_trace_by_time_from_the_offer_to_the_store() -> None:
    told = story(
        capture(),
        Look(NOW + 2),
        Look(NOW + 5, fetched=True),
        Look(NOW + 6, fetched=True, idle=True, asked_at=NOW + 6),  # asks on until its warm-up
        Look(NOW + 11, fetched=True, tracing=True),
        Look(START - 0.1, fetched=True, tracing=True),
        Look(START, fetched=True, tracing=True),
        Look(START + 2, fetched=True, tracing=True, file="under way"),
        Look(START + 3, fetched=True, tracing=True, file=STORED),
    )
    assert [each.state for each in told] == ["started", "captured"]
    assert told[-1] == Told("captured", stored=STORED)


@pytest.mark.parametrize(
    ("looks", "reason"),
    [
        ([Look(START - 5)], "not_polling"),
        ([Look(NOW + 5, fetched=True), Look(START, fetched=True, idle=True, asked_at=START - 5 + AT_WORK_S + 0.1),
          Look(START + GRACE_S + 0.1, fetched=True, idle=True, asked_at=START)], "cancelled_by_kineto"),
        ([Look(NOW + 5, fetched=True), Look(START - 3, fetched=True, tracing=True),
          Look(START + 3, fetched=True, idle=True, asked_at=START + 3),
          Look(START + 4 + GRACE_S, fetched=True, idle=True, asked_at=START + 3)], "wrote_nothing"),
        ([Look(NOW + 5, fetched=True), Look(START - 3, fetched=True, tracing=True),
          Look(START + 3, fetched=True, idle=True, asked_at=START + 3),
          Look(START + 4 + GRACE_S, fetched=True, idle=True, asked_at=START + 3, free_bytes=0)], "disk_full"),
        ([Look(NOW + 1, alive=False), Look(NOW + 1.1 + GONE_S, alive=False)], "process_ended"),
        ([Look(NOW + 1, fetched=True, tracing=True), Look(DEADLINE, fetched=True, tracing=True)], "expired"),
        ([Look(NOW + 1, fetched=True, tracing=True), Look(DEADLINE, file="under way")], "upload_failed"),
        ([Look(NOW + 1, fetched=True), Look(START, file=Failure("too_large", "x"))], "too_large"),
    ],
)  # fmt: skip
def test_each_failure_has_its_reason(looks: list[Look], reason: str) -> None:
    failed = [each for each in story(capture(), *looks) if each.state == "failed"]
    assert [each.reason for each in failed] == [reason]
    assert failed[0].why


def test_iterations_wait_for_steps_until_the_deadline() -> None:
    asked, idle = capture(iterations=5), Look(NOW + 5, fetched=True, idle=True, asked_at=NOW + 5)
    assert story(asked, idle, replace(idle, now=DEADLINE - 1, asked_at=DEADLINE - 1)) == []
    assert [each.reason for each in story(asked, idle, replace(idle, now=DEADLINE))] == ["no_step"]
    assert [each.reason for each in story(asked, Look(NOW + FETCH_S))] == ["not_polling"]
    assert story(asked, Look(NOW + 9, fetched=True, file=STORED)) == [Told("captured", stored=STORED)]
    (told,) = story(asked, Look(NOW + 9, fetched=True, file=replace(STORED, stepped=False)))
    assert (told.state, told.reason) == ("captured", "no_step")


def test_what_pytorch_leaves_out_is_told() -> None:
    assert story(capture(memory=True), Look(START, file=STORED)) == [Told("captured", why=NO_MEMORY, stored=STORED)]
    assert story(capture(memory=True), Look(START, file=replace(STORED, memory=True)))[0].why == ""


def test_a_process_that_wrote_its_trace_and_ended_is_captured() -> None:
    told = story(capture(), Look(START + 1, alive=False), Look(START + 2, alive=False, file=STORED))
    assert [each.state for each in told] == ["captured"]


LOOKS = st.builds(
    Look,
    now=st.just(0.0),
    alive=st.booleans(),
    fetched=st.booleans(),
    tracing=st.booleans(),
    idle=st.booleans(),
    asked_at=st.floats(NOW, DEADLINE),
    file=st.sampled_from(["absent", "absent", "absent", "under way", STORED, Failure("too_large", "x")]),
    free_bytes=st.sampled_from([0, 1 << 40]),
)


@given(st.lists(LOOKS, max_size=30), st.sampled_from([0, 5]))
def test_whatever_is_seen_it_ends_once_with_a_known_reason_by_its_deadline(seen: list[Look], iterations: int) -> None:
    at = capture(iterations=iterations) if iterations else capture()
    last = Look(DEADLINE, alive=False)
    for number, look in enumerate([*seen, last]):
        at, told = advance(at, replace(look, now=NOW + number * (DEADLINE - NOW) / 30) if look is not last else last)
        if told is not None and told.state in FINAL:
            assert told.reason == "" or told.reason in REASONS
            assert (told.state == "captured") == (told.stored is not None)
            return
        assert told is None or told.state == "started"
    pytest.fail("no final state")


def test_a_command_becomes_what_kineto_is_told() -> None:
    given_command = capture(iterations=5, iteration_roundup=10, shapes=True, activities=["cpu_op"]).command
    tracing = tracing_of(given_command)
    assert (tracing.iterations, tracing.iteration_roundup, tracing.warmup_s, tracing.start_at) == (5, 10, 5, 0.0)
    assert (tracing.shapes, tracing.stacks, tracing.activities) == (True, False, ("cpu_op",))
    assert tracing_of(capture().command).start_at == START


# Which processes are meant.


def client(pid: int, *above: int) -> Client:
    return Client(pid, pid, 0, 0, (pid, *above, 1), 0.0, 0.0)


LAUNCHER, RANK0, RANK1, WORKER, OTHER = client(10), client(11, 10), client(12, 10), client(13, 12, 10), client(30)
TREES = (
    JobTree("train", None, 10, (10,)), JobTree("train", 0, 11, (11,)), JobTree("train", 1, 12, (12, 13)),
    JobTree("solo", None, 20, (20, 21)),
)  # fmt: skip
ALL = (LAUNCHER, RANK0, RANK1, WORKER, OTHER)


@pytest.mark.parametrize(
    ("job", "pids", "clients", "found"),
    [
        ("train", (), ALL, [(11, 0, True), (12, 1, True)]),  # neither the launcher nor a worker
        ("train", (), (LAUNCHER, RANK0), [(11, 0, True), (12, 1, False)]),
        ("solo", (), ALL, [(20, None, False)]),
        ("solo", (), (client(21, 20), client(20)), [(20, None, True), (21, None, True)]),
        ("none", (), ALL, []),
        ("", (), ALL, [(11, 0, True), (12, 1, True), (30, None, True)]),
        ("", (), (client(9), client(11, 9), client(12, 9)), [(11, 0, True), (12, 1, True)]),  # a launcher of no tree
        ("", (10,), ALL, [(11, 0, True), (12, 1, True)]),
        ("", (12,), ALL, [(12, 1, True)]),
        ("", (10,), (LAUNCHER,), [(10, None, True)]),
        ("", (30, 99), ALL, [(30, None, True), (99, None, False)]),
        ("train", (12,), ALL, [(12, 1, True)]),
        ("train", (30,), ALL, []),
        ("", (20,), (client(21, 20), client(20)), [(20, None, True)]),
        ("", (21, 20), (client(21, 20), client(20)), [(20, None, True), (21, None, True)]),
    ],
)
def test_which_processes_are_meant(
    job: str, pids: tuple[int, ...], clients: tuple[Client, ...], found: list[tuple[int, int | None, bool]]
) -> None:
    meant = targets(job, pids, clients, TREES)
    assert [(each.pid, each.rank, each.client is not None) for each in meant] == found


def test_the_embedded_broker_is_known_by_the_name_of_its_cluster() -> None:
    assert tansu.CLUSTER_ID.startswith(EMBEDDED)
    assert tansu.new_cluster_id().startswith(EMBEDDED)
