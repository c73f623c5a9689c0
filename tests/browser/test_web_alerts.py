"""Alerts in a browser: which there are, one in full, silenced and taken care of by keyboard, and where they count."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.brokers import Tansu
from tests.browser.visits import Theme, Visit, visit
from tests.engine import DATABASE
from tests.engine.template import with_tables
from tests.ingest_process import settings_for
from tests.tables import land, row
from tests.web_process import WebProcess
from warpmeter import topics
from warpmeter.settings import Store
from warpmeter.store import connect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
HOT = "gpu-hot-1a2b-1"
ODD = 'räck 1/o\'dd "x" <b>'


def _alert(alert_id: str, state: str, ago_s: float, **more: Any) -> Any:
    now = time.time()
    fired = {} if state == "pending" else {"fired_at": now - 900}
    labels = {"host": ODD, "job_id": "4711", **more.pop("labels", {})}
    plain = {"severity": "warning", "rule": "job-idle", "summary": f"{alert_id} of {ODD}", "unit": "ratio 0-1"}
    told = {**plain, "value": 0.97, "description": "Ask its owner.", "started_at": now - 1000, **fired, **more}
    return row("alerts", alert_id=alert_id, ts=now - ago_s, state=state, fingerprint="1a2b", labels=labels, **told)


def _rows() -> list[Any]:
    hot = {"rule": "gpu-hot", "severity": "critical", "unit": "°C", "value": 91.5, "capture_id": "c-1"}
    hot |= {"labels": {"gpu": "3"}, "summary": f"GPU 3 of {ODD} is at 91.5 °C", "findings": ["the fan stands <still>"]}
    many = [_alert(f"job-idle-{number:02}", "firing", 600, labels={"job_id": f"j{number}"}) for number in range(60)]
    return [
        _alert(HOT, "pending", 950, **hot), _alert(HOT, "firing", 900, **hot), *many,
        _alert("later", "pending", 60, labels={"job_id": "x"}),
        _alert("over", "resolved", 60, labels={"job_id": "y"}, resolved_at=time.time() - 60),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def home(tansu: Tansu, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("alerts")
    with ExitStack() as stack:
        engine = stack.enter_context(closing(with_tables(folder / "engine")))
        settings = settings_for(tansu, engine, "browser-alerts", folder)
        topics.ensure(settings.kafka)
        with closing(connect(settings.store)) as client:
            land(client, "alerts", _rows())
            seen = {"host": ODD, "ts": time.time(), "period_ms": 10_000}
            land(client, "host-samples", [row("host-samples", **seen, cpu_util_permille=1)])
        reading = replace(settings, store=Store(dsn=engine.url, database=DATABASE))
        yield stack.enter_context(closing(WebProcess(folder, settings=reading))).ready().url


def _sound(seen: Visit) -> None:
    assert (seen.errors, seen.foreign, seen.barriers(), seen.overflows) == ([], [], [], False)


def test_one_reads_what_to_do_takes_care_of_it_and_silences_it_by_keyboard(tab: Visit) -> None:
    page = tab.page
    tab.open("/alerts")
    first = page.locator(".wm-alerts > tbody").first
    expect(first).to_contain_text("critical")
    expect(page.locator(".wm-badge")).to_have_text("61")
    first.get_by_role("button", name="GPU 3 of").press("Enter")
    detail = page.locator(".wm-alert")
    expect(detail).to_contain_text("Ask its owner.")
    expect(detail).to_contain_text("the fan stands <still>")
    expect(detail.get_by_role("link", name="c-1")).to_have_attribute("href", "/analyze?capture=c-1")
    expect(detail.get_by_role("row")).to_have_count(3)  # its head, firing, pending
    assert f"alert={HOT}" in page.url
    _sound(tab)
    tab.shot("alerts")
    detail.get_by_role("button", name="Acknowledge").press("Enter")
    expect(detail.get_by_role("button", name="Release")).to_be_visible()
    expect(page.locator(".wm-alerts .wm-chosen")).to_contain_text("local")
    detail.get_by_role("button", name="Silence…").press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Value of host")).to_have_value(ODD)
    dialog.get_by_label("Value of gpu").fill("~(")
    dialog.get_by_role("button", name="Silence", exact=True).press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("is no expression")
    dialog.get_by_label("Value of gpu").fill("3")
    dialog.get_by_label("Why").fill("the fan is changed")
    assert tab.barriers() == []
    dialog.get_by_role("button", name="Silence", exact=True).press("Enter")
    page.get_by_label("Silences", exact=True).scroll_into_view_if_needed()
    silences = page.get_by_label("Silences (table)")
    expect(silences).to_contain_text("the fan is changed")
    silences.get_by_role("button", name="End silence").press("Enter")
    expect(page.get_by_text("Nothing is silenced.")).to_be_visible()
    answered_422 = [each for each in tab.errors if "422" not in each]
    assert (answered_422, tab.barriers()) == ([], [])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_address_is_a_view_of_it(browser: Browser, home: str, theme: Theme) -> None:
    width = 1280 if theme == "dark" else 380
    with visit(browser, home, width, theme) as seen:
        seen.open("/alerts?alerts.state=pending&alert=over")
        table = seen.page.locator(".wm-alerts > tbody")
        expect(table).to_have_count(1)
        expect(table).to_contain_text("later of")
        expect(seen.page.locator(".wm-alert")).to_contain_text("over")  # though the filter leaves it out
        seen.page.get_by_label("State").select_option("resolved")
        expect(table).to_contain_text("over of")
        expect(seen.page.locator(".wm-detail .wm-alert")).to_be_visible()
        _sound(seen)
        seen.page.go_back()
        expect(table).to_contain_text("later of")
        seen.open("/alerts?alerts.severity=warning&alerts.page=1")
        expect(seen.page.get_by_text("51–62 of 62")).to_be_visible()
        _sound(seen)
        seen.shot(f"alerts-{theme}")


def test_hosts_and_the_overview_tell_of_theirs(tab: Visit) -> None:
    page = tab.page
    tab.open(f"/host/{ODD.replace('/', '%2F')}")
    own = page.locator(".wm-alerts.wm-few > tbody")
    expect(own).to_have_count(5)
    expect(own.first).to_contain_text("GPU 3 of")
    page.get_by_role("link", name="All 63").click()
    expect(page.get_by_role("button", name=f"Alerts of every host, not of {ODD} alone")).to_be_visible()
    tab.open("/")
    page.get_by_role("button", name="1 critical").click()
    expect(page.locator(".wm-alerts > tbody")).to_have_count(1)
    assert "alerts.severity=critical" in page.url
    _sound(tab)
