"""Receivers of alerts: what real servers get of them, whatever these do, and what a restart remembers."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.receivers import Answer, Hook, Mailbox, Posted, free_port, http_server, mail_server
from tests.wait import until
from warpmeter.alerts import Alert, Severity
from warpmeter.scheduler.alerts import receivers
from warpmeter.scheduler.alerts.receivers import Outlets
from warpmeter.scheduler.alerts.told import Memory
from warpmeter.settings import Receiver, Scheduler

PAGE = "https://warpmeter.example"
SINCE = 1_750_000_000.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again comes soon."""
    monkeypatch.setattr(receivers, "FIRST_WAIT_S", 0.05)


def fires(name: str, severity: Severity = "warning", **more: Any) -> Alert:
    """An alert that fires."""
    plain = Alert(
        name, "gpu-hot", severity, "firing", f"f-{name}", {"host": f"host-{name}", "gpu": "3"},
        f"GPU 3 of host-{name} is at 91 <°C>", SINCE + 60, SINCE, "Look at the fan.", 91.0, "°C", fired_at=SINCE + 60,
    )  # fmt: skip
    return replace(plain, **more)


def ends(alert: Alert) -> Alert:
    """The same, resolved."""
    return replace(alert, state="resolved", ts=SINCE + 600, resolved_at=SINCE + 600)


@contextmanager
def telling(folder: Path, *to: Receiver, firing: Sequence[Alert] = ()) -> Iterator[Outlets]:
    """Receivers after an election at which `firing` fired."""
    outlets = Outlets(to, Memory(Scheduler(data=folder)), PAGE)
    outlets.recall(firing)
    try:
        yield outlets
    finally:
        outlets.close()


def turn(outlets: Outlets, *firing: Alert, changed: Sequence[Alert] = ()) -> None:
    outlets.turn(SINCE, [*changed, *firing], firing)


def hook_to(hook: Hook, name: str = "hook", **more: Any) -> Receiver:
    return Receiver(name, "webhook", url=hook.url, **more)


def told(hook: Hook) -> list[tuple[str, str]]:
    """Alert and state of all that came, in order."""
    return [(each["alert_id"], each["state"]) for post in hook.posts for each in json.loads(post.body)["alerts"]]


def test_each_kind_is_told_in_its_own_words_that_it_fires_and_that_it_is_over(tmp_path: Path) -> None:
    with http_server() as hook, http_server() as slack, http_server() as manager, mail_server() as box:
        to = (
            hook_to(hook),
            Receiver("chat", "slack", url=slack.url),
            Receiver("am", "alertmanager", url=manager.url, username="wm", password="geheim"),
            Receiver("mail", "mail", host="127.0.0.1", port=box.port, tls="none", sender="w@w.example", to=("a@b.c",)),
        )
        alert = fires("a", "critical", findings=("kernel x is slow",), capture_id="c1")
        alert = replace(alert, labels={**alert.labels, "my-own.label": "x", "none": ""})
        with telling(tmp_path, *to) as outlets:
            turn(outlets, alert)
            until(lambda: all((hook.posts, slack.posts, manager.posts, box.mails)), "all to be told")
            turn(outlets, changed=[ends(alert)])
            until(
                lambda: min(len(each) for each in (hook.posts, slack.posts, manager.posts, box.mails)) == 2,
                "all to hear the end",
            )
    _is_the_webhooks(hook.posts)
    _is_slacks(slack.posts)
    _is_alertmanagers(manager.posts)
    first, last = box.mails
    assert (first["Subject"], last["Subject"]) == (
        "[critical] GPU 3 of host-a is at 91 <°C>", "[resolved] GPU 3 of host-a is at 91 <°C>"
    )  # fmt: skip
    plain, page = first.get_body(("plain",)), first.get_body(("html",))
    assert plain is not None
    assert page is not None
    for word in ("what to do: Look at the fan.", "value: 91°C", "host: host-a", f"look: {PAGE}/alerts?alert=a"):
        assert word in plain.get_content()
    assert "91 &lt;°C&gt;" in page.get_content()


def _is_the_webhooks(posts: Sequence[Posted]) -> None:
    firing, resolved = (json.loads(post.body) for post in posts)
    assert posts[0].headers["idempotency-key"] == firing["key"] != resolved["key"]
    assert (firing["version"], firing["receiver"]) == (1, "hook")
    assert firing["alerts"] == [{
        "key": "a/firing/1", "alert_id": "a", "fingerprint": "f-a", "rule": "gpu-hot", "severity": "critical",
        "state": "firing", "labels": {"gpu": "3", "host": "host-a", "my-own.label": "x", "none": ""},
        "summary": "GPU 3 of host-a is at 91 <°C>",
        "description": "Look at the fan.", "value": 91.0, "unit": "°C", "started_at": "2025-06-15T15:06:40.000Z",
        "fired_at": "2025-06-15T15:07:40.000Z", "resolved_at": None, "flapping": False, "capture_id": "c1",
        "findings": ["kernel x is slow"], "url": f"{PAGE}/alerts?alert=a",
    }]  # fmt: skip
    (last,) = resolved["alerts"]
    assert (last["key"], last["state"]) == ("a/resolved/1", "resolved")
    assert last["resolved_at"] == "2025-06-15T15:16:40.000Z"


