"""What becomes of alerts: from the first row of a rule to the end, over silences, flapping and restarts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError, NotSupportedError, OperationalError
from hypothesis import given
from hypothesis import strategies as st

from tests.alerted import Watched
from warpmeter.alerts import Alert, Rule, RuleError, Word
from warpmeter.alerts.rule import builtin
from warpmeter.scheduler.alerts.asking import MOST, Answer
from warpmeter.scheduler.alerts.machine import Machine, Subject, filled
from warpmeter.scheduler.alerts.ports import Attached
from warpmeter.scheduler.alerts.recalling import InMemory, Stored
from warpmeter.settings import Alerts

LIMITS: Final = Alerts(evaluate_s=60.0, flaps=3, flap_s=3600.0, flap_keep_s=1800.0)
HOT: Final = Rule(
    "hot", "GPUs that are hot", "warning", "SELECT", "GPU {gpu} is at {value}: {why}, {nobody}", for_s=120.0,
    keep_s=120.0, unit="°C", labels={"team": "ops"},
)  # fmt: skip
LOST: Final = Rule("lost", "GPUs that are gone", "critical", "SELECT", "GPU {gpu} is gone")
T: Final = 1_800_000_000.0


def subject(gpu: str = "0", value: float | None = 90.0, starts: bool = True) -> Subject:
    """A GPU in a condition."""
    return Subject({"gpu": gpu}, value, {"why": "dust"}, starts)


class Rules:
    """What each rule answers now; an error is raised."""

    def __init__(self, **answers: Sequence[Subject] | Answer | Exception) -> None:
        self.answers: dict[str, Sequence[Subject] | Answer | Exception] = dict(answers)
        self.asked: list[str] = []

    def __call__(self, rule: Rule, now: float) -> Answer:  # noqa: ARG002
        """As `asking.ask`."""
        self.asked.append(rule.name)
        found = self.answers.get(rule.name.replace("-", "_"), [])
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Answer) else Answer(found)


def watched(rules: Rules, *known: Rule, limits: Alerts = LIMITS) -> Watched:
    """A watch at T."""
    return Watched(known or (HOT, LOST), rules, limits, now=T)


def test_it_fires_when_the_condition_has_held_and_is_resolved_when_it_has_been_gone_for_long_enough() -> None:
    rules = Rules(hot=[subject()])
    watch = watched(rules).at(T).at(T + 60)
    assert watch.states() == {"hot": "pending"}
    assert watch.receivers.changed == []
    watch.at(T + 120)
    (alert,) = watch.receivers.changed
    assert (alert.state, alert.fired_at, alert.started_at, alert.value) == ("firing", T + 120, T, 90.0)
    assert alert.summary == "GPU 0 is at 90°C: dust, {nobody}"
    assert alert.labels == {"team": "ops", "gpu": "0"}
    rules.answers = {}
    watch.at(T + 180).at(T + 240)
    assert watch.states() == {"hot": "firing"}
    rules.answers = {"hot": [subject()]}
    watch.at(T + 300)
    rules.answers = {}
    watch.at(T + 360).at(T + 420)
    assert watch.states() == {"hot": "firing"}, "it was gone for two minutes, but not at once"
    watch.at(T + 480)
    assert watch.states() == {}
    assert [a.state for a in watch.receivers.changed] == ["firing", "resolved"]
    assert watch.receivers.changed[1].resolved_at == T + 480
    assert watch.history("hot") == ["pending", "firing", "resolved"]


def test_what_is_gone_before_it_fires_is_dropped_and_nobody_hears_of_it() -> None:
    rules = Rules(hot=[subject()])
    watch = watched(rules).at(T)
    rules.answers = {}
    assert watch.at(T + 60).states() == {}
    assert watch.history("hot") == ["pending", "dropped"]
    assert watch.receivers.changed == []


def test_a_condition_that_only_keeps_begins_nothing_and_ends_nothing() -> None:
    rules = Rules(hot=[subject(starts=False)], lost=[])
    watch = watched(rules).at(T)
    assert watch.states() == {}
    rules.answers = {"hot": [subject()]}
    watch.at(T + 60).at(T + 120).at(T + 180)
    rules.answers = {"hot": [subject(value=84.0, starts=False)]}
    for minute in range(4, 20):
        watch.at(T + 60 * minute)
    assert watch.states() == {"hot": "firing"}
    assert next(watch.watch.machine.open()).value == 84.0


def test_a_condition_does_not_hold_while_that_changes_which_must_stand_still() -> None:
    rules, rule = Rules(), replace(LOST, for_s=30.0, keep_s=60.0)
    watch = watched(rules, rule)
    for minute, still in enumerate(["10:00", "10:20", "10:40", "10:59", "10:59"]):
        rules.answers = {"lost": [replace(subject(), still=still)]}
        if minute == 2:
            watch.restart()
        watch.at(T + 60 * minute)
        assert watch.states() == {"lost": "firing" if minute == 4 else "pending"}
    watch.restart()
    assert watch.at(T + 300).states() == {"lost": "firing"}
    rules.answers = {"lost": [replace(subject(), still="11:30")]}
    assert watch.at(T + 360).states() == {"lost": "firing"}
    rules.answers = {"lost": [replace(subject(), still="11:50")]}
    assert watch.at(T + 420).states() == {}


def test_subjects_are_alerts_of_their_own() -> None:
    rules = Rules(lost=[subject("0", None), subject("1", None)])
    watch = watched(rules).at(T)
    assert (
        len({a.alert_id for a in watch.receivers.changed}) == len({a.fingerprint for a in watch.receivers.changed}) == 2
    )
    rules.answers = {"lost": [subject("1", None)]}
    watch.at(T + 60)
    assert [a.labels["gpu"] for a in watch.watch.machine.open()] == ["1"]


def test_what_comes_and_goes_is_held_as_flapping_until_it_has_been_gone_for_long() -> None:
    rules = Rules()
    watch = watched(rules)
    for minute in range(5):
        rules.answers = {"lost": [subject()]} if minute % 2 == 0 else {}
        watch.at(T + 60 * minute)
    (alert,) = watch.watch.machine.open()
    assert alert.flapping
    assert [a.state for a in watch.receivers.changed] == ["firing", "resolved"] * 2 + ["firing"]
    for minute in range(5, 25):
        rules.answers = {"lost": [subject()]} if minute % 2 == 0 else {}
        watch.at(T + 60 * minute)
    assert len(watch.receivers.changed) == 5, "it is told of once more, and no more"
    rules.answers = {}
    watch.at(T + 1500).at(T + 1500 + 1740)
    assert watch.states() == {"lost": "firing"}
    watch.at(T + 1500 + 1800)
    assert watch.states() == {}


def test_flapping_is_known_after_a_restart_too() -> None:
    rules = Rules()
    watch = watched(rules)
    for minute in range(5):
        rules.answers = {"lost": [subject()]} if minute % 2 == 0 else {}
        watch.restart()
        watch.at(T + 60 * minute)
    assert next(watch.watch.machine.open()).flapping


# --- restarts ----------------------------------------------------------------------------------------------------


def test_who_is_elected_goes_on_and_receivers_hear_what_fires() -> None:
    rules = Rules(hot=[subject()], lost=[subject("7")])
    watch = watched(rules).at(T)
    watch.restart()
    watch.at(T + 60).at(T + 120)
    assert watch.watch.machine.firing()[0].started_at == T
    before = {a.alert_id for a in watch.watch.machine.open()}
    watch.restart()
    watch.at(T + 180)
    assert {a.alert_id for a in watch.watch.machine.open()} == before
    assert [sorted(a.rule for a in each) for each in watch.receivers.recalled] == [[], ["lost"], ["hot", "lost"]]
    assert [a.rule for a in watch.receivers.changed] == ["lost", "hot"], "each is told of once"


class Forgetful(InMemory):
    """A bus that has forgotten, and a store that remembers what was published before."""

    def published(self, now: float, still: object) -> list[Alert]:  # noqa: ARG002
        """Nothing."""
        return []

    def stored(self, now: float, flap_s: float) -> Stored:  # noqa: ARG002
        """All of it."""
        return Stored([replace(alert, ts=round(alert.ts, 3)) for alert in self.rows], list(self.words))


def test_a_row_that_is_no_alert_is_passed_over() -> None:
    rules = Rules(lost=[subject()])
    watch = watched(rules, LOST).at(T)
    (alert,) = watch.watch.machine.open()
    changes = ({"severity": "bad"}, {"state": "gone"}, {"ts": math.nan}, {"started_at": 1e300}, {"fired_at": -1.0})
    watch.memory.rows += [
        replace(alert, alert_id=f"no-{at}", fingerprint=f"no-{at}", **change)  # type: ignore[arg-type]
        for at, change in enumerate(changes)
    ]
    watch.restart()
    assert watch.at(T + 60).states() == {"lost": "firing"}
    assert len(watch.watch) == 1


def test_what_the_bus_forgot_the_store_remembers() -> None:
    rules = Rules(lost=[subject()])
    watch = watched(rules)
    watch.memory = Forgetful()
    watch.restart()
    watch.at(T)
    (alert,) = watch.watch.machine.open()
    watch.restart()
    watch.at(T + 60)
    assert [a.alert_id for a in watch.watch.machine.open()] == [alert.alert_id]
    assert [a.alert_id for a in watch.receivers.recalled[-1]] == [alert.alert_id]


def test_what_the_bus_knows_to_have_ended_the_store_does_not_bring_back() -> None:
    rules = Rules(lost=[subject()])
    watch = watched(rules).at(T)
    late = list(watch.memory.rows)
    rules.answers = {}
    watch.at(T + 60)
    watch.memory.stored = lambda now, flap_s: Stored(late, [])  # type: ignore[method-assign]  # noqa: ARG005
    watch.restart()
    assert watch.at(T + 120).states() == {}
    assert watch.history("lost") == ["firing", "resolved"]


def test_alerts_of_a_rule_that_is_no_more_end() -> None:
    watch = watched(Rules(hot=[subject()], lost=[subject()])).at(T)
    watch.rules = [HOT]
    watch.restart()
    watch.at(T + 60)
    assert watch.states() == {"hot": "pending"}
    assert watch.history("lost") == ["firing", "resolved"]


# --- what goes wrong ---------------------------------------------------------------------------------------------

OWN: Final = (builtin()["store-away"], builtin()["rule-broken"])
AWAY: Final = OperationalError("cannot connect")
REFUSED: Final = DatabaseError("Code: 47. DB::Exception: unknown identifier")


@pytest.mark.parametrize("away", [AWAY, DatabaseError("Code: 516. DB::Exception: default: Authentication failed")])
def test_while_the_store_is_away_nothing_ends_and_that_is_told(away: ClickHouseError) -> None:
    rules = Rules(lost=[subject()])
    watch = watched(rules, HOT, LOST, *OWN).at(T)
    rules.answers = {"lost": away, "hot": away}
    watch.at(T + 60).at(T + 120).at(T + 1000)
    assert watch.states() == {"lost": "firing", "store-away": "firing"}
    rules.answers = {}
    assert watch.at(T + 1100).states() == {}
    assert [a.rule for a in watch.receivers.changed] == ["lost", "store-away", "lost", "store-away"]


def test_a_store_that_is_away_since_the_election_is_told_of_and_the_rest_goes_on_when_it_is_back() -> None:
    rules = Rules(lost=[subject()])
    watch = watched(rules, LOST, *OWN).at(T)
    stored = watch.memory.stored

    def away(now: float, flap_s: float) -> Stored:  # noqa: ARG001
        raise AWAY

    watch.memory.stored = away  # type: ignore[method-assign]
    watch.restart()
    watch.at(T + 60).at(T + 120)
    assert watch.states() == {"lost": "firing", "store-away": "firing"}
    assert [a.rule for a in watch.receivers.firing] == ["lost", "store-away"], "the bus knows what fires"
    watch.memory.stored = stored  # type: ignore[method-assign]
    assert watch.at(T + 180).states() == {"lost": "firing"}
    assert len(watch.receivers.recalled) == 2


UNREADABLE: Final = NotSupportedError("AggregateFunction(sum, UInt64) deserialization not supported")


@pytest.mark.parametrize(
    "error", [REFUSED, RuleError("no column value"), UNREADABLE, ValueError("format that nobody knows")]
)
def test_a_broken_rule_stops_itself_and_its_alerts_stand(error: Exception) -> None:
    rules = Rules(lost=[subject()], hot=[subject()])
    watch = watched(rules, HOT, LOST, *OWN).at(T)
    rules.answers["lost"] = error
    watch.at(T + 60).at(T + 120)
    assert watch.states() == {"hot": "firing", "lost": "firing", "rule-broken": "firing"}
    broken = next(a for a in watch.watch.machine.open() if a.rule == "rule-broken")
    assert broken.labels == {"broken": "lost"}
    assert str(error).partition(" ")[0] in broken.summary
    rules.answers = {}
    assert "rule-broken" not in watch.at(T + 180).states()


def test_of_more_subjects_than_can_have_alerts_those_keep_theirs_that_have_them() -> None:
    rules = Rules(lost=[subject(str(gpu)) for gpu in range(MOST)])
    watch = watched(rules, LOST, *OWN).at(T)
    rules.answers["lost"] = [subject(str(gpu)) for gpu in range(-2, MOST - 1)]
    watch.at(T + 60).at(T + 120)
    ours = {alert.labels["gpu"] for alert in watch.watch.machine.open() if alert.rule == "lost"}
    assert ours == {str(gpu) for gpu in range(-1, MOST - 1)} - {"-1"} | {"-2"}
    (broken,) = (alert for alert in watch.watch.machine.open() if alert.rule == "rule-broken")
    assert (broken.labels, broken.state) == ({"broken": "lost"}, "firing")
    assert "in part: it has more than 10,000 subjects: 10,000 are taken, and 1 more have no alert" in broken.summary


def test_of_what_was_not_read_nothing_is_over() -> None:
    rules = Rules(lost=[subject("kept"), subject("here")])
    watch = watched(rules, LOST, *OWN).at(T)
    rules.answers["lost"] = Answer([subject("here"), subject("new")], whole=False)
    watch.at(T + 60)
    ours = {alert.labels["gpu"] for alert in watch.watch.machine.open() if alert.rule == "lost"}
    assert ours == {"kept", "here", "new"}
    rules.answers["lost"] = [subject("new")]
    watch.at(T + 120)
    assert watch.states() == {"lost": "firing"}
    assert [alert.labels["gpu"] for alert in watch.watch.machine.open()] == ["new"]


def test_a_rule_that_is_not_asked_yet_after_an_election_is_as_broken_as_it_was() -> None:
    gate = replace(LOST, name="lag", gate=True)
    rules = Rules(lost=RuleError("no column value"))
    watch = watched(rules, LOST, gate, *OWN).at(T).at(T + 60)
    assert watch.states() == {"rule-broken": "firing"}
    watch.restart()
    rules.answers["lag"] = [subject(starts=False)]
    assert watch.at(T + 120).at(T + 240).states() == {"rule-broken": "firing"}
    rules.answers = {}
    assert "rule-broken" not in watch.at(T + 300).states()


def test_while_a_gate_has_a_subject_the_others_are_not_asked() -> None:
    gate = replace(LOST, name="lag", gate=True)
    always = replace(LOST, name="letters", always=True)
    rules = Rules(lag=[subject(starts=False)], lost=[subject()], letters=[subject()])
    watch = watched(rules, LOST, gate, always).at(T)
    assert rules.asked == ["lag", "letters"]
    assert watch.states() == {"letters": "firing"}, "what only keeps begins no alert, and closes the gate all the same"
    rules.answers["lag"] = []
    assert watch.at(T + 60).states() == {"letters": "firing", "lost": "firing"}


def test_a_rule_is_asked_as_often_as_it_says() -> None:
    rules = Rules()
    watch = watched(rules, replace(LOST, every_s=180.0), HOT)
    for minute in range(10):
        watch.at(T + 60 * minute)
    assert (rules.asked.count("lost"), rules.asked.count("hot")) == (4, 10)


def test_rules_that_are_not_asked_each_time_take_turns_after_the_first() -> None:
    rules = Rules()
    some = [replace(LOST, name=f"r{number}", every_s=300.0) for number in range(40)]
    watch = watched(rules, *some)
    asked = []
    for minute in range(11):
        rules.asked.clear()
        watch.at(T + 60 * minute)
        asked.append(len(rules.asked))
    assert asked[0] == 40
    assert sum(asked[1:6]) == sum(asked[6:11]) == 40
    assert max(asked[1:]) < 20


def test_what_goes_on_is_published_again_and_nobody_is_told_twice() -> None:
    watch = watched(Rules(lost=[subject()]), limits=replace(LIMITS, repeat_s=3600.0))
    for minute in range(0, 130, 10):
        watch.at(T + 60 * minute)
    assert [a.ts for a in watch.memory.rows] == [T, T + 3600, T + 7200]
    assert len(watch.receivers.changed) == 1


class Deaf(InMemory):
    """A bus that takes rows only when `there`."""

    there = False

    def publish(self, alerts: Sequence[Alert]) -> bool:
        """Keep them, as librdkafka does."""
        super().publish(alerts)
        return self.there


def test_nobody_is_told_before_the_bus_has_it() -> None:
    watch = watched(Rules(lost=[subject()]))
    watch.memory = bus = Deaf()
    watch.restart()
    watch.at(T).at(T + 60)
    assert watch.receivers.changed == []
    bus.there = True
    watch.at(T + 62)
    assert [a.state for a in watch.receivers.changed] == ["firing"]


# --- words -------------------------------------------------------------------------------------------------------


def silence(matchers: Mapping[str, str], until: float, name: str = "s1", ts: float = T) -> Word:
    """A silence from its time on."""
    return Word(
        subject=name, ts=ts, action="silence", said_by="ann", matchers=dict(matchers), starts_at=ts, ends_at=until
    )


def test_what_is_silenced_goes_on_and_is_not_told_until_the_silence_ends() -> None:
    rules = Rules(lost=[subject()])
    watch = watched(rules)
    watch.memory.words.append(silence({"rule": "lost", "gpu": "~[0-3]"}, T + 300))
    watch.at(T).at(T + 60)
    assert (watch.states(), watch.receivers.changed, watch.receivers.firing) == ({"lost": "firing"}, [], [])
    assert next(watch.watch.machine.open()).silenced_by == "s1"
    assert len(watch.triggers.changed) == 1, "a silence is about telling people"
    watch.at(T + 300)
    assert [a.silenced_by for a in watch.receivers.changed] == [""]
    watch.memory.words.append(silence({"severity": "critical"}, T + 900, "s2", T + 310))
    watch.at(T + 312)
    assert watch.receivers.firing == []
    watch.memory.words.append(Word(subject="s2", ts=T + 320, action="unsilence", said_by="ann"))
    watch.at(T + 322)
    assert len(watch.receivers.firing) == 1


def test_who_takes_care_of_an_alert_is_told_of_its_end_alone() -> None:
    rules = Rules(lost=[subject()])
    watch = watched(rules).at(T)
    (alert,) = watch.watch.machine.open()
    watch.memory.words.append(Word(subject=alert.alert_id, ts=T + 5, action="acknowledge", said_by="bob"))
    watch.at(T + 6)
    assert (watch.receivers.firing, next(watch.watch.machine.open()).acknowledged_by) == ([], "bob")
    watch.restart()
    watch.at(T + 60)
    assert next(watch.watch.machine.open()).acknowledged_by == "bob"
    rules.answers = {}
    watch.at(T + 120)
    assert [(a.state, a.acknowledged_by) for a in watch.receivers.changed] == [("firing", ""), ("resolved", "bob")]


def test_what_a_trigger_found_is_published_with_the_alert() -> None:
    watch = watched(Rules(lost=[subject()])).at(T)
    (alert,) = watch.watch.machine.open()
    watch.triggers.attached = [Attached(alert.alert_id, "c1"), Attached("other", "c2")]
    watch.at(T + 2)
    watch.triggers.attached = [Attached(alert.alert_id, findings=("rank 3 waits for data",))]
    watch.at(T + 4)
    last = watch.memory.rows[-1]
    assert (last.capture_id, last.findings, last.state) == ("c1", ("rank 3 waits for data",), "firing")
    assert len({a.ts for a in watch.memory.rows}) == len(watch.memory.rows), "rows of an alert are told apart"


def test_a_summary_is_bounded() -> None:
    assert len(filled("{a}", {"a": "x" * 5000})) == 1000


# --- a model -----------------------------------------------------------------------------------------------------

STEP: Final = st.tuples(
    st.sampled_from(["there", "weak", "gone", "error"]), st.integers(1, 4), st.booleans(), st.booleans()
)  # fmt: skip
"""What the rule says, in how many minutes, whether another is elected then, and whether the store lags behind."""


@given(st.lists(STEP, max_size=40), st.sampled_from([0.0, 120.0]), st.sampled_from([0.0, 180.0]))
def test_whatever_happens_an_alert_is_one_episode_after_the_other(
    steps: list[tuple[str, int, bool, bool]], for_s: float, keep_s: float
) -> None:
    rule = replace(LOST, for_s=for_s, keep_s=keep_s)
    rules = Rules()
    watch = watched(rules, rule)
    answers: dict[str, Sequence[Subject] | Exception] = {
        "there": [subject()], "weak": [subject(starts=False)], "gone": [], "error": REFUSED,
    }  # fmt: skip
    now, held_since, seen = T, None, None
    for says, minutes, elected, _ in steps:
        now += 60 * minutes
        rules.answers = {"lost": answers[says]}
        if elected:
            watch.restart()
        watch.at(now)
        state = watch.states().get("lost", "none")
        if says == "there":
            held_since = now if held_since is None or seen == "none" else held_since
            assert state == ("firing" if now - held_since >= for_s or seen == "firing" else "pending")
        elif says == "gone":
            assert state in ("none", "firing")
            assert keep_s or state == "none"
        elif says == "weak":
            assert state == (seen if seen == "firing" else "none")
        else:
            assert state == (seen or "none")
        held_since, seen = (None if state == "none" else held_since), state
    _is_one_after_the_other(watch.memory.rows)


def _is_one_after_the_other(rows: Sequence[Alert]) -> None:
    """Rows of an episode follow each other in time, none comes after its end, and no two go on at once."""
    last: dict[str, Alert] = {}
    going: set[str] = set()
    for alert in rows:
        before = last.get(alert.alert_id)
        assert before is None or (before.open and before.ts < alert.ts and before.started_at == alert.started_at)
        assert before is None or not (before.state == "firing" and alert.state in ("pending", "dropped"))
        last[alert.alert_id] = alert
        going = {*going, alert.alert_id} if alert.open else going - {alert.alert_id}
        assert len(going) <= 1
        assert (alert.fired_at is not None) == (alert.state in ("firing", "resolved"))
        assert (alert.resolved_at is not None) == (alert.state == "resolved")


def test_of_two_episodes_that_two_schedulers_began_one_goes_on() -> None:
    machine = Machine(LIMITS)
    machine.evaluated(LOST, [subject()], T)
    (first,) = machine.news(T).rows
    other = Machine(LIMITS)
    other.evaluated(LOST, [subject()], T + 5)
    (second,) = other.news(T + 5).rows
    third = Machine(LIMITS)
    third.recall([second, first])
    assert [a.alert_id for a in third.open()] == [first.alert_id]
    assert [(a.alert_id, a.state) for a in third.news(T + 9).rows] == [(second.alert_id, "resolved")]
