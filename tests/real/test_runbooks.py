"""Every runbook of docs/deploy/runbooks.md: its failure caused, its symptoms seen in its own words, its commands run.

Names, words and commands are taken from the page by heading, so page and test cannot part. What a runbook tells beyond
the failure that is caused here is held by the tests that it names. One broker and one engine for all.
"""

import json
import re
import signal
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.alerted import on_store
from tests.brokers import KafkaCluster, KafkaMissingError, tools
from tests.brokers.process import free_ports
from tests.documentation import ROOT
from tests.engine import DATABASE, TOKEN, WRITER, EngineServer
from tests.ingest_bench import HALTED
from tests.ingest_process import GPUS, HOSTS, Feed, IngestProcess, Table, make_topics, migrated
from tests.real import agents
from tests.real.agents import Watched
from tests.runbooks import Runbook, runbooks
from tests.scheduler_process import Agents, Heard, SchedulerProcess, ended, request
from tests.wait import until
from tests.web_process import WebProcess
from warpmeter import bus, config
from warpmeter.alerts.rule import builtin
from warpmeter.cli.app import app
from warpmeter.consumers import status
from warpmeter.settings import Settings

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(600)]

TRIED: Final = {
    "Ingest falls behind": "test_a_hung_ingest_falls_behind_and_another_catches_up",
    "Ingest has ended with status 78": "test_ingest_that_halted_begins_again_once_what_doctor_prints_is_done",
    "Messages go to the dead letters": "test_letters_are_listed_and_land_once_their_cause_is_mended",
    "The store is away, read-only, or its disk is full": "test_while_the_store_is_away_all_say_so_and_then_all_lands",
    "A Kafka broker is down, or partitions are under-replicated": "test_a_broker_that_was_down_gets_every_tick",
    "Agents' spools grow": "test_spools_grow_lose_the_oldest_when_full_and_count_it",
    "A host is silent": "test_a_silent_host_is_told_and_comes_back",
    "No scheduler is active": "test_what_waits_for_a_scheduler_goes_on_with_the_next",
    "Captures fail": "test_a_capture_that_failed_says_why_and_the_next_succeeds",
    "A migration is refused, or half done": "test_a_migration_says_what_is_in_its_way_until_nothing_is",
    "A password or certificate has expired": "test_ingest_whose_password_was_changed_goes_on_with_the_new_one",
    "A clock is wrong": "test_a_clock_that_was_set_is_told_and_costs_nothing",
}
"""The test of each runbook, by its heading."""
BOOKS: Final = runbooks()
PREFIX: Final = "runbooks"
SLOW_S: Final = 120.0
RESET: Final = re.compile(r"kafka-consumer-groups\.sh --bootstrap-server \S+ [^;]+ --to-offset \d+ --execute")


