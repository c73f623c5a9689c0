"""The timeline in a browser: by pointer, by keys alone, again from its address, and as a table."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.visits import Visit, visit
from tests.timelines import landed, linked, random
from tests.web_process import page_over
from warpmeter.settings import Store
from warpmeter.store import Client

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

CAPTURE = "/timeline?capture=random/1"
VIEWER = "document.querySelector('.wm-tl-canvas').viewer"
PERFETTO = """<script>
addEventListener("message", ({ data, source, origin }) => {
  if (data === "PING") source.postMessage("PONG", origin);
  else document.title = `${data.perfetto.title}: ${new TextDecoder().decode(data.perfetto.buffer)}`;
});
</script>"""
HAND = """async () => {
  const { hand, PERFETTO } = await import("warpmeter-ui/timeline/perfetto.js");
  const buffer = new TextEncoder().encode("the trace").buffer;
  await hand(window.open(PERFETTO), Promise.resolve({ buffer, name: "a.json.gz" }), "run7 rank 3");
}"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page over a store with two captures: one of two ranks, and one whose links are known."""
    folder = tmp_path_factory.mktemp("timeline")

    def land(client: Client, store: Store) -> None:
        landed(client, store, "random/1", [random(seed).write(folder / f"{seed}.json") for seed in (1, 2)])
        landed(client, store, "linked", [linked().write(folder / "linked.json")])

    with page_over(folder, land) as address:
        yield address


def opened(tab: Visit, address: str) -> Page:
    """The timeline at an address, once all of the view is drawn."""
    tab.open(address)
    settled(tab.page)
    return tab.page


def settled(page: Page) -> None:
    page.wait_for_function("document.querySelector('.wm-tl[aria-busy=false] .wm-tl-canvas')?.viewer")
    page.wait_for_function(f"(v => v && v.took !== undefined && v.tiles.whole(v.t0, v.t1, v.nsPerPixel))({VIEWER})")


def headline(page: Page) -> Locator:
    """What the details are about."""
    return page.get_by_role("region", name="Details").get_by_role("heading", level=3).first


def seen(page: Page) -> tuple[float, float]:
    """What is in view, nanoseconds."""
    t0, t1 = page.evaluate(f"[{VIEWER}.t0, {VIEWER}.t1]")
    return float(t0), float(t1)


def place(page: Page, event: dict[str, Any]) -> tuple[float, float]:
    """Where an event is drawn, in pixels of the page."""
    found = page.evaluate(
        f"""event => {{
          const v = {VIEWER}, row = v.laid.byLane.get(event.lane), box = v.canvas.getBoundingClientRect();
          return [box.left + v.painter.x(event.start_ns + event.duration_ns / 2),
                  box.top + v.head - v.scroller.scrollTop + row.y + (event.depth + .5) * row.step];
        }}""",
        event,
    )
    return float(found[0]), float(found[1])


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_draws_without_a_complaint(browser: Browser, home: str, width: int, theme: Any) -> None:
    with visit(browser, home, width, theme) as tab:
        page = opened(tab, CAPTURE)
        expect(page.get_by_role("button", name="GPU streams")).to_be_visible()
        assert page.evaluate(f"{VIEWER}.tiles.tiles.size") > 0
        tab.shot(f"timeline-{width}-{theme}")
        assert (tab.errors, tab.foreign, tab.overflows, tab.barriers()) == ([], [], False, [])


def test_keys_alone_go_from_the_whole_to_a_kernel_and_its_launch(tab: Visit, browser: Browser) -> None:
    page = opened(tab, "/timeline?capture=linked")
    whole = seen(page)
    canvas = page.get_by_role("application")
    canvas.focus()
    for key in ("w", "w", "ArrowRight", "d", "a"):
        page.keyboard.press(key)
    page.wait_for_url("**t0=*")
    assert seen(page)[1] - seen(page)[0] < whole[1] - whole[0]
    page.keyboard.press("0")
    page.wait_for_function("!location.search.includes('t0=')")
    page.keyboard.press("Enter")
    details = page.get_by_role("region", name="Details")
    expect(headline(page)).to_contain_text("Memcpy HtoD")
    page.keyboard.press("j")
    expect(headline(page)).to_contain_text("gemm<float>")
    expect(details).to_contain_text("occupancy")
    expect(details).to_contain_text("aten::addmm")
    page.keyboard.press("l")
    expect(headline(page)).to_have_text("cudaLaunchKernel")
    page.keyboard.press("u")
    expect(headline(page)).to_have_text("aten::addmm")
    page.keyboard.press("m")
    page.wait_for_url("**range=2000-32000*")
    settled(page)
    with visit(browser, tab.home) as other:
        again = opened(other, page.url.removeprefix(tab.home))
        expect(headline(again)).to_have_text("aten::addmm")
        assert seen(again) == pytest.approx(seen(page), abs=1)
        assert again.evaluate(f"[...{VIEWER}.range]") == [2_000, 32_000]
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(details).to_have_count(0)
    assert (tab.errors, tab.foreign) == ([], [])