def _is_slacks(posts: Sequence[Posted]) -> None:
    body = json.loads(posts[0].body)
    assert body["text"] == "[critical] GPU 3 of host-a is at 91 &lt;°C&gt;"
    (shown,) = body["attachments"]
    assert (shown["color"], shown["title_link"]) == ("#c4232f", f"{PAGE}/alerts?alert=a")
    assert {"title": "host", "value": "host-a", "short": True} in shown["fields"]
    assert "kernel x is slow" in shown["text"]


def _is_alertmanagers(posts: Sequence[Posted]) -> None:
    (firing,), (resolved,) = (json.loads(post.body) for post in posts)
    assert posts[0].path == "/hook/s3cret-path/api/v2/alerts"
    assert posts[0].headers["authorization"] == "Basic d206Z2VoZWlt"
    own = {"host": "host-a", "gpu": "3", "my_own_label": "x"}  # it takes no other names, and no empty values
    assert firing["labels"] == {"alertname": "gpu-hot", "severity": "critical", **own}
    assert firing["startsAt"] == resolved["startsAt"] == "2025-06-15T15:07:40.000Z"
    assert firing["endsAt"] > firing["startsAt"]  # some minutes from now
    assert resolved["endsAt"] == "2025-06-15T15:16:40.000Z"
    assert firing["generatorURL"] == f"{PAGE}/alerts?alert=a"
    assert firing["annotations"]["summary"] == "GPU 3 of host-a is at 91 <°C>"


def test_who_is_told_of_what_is_a_matter_of_routes_silences_and_who_takes_care(tmp_path: Path) -> None:
    with http_server() as every, http_server() as grave, http_server() as rack:
        to = (
            hook_to(every, "every"),
            hook_to(grave, "grave", routes=({"severity": "critical"},), send_resolved=False),
            hook_to(rack, "rack", routes=({"host": "~host-[bc]", "rule": "gpu-hot"}, {"rule": "disk-full"})),
        )
        a, b, c, d = fires("a", "critical"), fires("b"), fires("c"), fires("d", rule="disk-full")
        with telling(tmp_path, *to) as outlets:
            turn(outlets, a, b, d)  # c is silenced, so it is in neither
            until(lambda: (len(told(every)), len(told(grave)), len(told(rack))) == (3, 1, 2), "the first")
            quiet = replace(b, acknowledged_by="ann")
            turn(outlets, a, d)  # and now somebody takes care of b
            turn(outlets, d, changed=[ends(a), ends(c), ends(quiet)])
            until(lambda: len(told(every)) == 5 and len(told(rack)) == 3, "the ends")
    assert told(every)[:1] == [("a", "firing")], "the gravest first"
    assert sorted(told(every)[3:]) == [("a", "resolved"), ("b", "resolved")], "of c nothing was told, so no end either"
    assert told(grave) == [("a", "firing")]
    assert sorted(told(rack)) == [("b", "firing"), ("b", "resolved"), ("d", "firing")]


def test_one_that_hangs_holds_up_nobody_else(tmp_path: Path) -> None:
    with http_server(Hook(drips=True)) as stuck, http_server() as hook:
        to = (hook_to(stuck, "stuck"), hook_to(hook))
        with telling(tmp_path, *to) as outlets:
            turn(outlets, fires("a"))
            until(lambda: stuck.posts and hook.posts, "both to be asked")
            turn(outlets, fires("a"), fires("b"))
            turn(outlets, fires("b"), changed=[ends(fires("a"))])
            until(lambda: told(hook)[-1] == ("a", "resolved"), "the other to hear of all")
            assert len(stuck.posts) == 1, "it still gives a byte now and then"


def test_what_fails_is_told_again_under_the_same_key_and_once_it_was_taken_no_more(tmp_path: Path) -> None:
    answers: list[Answer] = [(500, {}, b"no"), (503, {"Retry-After": "0"}, b"later")]
    with http_server(Hook(answers=answers)) as hook, telling(tmp_path, hook_to(hook)) as outlets:
        turn(outlets, fires("a"))
        until(lambda: len(hook.posts) == 3, "the third try")
        turn(outlets, fires("a"), fires("b"))
        until(lambda: len(hook.posts) == 4, "the next alert")
    assert len({post.headers["idempotency-key"] for post in hook.posts[:3]}) == 1
    assert told(hook) == [("a", "firing")] * 3 + [("b", "firing")]


