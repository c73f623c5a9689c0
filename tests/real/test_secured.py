"""Every component on a broker that gives nothing away: its least rights are enough, and one that lacks is said.

TLS on all ports, SCRAM-SHA-512, OAUTHBEARER and client certificates, StandardAuthorizer, nobody anonymous.
"""

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
from confluent_kafka.admin import AclBinding, AclBindingFilter, AclPermissionType

from tests.brokers import KafkaMissingError
from tests.brokers.secured import PASSWORD, SecuredKafka
from tests.engine import DATABASE, EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import Feed, IngestProcess, migrated, store_settings
from tests.real import agents
from tests.scheduler_process import Agents, Heard, SchedulerProcess, ended
from tests.wait import until
from tests.web_process import WebProcess
from warpmeter import acls, authorizer, bus, log, tail, topics
from warpmeter.acls import Component, Right
from warpmeter.captures.asking import Asker, NotTakenError, request
from warpmeter.captures.reading import Events, ReadingError
from warpmeter.cli import acling, doctor, servers
from warpmeter.consumers import __main__ as ingest
from warpmeter.consumers import status
from warpmeter.consumers.ledger import LedgerError
from warpmeter.consumers.loop import Halted
from warpmeter.producers.kineto.commands import Commands
from warpmeter.scheduler.reading import Requests
from warpmeter.scheduler.saying import Voice
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import (
    Agent,
    AlertRule,
    Alerts,
    Ingest,
    Kafka,
    Log,
    Metrics,
    Schedule,
    Scheduler,
    Settings,
    Store,
)
from warpmeter.simulate.run import prepare

pytestmark = pytest.mark.kafka

