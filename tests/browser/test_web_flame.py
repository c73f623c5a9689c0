"""The flame graph in a browser, on a real engine and a real web process, and the page that the command writes."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.brokers.process import free_ports, tail
from tests.browser.visits import Visit, chromium, visit
from tests.engine import DATABASE, TOKEN, WRITER
from tests.engine.template import with_tables
from tests.signals import tell
from tests.stackworld import HOSTS, JOB, OLD_JOB, Stacks, landed
from tests.tables import land, row, token
from tests.wait import until
from warpmeter import launch
from warpmeter.settings import Metrics, Settings, Store, Web
from warpmeter.store import Client, connect
from warpmeter.web.flame_page import page

expect.set_options(timeout=60_000)
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
PATIENCE_MS = 60_000
NO_KAFKA = ("/profilable", "/captures")
ROW = 19
BOXES = {
    "epoch": (0.25, 2),
    "wait": (0.75, 2),
    "load": (0.1, 3),
    "step": (0.45, 3),
    "decode": (0.1, 4),
    "odd": (0.32, 3),
}
"""Where boxes of the job are after its input got slow: part of the width, and row."""
LOCKED = "locked"
SOURCES = (
    ("perf/rate", "paused", "in every other turn", 600), ("rate", "paused", "one is slow", 600),
    ("perf", "unsupported", "no perf", 600), ("processes/denied", "denied", "pid 7: give CAP_SYS_PTRACE", 600),
    ("processes/failed", "failed", "what another agent told long ago", 1),
)  # fmt: skip
"""What the agent of a host tells that may not look; a row with a short period is old at once."""
HEAR = """() => {
    const place = document.querySelector(".wm-flame-hits");
    window.heard = [];
    new MutationObserver(() => window.heard.push(place.textContent)).observe(place, { childList: true });
}"""
"""What is said for a moment is kept, for a busy machine may look too late."""


@dataclass(frozen=True)
class Site:
    """Where the page is, and what was landed."""

    home: str
    world: Stacks

    def job(self, **more: str) -> str:
        """The job's page over the hour in which its input is slow."""
        return f"/job?{urlencode({'id': JOB, **self.window, **more})}"

    @property
    def window(self) -> dict[str, str]:
        return {"since": iso(self.world.middle), "until": iso(self.world.until), "refresh": "off"}


def iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat().replace("+00:00", "Z")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(with_tables(tmp_path_factory.mktemp("flame") / "engine")) as server:
        writing = Store(dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{server.port}", database=DATABASE)
        with connect(writing) as client:
            world = landed(client)
            _locked(client, world)
        port, log = free_ports(1)[0], tmp_path_factory.mktemp("flame") / "web.log"
        store = Store(dsn=server.url, database=DATABASE)
        settings = replace(Settings(), store=store, web=Web(port=port), metrics=Metrics(web_port=0))
        with log.open("ab") as output:
            process = launch.spawn("warpmeter.web", settings, log=output)
        home = f"http://127.0.0.1:{port}"
        try:
            until(lambda: process.poll() is not None or _answers(home), f"the page to come up: {tail(log)}", 120)
            yield Site(home, world)
        finally:
            tell(process)
            process.wait(60)


def _locked(client: Client, world: Stacks) -> None:
    of = {"host": LOCKED, "ts": float(world.until - 300), "source": "stacks"}
    rows = [
        row("source-health", **of, subject=subject, state=state, why=why, period_ms=period_s * 1000)
        for subject, state, why, period_s in SOURCES
    ]
    land(client, "source-health", rows, token(9_000_000, 9_000_010))
    seen = {"host": LOCKED, "ts": float(world.until), "period_ms": 60_000, "cpu_util_permille": 500}
    land(client, "host-samples", [row("host-samples", **seen)], token(9_000_000, 9_000_000))


def _answers(home: str) -> bool:
    try:
        return httpx.get(f"{home}/api/v1/health", timeout=10).is_success
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: Browser, site: Site) -> Iterator[Visit]:
    with visit(browser, site.home) as found:
        found.page.set_default_timeout(PATIENCE_MS)
        yield found


def panel(tab: Visit, address: str) -> Locator:
    """Go there; the panel, once it has drawn."""
    tab.page.goto(tab.home + address)
    return drawn(tab)


def drawn(tab: Visit) -> Locator:
    found = tab.page.get_by_role("region", name="Flame graph", exact=True)
    found.scroll_into_view_if_needed()
    expect(found).to_have_attribute("aria-busy", "false")
    return found