def test_one_alert_that_a_receiver_refuses_keeps_none_of_the_others(tmp_path: Path) -> None:
    refused: list[str] = []

    def look(post: Posted) -> None:
        names = [each["alert_id"] for each in json.loads(post.body)["alerts"]]
        hook.answers[:] = [(400, {}, b"a bad label")] if "b" in names else []
        refused.extend(names if "b" in names else [])

    with http_server(Hook(on_post=look)) as hook, telling(tmp_path, hook_to(hook)) as outlets:
        turn(outlets, fires("a"), fires("b"), fires("c"))
        until(
            lambda: [each for each in told(hook)[3:] if each[0] != "b"] == [("a", "firing"), ("c", "firing")],
            "them",
        )
    assert refused == ["a", "b", "c", "b"]


def test_a_restart_repeats_nothing_and_forgets_nothing(tmp_path: Path) -> None:
    alerts = [fires(name) for name in "abc"]
    port = free_port()
    with http_server() as hook:
        away = Receiver("away", "webhook", url=f"http://127.0.0.1:{port}/")
        with telling(tmp_path, hook_to(hook), away) as outlets:
            turn(outlets, *alerts)
            until(lambda: len(told(hook)) == 3, "all to be told")
            until(lambda: len(Memory(Scheduler(data=tmp_path)).of("away")) == 3, "what is owed to be kept")
            until(lambda: Memory(Scheduler(data=tmp_path)).standing("away"), "it to fail")
            until(lambda: all(each.number for each in Memory(Scheduler(data=tmp_path)).of("hook").values()), "the rest")
        failing = Memory(Scheduler(data=tmp_path)).standing("away")
        back = replace(away, url=hook.url)  # where nobody listened, somebody does
        a, b, _ = alerts  # c ended, and who was to tell of it was killed before
        with telling(tmp_path, hook_to(hook), back, firing=[a, b]) as outlets:
            turn(outlets, a, b)
            until(lambda: len(hook.posts) >= 3, "what is owed and over")
            until(
                lambda: not any(each.number == 0 for each in Memory(Scheduler(data=tmp_path)).of("away").values()), "it"
            )
    assert failing is not None
    assert failing.failing_since
    assert "cannot be reached" in failing.why
    rest = [(json.loads(post.body)["receiver"], post) for post in hook.posts[1:]]
    said = {name: [each for post in (p for n, p in rest if n == name) for each in _states(post)] for name, _ in rest}
    assert said["hook"] == [("c", "resolved")]
    assert sorted(said["away"]) == [("a", "firing"), ("b", "firing"), ("c", "resolved")]


def _states(post: Posted) -> list[tuple[str, str]]:
    return [(each["alert_id"], each["state"]) for each in json.loads(post.body)["alerts"]]


def test_a_thousand_at_once_are_one_message_to_people_and_a_few_to_programs(tmp_path: Path) -> None:
    with http_server() as hook, http_server() as slack, mail_server(Mailbox()) as box:
        mail = Receiver(
            "mail", "mail", host="127.0.0.1", port=box.port, tls="none", sender="w@w.example", to=("a@b.c",)
        )
        with telling(tmp_path, hook_to(hook), Receiver("chat", "slack", url=slack.url), mail) as outlets:
            turn(outlets, *(fires(f"{number:04}") for number in range(1000)))
            until(lambda: len(told(hook)) == 1000 and slack.posts and box.mails, "all to be told")
    assert len(hook.posts) == 10
    assert len(set(told(hook))) == 1000
    assert (len(slack.posts), len(box.mails)) == (1, 1)
    body = json.loads(slack.posts[0].body)
    assert (body["text"], len(body["attachments"]), body["attachments"][-1]["text"]) == (
        "[1000 alerts] gpu-hot", 11, "and 990 more"
    )  # fmt: skip


def test_what_a_capture_found_is_told_once_more(tmp_path: Path) -> None:
    alert = fires("a")
    found = replace(alert, capture_id="c-1", findings=("launch bound: 53 % of the time",))
    with http_server() as hook, telling(tmp_path, hook_to(hook)) as outlets:
        turn(outlets, alert, changed=[alert])
        until(lambda: len(hook.posts) == 1, "the alert")
        turn(outlets, replace(alert, capture_id="c-1"))
        turn(outlets, found)
        until(lambda: len(hook.posts) == 2, "what was found")
        turn(outlets, found)
        turn(outlets, found, changed=[fires("b")])
        until(lambda: len(hook.posts) == 3, "another")
    (first,), (second,), (third,) = (json.loads(each.body)["alerts"] for each in hook.posts)
    assert (first["findings"], second["findings"]) == ([], ["launch bound: 53 % of the time"])
    assert (second["alert_id"], third["alert_id"]) == ("a", "b")
    assert first["key"] != second["key"]
