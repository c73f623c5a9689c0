"""Reports as people see them: in a browser, printed, and in a mail's window; with names that try to break them."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import quarter
from tests.chromium import Chromium, Page, chromium
from tests.engine import TOKEN, WRITER
from tests.engine.template import with_tables
from tests.tables import land, row
from warpmeter.scheduler.reports import Asked, Period, Price, Rendered, render
from warpmeter.settings import Store
from warpmeter.store import connect

pytestmark = [pytest.mark.browser, pytest.mark.long]

LONG = "a-name-of-" + "very" * 40 + "-long"
HOSTILE = "<img src=x onerror=alert(1)> $x_1$ \u202eevil"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rendered, ...]]:
    """The fleet's week, its hosts and a job of it, from a real engine; jobs' names are long, or worse."""
    end = quarter.last_monday(datetime.now(UTC))
    rows = quarter.made(end, (quarter.WEEKS - 1,))
    with closing(with_tables(tmp_path_factory.mktemp("engine"))) as server:
        store = Store(dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{server.port}")
        with closing(connect(store)) as client:
            quarter.plant(client, rows)
            told = {"host": "bee", "event": "ended", "pid": 112, "period_ms": 1000, "ts": end.timestamp() - 1}
            named = [
                told | {"job_id": "eval-12", "name": LONG, "user": HOSTILE},
                told | {"job_id": "stray-12", "name": HOSTILE},
            ]
            land(client, "job-events", [row("job-events", **each, started_at=end.timestamp() - 9e4) for each in named])
        period = Period(end - timedelta(weeks=1), end)
        reader = replace(store, dsn=server.url)  # a reader's rights are enough
        yield tuple(render(reader, asked) for asked in (
            Asked("fleet-weekly", period, price=Price(0.25, 2.0)), Asked("host-health", period),
            Asked("job", period, subject="eval-12"), Asked("captures", period),
        ))  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser of the module's own."""
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


def opened(browser: Chromium, folder: Path, html: str) -> Page:
    """The page in a new tab."""
    (folder / "report.html").write_text(html, "utf-8")
    page = browser.page()
    page.open((folder / "report.html").as_uri())
    return page


def test_pages_need_nothing_else_and_fit_the_window(
    reports: tuple[Rendered, ...], browser: Chromium, tmp_path: Path
) -> None:
    for report in reports:
        page = opened(browser, tmp_path, report.html)
        assert page.errors == [], report.report
        assert (
            page.value("performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length") == 0
        )
        assert page.value("document.title") == report.title
        assert page.value("[...document.images].every(i => i.complete && i.naturalWidth > 500)")
        page.width(1000)
        assert page.value("document.documentElement.scrollWidth") <= 1000, report.report
        assert page.value("document.querySelectorAll('[onerror]').length") == 0


def test_tables_and_findings_stand_on_the_page(
    reports: tuple[Rendered, ...], browser: Chromium, tmp_path: Path
) -> None:
    fleet = reports[0]
    page = opened(browser, tmp_path, fleet.html)
    assert page.value("document.querySelectorAll('.finding').length") == len(fleet.findings)
    assert page.value("document.querySelectorAll('img').length") == len(fleet.inline)
    text = page.value("document.body.innerText")
    assert "<img src=x onerror=alert(1)>" in text  # told as it is, and not obeyed
    assert "\u202e" not in text
    for shown in fleet.shown:
        for each in shown.table.rows[:1]:
            assert str(each[0])[:10] in text if isinstance(each[0], str) else True


def test_print_cuts_no_table_of_a_page(reports: tuple[Rendered, ...], browser: Chromium, tmp_path: Path) -> None:
    page = opened(browser, tmp_path, reports[0].html)
    page.media("print")
    style = "getComputedStyle(document.querySelector({!r})).{}"
    assert page.value(style.format("table.whole", "breakInside")) == "avoid"
    assert page.value(style.format("table.data tr", "breakInside")) == "avoid"
    assert page.value(style.format("table.data thead", "display")) == "table-header-group"
    assert page.value(style.format(".figure", "breakInside")) == "avoid"
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    assert 3 <= printed.count(b"/Type /Page\n") <= 12


def test_mails_are_small_and_fit_their_window(reports: tuple[Rendered, ...], browser: Chromium, tmp_path: Path) -> None:
    for report in reports:
        html = report.mail_html
        for image in report.inline:
            (tmp_path / image.cid).write_bytes(image.data)
            html = html.replace(f"cid:{image.cid}", image.cid)
        page = opened(browser, tmp_path, html)
        page.width(760)
        assert page.value("document.documentElement.scrollWidth") <= 760, report.report
        assert page.value("[...document.images].every(i => i.complete && i.naturalWidth > 500)")
        assert page.value("document.querySelectorAll('script, link, iframe, form').length") == 0
        assert len(report.mail_html) < 100_000  # above 102 kB clients cut it
        assert report.summary[:40] in report.text
