"""Analyze in a browser: all panels draw, what is chosen is in the address, and links lead on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, expect

from tests.analysed import analysed, load
from tests.browser.visits import Theme, Visit, visit
from tests.captures import two_ranks
from tests.pagetraces import training
from tests.wait import until
from tests.web_process import page_over
from warpmeter.settings import Store
from warpmeter.store import Client

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

PATIENCE_MS = 90_000
AFTER = "/analyze?capture=after%2F1"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page over a store with three captures of two ranks."""
    folder = tmp_path_factory.mktemp("analyze")
    files = {
        "before": [training(rank=rank).write(folder / f"before{rank}.json") for rank in (0, 1)],
        "after/1": [training(rank=rank, name="gemm_v2").write(folder / f"after{rank}.json") for rank in (0, 1)],
        "straggler": two_ranks(folder),
    }

    def land(client: Client, store: Store) -> None:
        for name, paths in files.items():
            load(client, store, name, analysed(paths))

    with page_over(folder, land) as address:
        yield address


@pytest.fixture(scope="module")
def patience_ms() -> int:
    return PATIENCE_MS


def shown(tab: Visit, address: str) -> Page:
    """The page at an address, once the capture is there and every panel in sight has drawn."""
    tab.page.goto(tab.home + address)
    expect(tab.page.locator("body")).to_have_attribute("data-analysis", "analysed")
    drawn(tab.page)
    return tab.page


SETTLED = """() => {
  const panels = [...document.querySelectorAll(".wm-analysed")];
  const busy = panels.find((panel) => panel.ariaBusy !== "false");
  busy?.scrollIntoView();
  return panels.length > 0 && !busy;
}"""


def drawn(page: Page) -> None:
    """Every panel, scrolled to, has its answer; none is an error."""
    until(lambda: _holds(page, SETTLED), "the panels to be drawn", PATIENCE_MS / 1e3)
    page.evaluate("scrollTo(0, 0)")
    expect(page.locator("[role=alert]")).to_have_count(0)


CHARTED = """() => {
  const chart = document.querySelector(".wm-steps-chart");
  chart?.scrollIntoView();
  return Boolean(chart?.querySelector("canvas"));
}"""


def _holds(page: Page, script: str) -> bool:
    try:
        return bool(page.evaluate(script))
    except Error:  # the page loads again, as it does when it was away for long
        return False


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)])
def test_all_panels_draw_at_any_width_in_any_theme(browser: Browser, home: str, theme: Theme, width: int) -> None:
    with visit(browser, home, width, theme) as tab:
        tab.page.set_default_timeout(PATIENCE_MS)
        page = shown(tab, f"{AFTER}&base=before")
        assert tab.errors == []
        expect(page.locator(".wm-findings li")).not_to_have_count(0)
        until(lambda: _holds(page, CHARTED), "the steps to be drawn", PATIENCE_MS / 1e3)
        expect(page.get_by_role("region", name="Kernels", exact=True).locator(".ag-row")).not_to_have_count(0)
        expect(page.get_by_role("region", name="Kernels against before").locator(".ag-row").first).to_contain_text(
            "gemm"
        )
        tab.shot(f"analyze-{theme}-{width}")
        assert (tab.errors, tab.foreign, tab.overflows) == ([], [], False)
        assert tab.barriers() == []


def test_a_rank_that_is_chosen_is_in_the_address_and_back_undoes_it(tab: Visit) -> None:
    page = shown(tab, "/analyze?capture=straggler")
    kernels = page.get_by_role("region", name="Kernels", exact=True)
    expect(kernels.locator(".ag-row", has_text="gemm")).to_contain_text("2 ms")
    page.get_by_label("Rank", exact=True).select_option("1")
    page.wait_for_url("**rank=1")
    expect(kernels.locator(".ag-row", has_text="gemm")).to_contain_text("1.60")
    page.reload()
    expect(page.get_by_label("Rank", exact=True)).to_have_value("1")
    expect(kernels.locator(".ag-row", has_text="gemm")).to_contain_text("1.60")
    page.go_back()
    expect(kernels.locator(".ag-row", has_text="gemm")).to_contain_text("2 ms")
    assert tab.errors == []


def test_the_straggler_is_marked_and_why(tab: Visit) -> None:
    page = shown(tab, "/analyze?capture=straggler")
    ranks = page.get_by_role("region", name="Ranks side by side", exact=True)
    expect(ranks.locator(".wm-mark")).to_have_text("late: slow kernels")
    expect(page.locator(".wm-findings")).to_contain_text("Rank 1 comes last to 4 of 4 collectives")


def test_a_filter_is_in_the_address_and_rows_can_be_had_as_csv(tab: Visit, tmp_path: Path) -> None:
    page = shown(tab, f"{AFTER}&kernels.search=small_1&kernels.sort=kernel")
    kernels = page.get_by_role("region", name="Kernels", exact=True)
    expect(kernels.locator(".ag-row")).to_have_count(11)
    with page.expect_download() as saving:
        kernels.get_by_role("button", name="Download Kernels as CSV").click()
    saving.value.save_as(tmp_path / "kernels.csv")
    lines = (tmp_path / "kernels.csv").read_text().splitlines()
    assert lines[0].startswith("kernel,sort,count,total_seconds")
    assert len(lines) == 12


def test_links_lead_to_the_timeline_and_another_capture_to_compare_with(tab: Visit) -> None:
    page = shown(tab, AFTER)
    link = page.get_by_role("region", name="Kernels", exact=True).locator("a", has_text="gemm_v2")
    assert "/timeline?capture=after%2F1" in (link.get_attribute("href") or "")
    assert "q=gemm_v2" in (link.get_attribute("href") or "")
    compare = page.get_by_label("Compare with")
    compare.focus()
    expect(compare.locator("option")).to_have_count(3)
    compare.select_option("before")
    page.wait_for_url("**base=before")
    expect(page.get_by_role("region", name="Against the earlier capture", exact=True)).to_contain_text(
        "A step of a rank"
    )


def test_a_capture_that_nobody_knows_says_what_to_do(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/analyze?capture=no%20such")
    expect(tab.page.locator("[role=alert]")).to_contain_text("warpmeter analyze FILE --load --capture no such")
    expect(tab.page.locator(".wm-findings")).to_have_count(0)
    expect(tab.page.get_by_role("region", name="Kernels", exact=True)).to_be_hidden()


def test_captures_are_listed_where_none_is_named(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/analyze")
    tab.page.get_by_role("link", name="straggler").click()
    tab.page.wait_for_url("**/analyze?*capture=straggler*")
    assert tab.errors == []


def test_the_keyboard_alone_chooses_a_rank(tab: Visit) -> None:
    page = shown(tab, "/analyze?capture=straggler")
    page.get_by_role("region", name="Ranks side by side", exact=True).get_by_role(
        "button", name="1", exact=True
    ).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**rank=1")
    expect(page.get_by_label("Rank", exact=True)).to_have_value("1")