@dataclass
class Site:
    """A broker and a store, the settings of all parts in a file where every command finds them."""

    kafka: KafkaCluster
    engine: EngineServer
    settings: Settings
    folder: Path

    def ingest(self, name: str = "ingest", **changes: Any) -> IngestProcess:
        """One ingest of the group; `changes` of its settings. A second one's metrics are served nowhere."""
        ingest = replace(self.settings.ingest, **changes)
        metrics = self.settings.metrics if name != "other" else replace(self.settings.metrics, ingest_port=0)
        return IngestProcess(replace(self.settings, ingest=ingest, metrics=metrics), self.folder / f"{name}.log")

    def own(self, tag: str) -> tuple[Feed, Table]:
        """Samples of hosts of a test's own, and what the store has of them."""
        return Feed(self.settings, tag), Table(self.engine, tag)

    def command(self, statement: str) -> None:
        """As whoever may change tables does it."""
        with closing(self.engine.client(write=True)) as client:
            client.command(statement)

    def fires(self, rule: str, now: float, looks: int = 6) -> list[str]:
        """What a rule of ours fires about after so many looks, the first at `now`, one a minute."""
        watched = on_store(self.settings.store, [builtin()[rule]]).at(now)
        for look in range(1, looks):  # some are asked at every few looks only
            watched.at(now + look * 60)
        return [alert.summary for alert in watched.watch.machine.firing()]

    def newest(self) -> float:
        """The time of the newest sample of a host."""
        with closing(self.engine.client()) as client:
            return float(client.query("SELECT toUnixTimestamp(max(last_at)) FROM host_last").result_rows[0][0])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Topics and tables are there, nothing else runs; the folder is where commands are run."""
    folder = tmp_path_factory.mktemp("runbooks")
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(closing(KafkaCluster(folder / "kafka", 1)))
        except KafkaMissingError as missing:
            pytest.skip(str(missing))
        engine = stack.enter_context(closing(migrated(EngineServer(folder / "data"))))
        (folder / "warpmeter.toml").write_text(_toml(kafka, engine, folder))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.chdir(folder)
        patch.setenv("XDG_DATA_HOME", str(folder))
        patch.setenv("PYTHONPATH", str(ROOT))  # for the children that are the tests' own
        settings = config.load(folder / "warpmeter.toml")
        make_topics(settings)
        yield Site(kafka, engine, settings, folder)


def _toml(kafka: KafkaCluster, engine: EngineServer, folder: Path) -> str:
    ports = free_ports(4)
    tables: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers, "topic_prefix": PREFIX, "partitions": 3},
        "store": {"dsn": f"http://{WRITER}:{TOKEN}@127.0.0.1:{engine.port}", "database": DATABASE},
        "log": {"format": "json"},
        "ingest": {"group": PREFIX, "batch_age_s": 0.3, "settle_after_s": 0.6, "session_timeout_s": 3.0},
        "agent": {"host": "gpu01", "interval_s": 0.5, "spool_dir": f"{folder}/spool", "stacks": False, "gpu": False},
        "scheduler": {"group": f"{PREFIX}-scheduler", "session_timeout_s": 3.0, "data": f"{folder}/scheduler"},
        "metrics": dict(zip(("agent_port", "ingest_port", "scheduler_port", "web_port"), ports, strict=True)),
        "traces": {"url": f"file://{folder}/traces"},
    }
    lines = (
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )
    return "\n".join(lines)


@dataclass
class Shell:
    """Runs commands of a page as they stand there, in this process; what they printed is what it returns."""

    capsys: pytest.CaptureFixture[str]

    def run(self, words: Sequence[str], status: int = 0) -> str:
        """`warpmeter …`, which must end with that status."""
        assert words[0] == "warpmeter", words
        self.capsys.readouterr()
        ended = 0
        try:
            ended = int(app(list(words[1:]), standalone_mode=False) or 0)
        except SystemExit as error:
            ended = int(error.code or 0)
        printed = self.capsys.readouterr()
        said = " ".join((printed.out + printed.err).split())
        assert ended == status, f"{' '.join(words)} ended with {ended}: {said}"
        return said


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Wide enough that no word of a table is broken."""
    monkeypatch.setenv("COLUMNS", "2000")
    return Shell(capsys)


@pytest.fixture
def book(request: pytest.FixtureRequest) -> Runbook:
    """The runbook of the test that asks, by the table."""
    test = request.node.originalname
    return next(BOOKS[heading] for heading, name in TRIED.items() if name == test)