def at(found: Locator, name: str) -> dict[str, Any]:
    """Where a box is on the canvas, as pointing takes it."""
    part, row = BOXES[name]
    box = found.locator("canvas").bounding_box()
    assert box
    return {"position": {"x": box["width"] * part, "y": row * ROW + ROW / 2}}


def complaints(tab: Visit) -> list[str]:
    """What went wrong, but for what needs Kafka."""
    return [error for error in tab.errors if not any(each in error for each in NO_KAFKA)]


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize("kind", ["job", "host", "difference"])
def test_it_draws_without_complaint(browser: Browser, site: Site, kind: str, theme: str, width: int) -> None:
    host = f"/host/{quote(HOSTS[1], safe='')}?{urlencode(site.window)}"
    address = {"job": site.job(), "host": host, "difference": site.job(**{"flame.base": "before"})}[kind]
    with visit(browser, site.home, width, "dark" if theme == "dark" else "light") as tab:
        tab.page.set_default_timeout(PATIENCE_MS)
        found = panel(tab, address)
        expect(found.locator("tbody tr").first).to_be_visible()
        found.locator("canvas").hover(**at(found, "epoch"))
        expect(found.locator(".wm-flame-tip")).to_contain_text("epoch")
        tab.shot(f"flame-{kind}-{theme}-{width}")
        assert complaints(tab) == []
        assert tab.foreign == []
        assert tab.barriers() == []
        assert not tab.overflows


def test_pointing_tells_what_a_box_is(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job())
    told = found.locator(".wm-flame-tip")
    found.locator("canvas").hover(**at(found, "decode"))
    expect(told).to_contain_text("decode")
    expect(told).to_contain_text("data/images.py, line 17")
    expect(told).to_contain_text("self 31.6\u202fmin, 25.0\u202f% of all")
    found.locator("canvas").hover(**at(found, "step"))
    expect(told).to_contain_text("15.0\u202f% of all")
    found.locator("canvas").hover(**at(found, "odd"))
    expect(told).to_contain_text('operator<"<b>&\'ü">')  # as text, not as markup


def test_a_click_zooms_and_back_undoes_it(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job())
    found.locator("canvas").click(**at(found, "load"))
    tab.page.wait_for_url("**flame.zoom=*")
    zoomed = tab.page.url
    found.locator("canvas").hover(position={"x": 200, "y": 4.5 * ROW})
    expect(found.locator(".wm-flame-tip")).to_contain_text("line 17")
    whole = found.get_by_role("button", name="Whole")
    expect(whole).to_be_enabled()
    tab.page.go_back()
    expect(whole).to_be_disabled()
    tab.page.goto(zoomed)
    drawn(tab)
    expect(whole).to_be_enabled()
    whole.click()
    expect(whole).to_be_disabled()
    assert "flame.zoom" not in tab.page.url
    assert complaints(tab) == []


def test_a_search_marks_boxes_and_says_their_share(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job())
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("decode")
    expect(found.locator(".wm-flame-hits")).to_have_text("30.0\u202f% of all, in 2 boxes")
    expect(found.locator("tbody tr")).to_have_count(2)
    tab.page.wait_for_url("**flame.q=decode")
    search = found.get_by_role("searchbox")
    search.fill("/^(step|wait) /")
    expect(found.locator(".wm-flame-hits")).to_have_text("65.0\u202f% of all, in 2 boxes")
    search.fill("/(/")
    expect(found.locator(".wm-flame-hits")).to_contain_text("Invalid regular expression")
    search.fill("no such function")
    expect(found.locator(".wm-flame-hits")).to_have_text("nothing matches")
    search.fill("")
    found.get_by_role("button", name="wait", exact=True).click()
    expect(search).to_have_value("wait (threading.py:355)")
    expect(found.locator(".wm-flame-hits")).to_have_text("50.0\u202f% of all, in 1 box")


def test_what_is_searched_for_is_drawn_over_time(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job(since=iso(site.world.middle - 1800)))
    found.get_by_role("searchbox").fill("DECODE")
    course = found.get_by_role("img", name="Share of decode over time")
    expect(course).to_have_attribute("aria-label", re.compile(r"15\.0\u202f% to 30\.0\u202f% \(.*\), in steps of"))
    assert "L" in (course.locator("path").get_attribute("d") or "")
    tab.shot("flame-course")
    found.get_by_role("searchbox").fill("/decode/")
    expect(course).to_have_count(0)
    found.get_by_role("searchbox").fill("")
    found.get_by_role("checkbox", name="Lines").uncheck()
    drawn(tab)
    expect(found.get_by_role("button", name="decode", exact=True)).to_have_count(1)  # no more one a line
    found.get_by_role("button", name="decode", exact=True).click()
    expect(found.get_by_role("img", name="Share of decode (data/images.py over time")).to_be_visible()
    assert complaints(tab) == []


