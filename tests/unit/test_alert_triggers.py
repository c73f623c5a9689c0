"""Which alerts ask for a capture, how often, and what is attached to them; a restart in between changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wait import until
from warpmeter.alerts import Alert
from warpmeter.alerts.triggering import capture_id, objection, request_of
from warpmeter.captures.asking import NotTakenError
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.alerts.budget import DAY_S, Budget, Spent
from warpmeter.scheduler.alerts.ports import Attached
from warpmeter.scheduler.alerts.triggers import AGAIN_S, LATE_S, LOOK_EVERY_S, Triggers
from warpmeter.settings import Trigger

NOW = 1_800_000_000.0
SLOW = Trigger("slow", {"rule": "job-slower"}, stacks=True, cooldown_s=60.0)


@dataclass
class Desk:
    """Bus and store of a capture, in memory. `away`: neither answers."""

    away: bool = False
    asked: list[Request] = field(default_factory=list)
    before: list[Spent] = field(default_factory=list)
    found: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def spent(self, now: float) -> Sequence[Spent]:
        return [each for each in self.before if each.at > now - DAY_S]

    def ask(self, request: Request) -> None:
        if self.away:
            raise NotTakenError("no answer")
        self.asked.append(request)

    def outcome(self, capture_id: str) -> tuple[str, ...]:
        return self.found.get(capture_id, ())


def alert(job: str = "j1", rule: str = "job-slower", at: float = NOW, **labels: str) -> Alert:
    named = {"job_id": job, **labels} if job else labels
    return Alert(
        alert_id=f"{rule}-{job}-{at:.0f}", rule=rule, severity="warning", state="firing", fingerprint=job,
        labels=named, summary="", ts=at, started_at=at, fired_at=at,
    )  # fmt: skip


def attached(triggers: Triggers, now: float, firing: Sequence[Alert], number: int = 1) -> list[Attached]:
    """What comes of turns, once so much has come."""
    found: list[Attached] = []

    def came() -> bool:
        found.extend(triggers.turn(now, (), firing))
        return len(found) >= number

    until(came, f"{number} to be attached", 30)
    return found


def told(triggers: Triggers, now: float, firing: Sequence[Alert]) -> list[Attached]:
    """What comes of turns until the thread has nothing to do."""
    found = list(triggers.turn(now, (), firing))
    triggers._pool.submit(int).result(30)
    return found + list(triggers.turn(now, (), firing))


def test_an_alert_is_captured_once_and_has_what_was_found() -> None:
    desk, one = Desk(), alert()
    triggers = Triggers([SLOW], 50, lambda: desk)
    assert attached(triggers, NOW, [one]) == [Attached(one.alert_id, capture_id(one))]
    (request,) = desk.asked
    assert (request.requested_by, request.name, request.job_id) == ("rule:job-slower", one.alert_id, "j1")
    assert (request.capture_id, request.stacks, request.duration_ms, request.process_limit) == (
        capture_id(one),
        True,
        500,
        8,
    )
    assert told(triggers, NOW + LOOK_EVERY_S, [one]) == []
    desk.found[capture_id(one)] = ("the input is late",)
    at = NOW + 3 * LOOK_EVERY_S
    assert attached(triggers, at, [one]) == [Attached(one.alert_id, capture_id(one), ("the input is late",))]
    assert told(triggers, at + 1000, [one]) == []
    assert len(desk.asked) == 1


def test_who_takes_over_goes_on_and_asks_for_nothing_twice() -> None:
    desk, one = Desk(), alert()
    first = Triggers([SLOW], 50, lambda: desk)
    attached(first, NOW, [one])
    known = replace(one, capture_id=capture_id(one))
    second = Triggers([SLOW], 50, lambda: desk)
    second.recall([known])
    desk.found[capture_id(one)] = ("x",)
    assert attached(second, NOW + 30, [known]) == [Attached(one.alert_id, capture_id(one), ("x",))]
    third = Triggers([SLOW], 50, lambda: desk)  # of whom the bus did not hear that anything is attached
    desk.before = [Spent(capture_id(one), "job-slower", "j1", NOW)]
    third.recall([one])
    assert attached(third, NOW + 40, [one])[0] == Attached(one.alert_id, capture_id(one))
    fourth = Triggers([SLOW], 50, lambda: desk)
    fourth.recall([replace(known, findings=("x",))])
    assert told(fourth, NOW + 50, [replace(known, findings=("x",))]) == []
    assert len(desk.asked) == 1


def test_what_no_trigger_is_about_what_is_old_and_what_names_nobody_is_not_captured() -> None:
    desk = Desk()
    triggers = Triggers([SLOW], 50, lambda: desk)
    assert told(triggers, NOW, [alert(rule="gpu-hot")]) == []
    assert told(triggers, NOW + LATE_S + 1, [alert()]) == []
    (found,) = told(triggers, NOW, [alert("", uuid="GPU-1")])
    assert found.findings == ("not captured: the alert names no job and no host",)
    assert desk.asked == []


def test_a_bus_that_is_away_is_asked_again() -> None:
    desk, one = Desk(away=True), alert()
    triggers = Triggers([SLOW], 50, lambda: desk)
    assert told(triggers, NOW, [one]) == []
    desk.away = False
    assert told(triggers, NOW + AGAIN_S / 2, [one]) == []
    assert attached(triggers, NOW + AGAIN_S, [one])[0].capture_id == capture_id(one)
    assert len(desk.asked) == 1


def test_a_job_that_was_captured_a_moment_ago_is_not_captured_again_and_the_alert_says_why() -> None:
    desk, first, second = Desk(), alert(at=NOW), alert(at=NOW + 30)
    triggers = Triggers([SLOW], 50, lambda: desk)
    attached(triggers, NOW, [first])
    (found,) = attached(triggers, NOW + 30, [second])
    assert found.alert_id == second.alert_id
    assert "j1 was captured for an alert 30 s ago" in found.findings[0]
    assert attached(triggers, NOW + 90, [alert(at=NOW + 90)])[0].capture_id
    assert len(desk.asked) == 2


SPENT = st.builds(
    Spent, st.uuids().map(str), st.sampled_from(["a", "b"]), st.sampled_from(["j1", "j2"]),
    st.floats(NOW - 2 * DAY_S, NOW - 1), st.booleans(),
)  # fmt: skip


def test_alerts_that_begin_together_share_a_budget() -> None:
    desk, storm = Desk(), [alert(f"j{number}") for number in range(200)]
    triggers = Triggers([replace(SLOW, per_day=100)], 5, lambda: desk)
    found = attached(triggers, NOW, storm, len(storm))
    assert len(desk.asked) == 5
    assert sum(each.findings[:1] == ("not captured: the budget of 5 captures a day for alerts is used up",)
               for each in found) == 195  # fmt: skip


@given(
    st.lists(SPENT, max_size=12), st.integers(0, 4), st.integers(0, 6), st.integers(0, 8), st.sampled_from([0.0, 600.0])
)
def test_no_budget_is_ever_exceeded(spent: list[Spent], per_job: int, per_day: int, most: int, pause: float) -> None:
    trigger = Trigger("t", {"rule": "a"}, per_job_per_day=per_job, per_day=per_day, cooldown_s=pause)
    refused = Budget(spent, NOW, most).refusal(trigger, "a", "j1")
    day = [each for each in spent if each.at > NOW - DAY_S]
    real = [each for each in day if not each.vain]
    of_job = [each for each in day if each.subject == "j1"]
    fits = (
        sum(each.subject == "j1" for each in real) < per_job
        and sum(each.rule == "a" for each in real) < per_day
        and len(real) < most
        and all(NOW - each.at >= pause for each in of_job)
    )
    assert fits == (not refused)


def test_a_host_is_captured_where_no_job_is_named() -> None:
    found = request_of(SLOW, alert("", host="ant"), NOW)
    assert found is not None
    assert (found.job_id, list(found.hosts)) == ("", ["ant"])


@pytest.mark.parametrize(
    ("trigger", "why"),
    [
        (Trigger("t"), "match is empty"),
        (Trigger("t", {"rule": "~("}), "expression"),
        (Trigger("t", {"rule": "x"}, duration_ms=5, iterations=5), "either a duration or iterations"),
        (Trigger("t", {"rule": "x"}, process_limit=-1), "must not be below 0"),
        (Trigger("t", {"rule": "x"}, cooldown_s=float("nan")), "must not be below 0"),
        (SLOW, ""),
    ],
)
def test_a_trigger_that_cannot_be_meant_is_refused(trigger: Trigger, why: str) -> None:
    assert why in objection(trigger)
    assert bool(why) == bool(objection(trigger))
