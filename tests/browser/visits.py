"""Playwright on the machine's own Chromium: a visit records what a page did wrong."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

Theme = Literal["light", "dark"]
SHOTS: Final = Path(os.environ.get("SCREENSHOTS") or Path(__file__).parents[2] / "build" / "screenshots")
"""Where pages are kept as pictures; a run of the tests makes them anew."""
PATIENCE_MS: Final = 60_000
"""How long a tab waits for what it is told to do; Playwright's own half minute is short for a busy machine."""
CLOSE_S: Final = 30
SERIOUS: Final = frozenset({"serious", "critical"})


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, headless."""
    program = shutil.which("chromium")
    assert program, "chromium is missing; on Debian: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=3 * PATIENCE_MS)
        try:
            yield browser
        finally:
            _closed(browser)


def _closed(what: Browser | BrowserContext) -> None:
    """Closed, or left to the end of the driver: Chromium 156 does not always answer who would close a context, and
    Playwright waits for that without end. `_sync` and `_impl_obj` are what its own `close` is made of."""
    with suppress(TimeoutError):
        what._sync(asyncio.wait_for(what._impl_obj.close(None), CLOSE_S))


@dataclass
class Visit:
    """A tab on warpmeter's page. `errors`: of its console and its scripts; `foreign`: requests to another host."""

    page: Page
    home: str
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._asked)

    def open(self, address: str) -> None:
        """Go to an address of ours, until nothing is asked for any more."""
        self.page.goto(self.home + address)
        self.page.wait_for_load_state("networkidle")

    def shot(self, name: str) -> None:
        """Keep it as a picture, the whole page."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SHOTS / f"{name}.png"), full_page=True)

    def barriers(self) -> list[str]:
        """What axe finds serious: the rule, and the first element it names."""
        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in SERIOUS]

    @property
    def overflows(self) -> bool:
        """Whether the page is wider than its window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request) -> None:
        asked = urlsplit(request.url)
        if asked.scheme not in ("data", "blob") and asked.netloc != urlsplit(self.home).netloc:
            self.foreign.append(request.url)


@contextmanager
def visit(browser: Browser, home: str, width: int = 1280, theme: Theme = "light") -> Iterator[Visit]:
    """A tab of its own, with nothing remembered."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield Visit(context.new_page(), home)
    finally:
        _closed(context)
