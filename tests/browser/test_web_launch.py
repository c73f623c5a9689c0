"""Launch in a browser, with agents that answer as told: what can be traced, why not, and how a capture goes."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.brokers import Tansu
from tests.browser.visits import Visit, visit
from tests.capture_site import JOB, Site, running
from tests.tables import land, row
from tests.web_process import WebProcess
from warpmeter.settings import Token, Web
from warpmeter.store import connect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
PAGE = f"/job?id={quote(JOB, safe='')}"
VIEWER = Token("bob", "viewer", "viewer-of-this-test")


@pytest.fixture(scope="module")
def site(tansu: Tansu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tansu, tmp_path_factory.mktemp("launch")) as found:
        yield found


@pytest.fixture(scope="module")
def home(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with closing(WebProcess(tmp_path_factory.mktemp("launch"), settings=site.settings)) as process:
        yield process.ready().url


def button(page: Page, name: str) -> None:
    page.locator(".wm-launch form, .wm-going").get_by_role("button", name=name, exact=True).last.press("Enter")


def test_a_trace_is_launched_and_followed_to_its_files_by_keyboard(tab: Visit) -> None:
    page = tab.page
    page.goto(tab.home + PAGE)
    expect(page.get_by_text("4 of 5 processes can be traced; 1 of 3 hosts do not answer")).to_be_visible()
    expect(page.get_by_label("Why processes cannot be traced")).to_contain_text("agent_away")
    page.get_by_label("Shapes").press("Space")
    button(page, "Trace")
    going = page.locator(".wm-going")
    expect(going).to_contain_text("4 captured")
    expect(going).to_contain_text("500 ms, shapes, asked for by local")
    expect(going).to_contain_text("4 of 4 processes captured: 1 host agent_away")  # it waited for h2 as long as it must
    with page.expect_download() as download:
        going.locator("a[download]").first.press("Enter")
    assert download.value.suggested_filename == "h0_1.json.gz"
    assert "capture=" in page.url
    assert (tab.errors, tab.foreign, tab.barriers(), tab.overflows) == ([], [], [], False)
    tab.shot("launch")
    page.goto(page.url.replace("/job?", "/profiling?"))  # the same capture there
    expect(page.locator(".wm-chosen")).to_contain_text("4 of 4")
    expect(page.locator(".wm-processes")).to_contain_text("h1")
    tab.shot("profiling")
    assert (tab.errors, tab.barriers()) == ([], [])


def test_one_attaches_and_detaches_and_a_wrong_word_is_told_at_its_field(tab: Visit) -> None:
    page = tab.page
    page.goto(tab.home + PAGE)
    page.get_by_role("button", name="Attach", exact=True).first.press("Enter")
    page.get_by_label("Every").fill("soon")
    button(page, "Attach")
    expect(page.get_by_role("alert")).to_contain_text("'soon' is no length of time")
    expect(page.get_by_label("Every")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Every").fill("1s")
    button(page, "Attach")
    going = page.locator(".wm-going")
    expect(going).to_contain_text("captured", timeout=120_000)
    button(page, "Detach")
    expect(going).to_contain_text("detached after", timeout=120_000)


def test_where_nothing_can_be_traced_nothing_is_launched(site: Site, tab: Visit) -> None:
    now = time.time()
    known = {"host": "h2", "job_id": "alone", "event": "running", "pid": 1, "rank": 0, "name": "train.py"}
    with connect(site.settings.store) as client:
        land(client, "job-events", [row("job-events", **known, ts=now, started_at=now - 100, period_ms=600_000)])
    page = tab.page
    page.goto(f"{tab.home}/job?id=alone")
    expect(page.get_by_text("0 of 1 processes can be traced")).to_be_visible()
    begin = page.locator(".wm-launch form .wm-primary")
    expect(begin).to_be_disabled()
    expect(begin).to_have_accessible_description(re.compile("None of its processes can be traced: .* Look again"))
    expect(page.get_by_label("Why processes cannot be traced")).to_contain_text("agent_away")
    tab.shot("launch-of-nothing")
    assert (tab.errors, tab.barriers(), tab.overflows) == ([], [], False)


def test_a_viewer_sees_why_they_may_not(site: Site, browser: Browser, tmp_path: Path) -> None:
    with closing(WebProcess(tmp_path, Web(tokens=(VIEWER,)), site.settings)) as process:
        address = process.ready().url
        with visit(browser, address) as found:
            found.page.set_extra_http_headers({"authorization": f"Bearer {VIEWER.token}"})
            found.page.goto(address + PAGE)
            expect(found.page.get_by_text("You are bob, a viewer: captures need the role operator.")).to_be_visible()
            expect(found.page.locator(".wm-launch form .wm-primary")).to_be_disabled()