def test_the_table_is_what_the_store_says(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job())
    rows = found.locator("tbody tr")
    expect(rows).to_have_count(8)
    expect(rows.nth(1)).to_contain_text("25.0\u202f%25.0\u202f%")
    found.get_by_role("button", name="Total", exact=True).click()
    expect(rows.first).to_contain_text("<module>")
    expect(found.locator("th[aria-sort=descending]")).to_contain_text("Total")


def test_the_keyboard_alone_finds_zooms_and_copies(browser: Browser, site: Site) -> None:
    with visit(browser, site.home) as tab:
        tab.page.set_default_timeout(PATIENCE_MS)
        tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        found = panel(tab, site.job())
        found.get_by_role("button", name="Copy stack").focus()
        tab.page.keyboard.press("Tab")
        tree = found.get_by_role("tree")
        expect(tree).to_be_focused()
        item = found.get_by_role("treeitem")
        for key, said in (
            ("ArrowDown", "<module>"),
            ("ArrowDown", "epoch"),
            ("ArrowRight", "wait"),
            ("ArrowLeft", "epoch"),
        ):
            tab.page.keyboard.press(key)
            expect(item).to_contain_text(said)
        assert item.get_attribute("aria-level") == "3"
        assert tree.get_attribute("aria-activedescendant") == item.get_attribute("id")
        tab.page.keyboard.press("Enter")
        tab.page.wait_for_url("**flame.zoom=*")
        tab.page.evaluate(HEAR)
        tab.page.keyboard.press("c")
        tab.page.wait_for_function("heard.includes('copied a stack of 2')")
        assert tab.page.evaluate("navigator.clipboard.readText()") == "<module> (train.py:90)\nepoch (train.py:40)"
        tab.page.keyboard.press("Escape")
        expect(found.get_by_role("button", name="Whole")).to_be_disabled()
        found.locator("canvas").click(modifiers=["Control"], **at(found, "decode"))
        tab.page.wait_for_function("heard.includes('copied a stack of 4')")
        assert tab.page.evaluate("navigator.clipboard.readText()").endswith("decode (data/images.py:17)")
        assert "flame.zoom" not in tab.page.url


def test_choices_go_into_the_address_and_a_link_reproduces_them(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job())
    found.get_by_label("By", exact=True).select_option("rank")
    tab.page.wait_for_url("**flame.by=rank")
    drawn(tab)
    found.locator("canvas").hover(position={"x": 30, "y": 1.5 * ROW})
    expect(found.locator(".wm-flame-tip")).to_contain_text("rank 0")
    found.get_by_label("Lines", exact=True).uncheck()
    tab.page.wait_for_url("**flame.lines=0")
    expect(found.locator("tbody tr", has_text="decode")).to_have_count(1)
    found.get_by_label("Rank", exact=True).select_option("1")
    tab.page.wait_for_url("**flame.rank=1")
    tab.page.reload()
    drawn(tab)
    expect(found.get_by_label("By", exact=True)).to_have_value("rank")
    expect(found.get_by_label("Rank", exact=True)).to_have_value("1")
    expect(found.get_by_label("Lines", exact=True)).not_to_be_checked()
    expect(found.locator("h2")).to_contain_text("1.05\u202fh within 60 min")
    assert complaints(tab) == []


