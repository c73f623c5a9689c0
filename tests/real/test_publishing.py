"""Reports by themselves in the real scheduler, on a real broker and engine, to real targets; killed, and going on."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import store_settings
from tests.receivers import Hook, Mailbox, http_server, mail_server
from tests.scheduler_process import Heard, SchedulerProcess
from tests.tables import land, row
from tests.wait import until
from warpmeter import topics
from warpmeter.captures.asking import Sender
from warpmeter.cli.app import app
from warpmeter.reports.archive import Archive
from warpmeter.reports.said import TOPIC, ReportEvent
from warpmeter.settings import (
    Alerts,
    Kafka,
    Log,
    Metrics,
    Reports,
    ReportSchedule,
    Scheduler,
    Settings,
    Target,
)

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]
WEEKLY = ReportSchedule("monday", "fleet-weekly", cron="0 7 * * mon", targets=("team", "hook", "kept"))
JOBS = ReportSchedule("jobs", "job", targets=("team",), formats=("html", "csv"))


@dataclass
class World:
    """A broker with topics of this test's own, an engine, targets, and what is said of reports."""

    settings: Settings
    folder: Path
    box: Mailbox
    hook: Hook
    said: Heard
    engine: EngineServer
    stack: ExitStack
    schedulers: list[SchedulerProcess] = field(default_factory=list)

    def scheduler(self) -> SchedulerProcess:
        """One more, after those before were killed."""
        made = SchedulerProcess(self.settings, self.folder / f"scheduler-{len(self.schedulers)}.log")
        self.schedulers.append(self.stack.enter_context(closing(made)))
        return made

    def states(self, target: str, schedule: str = "monday") -> list[str]:
        """What was said of a delivery."""
        return [e.state for e in list(self.said.rows) if e.target == target and e.schedule == schedule]


