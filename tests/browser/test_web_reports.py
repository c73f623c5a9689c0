"""Reports over the API and in a browser: which were made, who got them, and one opened where nothing in it can run."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Request, expect

from tests.brokers import Tansu
from tests.browser.visits import Visit, visit
from tests.engine import DATABASE
from tests.engine.template import with_tables
from tests.ingest_process import settings_for
from tests.tables import land, row
from tests.web_process import WebProcess
from warpmeter import topics
from warpmeter.reports.archive import Archive
from warpmeter.sending import File, Message
from warpmeter.settings import Reports, ReportSchedule, Store, Target
from warpmeter.store import connect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
WEEK, EVIL = "monday/2026-W48", 'jobs/räck "x" <b>&?'
PAGE = b"""<html><body style="color: teal"><h1>Week 48</h1><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
<script>document.title = "it ran"</script><script src="/evil.js"></script><img src="http://elsewhere.example/x.png">
</body></html>"""
SCHEDULES = (
    ReportSchedule("monday", "fleet-weekly", cron="0 7 * * mon", timezone="Europe/Berlin", targets=("team", "chat")),
    ReportSchedule("jobs", "job", targets=("chat",)),
)
TARGETS = (
    Target("team", "mail", host="x", sender="a@x.org", to=("a@x.org",)), Target("chat", "slack", url="https://x.org/s"),
)  # fmt: skip


def _event(report_id: str, state: str, target: str = "", **more: Any) -> Any:
    schedule, _, subject = report_id.partition("/")
    start, end = (datetime(2026, 11, day, tzinfo=UTC).timestamp() for day in (23, 30))
    plain = {"report": "fleet-weekly", "title": f"Fleet, {subject}", "subject": subject if schedule == "jobs" else ""}
    told = {**plain, "ts": time.time() - 60, "period_start": start, "period_end": end, **more}
    return row("report-events", report_id=report_id, schedule=schedule, state=state, target=target, **told)


def _events() -> list[Any]:
    late = {"ts": time.time() - 30}
    return [
        _event("monday/new", "skipped"), _event(WEEK, "rendered", bytes=1234), _event(WEEK, "queued", "team"),
        _event(WEEK, "queued", "chat"), _event(WEEK, "delivered", "team", attempt=1, **late),
        _event(WEEK, "gave_up", "chat", attempt=1, why="chat answered 404: no_service", **late),
        _event(EVIL, "rendered", report="job"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def home(tansu: Tansu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("reports")
    reports = Reports(url=str(folder / "kept"), schedules=SCHEDULES, targets=TARGETS)
    files = (File("report.html", "text/html", PAGE), File("tables/users.csv", "text/csv", b"user,hours\nann,3\n"))
    facts = {"summary": "12 % less waste", "findings": [{"severity": "warning", "text": "2 <idle>", "action": "ask"}]}
    Archive(reports).keep(Message(WEEK, "Fleet, 2026-W48", "words", "<p>mail</p>", files=files, facts=facts))
    (folder / "secret").write_text("nobody's business")
    with ExitStack() as stack:
        engine = stack.enter_context(closing(with_tables(folder / "engine")))
        settings = settings_for(tansu, engine, "browser-reports", folder)
        topics.ensure(settings.kafka)
        with closing(connect(settings.store)) as client:
            land(client, "report-events", _events())
        reading = replace(settings, store=Store(dsn=engine.url, database=DATABASE), reports=reports)
        yield stack.enter_context(closing(WebProcess(folder, settings=reading))).ready().url


def test_the_api_says_what_was_made_and_gives_out_only_that(home: str) -> None:
    with httpx.Client(base_url=f"{home}/api/v1", timeout=60) as api:
        found = api.get("/reports").json()
        assert [each["report_id"] for each in found["data"]] == [EVIL, WEEK]
        assert [(each["target"], each["state"]) for each in found["data"][1]["deliveries"]] == [
            ("chat", "gave_up"), ("team", "delivered"),
        ]  # fmt: skip
        assert (found["total"], found["next"], found["data"][1]["bytes"]) == (2, None, 1234)
        assert api.get("/reports", params={"limit": 1}).json()["next"] == 1
        monday, jobs = api.get("/reports/schedules").json()["data"]
        assert datetime.fromisoformat(monday["next_at"]) > datetime.now(UTC)
        assert jobs["next_at"] is None
        kept = api.get("/reports/kept", params={"report_id": WEEK}).json()
        assert [file["name"] for file in kept["files"]] == ["report.html", "tables/users.csv"]
        page = api.get("/reports/file", params={"report_id": WEEK, "name": "report.html"})
        assert page.content == PAGE
        assert page.headers["content-security-policy"].startswith("sandbox allow-popups; default-src 'none'")
        table = api.get("/reports/file", params={"report_id": WEEK, "name": "tables/users.csv"})
        assert table.headers["content-disposition"] == "attachment; filename*=UTF-8''users.csv"
        for report_id, name in (
            (WEEK, "../../../secret"), (WEEK, "mail/page.html"), (WEEK, "manifest.json"), (WEEK, "none.csv"),
            ("monday", "2026-W48/report.html"), ("..", "secret"), ("monday/../monday/2026-W48", "report.html"),
            (EVIL, "report.html"), ("\0", "x"),
        ):  # fmt: skip
            refused = api.get("/reports/file", params={"report_id": report_id, "name": name})
            assert refused.status_code == 404, (report_id, name)
            assert refused.json()["detail"][0]["loc"][0] == "query"


def test_one_reads_what_became_of_a_report_and_opens_it_where_nothing_can_run(tab: Visit) -> None:
    page = tab.page
    tab.open("/reports")
    table = page.get_by_label("Reports (table)", exact=True)
    expect(table).to_contain_text("Fleet, 2026-W48")
    expect(page.get_by_label("Schedules of reports (table)")).to_contain_text("Europe/Berlin")
    table.get_by_role("button", name="Fleet, 2026-W48").press("Enter")
    expect(table).to_contain_text("12 % less waste")
    expect(table).to_contain_text("2 <idle>")
    expect(table).to_contain_text("chat answered 404: no_service")
    assert "id=monday" in page.url
    assert (tab.errors, tab.foreign, tab.barriers(), tab.overflows) == ([], [], [], False)
    tab.shot("reports")
    asked: list[Request] = []
    page.context.on("request", lambda request: asked.append(request))
    with page.context.expect_page() as opened:
        table.get_by_role("link", name="Open the report").click()
    report = opened.value
    expect(report.get_by_role("heading", name="Week 48")).to_be_visible()
    assert report.title() != "it ran"
    assert {each.failure for each in asked if "evil" in each.url or "elsewhere" in each.url} <= {"csp"}
    page.goto(page.url)
    expect(page.get_by_label("Reports (table)", exact=True)).to_contain_text("12 % less waste")


def test_a_narrow_and_dark_window_has_it_all(browser: Browser, home: str) -> None:
    with visit(browser, home, 380, "dark") as seen:
        seen.open(f"/reports?id={WEEK}")
        expect(seen.page.get_by_label("Reports (table)", exact=True)).to_contain_text("12 % less waste")
        assert (seen.errors, seen.barriers(), seen.overflows) == ([], [], False)
        seen.shot("reports-narrow")
