"""What people say of alerts: silences and what they match, who takes care of what, in whatever order it is heard."""

import itertools
import time
from dataclasses import replace
from typing import Final

import pytest

from warpmeter.alerts import Alert, Silence, Word, Words, fingerprint, words
from warpmeter.cli import alerting
from warpmeter.settings import AlertRule, Alerts, Settings

T: Final = 1_800_000_000.0
ALERT: Final = Alert(
    "gpu-hot-1-2", "gpu-hot", "warning", "firing", "f", {"host": "gpu-0007", "gpu": "3"}, "GPU 3 is hot", T, T - 60,
    value=90.0, unit="°C", fired_at=T, findings=("a", "b"),
)  # fmt: skip


def test_an_alert_is_the_same_after_its_way_over_the_bus() -> None:
    assert Alert.of_row(ALERT.row()) == ALERT
    ended = replace(ALERT, state="resolved", value=None, resolved_at=T + 5, flapping=True, acknowledged_by="ann")
    assert Alert.of_row(ended.row()) == ended
    assert (ALERT.open, ALERT.quiet, ended.open, ended.quiet) == (True, False, False, True)


def test_a_fingerprint_is_of_rule_and_labels_in_whatever_order() -> None:
    assert fingerprint("r", {"a": "1", "b": "2"}) == fingerprint("r", {"b": "2", "a": "1"})
    others = [("r", {"a": "1"}), ("r", {"a": "1", "b": ""}), ("s", {"a": "1"}), ("r", {"a": "1\0b\x011"}), ("r", {})]
    assert len({fingerprint(*other) for other in others}) == len(others)


@pytest.mark.parametrize(
    ("matchers", "fit"),
    [
        ({"rule": "gpu-hot"}, True), ({"rule": "gpu"}, False), ({"rule": "~gpu-.*"}, True), ({"rule": "~gpu"}, False),
        ({"severity": "warning", "host": "~gpu-00(07|08)"}, True), ({"severity": "warning", "host": "gpu-0008"}, False),
        ({"job_id": ""}, True), ({"job_id": "~.+"}, False), ({"host": "~("}, False), ({}, False),
    ],
)  # fmt: skip
def test_a_silence_is_about_alerts_that_all_its_matchers_fit(matchers: dict[str, str], fit: bool) -> None:
    assert Silence("s", matchers, T, T + 1).matches(ALERT) is fit


@pytest.mark.parametrize(
    ("word", "why"),
    [
        (words.silence({}, T + 9, "ann", starts_at=T), "needs a matcher"),
        (words.silence({"rule": "~("}, 4e9, "ann"), "is no expression"),
        (words.silence({"rule": "x"}, 5.0, "ann"), "ends before it begins"),
        (words.silence({"rule": "x"}, float("inf"), "ann"), "say when the silence ends"),
        (words.silence({"rule": "x"}, time.time() + 400 * 86_400, "ann"), "a year at most"),
        (Word(action="silence", subject="s", matchers={"rule": "x"}), "say when the silence ends"),
        (words.say("acknowledge", "", "ann"), "say of which alert"),
        (words.say("unsilence", "", "ann"), "say of which silence"),
        (words.say("shout", "x", "ann"), "no word"),
        (words.say("acknowledge", "x", "ann", "y" * 3000), "2000 characters"),
    ],
)  # fmt: skip
def test_a_word_that_cannot_be_meant_is_refused_and_not_heard(word: Word, why: str) -> None:
    assert why in words.objection(word)
    assert not Words().hear(word)


def test_the_last_word_holds_in_whatever_order_words_are_heard() -> None:
    said = [
        Word(
            subject="s", ts=T, action="silence", matchers={"rule": "gpu-hot"}, starts_at=T, ends_at=T + 900, said_by="a"
        ),
        Word(subject="s", ts=T + 60, action="unsilence", said_by="a"),
        Word(subject=ALERT.alert_id, ts=T + 10, action="acknowledge", said_by="ann"),
        Word(subject=ALERT.alert_id, ts=T + 20, action="unacknowledge", said_by="ann"),
        Word(subject=ALERT.alert_id, ts=T + 30, action="acknowledge", said_by="bob"),
        Word(subject="t", ts=T, action="silence", matchers={"rule": "gpu-hot"}, starts_at=T + 100, ends_at=T + 200),
    ]
    for order in itertools.permutations(said):
        heard = Words()
        for word in (*order, order[0]):
            heard.hear(word)
        assert heard.carer(ALERT.alert_id) == "bob"
        assert [heard.silencing(ALERT, T + after) for after in (1, 70, 150, 200)] == ["", "", "t", ""]


def test_a_word_that_comes_again_is_no_news() -> None:
    heard, word = Words(), words.silence({"rule": "gpu-hot"}, time.time() + 60, "ann", "works on it")
    assert heard.hear(word)
    assert not heard.hear(word)
    (silence,) = heard.silences(time.time())
    assert (silence.silence_id, silence.said_by, silence.comment) == (word.subject, "ann", "works on it")


@pytest.mark.parametrize(("name", "wanted"), [("host", "\ud800"), ("\ud800", "a")])
def test_a_matcher_that_no_message_carries_is_refused(name: str, wanted: str) -> None:
    assert "a character that is none" in words.unmatchable(name, wanted)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("host_silent", "there is no rule host_silent; did you mean host-silent?; the silence is made"),
        ("gpu-hot", "there is no rule gpu-hot"),
        ("host-silent", ""),
        ("~host-.*", ""),
    ],
)
def test_a_silence_of_a_rule_that_is_none_is_told_and_made(given: str, said: str) -> None:
    off = Settings(alerts=Alerts(rules=(AlertRule("gpu-hot", enabled=False),)))
    word = alerting.new_silence([f"rule={given}", "severity=warning"], "1h", None, "")
    why = alerting.unheard(off, word)
    assert why.startswith(said)
    assert bool(why) is bool(said)
    assert alerting.unheard(off, alerting.new_silence(["host=a"], "1h", None, "")) == ""