@pytest.fixture
def world(tansu: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        box = stack.enter_context(mail_server(Mailbox(refusals=["451 come back later"] * 10_000)))
        hook = stack.enter_context(http_server(Hook()))
        engine = stack.enter_context(closing(with_tables(tmp_path / "engine")))
        mail = Target("team", "mail", host="127.0.0.1", port=box.port, tls="none", sender="w@x.org", to=("a@x.org",))
        folder = Target("kept", "folder", url=str(tmp_path / "of the team"))
        reports = Reports(
            url=str(tmp_path / "reports"), settle_s=0.1, late_s=0.1, retry_s=1.0, schedules=(WEEKLY, JOBS),
            targets=(mail, Target("hook", "webhook", url=hook.url), folder), page="https://warpmeter.example",
        )  # fmt: skip
        kafka = Kafka(bootstrap_servers=tansu.bootstrap_servers, topic_prefix=topic_prefix, partitions=1)
        topics.ensure(kafka)
        until(lambda: not topics.check(kafka), "the topics to be known")
        settings = Settings(
            kafka=kafka, store=store_settings(engine), log=Log(format="json"), metrics=Metrics(scheduler_port=0),
            scheduler=Scheduler(topic_prefix, 3.0, analyse=False, data=tmp_path / "scheduler"), reports=reports,
            alerts=Alerts(enabled=False),
        )  # fmt: skip
        said = stack.enter_context(closing(Heard(kafka, "report-events")))
        yield World(settings, tmp_path, box, hook, said, engine, stack)


def known_for_a_week(world: World) -> None:
    """The schedule was there before: what was said of it when it was new."""
    at = time.time() - 9 * 86_400
    sender = Sender(world.settings.kafka, "test")
    new = ReportEvent(
        report_id="monday/new", ts=at, schedule="monday", report="fleet-weekly", period_start=at, period_end=at,
        state="skipped",
    )  # fmt: skip
    sender.put(TOPIC, new.report_id, [new])
    assert sender.flush(60)


def job_ended(world: World, job_id: str) -> None:
    """A job of ten minutes that has ended just now lands."""
    now = time.time()
    same = {"host": "a", "period_ms": 10_000, "job_id": job_id, "pid": 7, "name": "train.py", "user": "ann"}
    with closing(world.engine.client(write=True)) as client:
        for ts, what in ((now - 60, "running"), (now, "ended")):
            event = row("job-events", ts=ts, event=what, command="python", started_at=now - 600, **same)
            land(client, "job-events", [event])


def test_a_scheduler_that_is_killed_again_and_again_sends_each_report_once(world: World) -> None:
    known_for_a_week(world)
    first = world.scheduler()
    until(lambda: "failed" in world.states("team"), f"the mail to be tried: {first}", 200)
    until(lambda: world.states("hook")[-1:] == ["delivered"], "the webhook to get it")
    until(lambda: world.states("kept")[-1:] == ["delivered"], "the folder to get it")
    first.kill()
    world.box.refusals.clear()
    second = world.scheduler()
    until(lambda: world.states("team")[-1:] == ["delivered"], f"the mail to be sent: {second}", 200)
    second.kill()
    third = world.scheduler().until_active()
    job_ended(world, "4711")
    until(lambda: world.states("team", "jobs")[-1:] == ["delivered"], f"the job to be reported: {third}", 200)
    assert third.stop() == 0

    weekly, job = world.box.mails
    assert "4711" in str(job["Subject"])
    assert len(world.hook.posts) == 1
    rendered = [event for event in world.said.rows if event.state == "rendered"]
    assert [event.schedule for event in rendered] == ["monday", "jobs"]
    assert world.states("team")[-2:] == ["failed", "delivered"]
    body = json.loads(world.hook.posts[0].body)
    assert (body["id"], body["report"]) == (rendered[0].report_id, "fleet-weekly")
    assert body["link"].startswith("https://warpmeter.example/reports?id=monday%2F")
    assert weekly["Subject"] == body["title"] == rendered[0].title
    kept = Archive(world.settings.reports).load(rendered[0].report_id)
    assert kept is not None
    page = weekly.get_body(("html",))
    assert page is not None
    assert page.get_content().split() == kept.html.split()
    copied = world.folder / "of the team" / rendered[0].report_id / "report.html"
    assert copied.read_bytes() == next(file.data for file in kept.files if file.name == "report.html")


def command(world: World, *arguments: str) -> Result:
    """`warpmeter reports …` with the world's settings."""
    settings = world.settings
    path, reports = world.folder / "warpmeter.toml", settings.reports
    mail, hook, folder = reports.targets
    path.write_text(f"""
        [kafka]
        bootstrap_servers = "{settings.kafka.bootstrap_servers}"
        topic_prefix = "{settings.kafka.topic_prefix}"
        [store]
        dsn = "{settings.store.dsn}"
        [reports]
        url = "{reports.url}"
        [[reports.targets]]
        name = "team"
        kind = "mail"
        host = "127.0.0.1"
        port = {mail.port}
        tls = "none"
        sender = "{mail.sender}"
        to = ["a@x.org"]
        [[reports.targets]]
        name = "hook"
        kind = "webhook"
        url = "{hook.url}"
        [[reports.targets]]
        name = "kept"
        kind = "folder"
        url = "{folder.url}"
        [[reports.schedules]]
        name = "daily"
        report = "host-health"
        period = "day"
        cron = "0 6 * * *"
        timezone = "Europe/Berlin"
        targets = ["team", "hook"]
    """)
    environment = {"HOME": str(world.folder), "XDG_DATA_HOME": str(world.folder)}
    return CliRunner(env=environment).invoke(app, ["--config", str(path), "reports", *arguments])


def test_one_tries_targets_and_sends_a_report_by_hand(world: World) -> None:
    world.box.refusals.clear()
    checked = command(world, "check", "team", "--json")
    assert json.loads(checked.stdout) == [{"target": "team", "outcome": "sent", "why": ""}], checked.stderr
    assert "a test of this target" in str(world.box.mails.pop()["Subject"])
    world.hook.answers = [(404, {}, b"no such hook")]
    refused = command(world, "check", "hook")
    assert refused.exit_code == 1
    assert "no such hook; look at the address and its secrets" in refused.stdout
    assert "s3cret-path" not in refused.stdout + refused.stderr
    world.hook.posts.clear()

    dry = command(world, "send", "daily", "--dry-run", "--json")
    assert dry.exit_code == 0, dry.stderr
    told = json.loads(dry.stdout)
    assert [each["target"] for each in told["targets"]] == ["team", "hook"]
    assert (world.box.mails, world.hook.posts, Path(world.settings.reports.url).exists()) == ([], [], False)

    world.box.refusals = ["550 not today"]
    sent = command(world, "send", "daily", "--json")
    assert sent.exit_code == 1, "one of both did not take it"
    assert [(each["target"], each["outcome"]) for each in json.loads(sent.stdout)] == [
        ("team", "refused"), ("hook", "sent"),
    ]  # fmt: skip
    again = command(world, "send", "daily", "--to", "team", "--to", "kept")
    assert again.exit_code == 0, again.stderr
    (mail,) = world.box.mails
    assert mail["Subject"] == told["title"]
    assert (world.folder / "of the team" / told["report_id"] / "report.html").is_file()
    until(lambda: len(world.said.rows) == 5, "all of it to be said")
    assert [(e.state, e.target) for e in world.said.rows] == [
        ("rendered", ""), ("gave_up", "team"), ("delivered", "hook"), ("delivered", "team"), ("delivered", "kept"),
    ]  # fmt: skip
    with closing(world.engine.client(write=True)) as client:
        land(client, "report-events", world.said.rows)
    history = json.loads(command(world, "history", "--json").stdout)
    assert {(each["target"], each["state"]) for each in history} == {
        ("", "rendered"), ("hook", "delivered"), ("kept", "delivered"), ("team", "delivered"),
    }  # fmt: skip
    for wrong, why in (
        (("send", "nobody"), "there is no schedule or report 'nobody'"),
        (("send", "daily", "--to", "nobody"), "there is no target 'nobody'"),
        (("send", "daily", "--period", "2026-13"), "is no period"),
        (("send", "job"), "needs --job ID"),
    ):
        said = command(world, *wrong)
        assert (said.exit_code > 0, why in " ".join(said.stderr.split())) == (True, True), said.stderr