def page(port: int) -> str:
    """The own metrics of a part; '' while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
            return str(reply.read().decode())
    except OSError:
        return ""


def adds_up(site: Site, shell: Shell, book: Runbook, feed: Feed, table: Table) -> None:
    """What the page calls over: nothing is behind, and `warpmeter check` finds all in once."""
    words = book.command("check") if "warpmeter check" in book.quoted("Over when") else ["warpmeter", "check"]
    until(lambda: not status.pending(site.settings), "all to be settled", SLOW_S)
    assert "everything adds up" in shell.run(words)
    assert (table.rows(), table.distinct(), table.rolled_up()) == (feed.sent,) * 3


def test_a_hung_ingest_falls_behind_and_another_catches_up(site: Site, book: Runbook, shell: Shell) -> None:
    feed, table = site.own("behind")
    with ExitStack() as stack:
        hung = stack.enter_context(closing(site.ingest("hung"))).ready()
        Feed(site.settings, "others").good(1, topic=HOSTS)
        feed.good(20)
        table.reaches(feed.sent, hung)
        until(lambda: not status.pending(site.settings), "all to be settled", SLOW_S)
        metric = book.says("Confirm", "warpmeter_ingest_insert_seconds")
        assert f"{metric}_count" in page(site.settings.metrics.ingest_port)
        hung.process.send_signal(signal.SIGSTOP)
        feed.good(200)
        until(lambda: status.group_members(site.settings) == 0, "its session to end", SLOW_S)
        said = shell.run(book.command("status"), status=1)
        assert f"{PREFIX}.gpu-samples │ 3 │ 200 │" in said, "the topic, and by how much"
        assert book.says("Confirm", "nobody ingests") in said
        assert "gpu_samples" in shell.run(book.command("queries", "ingest_freshness"))
        rule = book.says("Symptom", "ingest-lag")
        assert site.fires(rule, site.newest() + 100)
        other = stack.enter_context(closing(site.ingest("other"))).ready()
        table.reaches(feed.sent, other)
        assert f"{PREFIX}.gpu-samples │ 3 │ 0 │" in shell.run(book.command("status"))
        assert not site.fires(rule, site.newest() + 10, looks=1)
        hung.kill()
        adds_up(site, shell, book, feed, table)
        assert other.stop(30) == 0


def test_ingest_that_halted_begins_again_once_what_doctor_prints_is_done(
    site: Site, book: Runbook, shell: Shell
) -> None:
    feed, table = site.own("halted")
    with closing(site.ingest()) as process:
        feed.good(20)
        table.reaches(feed.sent, process.ready())
        until(lambda: not status.pending(site.settings), "all to be settled", SLOW_S)
        assert process.stop(30) == 0
    feed.good(20)
    _set_back(site)
    with closing(site.ingest()) as process:
        assert process.ended(SLOW_S) == HALTED
        (halted,) = [
            line for line in process.said().splitlines() if book.says("Confirm", "halted: somebody must act") in line
        ]
    found = shell.run(book.command("doctor"), status=1)
    remedy = RESET.search(found)
    assert remedy is not None, found
    assert remedy[0] in json.loads(halted)["why"]
    assert remedy[0] in shell.run(book.command("status"), status=1)
    tools.pasted(remedy[0], site.folder)
    assert book.says("Over when", "may begin") in shell.run(book.command("doctor"))
    with closing(site.ingest()) as process:
        table.reaches(feed.sent, process)
        adds_up(site, shell, book, feed, table)
        assert process.stop(30) == 0


def _set_back(site: Site) -> None:
    """The group's offset of a partition that was read, as `kafka-consumer-groups.sh --to-earliest` sets it."""
    name = GPUS.full_name(PREFIX)
    (where,) = [each for each, entry in status.records(site.settings).items() if each.topic == name][:1]
    until(lambda: status.group_members(site.settings) == 0, "the group to be empty", SLOW_S)
    asked = ConsumerGroupTopicPartitions(PREFIX, [TopicPartition(where.topic, where.number, 0)])
    admin = bus.admin(site.settings.kafka)  # which answers for as long as it is held
    (done,) = admin.alter_consumer_group_offsets([asked], request_timeout=30).values()
    done.result(60)


def test_letters_are_listed_and_land_once_their_cause_is_mended(site: Site, book: Runbook, shell: Shell) -> None:
    feed, table = site.own("letters")
    rule = "ALTER TABLE gpu_samples ADD CONSTRAINT not_these CHECK NOT startsWith(host, 'letters')"
    judge = "CREATE OR REPLACE TABLE gpu_samples_judge AS gpu_samples ENGINE = Null"
    with closing(site.ingest()) as process:
        process.ready()
        site.command(rule)
        site.command(judge)
        feed.good(10)
        feed.raw(b"\xff")
        feed.flush()
        metric = book.says("Symptom", "warpmeter_ingest_rejects_total")
        count = f'{metric}{{topic="{PREFIX}.gpu-samples"}} 11.0'
        until(lambda: count in page(site.settings.metrics.ingest_port), "all to be refused", SLOW_S)
        letters = "SELECT uniqExact(partition, offset) FROM dead_letters WHERE key != {tag:String}"
        until(lambda: table.value(letters) == 11, "the letters", SLOW_S)
        listed = shell.run(book.command("dead-letters", "list"))
        assert "not_these" in listed
        assert "do not parse as Protobuf" in listed
        assert "letters-3" in shell.run(book.command("dead-letters", "list", "--each"))
        assert "example_key: raw" in shell.run(book.command("queries", "dead_letters_by_reason"))
        assert len(site.fires(book.says("Symptom", "dead-letters"), time.time())) == 1
        site.command("ALTER TABLE gpu_samples DROP CONSTRAINT not_these")
        site.command(judge)
        dry, *_, real = [words for words in book.commands("Do") if words[2] == "replay"]
        assert "would land 10 letters" in shell.run(dry, status=1)
        assert table.rows() == 0
        assert "landed 10 letters with 40 rows" in shell.run(real, status=1), "1: one can never be stored"
        left = shell.run(book.command("dead-letters", "list"))
        assert "not_these" not in left
        assert "do not parse as Protobuf" in left, "what can never be stored stays in the list"
        adds_up(site, shell, book, feed, table)
        assert process.stop(30) == 0