def test_wheel_drag_and_click(tab: Visit) -> None:
    page = opened(tab, CAPTURE)
    box = page.get_by_role("application").bounding_box()
    assert box
    x, y = box["x"] + box["width"] * 0.3, box["y"] + 200
    page.mouse.move(x, y)
    at = page.evaluate(f"{VIEWER}.timeAt({x - box['x']})")
    for _ in range(6):
        page.mouse.wheel(0, -120)
    page.wait_for_function(f"{VIEWER}.t1 - {VIEWER}.t0 < {VIEWER}.end / 2")
    settled(page)
    span = seen(page)[1] - seen(page)[0]
    assert page.evaluate(f"{VIEWER}.timeAt({x - box['x']})") == pytest.approx(at, abs=span / 100)
    before = seen(page)
    page.mouse.down()
    page.mouse.move(x + 100, y, steps=4)
    page.mouse.up()
    assert seen(page)[0] == pytest.approx(before[0] - 100 * span / box["width"], abs=span / 200)
    settled(page)
    event = page.evaluate(
        f"[...{VIEWER}.inView(0)].filter(e => e.count === 1).sort((a, b) => b.duration_ns - a.duration_ns)[0]"
    )
    page.mouse.click(*place(page, event))
    expect(headline(page)).to_have_text("gemm")
    page.wait_for_url(f"**select=0-{event['depth']}-{event['start_ns']}*")
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 200, y, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.get_by_role("heading", name="Marked:")).to_be_visible()
    assert (tab.errors, tab.foreign) == ([], [])


def test_search_goes_from_hit_to_hit(tab: Visit) -> None:
    page = opened(tab, CAPTURE)
    page.keyboard.press("/")
    page.keyboard.type("LINEAR")
    page.keyboard.press("Enter")
    hits = page.locator(".wm-tl-hits")
    expect(hits).to_contain_text("1 of ")
    page.get_by_role("button", name="Next hit").click()
    expect(hits).to_contain_text("2 of ")
    page.wait_for_url("**q=LINEAR*")
    expect(headline(page)).to_have_text("aten::linear")
    first = page.evaluate(f"[...{VIEWER}.inView()].sort((a, b) => a.start_ns - b.start_ns)[0].start_ns")
    page.evaluate(f"{VIEWER}.show({{ ...{VIEWER}.selected, start_ns: {first}, duration_ns: 1 }}, true)")
    page.wait_for_url("**t0=*")
    assert "t0=-" not in page.url  # before the first event is nothing
    assert seen(page)[0] >= 0
    page.get_by_label("Search names").fill("(")
    page.get_by_role("button", name="Regular expression").click()
    expect(page.get_by_role("alert")).to_contain_text("no regular expression")


def test_a_table_says_what_is_in_view(tab: Visit) -> None:
    page = opened(tab, "/timeline?capture=linked")
    page.get_by_role("button", name="Table").click()
    table = page.get_by_role("region", name="Events in view")
    expect(table.get_by_role("row")).to_have_count(12)  # eleven events below the head
    assert tab.barriers() == []
    table.get_by_role("button", name="aten::addmm").click()
    expect(page.get_by_role("region", name="Details")).to_contain_text("Launched 2 on the GPU")


def test_another_rank_is_shown_at_the_same_time(tab: Visit) -> None:
    page = opened(tab, f"{CAPTURE}&t0=100000&t1=900000")
    page.get_by_label("Rank").select_option(label="Rank 1")
    page.wait_for_url("**rank=1*")
    settled(page)
    assert seen(page) == (100_000, 900_000)
    page.get_by_role("application").focus()
    page.keyboard.press("[")
    page.wait_for_url("**rank=0*")


def test_lanes_fold(tab: Visit) -> None:
    page = opened(tab, CAPTURE)
    threads = page.get_by_role("button", name="CPU threads")
    tall = page.evaluate(f"{VIEWER}.laid.height")
    threads.click()
    expect(threads).to_have_attribute("aria-expanded", "false")
    page.wait_for_function(f"{VIEWER}.laid.height < {tall}")


def test_a_trace_is_handed_to_perfetto_by_its_own_window(tab: Visit) -> None:
    def answer(route: Route) -> None:
        route.fulfill(content_type="text/html", body=PERFETTO)

    tab.page.context.route("https://ui.perfetto.dev/**", answer)
    page = opened(tab, "/timeline?capture=linked")
    expect(page.get_by_role("button", name="Open in Perfetto")).to_be_disabled()  # loaded by hand: there is no file
    with page.expect_popup() as popup:
        page.evaluate(HAND)
    popup.value.wait_for_function("document.title === 'run7 rank 3: the trace'")


def test_what_is_not_there_is_said(tab: Visit) -> None:
    tab.open("/timeline")
    expect(tab.page.get_by_role("alert")).to_contain_text("No capture is named")
    tab.open("/timeline?capture=nobody")
    expect(tab.page.get_by_role("alert")).to_contain_text("no analysed trace of rank 0 of capture 'nobody'")
