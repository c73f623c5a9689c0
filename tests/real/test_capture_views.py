"""`captures` and `capture_ranks`: what the scheduler and agents said, as one row a capture and one a process."""

import time
from typing import Any

from tests.capture_world import Agent, Process, World, on
from tests.tables import ask, land, one
from warpmeter.captures import stored
from warpmeter.captures.progress import Progress
from warpmeter.captures.ranks import Event
from warpmeter.store import Client


def landed(tables: Client, world: World) -> None:
    """All that went over the bus, as ingest lands it."""
    for topic, rows in (
        ("capture-requests", world.requests),
        ("capture-commands", world.commands),
        ("capture-events", world.events),
    ):
        if rows:
            land(tables, topic, rows)


def world_of(*agents: Agent, now: float | None = None, **request: Any) -> World:
    """A capture of a job that runs on these."""
    world = World(agents, resolve=on(*(agent.host for agent in agents), job_id="j"), now=now or time.time() - 30)
    world.ask(job_id="j", name="mine", requested_by="ann@laptop", **request)
    return world


def test_each_rank_has_its_state_and_the_capture_says_what_came_of_it(tables: Client) -> None:
    agents = [
        Agent("h0", [Process(1, 0), Process(2, 1, reason="busy")], skew_s=0.0),
        Agent("h1", [Process(1, 2, words=((0, "failed", "wrote_nothing"),))]),
        Agent("h2", away=True),
    ]
    landed(tables, world_of(*agents, now=time.time() - 60).until_ended())
    assert ask(
        tables,
        "SELECT name, requested_by, state, reason, why, job_id, rounds, hosts, processes, captured, failed, "
        "hosts_failed, bytes FROM captures",
    ) == [
        (
            "mine", "ann@laptop", "ended", "",
            "1 of 3 processes captured: 1 busy, 1 wrote_nothing, 1 host agent_away", "j", 1,
            ["h0", "h1", "h2"], 3, 1, 2, ["h2"], 1000,
        )
    ]  # fmt: skip
    assert ask(tables, "SELECT host, pid, rank, state, reason, url != '' FROM capture_ranks ORDER BY host, pid") == [
        ("h0", 1, 0, "captured", "", 1),
        ("h0", 2, 1, "failed", "busy", 0),
        ("h1", 1, 2, "failed", "wrote_nothing", 0),
        ("h2", None, None, "failed", "agent_away", 0),
    ]
    (ranks,) = ask(tables, "SELECT ranks FROM captures")[0]
    assert {(each["host"], each["pid"]): each["state"] for each in ranks} == {
        ("h0", 1): "captured", ("h0", 2): "failed", ("h1", 1): "failed", ("h2", None): "failed",
    }  # fmt: skip


def test_the_store_tells_of_a_capture_what_the_bus_told(tables: Client) -> None:
    agents = [
        Agent("h0", [Process(1, 0), Process(2, 1, reason="busy")], skew_s=0.0),
        Agent("h1", [Process(1, 2, words=((0, "failed", "wrote_nothing"),))]),
        Agent("h2", away=True),
    ]
    world = world_of(*agents, now=time.time() - 60, shapes=True).until_ended()
    (trace,) = [event for event in world.events if event.state == "captured"]
    trace.why = "no allocation is in it"
    analysed = Event(
        capture_id=trace.capture_id, sequence=1, host=trace.host, pid=trace.pid, rank=0, job_id="j", state="analysed",
        why="loaded 1 rank", by="analysis", ts=trace.ts + 1,
    )  # fmt: skip
    world.events.append(analysed)
    landed(tables, world)
    told = Progress(trace.capture_id)
    told.ask(world.requests[0])
    for event in world.events:
        told.hear(event)
    found = stored.progress(tables, trace.capture_id)
    assert found is not None
    for mine, theirs in zip(found.document()["ranks"], told.document()["ranks"], strict=True):
        assert {**mine, "start_at": None} == {**theirs, "start_at": None}  # the store puts the command's with each
    assert found.document()["ranks"][0]["why"] == "no allocation is in it; loaded 1 rank"
    for same in ("state", "reason", "why"):
        assert found.document()[same] == told.document()[same]
    assert found.whole == told.whole
    assert found.request is not None
    assert (found.request.name, found.request.shapes, found.request.job_id) == ("mine", True, "j")
    assert stored.progress(tables, "nothing") is None


def test_a_capture_goes_through_its_states(tables: Client) -> None:
    world = world_of(Agent("h0", [Process(1)]))
    landed(tables, world)
    assert one(tables, "SELECT state FROM captures") == "requested"
    world = world_of(Agent("h0", [Process(1)]), now=time.time() - 5)
    for _ in range(8):
        world.step()
    landed(tables, world)
    assert one(tables, "SELECT state FROM captures") == "running"
    assert one(tables, "SELECT state FROM capture_ranks") in ("seen", "accepted", "requested")


def test_what_nobody_says_the_end_of_is_lost(tables: Client) -> None:
    landed(tables, world_of(Agent("h0", [Process(1)]), now=time.time() - 400))
    assert ask(tables, "SELECT state, reason FROM captures") == [("lost", "expired")]


def test_a_clock_that_is_off_and_a_trace_that_came_after_all(tables: Client) -> None:
    agent = Agent("h0", [Process(1, words=((1, "failed", "expired"), (5, "captured", "")))], skew_s=3.0, delay_s=0.0)
    other = Agent("h1", [Process(1, words=((9, "captured", ""),))])
    landed(tables, world_of(agent, other, now=time.time() - 60).until_ended())
    assert ask(
        tables, "SELECT host, state, clock_skewed, round(clock_skew_ms, -3) FROM capture_ranks ORDER BY host"
    ) == [
        ("h0", "captured", 1, 3000),
        ("h1", "captured", 0, 0),
    ]
    assert one(tables, "SELECT clocks_off FROM captures") == ["h0"]