def test_while_the_store_is_away_all_say_so_and_then_all_lands(site: Site, book: Runbook, shell: Shell) -> None:
    feed, table = site.own("away")
    metrics = site.settings.metrics
    with ExitStack() as stack:
        process = stack.enter_context(closing(site.ingest())).ready()
        scheduler = stack.enter_context(closing(SchedulerProcess(site.settings, site.folder / "scheduler.log")))
        web = stack.enter_context(closing(WebProcess(site.folder, settings=site.settings))).ready()
        feed.good(20)
        table.reaches(feed.sent, process)
        scheduler.until_active()
        site.engine.kill()
        feed.good(20)
        cannot = book.says("Confirm", "cannot insert now, nothing is lost; trying again")
        until(lambda: cannot in process.said(), "ingest to meet it", SLOW_S)
        assert "Connection refused" in next(line for line in process.said().splitlines() if cannot in line)
        said = shell.run(book.command("status"), status=1)
        assert "cannot reach ClickHouse" in said
        assert f"│ {book.says('Over when', 'failing')} │" in said
        assert "clickhouse │ failed │ cannot reach ClickHouse" in shell.run(book.command("doctor"), status=1)
        assert httpx.get(f"{web.url}/api/v1/hosts").status_code == 503
        assert 'status="503"' in page(web.metrics)
        since = "warpmeter_ingest_failing_since_timestamp_seconds"
        assert f"{since} 0.0" not in page(metrics.ingest_port)
        until(lambda: book.says("Confirm", "the store is away") in scheduler.log.read_text(), "no rule to be evaluated")
        site.engine.start()
        table.reaches(feed.sent, process)
        until(lambda: f"{since} 0.0" in page(metrics.ingest_port), "it to know that it inserts again", SLOW_S)
        adds_up(site, shell, book, feed, table)
        assert book.says("Over when", "failing") not in shell.run(book.command("status"))
        assert scheduler.stop() == 0
        assert process.stop(30) == 0


def watched(site: Site, host: str, **agent: Any) -> Watched:
    """A host's agent with a spool of its own, and a second's patience."""
    folder = site.folder / host
    folder.mkdir(exist_ok=True)
    settings = agents.settings(folder, site.settings.kafka, host=host, **agent)
    return Watched(settings, folder)


def ticks(site: Site, host: str) -> tuple[int, int, int]:
    """Rows of a host, different ones, and the ticks from the first to the last."""
    sql = "SELECT count(), uniqExact(ts), toUnixTimestamp64Milli(max(ts)) - toUnixTimestamp64Milli(min(ts)) AS span"
    with closing(site.engine.client()) as client:
        rows, different, span = client.query(f"{sql} FROM host_samples WHERE host = '{host}'").result_rows[0]
    return int(rows), int(different), round(span / 200) + 1


def landed(site: Site, host: str, rows: int = 3) -> None:
    """Wait until the store has so many samples of a host."""
    until(lambda: ticks(site, host)[0] >= rows, f"samples of {host}", SLOW_S)


def all_in(site: Site, agent: Watched, host: str) -> None:
    """Wait until the spool is empty and all that it held is in the store: every tick once, but those that were late."""
    until(lambda: agent.spooled == 0, "the spool to be sent", SLOW_S)
    late = round(agent.metric(agents.LATE))
    before = ticks(site, host)[0]
    until(lambda: ticks(site, host)[0] > before + 3, "samples after it", SLOW_S)

    def whole() -> bool:
        rows, different, between = ticks(site, host)
        return rows == different >= between - late

    until(whole, "every tick", SLOW_S)


def test_a_broker_that_was_down_gets_every_tick(site: Site, book: Runbook, shell: Shell) -> None:
    agent = watched(site, "broker-down")
    with closing(site.ingest()) as process, agent.running():
        process.ready()
        landed(site, "broker-down")
        site.kafka.kill(0)
        try:
            until(lambda: agent.spooled > 1500, "what is measured to go to the spool", SLOW_S)
            assert "broker │ failed │ cannot reach Kafka" in shell.run(book.command("doctor"), status=1)
            assert "cannot reach Kafka" in shell.run(book.command("topics"), status=1)
            assert process.process.poll() is None
        finally:
            site.kafka.start(0)
        all_in(site, agent, "broker-down")
        assert "one copy of every message" in shell.run(book.command("topics"))
        until(lambda: "broker │ ok" in shell.run(book.command("doctor")), "the broker to be well", SLOW_S)
        assert process.process.poll() is None
        assert "everything adds up" in shell.run(book.command("check"))
        assert process.stop(30) == 0


