"""Alerts of the real scheduler, on a real broker and into a real store: one evaluates, and who follows it goes on."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers import Tansu
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import IngestProcess, settings_for
from tests.receivers import Hook, http_server
from tests.scheduler_process import SchedulerProcess
from tests.tables import ask, land, row
from tests.wait import until
from warpmeter import topics
from warpmeter.alerts import Word, words
from warpmeter.alerts.rule import builtin
from warpmeter.captures.asking import Asker
from warpmeter.scheduler.alerts.told import Memory
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import AlertRule, Alerts, Metrics, Receiver, Scheduler, Settings
from warpmeter.store import Client

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
RULE: Final = "ecc-uncorrected"
ROWS: Final = "SELECT alert_id, state, silenced_by, acknowledged_by FROM alerts WHERE rule = {rule:String} ORDER BY ts"


@dataclass
class World:
    """Broker, engine, ingest, a receiver; schedulers that know one rule and evaluate it each second."""

    settings: Settings
    engine: EngineServer
    client: Client
    folder: Path
    stack: ExitStack
    hook: Hook

    def scheduler(self, name: str) -> SchedulerProcess:
        """One more."""
        return self.stack.enter_context(closing(SchedulerProcess(self.settings, self.folder / f"{name}.log")))

    def errors(self, gpu: int, count: int) -> None:
        """A GPU's memory has so many errors now."""
        sample = row(
            "gpu-samples", host="h0", gpu=gpu, uuid=f"GPU-{gpu}", ts=time.time(), period_ms=1000,
            ecc_uncorrected_errors=count,
        )  # fmt: skip
        land(self.client, "gpu-samples", [sample])

    def rows(self) -> list[tuple[Any, ...]]:
        """What ingest has landed of the rule's alerts."""
        return ask(self.client, ROWS, rule=RULE)

    def told(self) -> list[tuple[str, str]]:
        """GPU and state of all that the receiver was told."""
        alerts = [alert for post in self.hook.posts for alert in json.loads(post.body)["alerts"]]
        return [(alert["labels"].get("gpu", ""), alert["state"]) for alert in alerts]

    def say(self, word: Word) -> None:
        """Somebody says something of alerts."""
        Asker(self.settings.kafka, "cli").put(TOPICS["alert-words"], {word.subject: word})


@pytest.fixture
def world(tansu: Tansu, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        hook = stack.enter_context(http_server())
        engine = stack.enter_context(closing(with_tables(tmp_path / "engine")))
        base = settings_for(tansu, engine, topic_prefix, tmp_path)
        off = tuple(AlertRule(name, enabled=False) for name in builtin() if name not in (RULE, "store-away"))
        settings = replace(
            base, metrics=Metrics(ingest_port=0, scheduler_port=0),
            scheduler=Scheduler(f"{topic_prefix}-s", 3.0, analyse=False, data=tmp_path / "scheduler"),
            alerts=Alerts(
                evaluate_s=1.0, rules=(*off, AlertRule("store-away", for_s=1.0)),
                receivers=(Receiver("ops", "webhook", url=hook.url),),
            ),
        )  # fmt: skip
        topics.ensure(settings.kafka)
        stack.enter_context(closing(IngestProcess(settings, tmp_path / "ingest.log").ready()))
        client = stack.enter_context(engine.client(write=True))
        yield World(settings, engine, client, tmp_path, stack, hook)


def test_who_follows_an_active_scheduler_neither_fires_again_nor_forgets(world: World) -> None:
    world.errors(0, 1)
    first = world.scheduler("first").until_active()
    until(lambda: [r[1] for r in world.rows()] == ["firing"], "the alert to fire and to land")
    until(lambda: world.told() == [("0", "firing")], "the receiver to be told")
    kept = Memory(world.settings.scheduler)
    until(lambda: [each.number for each in kept.of("ops").values()] == [1], "that to be kept")
    second = world.scheduler("second")
    until(lambda: "scheduling" in second.log.read_text(), "the second to stand by")
    first.kill()
    second.until_active()
    world.errors(1, 2)
    until(lambda: len(world.rows()) == 2, "the second to evaluate, too")
    until(lambda: len(world.told()) == 2, "the second to tell of it")
    ((alert_id, *_),) = {row for row in world.rows() if row[0] == world.rows()[0][0]}
    silence = words.silence({"rule": RULE, "gpu": "1"}, time.time() + 3600, "ann@desk", "known")
    world.say(silence)
    world.say(words.say("acknowledge", alert_id, "bob@desk"))
    until(lambda: {(r[2], r[3]) for r in world.rows()[2:]} == {(silence.subject, ""), ("", "bob@desk")}, "the words")
    assert second.stop() == 0
    third = world.scheduler("third").until_active()
    world.errors(0, 0)
    until(lambda: (alert_id, "resolved", "", "bob@desk") in world.rows(), "the alert of the first to be resolved")
    assert [row[1] for row in world.rows() if row[0] == alert_id] == ["firing", "firing", "resolved"], world.rows()
    assert len({row[0] for row in world.rows()}) == 2, f"an alert fired anew: {world.rows()}"
    until(lambda: len(world.told()) == 3, "its end to be told")
    assert world.told() == [("0", "firing"), ("1", "firing"), ("0", "resolved")], "each once, whoever told"
    assert third.process.poll() is None


def test_while_the_store_is_away_that_is_told_and_nothing_is_resolved(world: World) -> None:
    world.errors(0, 1)
    scheduler = world.scheduler("only").until_active()
    until(lambda: [r[1] for r in world.rows()] == ["firing"], "the alert to fire and to land")
    port, data = world.engine.port, world.engine.data
    world.engine.kill()
    until(
        lambda: '"summary": "The store does not answer' in scheduler.log.read_text(), "the store's absence to be told"
    )
    again = world.stack.enter_context(closing(EngineServer(data, port=port)))
    world.client = world.stack.enter_context(again.client(write=True))
    away = "SELECT state FROM alerts WHERE rule = 'store-away' ORDER BY ts"
    until(lambda: ask(world.client, away)[-1:] == [("resolved",)], "the store to be back, and that to be told")
    assert [row[1] for row in world.rows()] == ["firing"]