def test_a_difference_shows_what_grew_and_shrank(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job())
    legend = found.locator(".wm-flame-legend")
    expect(legend).to_be_hidden()
    found.get_by_label("Compare with", exact=True).select_option("before")
    tab.page.wait_for_url("**flame.base=before")
    expect(legend).to_contain_text("▲ larger share")
    rows = found.locator("tbody tr")
    expect(rows.first).to_contain_text("step")
    expect(rows.first).to_contain_text("−20.0")
    expect(rows.nth(1)).to_contain_text("+15.0")
    found.get_by_label("By", exact=True).select_option("rank")
    tab.page.wait_for_url("**flame.by=rank**")
    drawn(tab)
    found.locator("canvas").hover(position={"x": 30, "y": 1.5 * ROW})
    expect(found.locator(".wm-flame-tip")).to_contain_text("rank 0")
    expect(rows.first).to_contain_text("−20.0")
    found.get_by_label("Compare with", exact=True).select_option("window")
    found.get_by_label("Compare with stacks from").fill(iso(site.world.since))
    found.get_by_label("Compare with stacks until").fill(iso(site.world.middle))
    found.get_by_role("button", name="Compare").click()
    tab.page.wait_for_url("**flame.base=20*")
    expect(rows.first).to_contain_text("−20.0")
    found.get_by_label("Compare with", exact=True).select_option("job")
    found.get_by_label("Compare with stacks of the job").fill(OLD_JOB)
    found.get_by_role("button", name="Compare").click()
    tab.page.wait_for_url(f"**flame.base_job={OLD_JOB}")
    expect(rows.first).to_contain_text("−85.0")
    found.get_by_label("Compare with", exact=True).select_option("")
    expect(legend).to_be_hidden()
    assert "flame.base" not in tab.page.url
    assert complaints(tab) == []


def test_a_difference_of_one_side_says_so(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job(**{"flame.base": "-9d/-8d"}))
    expect(found.locator(".wm-warn")).to_contain_text("Nothing was sampled to compare with")
    window = {"since": "-3d", "until": "-2d", "flame.base": f"{iso(site.world.since)}/{iso(site.world.until)}"}
    found = panel(tab, site.job(**window))
    expect(found.locator(".wm-warn")).to_contain_text("Nothing was sampled in this window")
    assert complaints(tab) == []


def test_another_job_that_nobody_heard_of_is_said_in_place(tab: Visit, site: Site) -> None:
    found = panel(tab, site.job(**{"flame.base_job": "nobody"}))
    expect(found.get_by_role("alert")).to_contain_text("nothing has been heard of a job nobody")


def test_a_window_to_compare_with_that_is_none_is_said(tab: Visit, site: Site) -> None:
    for base in ("nonsense", "nonsense/-1h"):
        expect(panel(tab, site.job(**{"flame.base": base})).get_by_role("alert")).to_contain_text(
            "'nonsense' is no time"
        )


def test_sources_are_shown_one_at_a_time(tab: Visit) -> None:
    found = panel(tab, f"/job?id={OLD_JOB}")
    source = found.get_by_label("Source", exact=True)
    expect(source).to_have_value("py-spy")
    expect(found.locator("tbody tr")).to_have_count(3)
    source.select_option("perf")
    tab.page.wait_for_url("**flame.source=perf")
    expect(found.locator("tbody tr")).to_have_count(2)
    source.select_option("import, bytes")
    expect(found.locator("h2")).to_contain_text("4\u202fKiB")


def test_choosing_a_stretch_in_a_chart_narrows_the_graph(tab: Visit, site: Site) -> None:
    window = {"since": iso(site.world.since), "until": iso(site.world.until), "refresh": "off"}
    tab.page.goto(f"{tab.home}/host/ant?{urlencode(window)}")
    found = drawn(tab)
    expect(found.locator("tbody tr", has_text="step")).to_contain_text("27.0\u202f%")
    chart = tab.page.get_by_role("region", name="CPU Utilization").locator(".wm-plot")
    chart.scroll_into_view_if_needed()
    expect(chart.locator("canvas")).to_be_visible()
    box = chart.bounding_box()
    assert box
    y = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + box["width"] * 0.8, y)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + box["width"] * 0.9, y, steps=4)
    tab.page.mouse.up()
    tab.page.wait_for_url(lambda url: iso(site.world.since).split("T")[1][:5] not in url.split("since=")[1][:24])
    drawn(tab)
    expect(found.locator("tbody tr", has_text="step")).to_contain_text("15.0\u202f%")


def test_a_job_without_gpus_shows_its_flame_graph_and_nothing_of_gpus(tab: Visit, site: Site) -> None:
    panel(tab, site.job())
    for name in ("How well it uses its GPUs", "Ranks side by side", "GPU utilisation", "Power", "By GPU"):
        expect(tab.page.get_by_role("region", name=name, exact=True)).to_have_count(0)
    expect(tab.page.get_by_role("region", name="CPU of its hosts", exact=True)).to_be_visible()
    tab.shot("flame-job-without-gpus")