def test_spools_grow_lose_the_oldest_when_full_and_count_it(site: Site, book: Runbook, shell: Shell) -> None:
    agent = watched(site, "spool", spool_max_bytes=12_000)
    metric = book.says("Over when", "warpmeter_spool_bytes")
    with agent.running():
        until(lambda: agent.acknowledged("host-samples") > 3, "samples to be sent", SLOW_S)
        assert f"{metric} 0.0" in page(agent.port)
        site.kafka.pause(0)
        try:
            until(lambda: agent.metric(metric) > 4000, "the spool to grow", SLOW_S)
            until(lambda: agent.dropped("full") > 2, "the oldest to go", SLOW_S)
            assert "cannot reach Kafka" in shell.run(book.command("doctor", "--rights", "agent"), status=1)
        finally:
            site.kafka.resume(0)
        until(lambda: f"{metric} 0.0" in page(agent.port), "the spool to be sent", SLOW_S)
        assert "lacks none" in shell.run(book.command("doctor", "--rights", "agent"))
        with closing(site.ingest()) as process:
            landed(site, "spool")
            table = Table(site.engine, "spool")
            of = "host = 'spool' AND source = 'shipper' AND subject = 'lost/full'"
            told = f"SELECT max(count) FROM source_health WHERE {of}"
            until(lambda: table.value(told) == agent.dropped("full"), "the loss to be told", SLOW_S)
            assert process.stop(30) == 0
        assert "WarpmeterAgentsLose" in book.quoted("Symptom")
    rows, different, between = ticks(site, "spool")
    assert rows == different < between


def test_a_silent_host_is_told_and_comes_back(site: Site, book: Runbook, shell: Shell) -> None:
    agent = watched(site, "silent")
    agent.set_clock(-120)  # its last word is two minutes old, so nobody waits for that
    with closing(site.ingest()) as process:
        with agent.running() as running:
            landed(site, "silent")
            running.kill()
            running.wait(60)
        assert "silent" in shell.run(book.command("queries", "silent_hosts"))
        assert "│ silent │" in shell.run(book.command("sql"))
        rule = book.says("Symptom", "host-silent")
        said = lambda: [why for why in site.fires(rule, time.time()) if "Host silent has said nothing" in why]  # noqa: E731
        until(said, "the rule to fire, once all that was sent is in", SLOW_S)
        agent.set_clock(0)
        with agent.running():
            until(lambda: "│ silent │" not in shell.run(book.command("sql")), "the host to be back", SLOW_S)
        assert "everything adds up" in shell.run(["warpmeter", "check"])
        assert process.stop(30) == 0


def test_what_waits_for_a_scheduler_goes_on_with_the_next(site: Site, book: Runbook, shell: Shell) -> None:
    kafka = site.settings.kafka
    metric = book.says("Over when", "warpmeter_scheduler_active")
    log = site.folder / "waits.log"
    with ExitStack() as stack:
        stack.enter_context(closing(Agents(kafka, ["w0"], [1])))
        events = stack.enter_context(closing(Heard(kafka, "capture-events")))
        first = stack.enter_context(closing(SchedulerProcess(site.settings, log))).until_active()
        assert f"{metric} 1.0" in page(site.settings.metrics.scheduler_port)
        first.kill()
        assert page(site.settings.metrics.scheduler_port) == "", "nobody says that it is active"
        request(kafka, "waits", hosts=["w0"])
        assert "lacks none" in shell.run(book.command("doctor", "--rights", "scheduler"))
        assert not ended(events, "waits")
        second = stack.enter_context(closing(SchedulerProcess(site.settings, site.folder / "next.log"))).until_active()
        until(lambda: ended(events, "waits"), "what waited to be done", SLOW_S)
        assert f"{metric} 1.0" in page(site.settings.metrics.scheduler_port)
        assert [each.why for each in ended(events, "waits")] == ["1 of 1 processes captured"]
        assert second.stop() == 0


