"""A browser, and a tab in it on the page that a module's fixture `home` is the address of."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visits import PATIENCE_MS, Visit, chromium, visit


@pytest.fixture(scope="module")
def patience_ms() -> int:
    """How long the browser waits for what a test expects; a module whose pages take longer has its own."""
    return PATIENCE_MS


@pytest.fixture(scope="module")
def browser(patience_ms: int) -> Iterator[Browser]:
    """The browser, as patient as the module asks for while it runs."""
    expect.set_options(timeout=patience_ms)
    with chromium() as started:
        yield started
    expect.set_options(timeout=5_000)


@pytest.fixture
def tab(browser: Browser, home: str, patience_ms: int) -> Iterator[Visit]:
    """A tab of the test's own."""
    with visit(browser, home) as found:
        found.page.set_default_timeout(patience_ms)
        yield found
