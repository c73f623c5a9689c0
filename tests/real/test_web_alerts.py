"""Alerts over HTTP and by command: what the store has of them, and what is said of them over the bus."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from google.protobuf.message import Message
from typer.testing import CliRunner, Result

from tests.brokers import Tansu
from tests.engine.template import with_tables
from tests.ingest_process import settings_for
from tests.receivers import http_server
from tests.scheduler_process import Heard
from tests.tables import land, row, token
from tests.wait import until
from tests.web import visitor
from warpmeter import topics
from warpmeter.alerts.configured import rules
from warpmeter.cli.app import app
from warpmeter.settings import Alerts, Settings, Token, Web
from warpmeter.store import connect

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
VIEWER = Token("bob", "viewer", "viewer-of-this-test")
OPERATOR = Token("ann", "operator", "operator-of-this-test")
HOT, IDLE, OVER, SOON, NEVER = "gpu-hot-a-1", "job-idle-b-1", "job-idle-c-1", "job-idle-d-1", "job-idle-e-1"


@dataclass
class World:
    """Alerts in the store: HOT and IDLE fire, OVER is resolved, SOON pending, NEVER was; a bus, and its words."""

    settings: Settings
    words: Heard
    environment: dict[str, str]
    now: float

    def by(self, *words: str) -> Result:
        """A command."""
        return CliRunner().invoke(app, ["alerts", *words], env=self.environment)

    def told(self, *words: str) -> Any:
        """What a command says in JSON."""
        done = self.by(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def heard(self, action: str, subject: str) -> Any:
        """The word on the bus, in the store as well from now on."""
        found: list[Any] = []

        def there() -> bool:
            found[:] = [each for each in self.words.rows if (each.action, each.subject) == (action, subject)]
            return bool(found)

        until(there, f"{action} of {subject}")
        self.land("alert-words", found[-1:])
        return found[-1]

    def land(self, topic: str, rows: list[Message]) -> None:
        with closing(connect(self.settings.store)) as client:
            land(client, topic, rows, token(time.time_ns(), time.time_ns()))


def _alert(alert_id: str, state: str, at: float, severity: str = "warning", **more: Any) -> Message:
    rule, _, subject = alert_id.rpartition("-")[0].rpartition("-")
    labels = {"host": f"h-{subject}", "job_id": f"j/{subject}"}
    known = {"alert_id": alert_id, "ts": at, "rule": rule, "severity": severity, "state": state, "labels": labels}
    told = {"fingerprint": subject, "summary": f"{rule} of {subject}", "description": "Look.", "unit": "ratio 0-1"}
    return row("alerts", **known, **told, started_at=at - 60, **more)


def _landed(now: float) -> list[Message]:
    hot: dict[str, Any] = {
        "severity": "critical",
        "value": 0.5,
        "fired_at": now - 600,
        "findings": ["slow"],
        "capture_id": "c1",
    }
    return [
        _alert(HOT, "pending", now - 660, "critical"), _alert(HOT, "firing", now - 600, **hot),
        _alert(HOT, "firing", now - 300, **{**hot, "value": 0.75}),
        _alert(IDLE, "firing", now - 40 * 86400, fired_at=now - 40 * 86400),
        _alert(OVER, "firing", now - 9000, fired_at=now - 9000),
        _alert(OVER, "resolved", now - 7200, fired_at=now - 9000, resolved_at=now - 7200),
        _alert(SOON, "pending", now - 30, "info"), _alert(NEVER, "dropped", now - 30, "info"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def world(tansu: Tansu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("alerts")
    with ExitStack() as stack:
        engine = stack.enter_context(closing(with_tables(folder / "engine")))
        settings = settings_for(tansu, engine, "web-alerts", folder)
        settings = replace(settings, web=Web(tokens=(VIEWER, OPERATOR)))
        topics.ensure(settings.kafka)
        words = stack.enter_context(closing(Heard(settings.kafka, "alert-words")))
        environment = {
            "WARPMETER_STORE__DSN": settings.store.dsn, "WARPMETER_STORE__DATABASE": settings.store.database,
            "WARPMETER_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
            "WARPMETER_KAFKA__TOPIC_PREFIX": settings.kafka.topic_prefix,
            "WARPMETER_ENGINE__DATA": str(folder / "none"),
        }  # fmt: skip
        found = World(settings, words, environment, time.time())
        found.land("alerts", _landed(found.now))
        yield found


@pytest.fixture
def site(world: World) -> Iterator[TestClient]:
    with visitor(world.settings, authorization=f"Bearer {OPERATOR.token}") as found:
        yield found


def listed(site: TestClient, **asked: Any) -> list[str]:
    answer = site.get("/api/v1/alerts", params=asked)
    assert answer.status_code == 200, answer.text
    assert answer.json()["total"] >= len(answer.json()["data"])
    return [each["alert_id"] for each in answer.json()["data"]]


def test_a_list_begins_with_what_needs_somebody_and_is_narrowed_by_each_filter(world: World, site: TestClient) -> None:
    assert listed(site) == [HOT, IDLE, SOON, OVER]
    assert listed(site, since="-1h") == [HOT, IDLE, SOON], "what fires is there whenever it began"
    assert listed(site, until="-1d") == [IDLE]
    assert listed(site, state="open", severity="warning") == [IDLE]
    assert listed(site, state="dropped") == [NEVER]
    assert listed(site, rule="gpu-hot") == listed(site, host="h-a") == listed(site, job="j/a") == [HOT]
    assert listed(site, search="H-C") == [OVER]
    assert listed(site, sort="started_at") == [IDLE, OVER, HOT, SOON]
    page = site.get("/api/v1/alerts", params={"limit": 2, "offset": 1}).json()
    assert ([each["alert_id"] for each in page["data"]], page["total"], page["next"]) == ([IDLE, SOON], 4, 3)
    assert site.get("/api/v1/alerts/counts").json() == {
        "critical": 1, "warning": 1, "info": 0, "handled": 0, "pending": 1
    }  # fmt: skip
    assert site.get("/api/v1/alerts/counts", params={"host": "h-a"}).json()["warning"] == 0
    by_command = [each["alert_id"] for each in world.told("list")]
    assert by_command == [HOT, IDLE, SOON]
    assert [each["alert_id"] for each in world.told("list", "--state", "all", "--rule", "job-idle")] == [
        IDLE,
        SOON,
        OVER,
    ]
    assert "75%" in world.by("list", "--host", "h-a").stdout


def test_a_row_of_another_program_keeps_no_list_from_being_shown(world: World, site: TestClient) -> None:
    odd = row(
        "alerts", alert_id="odd", ts=world.now, rule="odd", severity="worst", state="resolved", fingerprint="o",
        summary="", started_at=world.now - 900 * 3600, resolved_at=world.now - 900 * 3600,
    )  # fmt: skip
    world.land("alerts", [odd])
    assert listed(site, rule="odd", since="-40d") == ["odd"]
    assert site.get("/api/v1/alerts/odd").json()["alert"]["severity"] == "worst"


def test_one_alert_has_its_history_and_a_rule_what_fires_of_it(world: World, site: TestClient) -> None:
    found = site.get(f"/api/v1/alerts/{HOT}").json()
    assert (found["alert"]["value"], found["alert"]["findings"], found["alert"]["capture_id"]) == (0.75, ["slow"], "c1")
    assert [(each["kind"], each["what"], each["value"]) for each in found["history"]] == [
        ("state", "firing", 0.75), ("state", "firing", 0.5), ("state", "pending", None)
    ]  # fmt: skip
    assert site.get("/api/v1/alerts/none").status_code == 404
    assert world.by("show", "none").exit_code == 1
    assert world.told("show", HOT)["alert"]["job_id"] == "j/a"
    assert "Look." in world.by("show", HOT).stdout
    every = {each["name"]: each for each in site.get("/api/v1/alerts/rules").json()["data"]}
    assert every.keys() == {each.name for each in rules(Alerts())}
    assert (every["job-idle"]["firing"], every["job-idle"]["pending"], every["gpu-hot"]["firing"]) == (1, 1, 1)
    assert {each["name"] for each in world.told("rules")} == every.keys()


def test_a_silence_is_said_on_the_bus_seen_at_once_and_ended(world: World, site: TestClient) -> None:
    body = {"matchers": {"rule": "job-idle", "host": "~h-.*"}, "duration": "2h", "comment": "räumt um"}
    made = site.post("/api/v1/alerts/silences", json=body)
    assert made.status_code == 202, made.text
    name = made.json()["id"]
    (seen,) = site.get("/api/v1/alerts/silences").json()["data"]  # before the store has it
    word = world.heard("silence", name)
    assert (dict(word.matchers), word.said_by, word.comment) == (body["matchers"], "ann", "räumt um")
    assert word.ends_at - word.starts_at == pytest.approx(7200, abs=1)
    with visitor(world.settings, authorization=f"Bearer {VIEWER.token}") as viewer:
        (stored,) = viewer.get("/api/v1/alerts/silences").json()["data"]
        assert stored == seen
        assert viewer.post("/api/v1/alerts/silences", json=body).status_code == 403
        assert viewer.delete(f"/api/v1/alerts/silences/{name}").status_code == 403
    assert [each["silence_id"] for each in world.told("silences")] == [name]
    assert site.delete(f"/api/v1/alerts/silences/{name}").status_code == 202
    assert site.get("/api/v1/alerts/silences").json()["data"] == []
    world.heard("unsilence", name)
    assert site.delete(f"/api/v1/alerts/silences/{name}").status_code == 404
    for wrong, field in (
        ({"matchers": {}}, "matchers"), ({"matchers": {"rule": "~("}}, "matchers"), ({"duration": "soon"}, "duration"),
        ({"duration": "400d"}, "duration"), ({"starts": "whenever"}, "starts"), ({"until": "x"}, "until"),
    ):  # fmt: skip
        refused = site.post("/api/v1/alerts/silences", json={**body, **wrong})
        assert (refused.status_code, refused.json()["detail"][0]["loc"][:2]) == (422, ["body", field]), refused.text


def test_a_silence_by_command_says_until_when_and_is_ended_by_its_id(world: World) -> None:
    made = world.told("silence", "severity=info", "job_id=~j/.*", "--for", "30m", "--starts", "2099-01-01T00:00Z")
    word = world.heard("silence", made["silence_id"])
    assert dict(word.matchers) == {"severity": "info", "job_id": "~j/.*"}
    assert made["ends_at"] == "2099-01-01T00:30:00Z"
    assert world.by("unsilence", made["silence_id"]).exit_code == 0
    world.heard("unsilence", made["silence_id"])
    assert world.by("unsilence", made["silence_id"]).exit_code == 1
    for words in (
        ("silence", "gpu-hot", "--for", "1h"),
        ("silence", "rule=~(", "--for", "1h"),
        ("silence", "a=b", "--for", "x"),
        ("silence", "a=b", "--for", "1h", "--starts", "2999-01-01T00:00Z"),
    ):
        assert world.by(*words).exit_code == 2, words


def test_who_takes_care_is_seen_at_once_and_in_the_history(world: World, site: TestClient) -> None:
    assert site.post(f"/api/v1/alerts/{HOT}/acknowledge", json={"comment": "I look"}).status_code == 202
    assert site.get(f"/api/v1/alerts/{HOT}").json()["alert"]["acknowledged_by"] == "ann"
    world.heard("acknowledge", HOT)
    with visitor(world.settings, authorization=f"Bearer {VIEWER.token}") as viewer:
        assert listed(viewer)[:2] == [IDLE, HOT], "what somebody takes care of comes after what nobody does"
        assert viewer.get("/api/v1/alerts/counts").json()["handled"] == 1
        last = viewer.get(f"/api/v1/alerts/{HOT}").json()["history"][0]
        assert (last["kind"], last["what"], last["by"], last["comment"]) == ("word", "acknowledge", "ann", "I look")
        assert viewer.post(f"/api/v1/alerts/{HOT}/unacknowledge").status_code == 403
    assert world.by("unack", HOT, "-m", "not me").exit_code == 0
    world.heard("unacknowledge", HOT)
    assert world.told("show", HOT)["alert"]["acknowledged_by"] == ""
    assert world.by("ack", "none").exit_code == 1
    assert site.post("/api/v1/alerts/none/acknowledge").status_code == 404


def test_a_receiver_is_tried_before_it_is_needed(world: World) -> None:
    with http_server() as hook:
        hook.answers = [(200, {}, b""), (200, {}, b""), (403, {}, b"no")]
        told = [{"name": "ops", "kind": "webhook", "url": hook.url, "routes": [{"severity": "critical"}]}]
        world.environment["WARPMETER_ALERTS__RECEIVERS"] = json.dumps(told)
        assert [each["outcome"] for each in world.told("test", "ops")["told"]] == ["sent", "sent"]
        failed = world.by("test", "ops")
        assert (failed.exit_code, "refused" in failed.stdout, "s3cret" in failed.output) == (1, True, False)
        assert [json.loads(each.body)["alerts"][0]["state"] for each in hook.posts][:2] == ["firing", "resolved"]
    assert world.by("test", "nobody").exit_code == 2
    shown = world.by("receivers").stdout
    assert ("severity=critical" in shown, "s3cret" in shown) == (True, False)
    del world.environment["WARPMETER_ALERTS__RECEIVERS"]
