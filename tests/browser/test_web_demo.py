"""The page as people use it: a real `up` with the demo fleet and a real PyTorch job, in a real browser."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.visits import Theme, Visit, visit
from tests.real.up import Up, up, warpmeter
from tests.torchpython import torch_python
from tests.wait import until

pytestmark = [pytest.mark.browser, pytest.mark.torch, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
JOB = f"demo-{os.getpid()}"
SLOW_MS = 60_000
TRIES = 5


@dataclass(frozen=True)
class Demo:
    """What is looked at: a fleet, a job that trains, and a capture of it that was analysed."""

    running: Up
    capture: str

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.running.web}"


@contextmanager
def training(running: Up, folder: Path) -> Iterator[None]:
    """A model that trains below `warpmeter run`, once it is registered; as on a host of its own, it is not kept waiting
    by the browser."""
    said = folder / "said"
    with said.open("w") as file:
        model = ["nice", "-n", "-10", torch_python(), "tests/training.py", "7200"]
        ours = warpmeter("run", "--data", str(running.data), "--", *model)
        process = subprocess.Popen(ours, stderr=file, cwd=ROOT, env={**os.environ, "SLURM_JOB_ID": JOB})
        try:
            until(lambda: "1 process registered" in said.read_text(), "it to register", 180)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def captured(running: Up) -> None:
    """A capture of the job, asked for until one is stored: PyTorch drops what a busy CPU lets come too late."""
    asked = warpmeter("capture", "--data", str(running.data), JOB, "--duration", "500ms", "--shapes")
    for _ in range(TRIES):
        done = subprocess.run(asked, check=False, timeout=240, capture_output=True, text=True)
        if done.returncode == 0:
            return
        assert "cancelled_by_kineto" in done.stdout + done.stderr, done
    raise AssertionError(f"{TRIES} captures were dropped by PyTorch")


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with (
        TemporaryDirectory(prefix="up-") as folder,
        up(Path(folder) / "data", ["--demo"], page=True) as running,
        training(running, Path(folder)),
    ):
        until(lambda: running.value(f"SELECT count() FROM jobs WHERE job_id = '{JOB}'"), "the job to be known", 60)
        until(lambda: running.value("SELECT count() FROM gpu_heatmap_1m") > 20_000, "the fleet's last hour", 180)
        captured(running)
        until(lambda: running.value("SELECT count() FROM trace_ranks"), "the capture to be analysed", 120)
        yield Demo(running, running.value("SELECT any(capture_id) FROM trace_ranks"))


@pytest.fixture
def tab(browser: Browser, demo: Demo) -> Iterator[Visit]:
    """A desk's window, in light."""
    with visit(browser, demo.home) as found:
        yield found