def test_lines_of_a_function_side_by_side_are_told_apart(tab: Visit, site: Site) -> None:
    panel(tab, site.job())
    columns = {"level": [0, 1, 1, 1, 2], "label": ["all", "a (f.py:1)", "a (f.py:2)", "b (f.py:2)", "a (f.py:1)"]}
    script = """async (columns) => {
        const { Tree } = await import("warpmeter-ui/flame/tree.js");
        const tree = new Tree({ ...columns, value: [4, 1, 1, 2, 1], self: [0, 1, 1, 1, 1] });
        return columns.label.map((_, at) => tree.title(at));
    }"""
    assert tab.page.evaluate(script, columns) == ["all", "a:1", "a:2", "b", "a"]


def test_an_agent_that_may_not_look_is_the_reason(tab: Visit, site: Site) -> None:
    """Of what it tells now, not of what another one told; and one that may not matters more than one that rests."""
    found = panel(tab, f"/host/{LOCKED}?{urlencode(site.window)}")
    expect(found.locator(".wm-empty")).to_have_text("Sampling is denied: pid 7: give CAP_SYS_PTRACE")
    sources = tab.page.get_by_role("region", name="Sources of the agent", exact=True).locator("tbody tr")
    expect(sources).to_have_count(len(SOURCES))
    expect(sources.last).to_contain_text("failed then, and not told again")
    expect(sources.filter(has_text="perf/rate")).to_have_count(1)
    assert complaints(tab) == []


def test_where_nothing_was_sampled_it_says_what_to_do(tab: Visit) -> None:
    found = panel(tab, f"/job?{urlencode({'id': JOB, 'since': '-3d', 'until': '-2d'})}")
    expect(found.locator(".wm-empty")).to_contain_text("warpmeter doctor")
    expect(found.locator("canvas")).to_be_hidden()


def test_ten_thousand_boxes_are_drawn_and_found(tab: Visit, site: Site) -> None:
    panel(tab, site.job())
    told = tab.page.evaluate("""async () => {
        const { FlameView } = await import("warpmeter-ui/flame/view.js");
        const columns = { level: [0], label: ["all"], value: [400], self: [0] };
        for (let at = 0; at < 400; at += 1) for (let level = 1; level < 26; level += 1) {
            columns.level.push(level);
            columns.label.push(`f${at} (m${level}.py:${at + 1})`);
            columns.value.push(1);
            columns.self.push(0);
        }
        const view = new FlameView(document.querySelector("main, #content"));
        view.show({ columns });
        view.fit();
        view.draw();
        const drawn = view.painter.rows.flat().length;
        const width = view.scroller.clientWidth;
        const found = view.tree.label[view.painter.at(width - 1, 25.5 * 19)];
        view.search("/^f7 /");
        const { count } = view.hits;
        view.close();
        return { boxes: view.tree.length, drawn, found, count };
    }""")
    assert told == {"boxes": 10_001, "drawn": 10_001, "found": "f399 (m25.py:400)", "count": 25}
    assert complaints(tab) == []


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_that_is_written_needs_nothing_else(
    browser: Browser, site: Site, tmp_path: Path, theme: str, width: int
) -> None:
    asked = {"job": JOB, "since": site.window["since"], "until": site.window["until"]}
    graph = httpx.get(f"{site.home}/api/v1/stacks/flame", params=asked, timeout=60).json()
    (tmp_path / "out.html").write_text(page("Flame graph: <job>", "an hour", {"columns": graph["columns"]}))
    with visit(browser, f"file://{tmp_path}", width, "dark" if theme == "dark" else "light") as tab:
        tab.page.goto(f"{tab.home}/out.html")
        found = tab.page.get_by_role("region", name="Flame graph", exact=True)
        found.locator("canvas").hover(**at(found, "decode"))
        expect(found.locator(".wm-flame-tip")).to_contain_text("data/images.py, line 17")
        found.locator("canvas").click(**at(found, "load"))
        expect(found.get_by_role("button", name="Whole")).to_be_enabled()
        found.get_by_role("searchbox").fill("decode")
        expect(found.locator(".wm-flame-hits")).to_contain_text("30.0\u202f% of all")
        assert "zoom=" in tab.page.url
        tab.shot(f"flame-page-{theme}-{width}")
        tab.page.reload()
        expect(found.get_by_role("searchbox")).to_have_value("decode")
        expect(found.locator("tbody tr")).to_have_count(2)
        found.get_by_label("Lines", exact=True).uncheck()
        expect(found.locator("tbody tr")).to_have_count(1)
        expect(found.locator(".wm-flame-hits")).to_have_text("30.0\u202f% of all, in 1 box")
        assert tab.errors == []
        assert [each for each in tab.foreign if not each.startswith("file:")] == []
        assert tab.barriers() == []
        assert not tab.overflows
