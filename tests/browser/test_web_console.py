"""Logging in, the SQL console and the API's page, in Chromium, without a complaint of the browser."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from tests.chromium import Chromium, Page, chromium
from tests.engine import DATABASE
from tests.engine.template import with_tables
from tests.wait import until
from tests.web_process import WebProcess
from warpmeter.settings import Settings, Store, Token, Web

pytestmark = pytest.mark.browser
ANN = Token("ann", "operator", "operator-of-this-test")
BOB = Token("bob", "viewer", "viewer-of-this-test")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """The page over an engine without rows, for those with a token."""
    folder = tmp_path_factory.mktemp("console")
    with closing(with_tables(folder / "engine")) as engine:
        store = Store(dsn=engine.url, database=DATABASE)
        with closing(WebProcess(folder, Web(tokens=(ANN, BOB)), Settings(store=store))) as process:
            yield process.ready()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def page(browser: Chromium) -> Page:
    return browser.page()


def text(page: Page, where: str) -> str:
    """What an element says; '' while it is not there."""
    return str(page.value(f"document.querySelector({where!r})?.textContent?.trim() ?? ''"))


def comes(holds: Callable[[], object], what: str) -> None:
    """Wait for what the next page says: for a moment a new document has nowhere to run a script."""

    def said() -> object:
        with suppress(AssertionError):
            return holds()
        return False

    until(said, what)


def log_in(page: Page, site: WebProcess, token: str, path: str) -> None:
    """As somebody whom this browser does not know yet."""
    page.call("Network.clearBrowserCookies")
    page.open(site.url + path)
    assert text(page, "h1") == "warpmeter"
    page.value(f"document.querySelector('input[name=token]').value = {token!r}")
    page.value("document.querySelector('form').submit()")
    comes(lambda: page.value(f"location.pathname === {path!r}") and text(page, ".wm-who"), f"{path} to be shown")


def run(page: Page, sql: str) -> None:
    """Write a statement into the console and run it by the keyboard."""
    page.value(
        f"(() => {{ const area = document.querySelector('#wm-sql'); area.value = {sql!r};"
        " area.dispatchEvent(new Event('input'));"
        " area.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true })); })()"
    )


def test_an_operator_logs_in_asks_in_sql_and_logs_out(site: WebProcess, page: Page) -> None:
    log_in(page, site, ANN.token, "/sql")
    run(page, "SELECT number AS n, toString(number) AS s FROM numbers(3)")
    until(lambda: text(page, "[role=status]").startswith("3 rows"), "the rows")
    until(lambda: page.value("document.querySelectorAll('.ag-row').length === 3"), "the table")
    assert "sql=SELECT+number" in page.value("location.hash")
    assert "SELECT" not in page.value("location.search")

    page.value("document.querySelector('.wm-tables').open = true")
    until(lambda: page.value("document.querySelector('.wm-tables ul') !== null"), "the tables")
    assert page.errors == []

    run(page, "SELECT 1\nFROM numbers(3) WHER x")
    until(lambda: "line 2, column 22" in text(page, "[role=alert]"), "the mistake")
    page.value("document.querySelector('.wm-error button').click()")
    assert page.value("document.activeElement.id") == "wm-sql"
    assert page.value("document.activeElement.selectionStart") == len("SELECT 1\nFROM numbers(3) WHER ")

    page.value("document.querySelector('form[action=\"/logout\"] button').click()")
    comes(lambda: page.value("location.pathname === '/login'"), "the page to log in at")


def test_a_link_to_a_statement_shows_it_and_does_not_run_it(site: WebProcess, page: Page) -> None:
    log_in(page, site, ANN.token, "/sql")
    page.open(f"{site.url}/api")
    page.open(f"{site.url}/sql#sql=SELECT+42")
    until(lambda: page.value("document.querySelector('#wm-sql')?.value === 'SELECT 42'"), "the statement")
    assert text(page, "[role=status]") == ""


def test_a_viewer_is_told_what_they_may_not(site: WebProcess, page: Page) -> None:
    log_in(page, site, BOB.token, "/sql")
    until(lambda: "needs the role operator" in text(page, ".wm-empty"), "the reason")
    assert page.value("document.querySelector('.wm-primary').disabled")
    assert page.errors == []


def test_the_api_is_shown_on_a_wide_and_a_narrow_screen(site: WebProcess, page: Page) -> None:
    log_in(page, site, BOB.token, "/api")
    until(lambda: page.value("document.querySelectorAll('.wm-endpoint').length > 20"), "the endpoints")
    page.value("document.querySelectorAll('.wm-endpoint').forEach((each) => (each.open = true))")
    for width in (1280, 390):
        page.width(width)
        until(lambda: page.value("document.documentElement.scrollWidth <= innerWidth"), f"{width} pixels to be enough")
    assert page.errors == []