PREFIX: Final = "warpmeter"
WITHHELD: Final = re.compile("refuses|forbids")
COMPONENTS: Final = tuple(acls.needs(Settings()))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with all topics, and a user for each component, who may do what it needs."""
    try:
        broker = SecuredKafka(tmp_path_factory.mktemp("secured"), COMPONENTS)
    except KafkaMissingError as missing:
        pytest.skip(str(missing))
    with closing(broker):
        topics.ensure(of(broker, "root").kafka)
        for component, rights in acls.needs(of(broker, "root")).items():
            authorizer.create(of(broker, "root").kafka, f"User:{component}", rights)
        yield broker


def of(broker: SecuredKafka, name: str, options: dict[str, str] | None = None) -> Settings:
    """The settings of who logs in by that name."""
    kafka = Kafka(broker.bootstrap_servers, PREFIX, partitions=2, options=options or broker.scram(name))
    return Settings(
        kafka=kafka,
        ingest=Ingest(session_timeout_s=1.0, batch_age_s=0.3, settle_after_s=0.6),
        metrics=Metrics(ingest_port=0, agent_port=0),
        log=Log(format="json"),
    )


@dataclass
class Taken:
    """A right that a component is without, for as long as the context holds."""

    broker: SecuredKafka
    component: Component
    right: Right

    def __enter__(self) -> None:
        told = authorizer.binding(self.right, f"User:{self.component}")
        rule = AclBindingFilter(
            told.restype, told.name, told.resource_pattern_type, told.principal, told.host, told.operation,
            told.permission_type,
        )  # fmt: skip
        admin = bus.admin(of(self.broker, "root").kafka)
        (deleted,) = admin.delete_acls([rule]).values()
        assert len(deleted.result()) == 1

    def __exit__(self, *_: object) -> None:
        authorizer.create(of(self.broker, "root").kafka, f"User:{self.component}", [self.right])


def topic(name: str, operation: str, prefixed: bool = False) -> Right:
    full = f"{PREFIX}." if prefixed else TOPICS[name].full_name(PREFIX)
    return Right("topic", full, cast(acls.Operation, operation), prefixed)


def group(name: str, operation: str) -> Right:
    return Right("group", name, cast(acls.Operation, operation))


# What components do, in little: '' when it is done, or what they say.


def asks(settings: Settings, name: str = "capture-requests") -> str:
    row = request("start", "test") if name == "capture-requests" else TOPICS[name].envelope().rows.add()  # type: ignore[attr-defined]
    try:
        Asker(settings.kafka, "web").put(TOPICS[name], {"key": row})
    except NotTakenError as error:
        return str(error)
    return ""


def follows(settings: Settings, name: str = "capture-events") -> str:
    try:
        with closing(Events(settings.kafka, "web", TOPICS[name])) as events:
            list(events.start(time.time(), lambda: True))
            for _ in range(5):  # the coordinator is asked for in the background
                events.read(0.2)
    except ReadingError as error:
        return str(error)
    return ""


def is_elected(settings: Settings) -> str:
    try:
        with closing(Requests(settings.kafka, settings.scheduler)) as requests:
            until(lambda: [requests.read(0.1)] and requests.held, "the election")
            requests.read_all()
    except ReadingError as error:
        return str(error)
    return ""


def ingests(settings: Settings) -> str:
    """Up to the first question to the store, which is away here."""
    with ThreadPoolExecutor(1) as worker:
        loop = ingest.build(replace(settings, store=Store(dsn="http://127.0.0.1:1")), worker)
        try:
            while not loop.partitions:
                loop.step()
        except (Halted, LedgerError) as error:
            return str(error)
        finally:
            loop.leave()
    return ""


def reads(settings: Settings) -> str:
    try:
        list(tail.read(settings.kafka, tail.Wanted("gpu-samples", follow=False), threading.Event()))
        with tail._Reader(settings.kafka, TOPICS["gpu-samples"], None) as reader:
            reader.start_before_end()
            ended = threading.Event()
            threading.Timer(1.0, ended.set).start()
            list(reader.messages(ended, until_end=False))
    except tail.TailError as error:
        return str(error)
    return ""


def looks(settings: Settings) -> str:
    problems: list[str] = []
    status.standing(settings, problems)
    return "; ".join(each for each in problems if not each.startswith("store:"))


def makes_a_topic(settings: Settings) -> str:
    kafka = replace(settings.kafka, topic_prefix=f"{PREFIX}.more-{secrets.token_hex(4)}")
    return ensured(kafka, [TOPICS["alerts"]])


def mends_a_topic(settings: Settings) -> str:
    hours = 400 + secrets.randbelow(1000)
    return ensured(replace(settings.kafka, retention_hours={"alerts": hours}), [TOPICS["alerts"]])


def ensured(kafka: Kafka, wanted: list[Topic]) -> str:
    try:
        topics.ensure(kafka, wanted)
    except topics.TopicsError as error:
        return str(error)
    return ""


def prepares(settings: Settings) -> str:
    try:
        prepare(settings.kafka)
    except topics.TopicsError as error:
        return str(error)
    return ""


def hears_commands(settings: Settings) -> str:
    agent, stop = Agent(host="gpu01", command_wait_s=0.5), threading.Event()
    commands = Commands(settings.kafka, agent, lambda _: None)
    thread = threading.Thread(target=commands.run, args=(stop,))
    thread.start()
    until(lambda: commands.why or not commands._fresh, "commands to be read, or not")
    why = commands.why
    stop.set()
    thread.join()
    return why


Act = Callable[[Settings], str]
CASES: Final[tuple[tuple[Component, Act, Right], ...]] = (
    ("agent", hears_commands, topic("capture-commands", "Read")),
    ("web", asks, topic("capture-requests", "Write")),
    ("web", lambda settings: asks(settings, "alert-words"), topic("alert-words", "Write")),
    ("web", follows, topic("capture-events", "Read")),
    ("web", follows, group("warpmeter-capture-events", "Describe")),
    ("people", asks, topic("capture-requests", "Write")),
    ("scheduler", is_elected, topic("capture-requests", "Read")),
    ("scheduler", is_elected, group("warpmeter-scheduler", "Read")),
    ("scheduler", follows, topic("capture-events", "Read")),
    ("scheduler", lambda settings: follows(settings, "alerts"), topic("alerts", "Read")),
    ("ingest", ingests, topic("gpu-samples", "Read")),
    ("ingest", ingests, group("warpmeter-ingest", "Read")),
    ("reader", reads, topic("gpu-samples", "Read")),
    ("reader", reads, group("warpmeter-tail", "Describe")),
    ("check", looks, topic("gpu-samples", "Describe")),
    ("check", looks, group("warpmeter-ingest", "Describe")),
    ("simulate", prepares, topic("gpu-samples", "DescribeConfigs")),
    ("topics", makes_a_topic, topic("", "Create", prefixed=True)),
    ("topics", mends_a_topic, topic("", "AlterConfigs", prefixed=True)),
)


def test_an_agent_says_which_right_lacks_and_goes_on_with_the_others(secured: SecuredKafka, tmp_path: Path) -> None:
    kafka, said, lacking = of(secured, "agent").kafka, tmp_path / "agent.log", topic("device-samples", "Write")
    with Taken(secured, "agent", lacking):
        until(lambda: authorizer.mine(kafka, [lacking]), "the right to be gone")
        with agents.running(agents.settings(tmp_path, kafka), log=said) as process:
            with closing(agents.Reader(of(secured, "root").kafka)) as reader:
                reader.wait(lambda read: read.rows("host-samples"), "samples by the rights that there are")
            until(lambda: f"refuses User:agent the right {lacking}" in said.read_text(), "the agent to say it")
            words = Path(f"/proc/{process.pid}/cmdline").read_text() + Path(f"/proc/{process.pid}/environ").read_text()
        assert PASSWORD not in words + said.read_text()


def test_ingest_lands_rows_by_its_least_rights_and_keeps_what_it_may_not_write_letters_of(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    """With real processes: rows of who may write them, and a bad message while no letter may be written.

    It comes first: consumers of the cases below stay members of the group for a while.
    """
    letters = topic("dead-letters", "Write")
    with closing(migrated(EngineServer(tmp_path / "engine"))) as engine, engine.client() as client:
        settings = replace(of(secured, "ingest"), store=store_settings(engine))
        feed = Feed(of(secured, "simulate"), "secured")
        with Taken(secured, "ingest", letters), closing(IngestProcess(settings, tmp_path / "ingest.log")) as process:
            process.ready()
            feed.good(3)
            until(lambda: rows(client, "gpu_samples") == feed.sent, "the rows to land")
            producer = bus.producer(of(secured, "simulate").kafka)
            producer.produce(TOPICS["gpu-samples"].full_name(PREFIX), b"broken", b"host")
            producer.flush(30)
            until(lambda: f"the right {letters} lacks" in process.said(), "ingest to say it")
            authorizer.create(of(secured, "root").kafka, "User:ingest", [letters])
            until(lambda: rows(client, "dead_letters") == 1, "the letter, once it may be written")
            assert PASSWORD not in process.said()


def test_scheduler_and_web_do_their_work_by_their_least_rights_and_say_which_lacks(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    """As processes: captures asked for and scheduled, an alert (of a store that is away), words about alerts."""
    with ExitStack() as stack:
        root, scheduler = of(secured, "root").kafka, scheduling(secured, tmp_path)
        heard = {topic: stack.enter_context(closing(Heard(root, topic))) for topic in SAID}
        stack.enter_context(closing(Agents(root, ["h0"], [1])))
        engine = stack.enter_context(closing(with_tables(tmp_path / "engine")))
        web = replace(of(secured, "web"), store=Store(dsn=engine.url, database=DATABASE))
        page = stack.enter_context(closing(WebProcess(tmp_path, settings=web)))
        with Taken(secured, "scheduler", alerts := topic("alerts", "Write")):
            elected = stack.enter_context(closing(SchedulerProcess(scheduler, tmp_path / "scheduler.log")))
            until(lambda: f"refuses User:scheduler the right {alerts}" in elected.log.read_text(), "it to say it")
        until(lambda: [row for row in heard["alerts"].rows if row.state == "firing"], "the alert, once it may be told")
        elected.until_active()
        assert "1 is elected in group warpmeter-scheduler" in servers.scheduler(of(secured, "check")).seen
        blind = servers.scheduler(of(secured, "reader"))
        assert blind.verdict == "warning"
        assert "refuses User:reader the right Describe on group warpmeter-scheduler" in blind.seen
        until(
            lambda: [row for row in heard["capture-requests"].rows if row.requested_by == "schedule:often"],
            "the schedule's word",
        )
        page.ready()
        asked = {"hosts": ["h0"], "duration": "500ms"}
        name = posted(page, "captures", asked).json()["capture_id"]
        until(lambda: ended(heard["capture-events"], name), "the capture to end")
        until(
            lambda: httpx.get(f"{page.url}/api/v1/captures/{name}").json().get("state") == "ended",
            "the page to hear",
            every_s=0.5,
        )
        assert posted(page, "alerts/silences", SILENCE).status_code == 202
        until(lambda: [row.action for row in heard["alert-words"].rows] == ["silence"], "the word to be on the bus")
        for path, body, lacking in (
            ("captures", asked, topic("capture-requests", "Write")),
            ("alerts/silences", SILENCE, topic("alert-words", "Write")),
        ):
            with Taken(secured, "web", lacking):
                until(lambda: posted(page, path, body).status_code == 503, "the page to notice", every_s=0.5)  # noqa: B023
                assert f"refuses User:web the right {lacking}" in posted(page, path, body).text
        with Taken(secured, "scheduler", lacking := topic("capture-commands", "Write")):
            until(
                lambda: posted(page, "captures", asked)
                and f"refuses User:scheduler the right {lacking}" in elected.log.read_text(),
                "the scheduler to say which right it lacks", every_s=1.0,
            )  # fmt: skip
        with Taken(secured, "scheduler", lacking := topic("capture-requests", "Read")):
            assert elected.process.wait(120) == 1
            assert f"refuses User:scheduler the right {lacking}" in elected.log.read_text()
        with Taken(secured, "web", lacking := topic("capture-events", "Read")):
            until(lambda: f"refuses User:web the right {lacking}" in page.log.read_text(), "the page to say it")
        assert PASSWORD not in elected.log.read_text() + page.log.read_text()


def scheduling(broker: SecuredKafka, folder: Path) -> Settings:
    """The scheduler's settings: a schedule, and the one rule that fires where the store is away."""
    often = Schedule("often", every_s=5.0, hosts=("h0",), duration_ms=500)
    return replace(
        of(broker, "scheduler"), store=AWAY, metrics=Metrics(scheduler_port=0),
        scheduler=Scheduler(session_timeout_s=3.0, analyse=False, data=folder / "scheduler", schedules=(often,)),
        alerts=Alerts(evaluate_s=1.0, rules=(AlertRule("store-away", for_s=1.0),)),
    )  # fmt: skip


