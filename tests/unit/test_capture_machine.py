"""A capture from the request to its end, without a bus: one start for all, and every process ends with a word."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture_world import LIMITS, T0, Agent, Process, World, on
from warpmeter.captures import REASONS, wishes
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.capture import Resolved
from warpmeter.scheduler.round import SLACK_S


def job(hosts: int = 2, ranks: int = 4) -> list[Agent]:
    """Ranks of a job, dealt out over hosts."""
    each = ranks // hosts
    return [Agent(f"h{n}", [Process(100 + k, n * each + k) for k in range(each)]) for n in range(hosts)]


def asked(agents: list[Agent], limits: Any = LIMITS, **request: Any) -> World:
    """A request for a job that runs on all of them."""
    world = World(agents, limits, on(*(agent.host for agent in agents), job_id="j"))
    world.ask(job_id="j", **request)
    return world


# --- what it is for -------------------------------------------------------------------------------------------------


def test_all_ranks_of_all_hosts_start_at_one_time_far_enough_ahead() -> None:
    world = asked(job(), stacks=True).until_ended()
    assert [(each.host, each.job_id) for each in world.told("look")] == [("h0", "j"), ("h1", "j")]
    starts = world.told("start")
    assert [(each.host, list(each.pids), each.stacks) for each in starts] == [
        ("h0", [100, 101], True),
        ("h1", [100, 101], True),
    ]
    assert len({each.start_at for each in starts}) == 1
    told = starts[0]
    assert told.start_at - told.ts == 13, "a poll of 5 s, a warm-up of 5 s, and what else it takes"
    assert told.expires_at == told.start_at - 5, "later, Kineto would drop it"
    assert set(world.finals().values()) == {("captured", "")}
    (ended,) = world.ended()
    assert (ended.reason, ended.why) == ("", "4 of 4 processes captured")


def test_iterations_begin_at_a_multiple_for_all() -> None:
    world = asked(job(), duration_ms=0, iterations=3).until_ended()
    (first, second) = world.told("start")
    assert first.iteration_roundup == second.iteration_roundup == wishes.ROUNDUP
    assert not first.HasField("start_at")
    assert first.iterations == 3


def test_iterations_begin_at_one_step_for_all_that_count_them_and_soon() -> None:
    counting = [Agent(host, [Process(pid, steps=(1000 + pid, 500_000)) for pid in (1, 2)]) for host in ("h0", "h1")]
    world = asked(counting, duration_ms=0, iterations=3)
    while not world.told("start"):
        world.step()
    first, second = world.told("start")
    assert first.iteration_roundup == second.iteration_roundup
    made = 8 / 0.5 + 4  # until the last has asked, and what was made since they were looked at
    begins = {-(-count // first.iteration_roundup) for count in range(1001, round(1002 + made))}
    assert len(begins) == 1, first
    assert begins.pop() * first.iteration_roundup - 1002 < 5 * made
    assert first.deadline_at - first.ts < 8 + LIMITS.grace_s + 5 * 17 + 8 + 3 + 1
    before = first.deadline_at
    world.take_over()
    world.until_ended()
    assert {each.deadline_at for each in world.told("start")} == {before}
    given = asked(counting, duration_ms=0, iterations=3, iteration_roundup=7).until_ended()
    assert {each.iteration_roundup for each in given.told("start")} == {7}


@given(
    st.integers(1, 10**9), st.integers(0, 3), st.integers(0, (1 << 32) - 1), st.integers(0, 50), st.integers(0, 10**9)
)
def test_a_multiple_that_suits_all_is_found_whatever_processes_say(
    fewest: int, spread: int, step_us: int, warmup: int, liar: int
) -> None:
    made = Request(duration_ms=0, iterations=3, warmup_iterations=warmup)
    step_s = wishes.step_s(step_us)
    chosen = wishes.roundup(made, wishes.Pace(fewest, fewest + spread, step_s))
    ahead = math.ceil(8 / step_s) + 1
    assert ahead < chosen <= 4 * ahead + 8
    if ahead > 20:
        assert -(-(fewest + warmup) // chosen) == -(-(fewest + spread + ahead + warmup) // chosen)
    assert wishes.roundup(made, wishes.Pace(0, liar, step_s)) <= 4 * ahead + 8
    assert wishes.deadline(made, 0.0, LIMITS, step_s) < 3 * 86_400


def test_hosts_and_pids_need_no_store() -> None:
    world = World([Agent("h0", [Process(7), Process(8)])])
    world.ask(hosts=["h0"], pids=[8])
    world.until_ended()
    assert list(world.told("look")[0].pids) == [8]
    assert world.finals() == {("h0", 8): ("captured", "")}


def test_a_limit_on_processes_takes_the_lowest_ranks() -> None:
    world = asked(job(), process_limit=3).until_ended()
    assert world.finals()["h1", 101] == ("cancelled", "limit")
    assert sum(state == "captured" for state, _ in world.finals().values()) == 3


def test_a_capture_is_repeated_as_often_as_it_was_asked_for() -> None:
    world = asked(job(1, 1), count=3).until_ended()
    assert [each.sequence for each in world.told("start")] == [1, 2, 3]
    assert world.ended()[0].why == "3 of 3 processes captured"


# --- what can be wrong with it --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        ({}, "no target"),
        ({"hosts": ["a", "b"], "pids": [1]}, "one host"),
        ({"hosts": ["a"], "iterations": 2}, "either"),
        ({"hosts": ["a"], "duration_ms": 0}, "either"),
        ({"hosts": ["a"], "mode": "always"}, "mode"),
        ({"hosts": ["a"], "mode": "continuous"}, "interval_s"),
        ({"hosts": ["a"], "memory": True, "duration_ms": 0, "iterations": 1}, "memory"),
        ({"hosts": ["a"], "duration_ms": 700_000}, "600 s"),
    ],
)
def test_a_request_that_cannot_be_carried_out_ends_at_once_and_says_why(request_: dict[str, Any], word: str) -> None:
    world = World([])
    world.ask(**request_)
    world.turn()
    (ended,) = world.ended()
    assert ended.reason == "bad_request"
    assert word in ended.why
    assert not world.commands


def test_an_old_request_is_not_begun() -> None:
    world = World(job())
    world.ask(hosts=["h0"], ts=T0 - 301)
    world.turn()
    assert world.ended()[0].reason == "expired"
    assert not world.commands


def test_a_job_that_runs_nowhere_and_a_store_that_is_away() -> None:
    for answer, reason in (("no_process", "no_process"), ("store_away", "store_away")):
        world = World([], resolve=lambda request, reason=answer: Resolved(request.capture_id, (), reason, "why"))  # type: ignore[misc]
        world.ask(job_id="j")
        world.until_ended(60)
        assert world.ended()[0].reason == reason


def test_a_store_that_never_answers_holds_nothing_up() -> None:
    world = World([])
    world.ask(job_id="j")
    world.until_ended(60)
    assert world.ended()[0].reason == "store_away"


def test_an_agent_that_is_away_is_named_and_the_others_are_captured() -> None:
    agents = job()
    agents[1].away = True
    world = asked(agents).until_ended()
    assert world.of_hosts() == {"h1": "agent_away"}
    assert set(world.finals()) == {("h0", 100), ("h0", 101)}


def test_an_agent_that_falls_silent_is_given_up_at_its_deadline() -> None:
    agents = [Agent("h0", [Process(1), Process(2, words=((-8, "accepted", ""),))])]
    world = asked(agents).until_ended()
    assert world.finals() == {("h0", 1): ("captured", ""), ("h0", 2): ("failed", "agent_away")}
    deadline = world.told("start")[0].deadline_at
    assert world.ended()[0].ts <= deadline + SLACK_S + 1


@pytest.mark.parametrize("reason", ["not_registered", "missing_variables", "busy"])
def test_what_keeps_a_process_from_being_traced_is_its_final_word(reason: str) -> None:
    world = asked([Agent("h0", [Process(1), Process(2, reason=reason)])]).until_ended()
    assert world.finals() == {("h0", 1): ("captured", ""), ("h0", 2): ("failed", reason)}
    assert list(world.told("start")[0].pids) == [1]


def test_nothing_is_started_where_nothing_can_be() -> None:
    world = asked([Agent("h0", [Process(1, reason="busy")]), Agent("h1")]).until_ended(20)
    assert not world.told("start")
    assert world.of_hosts() == {"h1": "no_process"}
    assert world.ended()[0].reason in ("busy", "no_process")


@pytest.mark.parametrize(("ahead_s", "reason"), [(0.2, "clock_skew"), (-0.2, "clock_skew"), (0.0, "")])
def test_a_clock_that_is_off_is_told_with_the_capture(ahead_s: float, reason: str) -> None:
    agents = job()
    agents[1].skew_s, agents[1].delay_s, agents[0].delay_s = ahead_s, 0.0, 0.0
    world = World(agents, resolve=on("h0", "h1", job_id="j"))
    world.ask(job_id="j")
    world.turn()
    world.turn()
    world.now += 0.02  # they answer in 20 ms
    for _, event in world.later:
        world.scheduler.hear(event, world.now)
    world.events += [event for _, event in world.later]
    world.later.clear()
    world.until_ended()
    (told,) = [e for e in world.events if e.by == "scheduler" and e.state == "seen" and e.host == "h1"]
    assert told.reason == reason
    assert told.clock_skew_ms == pytest.approx(ahead_s * 1000, abs=20)
    assert ("chrony" in told.why) == bool(reason)
    assert set(world.finals().values()) == {("captured", "")}, "it is a warning"


def test_a_clock_that_is_an_hour_ahead_does_not_hold_it_up() -> None:
    agents = job()
    agents[1].skew_s = 3600
    world = asked(agents).until_ended(200)
    assert set(world.finals().values()) == {("captured", "")}


# --- ending it ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after_s", [0.0, 0.5, 3.0, 15.0])
@pytest.mark.parametrize("heeds", [True, False])
def test_a_cancelled_capture_ends_soon_whether_agents_answer_or_not(after_s: float, heeds: bool) -> None:
    agents = job()
    for agent in agents:
        agent.heeds_cancel = heeds
        agent.processes = [replace(each, words=()) for each in agent.processes]
    world = asked(agents)
    while world.now < T0 + after_s:
        world.step()
    world.ask(action="cancel", capture_id="c")
    world.until_ended(LIMITS.cancel_s + 2)
    assert world.ended()[0].reason == "cancelled_by_request"
    assert {state for state, _ in world.finals().values()} <= {"cancelled"}


def test_a_continuous_capture_keeps_its_beat_until_it_is_detached() -> None:
    world = asked(job(1, 1), mode="continuous", interval_s=60)
    while world.now < T0 + 200:
        world.step()
    world.ask(action="detach", capture_id="c")
    world.until_ended(30)
    looks = [each.ts for each in world.told("look")]
    assert [at - looks[0] for at in looks] == pytest.approx([0, 60, 120, 180], abs=1)
    assert world.ended()[0].reason == ""


def test_a_round_that_takes_longer_than_the_interval_skips_and_never_bursts() -> None:
    world = asked(
        [Agent("h", [Process(1, words=((90, "captured", ""),))])], mode="continuous", interval_s=60, max_count=3
    )
    world.until_ended()
    looks = [each.ts for each in world.told("look")]
    assert [at - looks[0] for at in looks] == pytest.approx([0, 120, 240], abs=1)


@pytest.mark.parametrize(
    ("ceiling", "reason", "rounds"),
    [
        ({"max_count": 2}, "limit", 2),
        ({"max_bytes": 2500}, "limit", 3),
        ({"max_seconds": 100}, "limit", 2),
        ({"max_slowdown_permille": 100}, "slowdown", 1),
        ({"max_slowdown_permille": 200, "max_count": 2}, "limit", 2),
    ],
)
def test_a_ceiling_ends_a_continuous_capture(ceiling: dict[str, int], reason: str, rounds: int) -> None:
    agents = [Agent("h", [Process(1, slowdown=200)])]
    world = asked(agents, mode="continuous", interval_s=60, **ceiling).until_ended()
    assert world.ended()[0].reason == reason
    assert len(world.told("start")) == rounds


def test_a_start_that_was_too_soon_is_followed_by_one_further_ahead() -> None:
    agents = [Agent("h", [Process(1, words=((0, "failed", "cancelled_by_kineto"),))])]
    world = asked(agents, mode="continuous", interval_s=60).until_ended()
    assert [each.start_at - each.ts for each in world.told("start")] == [13, 16, 19, 22, 25]
    assert world.ended()[0].reason == "cancelled_by_kineto"


def test_a_limit_on_the_slow_down_that_nobody_can_measure_ends_it_after_one_round() -> None:
    world = asked(job(1, 2), mode="continuous", interval_s=60, max_slowdown_permille=100).until_ended()
    (ended,) = world.ended()
    assert (ended.reason, len(world.told("start"))) == ("unmeasured", 1)
    assert "10 %" in ended.why
    assert "warpmeter run" in ended.why


def test_one_round_that_is_not_measured_ends_nothing_and_two_in_a_row_do() -> None:
    process = Process(1, slowdown=50)
    world = asked([Agent("h", [process])], mode="continuous", interval_s=60, max_slowdown_permille=100)
    for slowdown in (None, 50, None, None):
        while len(world.finals(len(world.told("start")))) != 1 or world.finals(1) == {}:
            world.step()
        before = len(world.told("start"))
        process.slowdown = slowdown
        while len(world.told("start")) == before and not world.ended():
            world.step()
    world.until_ended(200)
    assert (world.ended()[0].reason, len(world.told("start"))) == ("unmeasured", 5)


def test_the_median_of_its_processes_is_what_a_capture_cost() -> None:
    agents = [Agent("h", [Process(1, slowdown=900), Process(2, slowdown=20), Process(3, slowdown=30), Process(4)])]
    world = asked(agents, mode="continuous", interval_s=60, max_count=2, max_slowdown_permille=100).until_ended()
    assert world.ended()[0].reason == "limit"


def test_a_continuous_capture_of_a_job_that_is_gone_ends() -> None:
    world = asked([Agent("h")], mode="continuous", interval_s=30).until_ended(300)
    assert world.ended()[0].reason == "no_process"


# --- analysis -------------------------------------------------------------------------------------------------------


def test_what_was_captured_is_analysed_once_and_the_capture_ends_after_that() -> None:
    world = asked(job(), replace(LIMITS, analyse=True))
    while not world.analyses:
        world.step()
    (wanted,) = world.analyses
    assert len(wanted.traces) == 4
    assert not world.ended()
    for trace in wanted.traces:
        world.say(
            Event(
                capture_id="c",
                sequence=1,
                ts=world.now,
                state="analysed",
                by="analysis",
                host=trace.host,
                pid=trace.pid,
            )
        )
    world.until_ended(5)
    assert len(world.analyses) == 1


def test_an_analysis_that_hangs_is_given_up() -> None:
    world = asked(job(), replace(LIMITS, analyse=True, analyse_s=30)).until_ended(200)
    assert {e.reason for e in world.events if e.state == "analysed"} == {"analysis_failed"}
    assert set(world.finals().values()) == {("captured", "")}


# --- taking over, and whatever happens --------------------------------------------------------------------------------


@pytest.mark.parametrize("at_s", [0, 1, 5, 14, 16])
def test_whoever_takes_over_goes_on_where_it_was(at_s: float) -> None:
    world = asked(job())
    while world.now < T0 + at_s:
        world.step()
    world.take_over()
    world.until_ended()
    assert set(world.finals().values()) == {("captured", "")}
    assert len(world.told("start")) == 2, "none is started twice"


def test_an_attached_capture_survives_a_take_over_with_its_beat() -> None:
    world = asked(job(1, 1), mode="continuous", interval_s=60, max_count=4)
    while world.now < T0 + 100:
        world.step()
    world.take_over()
    world.until_ended()
    looks = [each.ts for each in world.told("look")]
    assert [at - looks[0] for at in looks] == pytest.approx([0, 60, 120, 180], abs=1)


def test_what_an_unknown_capture_or_round_says_is_nobodys() -> None:
    world = asked(job())
    world.scheduler.hear(Event(capture_id="other", sequence=1, state="captured", host="h", pid=1))
    world.scheduler.hear(Event(capture_id="c", sequence=4_000_000_000, state="captured", host="h", pid=1))
    world.until_ended()
    assert len(world.finals()) == 4


WORDS = st.lists(
    st.tuples(
        st.floats(-9, 300),
        st.sampled_from(["accepted", "started", "captured", "failed", "cancelled", "seen", "nonsense"]),
        st.sampled_from(["", *REASONS]),
    ),
    max_size=4,
)
PROCESSES = st.builds(
    Process,
    pid=st.integers(1, 5),
    rank=st.none() | st.integers(0, 9),
    reason=st.sampled_from(["", "", "", "busy", "not_registered"]),
    words=WORDS,
)
AGENTS = st.builds(
    Agent,
    host=st.just(""),
    processes=st.lists(PROCESSES, max_size=3, unique_by=lambda each: each.pid),
    away=st.sampled_from([False, False, True]),
    delay_s=st.floats(0, 12),
    skew_s=st.sampled_from([0.0, 0.0, -3600.0, 3600.0]),
    heeds_cancel=st.booleans(),
)
HAPPENINGS = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["take over", "cancel", "detach", "again"])), max_size=5
)


@settings(max_examples=150, deadline=None)
@given(
    agents=st.lists(AGENTS, min_size=1, max_size=4),
    happenings=HAPPENINGS,
    wish=st.sampled_from(
        [
            {},
            {"iterations": 2, "duration_ms": 0},
            {"count": 2},
            {"mode": "continuous", "interval_s": 30, "max_count": 3},
        ]
    ),
    analyse=st.booleans(),
)
def test_whatever_happens_every_process_ends_and_the_capture_with_it(
    agents: list[Agent], happenings: list[tuple[int, str]], wish: dict[str, Any], analyse: bool
) -> None:
    named = [replace(agent, host=f"h{n}") for n, agent in enumerate(agents)]
    limits = replace(LIMITS, analyse=analyse, analyse_s=30, grace_s=30, iteration_s=2)
    world = asked(named, limits, **wish)
    due = sorted(happenings)
    for tick in range(4000):
        while due and due[0][0] <= tick:
            _, what = due.pop(0)
            if what == "take over":
                world.take_over()
            else:
                world.ask(job_id="j", action="start" if what == "again" else what, **wish)
        if world.ended():
            break
        world.step()
    assert len(world.ended()) == 1, "it ends, and says so once"
    started = {(each.sequence, each.host, pid) for each in world.told("start") for pid in each.pids}
    final = {(e.sequence, e.host, e.pid) for e in world.events if e.state in ("captured", "failed", "cancelled")}
    assert started <= final, "whoever was told to start has its final state"
    looked = {(e.sequence, e.host) for e in world.events if e.state == "requested" and e.sequence}
    assert looked <= {(e.sequence, e.host) for e in world.events if e.state in ("captured", "failed", "cancelled")}
    assert all(each.expires_at >= each.ts and each.deadline_at >= each.expires_at for each in world.commands)
    assert len(started) == sum(len(each.pids) for each in world.told("start")), "nobody is started twice in a round"
    for _ in range(20):
        world.step()
    assert not len(world.scheduler), "nothing is left of it"