def test_a_capture_that_failed_says_why_and_the_next_succeeds(site: Site, book: Runbook, shell: Shell) -> None:
    kafka, reason = site.settings.kafka, book.says("Do", "agent_away")
    with ExitStack() as stack:
        process = stack.enter_context(closing(site.ingest()))
        events = stack.enter_context(closing(Heard(kafka, "capture-events")))
        scheduler = stack.enter_context(closing(SchedulerProcess(site.settings, site.folder / "fails.log")))
        scheduler.until_active()
        request(kafka, "fails", hosts=["f0"])
        until(lambda: ended(events, "fails"), "it to fail", SLOW_S)
        until(lambda: reason in shell.run(book.command("queries", "captures_failed")), "its reason to land", SLOW_S)
        listed = shell.run(book.command("captures", "list"))
        assert "fails" in listed
        stack.enter_context(closing(Agents(kafka, ["f0"], [1])))
        request(kafka, "succeeds", hosts=["f0"])
        until(lambda: ended(events, "succeeds"), "the next one", SLOW_S)
        assert [each.why for each in ended(events, "succeeds")] == ["1 of 1 processes captured"]
        assert scheduler.stop() == 0
        assert process.stop(30) == 0


def test_a_migration_says_what_is_in_its_way_until_nothing_is(
    site: Site, book: Runbook, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, table = site.own("migrated")
    check, migrate = book.command("migrate", "--check"), ["warpmeter", "migrate"]
    with closing(site.ingest(settle_after_s=1e9)) as process:
        feed.good(20)
        table.reaches(feed.sent, process)
        monkeypatch.setenv("WARPMETER_STORE__RAW_TTL_DAYS", "9")
        shell.run(check, status=1)
        assert "has 1 member(s): stop it" in shell.run(migrate, status=1)
        process.kill()
    until(lambda: status.group_members(site.settings) == 0, "the group to be empty", SLOW_S)
    assert "declared but not stored" in shell.run(migrate, status=1)
    assert "pending_spans" in shell.run(book.command("status"), status=1)
    with closing(site.ingest()) as process:
        until(lambda: not status.pending(site.settings), "ingest to finish them", SLOW_S)
        assert process.stop(30) == 0
    assert "done" in shell.run(migrate)
    assert "up to date" in shell.run(check)
    with closing(site.ingest()) as process:
        feed.good(20)
        table.reaches(feed.sent, process)
        adds_up(site, shell, book, feed, table)
        assert process.stop(30) == 0


def test_ingest_whose_password_was_changed_goes_on_with_the_new_one(
    site: Site, book: Runbook, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, table = site.own("renewed")
    feed.good(20)
    site.engine.kill()
    with monkeypatch.context() as patch:
        patch.setattr("tests.engine.TOKEN", "renewed-token")
        site.engine.start()
        with closing(site.ingest()) as process:
            assert process.ended(SLOW_S) == HALTED
            assert book.says("Confirm", "AUTHENTICATION_FAILED") in process.said()
        assert "AUTHENTICATION_FAILED" in shell.run(book.command("doctor"), status=1)
        new = site.folder / "dsn"
        new.write_text(f"http://{WRITER}:renewed-token@127.0.0.1:{site.engine.port}\n")
        patch.setenv("WARPMETER_STORE__DSN_FILE", str(new))
        renewed = replace(site, settings=config.load(site.folder / "warpmeter.toml"))
        with closing(renewed.ingest()) as process:
            table.reaches(feed.sent, process)
            adds_up(renewed, shell, book, feed, table)
            assert process.stop(30) == 0
        site.engine.kill()
    site.engine.start()


def test_a_clock_that_was_set_is_told_and_costs_nothing(site: Site, book: Runbook, shell: Shell) -> None:
    agent = watched(site, "clock")
    rule = book.says("Symptom", "clock-skew")
    with closing(site.ingest()) as process, agent.running() as running:
        landed(site, "clock")
        agent.set_clock(3600)
        until(lambda: "was stepped ahead by 3" in shell.run(book.command("sql")), "the step to be told", SLOW_S)
        assert [why for why in site.fires(rule, time.time()) if "host clock " in why]
        agent.set_clock(0)
        until(lambda: "was stepped back by 3" in shell.run(book.command("sql")), "the step back to be told", SLOW_S)
        rows = ticks(site, "clock")[0]
        until(lambda: ticks(site, "clock")[0] > rows + 3, "samples after it", SLOW_S)
        acknowledged = agent.acknowledged("host-samples")
        running.kill()
        running.wait(60)
        until(lambda: ticks(site, "clock")[0] >= acknowledged, "all that was sent", SLOW_S)
        assert "everything adds up" in shell.run(["warpmeter", "check"])
        assert process.stop(30) == 0