def posted(page: WebProcess, path: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{page.url}/api/v1/{path}", json=body, timeout=60)


AWAY: Final = Store(dsn="http://127.0.0.1:1")
SAID: Final = ("alerts", "alert-words", "capture-events", "capture-requests")
SILENCE: Final = {"matchers": {"rule": "gpu-hot"}, "duration": "1h"}


@pytest.mark.parametrize(("component", "act", "right"), CASES, ids=[f"{c}: {r}" for c, _, r in CASES])
def test_each_right_is_enough_with_the_others_and_said_when_it_lacks(
    secured: SecuredKafka, component: Component, act: Act, right: Right
) -> None:
    settings = of(secured, component)
    said = [""]

    def works() -> bool:
        said.append(act(settings))
        return not said[-1]

    until(works, f"{component} to work with what it was granted", 60, every_s=0.2)
    with Taken(secured, component, right):
        until(lambda: not works() and WITHHELD.search(said[-1]), f"{component} to notice that {right} lacks", 60, 0.2)
        assert f"User:{component}" in said[-1], said[-1]
        assert right.operation in said[-1], said[-1]
        assert "warpmeter acls" in said[-1], said[-1]
        if not right.prefixed:
            assert right.name in said[-1] or component in ("check", "simulate"), said[-1]
    until(lambda: not authorizer.mine(settings.kafka, [right]), "the right to be back")


def test_a_scheduler_that_may_not_write_says_so(secured: SecuredKafka, capfd: pytest.CaptureFixture[str]) -> None:
    lacking = topic("capture-events", "Write")
    with Taken(secured, "scheduler", lacking):
        until(lambda: authorizer.mine(of(secured, "scheduler").kafka, [lacking]), "the right to be gone")
        log.setup(Log(format="json"), "scheduler")
        event = TOPICS["capture-events"].envelope().rows.add(capture_id="c")  # type: ignore[attr-defined]
        Voice(of(secured, "scheduler").kafka).tell([event])
        assert "refuses User:scheduler the right Write on topic warpmeter.capture-events" in capfd.readouterr().err


@pytest.mark.parametrize("how", ["oauth", "certificate"])
def test_who_comes_by_token_or_certificate_is_held_to_the_same_rules(secured: SecuredKafka, how: str) -> None:
    name = f"reader-by-{how}"
    by_token = how == "oauth"
    settings = of(secured, name, secured.oauth(name) if by_token else secured.certificate(name))
    if not by_token:
        settings = replace(settings, kafka=replace(settings.kafka, bootstrap_servers=secured.tls_servers))
    assert "Describe on group" in reads(settings) or "Read on topic" in reads(settings)
    assert ("OAuth client" if by_token else "certificate") in reads(settings)
    acls_of_it = acls.needs(settings)["reader"]
    authorizer.create(of(secured, "root").kafka, f"User:{name}", acls_of_it)
    until(lambda: not reads(settings), "the rights to hold", 60)
    assert authorizer.mine(settings.kafka, acls_of_it) == []


def test_no_password_is_in_what_is_said_of_a_login_that_is_refused(secured: SecuredKafka) -> None:
    wrong = of(secured, "agent", secured.scram("agent", "not-the-password"))
    with pytest.raises(topics.TopicsError) as refused:
        topics.check(wrong.kafka, timeout_s=5)
    assert "not-the-password" not in str(refused.value)
    assert "uthentication" in str(refused.value)


def test_who_may_not_look_at_rules_is_told_so_and_who_may_sees_nothing_missing_and_nothing_beyond(
    secured: SecuredKafka,
) -> None:
    with pytest.raises(authorizer.AclsError, match="does not let User:agent describe access rules"):
        authorizer.found(of(secured, "agent").kafka)
    with pytest.raises(authorizer.AclsError, match="does not let User:agent alter access rules"):
        authorizer.create(of(secured, "agent").kafka, "User:agent", [topic("alerts", "Write")])
    rules = authorizer.found(of(secured, "root").kafka)
    for component, rights in acls.needs(of(secured, "root")).items():
        assert acls.lacking(rights, f"User:{component}", rules) == []
        assert acls.beyond(rights, f"User:{component}", rules) == []


def test_what_a_rule_denies_is_not_said_to_be_granted(
    secured: SecuredKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    root, given = of(secured, "root"), topic("gpu-samples", "Write")
    rule = authorizer.binding(given, "User:denied")
    denied = AclBinding(
        rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host, rule.operation,
        AclPermissionType.DENY,
    )  # fmt: skip
    admin = bus.admin(root.kafka)  # held until it has answered
    (made,) = admin.create_acls([denied]).values()
    made.result()
    until(lambda: [each for each in authorizer.found(root.kafka) if not each.allows], "the rule")
    assert not acling.hold(root, {"agent": "User:denied"}, create=True, as_json=False)
    said = capsys.readouterr()
    assert "Write on topic warpmeter.host-samples" in said.out
    assert str(given) not in said.out
    assert f"agent: {given} is denied by a rule: User:denied may not {given}" in said.err
    assert not acling.hold(root, {"agent": "User:denied"}, create=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["granted"], told["lacking"]) == ({"agent": []}, {"agent": [str(given)]})
    assert told["denied"] == {"agent": {str(given): f"User:denied may not {given}"}}


def test_doctor_tells_the_rights_of_whoever_asks(secured: SecuredKafka) -> None:
    found = doctor.rights(of(secured, "reader"), "reader")
    assert (found.verdict, found.seen) == ("ok", "User:reader lacks none")
    other = doctor.rights(of(secured, "reader"), "web")
    assert other.verdict == "failed"
    assert "User:reader lacks: " in other.seen
    assert "Write on topic warpmeter.capture-requests" in other.seen


def test_a_component_with_its_own_login_is_well_and_is_not_asked_what_it_may_not_read(secured: SecuredKafka) -> None:
    for component in ("agent", "web", "people", "reader"):
        settings = of(secured, component)
        found = doctor.topic_table(settings, (component,))
        assert found.verdict == "ok", found
        assert found.seen.startswith("not asked: this login may not read the topics' settings; the "), found
    assert doctor.topic_table(of(secured, "agent")).seen == "not asked: this login may not read the topics' settings"
    with Taken(secured, "web", topic("capture-events", "Read")):
        lacks = doctor.topic_table(of(secured, "web"), ("web",))
        assert (lacks.verdict, lacks.seen) == ("failed", "warpmeter.capture-events: missing")


def test_why_the_broker_is_not_reached_is_said_by_doctor_and_status(secured: SecuredKafka) -> None:
    stranger = secured.scram("agent", "wrong")
    unknown = {name: value for name, value in secured.scram("agent").items() if name != "ssl.ca.location"}
    for options, why in [
        (stranger, "uthentication"),
        (unknown, "certificate verify failed"),
        ({"security.protocol": "plaintext"}, "Does it want TLS: security.protocol"),
    ]:
        settings = of(secured, "agent", options)
        told: list[str] = []
        status.standing(settings, told)
        found = doctor.broker(settings)
        for said in (found.seen, *told):
            assert why in said
        assert told
        assert "warpmeter up" not in found.remedy


def test_the_page_says_at_its_start_that_the_broker_does_not_take_its_password(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    wrong = of(secured, "web", secured.scram("web", "wrong"))
    with closing(WebProcess(tmp_path, settings=replace(wrong, store=AWAY))) as page:
        until(lambda: "Kafka lets nobody in by this login" in page.log.read_text(), "it to say it")
        (said,) = [line for line in page.said if line["event"] == "Kafka lets nobody in by this login"]
        assert "uthentication" in said["why"]
        page.ready()


def rows(client: Any, table: str) -> int:
    return int(client.query(f"SELECT count() FROM {table}").result_rows[0][0])