PAGES = {
    "overview": "/",
    "hosts": "/hosts",
    "host": "/host/gpu-0001",
    "jobs": "/jobs",
    "job": f"/job?id={JOB}",
    "profiling": "/profiling",
    "analyze": "/analyze?capture={capture}",
    "timeline": "/timeline?capture={capture}",
    "sql": "/sql",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_draws_without_an_error_a_stranger_or_a_barrier(
    browser: Browser, demo: Demo, name: str, width: int, theme: Theme
) -> None:
    with visit(browser, demo.home, width, theme) as seen:
        seen.open(PAGES[name].format(capture=demo.capture))
        expect(seen.page.locator("main")).to_be_visible()
        expect(seen.page.locator("[role=alert]:visible")).to_have_count(0)
        if name == "profiling":
            expect(seen.page.get_by_role("link", name="Analyze").first).to_be_in_viewport(ratio=1)
        seen.shot(f"{name}-{width}-{theme}")
        assert (seen.errors, seen.foreign, seen.overflows) == ([], [], False)
        assert seen.barriers() == []


def launch(page: Page, begin: Callable[[Locator], None]) -> None:
    """Ask for a capture on the job's page until one is analysed: PyTorch drops what a busy CPU lets come too late."""
    going = page.locator(".wm-going")
    ended = going.get_by_role("link", name="Analyze").or_(going.get_by_text("cancelled_by_kineto").first)
    for _ in range(TRIES):
        if page.locator(".wm-begin button").is_disabled():  # it was busy when its agent was asked last
            page.get_by_role("button", name="Look again").click()
        begin(page.locator(".wm-begin button"))
        expect(going).to_contain_text("running", timeout=SLOW_MS)
        expect(ended.first).to_be_visible(timeout=2 * SLOW_MS)
        if going.get_by_role("link", name="Analyze").count():
            return
    raise AssertionError(f"{TRIES} captures were dropped by PyTorch")


def operators_drawn(page: Page) -> None:
    """The table of operators, which is fetched when it is seen, has what PyTorch ran."""
    operators = page.get_by_role("region", name="Operators")
    operators.scroll_into_view_if_needed()
    expect(operators).to_contain_text("aten::", timeout=SLOW_MS)


def test_from_the_fleet_to_the_kernel_in_four_clicks(tab: Visit) -> None:
    page = tab.page
    tab.open("/?jobs.search=" + JOB)
    page.get_by_role("link", name=JOB, exact=True).first.click()
    page.wait_for_url(re.compile("/job"))
    launch(page, lambda button: button.click(timeout=SLOW_MS))
    tab.shot("launched")
    page.locator(".wm-going").get_by_role("link", name="Analyze").click()
    page.wait_for_url(re.compile("/analyze"))
    operators_drawn(page)
    page.get_by_role("link", name=re.compile("Timeline|View")).first.click()
    page.wait_for_url(re.compile("/timeline"))
    expect(page.locator("canvas").first).to_be_visible(timeout=SLOW_MS)
    tab.page.wait_for_load_state("networkidle")
    tab.shot("timeline-of-the-launched")
    assert (tab.errors, tab.foreign) == ([], [])


def test_the_same_path_by_keys_alone(tab: Visit) -> None:
    page = tab.page
    tab.open("/?jobs.search=" + JOB)
    press(page, page.get_by_role("link", name=JOB, exact=True).first)
    page.wait_for_url(re.compile("/job"))
    launch(page, lambda button: press(page, button))
    press(page, page.locator(".wm-going").get_by_role("link", name="Analyze"))
    page.wait_for_url(re.compile("/analyze"))
    operators_drawn(page)
    press(page, page.get_by_role("link", name=re.compile("Timeline|View")).first)
    page.wait_for_url(re.compile("/timeline"))
    expect(page.locator("canvas").first).to_be_visible(timeout=SLOW_MS)


FOCUSED = """(each) => each === document.activeElement
    || document.activeElement.role === 'gridcell' && document.activeElement.contains(each)"""
"""A cell of a grid does what its link does."""


def press(page: Page, target: object, most: int = 400) -> None:
    """Go to an element with Tab, as who has no pointer does, and press Enter."""
    element = target.element_handle(timeout=SLOW_MS)  # type: ignore[attr-defined]
    for _ in range(most):
        page.keyboard.press("Tab")
        if element.evaluate(FOCUSED):
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"{element.evaluate('(each) => each.outerHTML')} is not reached by Tab")


def test_a_link_shows_what_its_sender_saw(browser: Browser, demo: Demo, tab: Visit) -> None:
    page = tab.page
    tab.open("/?since=-30m")
    page.get_by_label(re.compile("metric", re.I)).first.select_option("power_watts")
    page.get_by_label("Theme").select_option("dark")
    page.wait_for_load_state("networkidle")
    with visit(browser, demo.home) as other:
        other.open(page.url.removeprefix(demo.home))
        assert "metric=power_watts" in other.page.url
        for shown in ("h1", "h2"):
            assert other.page.locator(shown).all_inner_texts() == page.locator(shown).all_inner_texts()
        assert other.page.get_by_label("Theme").input_value() == "dark"
        assert other.page.get_by_label(re.compile("metric", re.I)).first.input_value() == "power_watts"
        assert other.errors == []
