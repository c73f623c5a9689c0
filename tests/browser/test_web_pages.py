"""The pages in a browser, on a real engine and a real web process: they draw, and addresses say what they show."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.visits import Theme, Visit, visit
from tests.tables import land, row
from tests.web_process import page_over
from tests.webworld import HOSTS, ODD_HOST, ODD_JOB, landed
from warpmeter.schemas.metrics import of_topic
from warpmeter.store import Client

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

HOST = f"/host/{quote(ODD_HOST, safe='')}"
JOB = f"/job?id={quote(ODD_JOB, safe='')}"
PAGES = {"overview": "/", "hosts": "/hosts", "host": HOST, "jobs": "/jobs", "job": JOB}
BARE = "bare"
STRANGE = ("__proto__", "a/b", "a/events", "a\nb")
NO_KAFKA = "/profilable"
"""Whether a job can be profiled its agents say over Kafka, which these tests do without."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page is."""
    with page_over(tmp_path_factory.mktemp("pages"), lambda client, _: _land(client)) as address:
        yield address


def _land(client: Client) -> None:
    """The small fleet, and a host without a GPU."""
    world = landed(client)
    stamp = {"host": BARE, "ts": float(world.until - 10), "period_ms": 10_000}
    land(client, "host-samples", [row("host-samples", **stamp, cpu_util_permille=300)])
    told = {"source": "gpu", "subject": "", "state": "unsupported", "why": "no NVIDIA driver"}
    land(client, "source-health", [row("source-health", **stamp, **told)])
    denied = {**stamp, "period_ms": 600_000, "source": "perf", "subject": "", "state": "denied", "why": "no right"}
    land(client, "source-health", [row("source-health", **denied)])
    land(client, "host-samples", [row("host-samples", **{**stamp, "host": host}) for host in STRANGE])
    wish = {"action": "start", "requested_by": "ann", "mode": "trace", "count": 1, "duration_ms": 500}
    asked = row("capture-requests", capture_id="long", ts=float(world.until), job_id="j" * 300, **wish)
    land(client, "capture-requests", [asked])
    # It would be lost five minutes later, but for a command that has longer.
    look = {"action": "look", "host": BARE, "expires_at": float(world.until + 60)}
    lasting = {"capture_id": "long", "ts": float(world.until), "deadline_at": float(world.until + 86400)}
    land(client, "capture-commands", [row("capture-commands", **look, **lasting)])


def drawn(page: Page) -> None:
    """Look at all of it, for panels ask only when nearly in sight; until nothing is on its way any more."""
    page.wait_for_function("document.querySelectorAll('.wm-panel').length > 0")
    page.wait_for_function("""(() => {
        const busy = [...document.querySelectorAll("[aria-busy=true]")].find((each) => each.checkVisibility());
        busy?.scrollIntoView();
        return !busy;
    })()""")
    page.evaluate("scrollTo(0, 0)")


def complaints(tab: Visit) -> list[str]:
    """What went wrong, but for what needs Kafka."""
    return [error for error in tab.errors if NO_KAFKA not in error]


@pytest.mark.parametrize("host", STRANGE)
def test_a_host_of_any_name_has_its_page(tab: Visit, host: str) -> None:
    tab.open("/hosts")
    tab.page.get_by_role("link", name=host, exact=True).click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text(host)
    expect(tab.page.get_by_role("region", name="Host", exact=True)).to_contain_text("Seen")
    assert complaints(tab) == []


def test_no_name_makes_the_grid_complain(tab: Visit) -> None:
    said: list[str] = []
    tab.page.on("console", lambda message: said.append(message.text))
    tab.open("/hosts")
    expect(tab.page.get_by_role("link", name="__proto__")).to_be_visible()
    assert said == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_address_that_is_none_is_said_with_a_way_on(browser: Browser, home: str, theme: Theme) -> None:
    for width in (1280, 390):
        with visit(browser, home, width, theme) as found:
            found.open("/nowhere")
            expect(found.page.get_by_role("heading", name="There is no such page")).to_be_visible()
            expect(found.page.get_by_role("main")).to_contain_text("/nowhere")
            expect(found.page.get_by_role("link", name="Hosts", exact=True)).to_be_visible()
            assert (found.barriers(), found.overflows) == ([], False)


def test_a_long_name_leaves_room_for_what_stands_beside_it(tab: Visit) -> None:
    tab.open("/profiling")
    job = tab.page.get_by_role("link", name="j" * 300)
    expect(job).to_have_attribute("title", "j" * 300)
    expect(tab.page.get_by_role("button", name="Cancel")).to_be_in_viewport(ratio=1)
    width = job.evaluate("(each) => each.clientWidth")
    assert width < 300


@pytest.mark.parametrize("hours", [-3, 3])
def test_how_long_ago_is_told_by_the_servers_clock(tab: Visit, hours: int) -> None:
    tab.page.add_init_script(f"const real = Date.now; Date.now = () => real() + {hours * 3_600_000}")
    tab.open("/hosts")
    seen = tab.page.locator('[role=gridcell][col-id="last_seen_at"]')
    expect(seen.first).to_have_text(re.compile(r"^(now|\d+ (s|min) ago)$"))
    assert not [text for text in seen.all_inner_texts() if "-" in text or "h" in text]


def _store_away(route: Route) -> None:
    route.fulfill(status=503, json={"detail": "cannot reach ClickHouse at x:8123", "away": "store"})


def _web_away(route: Route) -> None:
    route.abort()


@pytest.mark.parametrize(
    ("path", "answer", "told"),
    [
        (HOST, _store_away, "The store does not answer"),
        ("/profiling", _store_away, "The store does not answer"),
        ("/", _web_away, "warpmeter does not answer"),
    ],
    ids=["host", "profiling", "overview"],
)
def test_who_does_not_answer_is_said_once_and_what_was_shown_stays(
    tab: Visit, path: str, answer: Callable[[Route], None], told: str
) -> None:
    tab.open(path)
    drawn(tab.page)
    before = tab.page.locator(".wm-panel").all_inner_texts()
    tab.page.route("**/api/v1/**", answer)
    tab.page.evaluate("dispatchEvent(new Event('wm-refresh'))")
    alert = tab.page.get_by_role("alert")
    expect(alert).to_have_count(1)
    expect(alert).to_contain_text(told)
    expect(tab.page.locator(".wm-away").first).to_be_visible()
    assert [text.split("\n")[0] for text in before] == [
        text.split("\n")[0] for text in tab.page.locator(".wm-panel").all_inner_texts()
    ]
    tab.shot(f"away-{told.split()[1]}-{path.strip('/')[:4]}")
    tab.page.unroute_all()
    expect(alert).to_have_count(0)
    expect(tab.page.locator(".wm-away")).to_have_count(0)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_a_page_draws_without_complaint(
    browser: Browser, home: str, name: str, theme: str, width: int, patience_ms: int
) -> None:
    with visit(browser, home, width, "dark" if theme == "dark" else "light") as tab:
        tab.page.set_default_timeout(patience_ms)
        tab.page.goto(home + PAGES[name])
        drawn(tab.page)
        tab.shot(f"{name}-{theme}-{width}")
        assert complaints(tab) == []
        assert tab.foreign == []
        assert tab.barriers() == []
        assert not tab.overflows
        assert "warpmeter" in tab.page.title()
        assert tab.page.locator("h1").count() == 1


def test_the_overview_shows_the_fleet(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/?since=-2h")
    drawn(tab.page)
    for name in ("GPU utilisation", "SM active", "Power of a GPU"):
        assert tab.page.locator(".wm-stat", has_text=name).inner_text().split("\n")[1][0].isdigit()
    expect(tab.page.locator(".wm-heat canvas")).to_be_visible()
    for host in HOSTS:
        expect(tab.page.get_by_role("link", name=host, exact=True)).not_to_have_count(0)
    tab.page.wait_for_function(
        "[...document.querySelectorAll('.wm-spark path')].some((each) => each.getAttribute('d'))"
    )


def test_the_state_of_a_host_says_which_problems_it_has(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/?hosts.search={BARE}")
    drawn(tab.page)
    state = tab.page.get_by_role("region", name="Hosts").locator(".ag-row .wm-tag")
    expect(state).to_have_attribute("title", "perf: denied")


def test_a_link_reproduces_the_view(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/?since=-2h&metric=power_watts&order=value&theme=dark&refresh=off&hosts.sort=-host")
    drawn(tab.page)
    expect(tab.page.get_by_label("Metric")).to_have_value("power_watts")
    expect(tab.page.get_by_label("Order")).to_have_value("value")
    expect(tab.page.get_by_label("Refresh")).to_have_value("off")
    expect(tab.page.get_by_label("Theme")).to_have_value("dark")
    expect(tab.page.locator(".wm-range")).to_have_text("Last 2 h")
    expect(tab.page.locator(".wm-scale")).to_have_text(re.compile("W$"))
    first = tab.page.locator(".ag-row[row-index='0'] a").first
    expect(first).to_have_text(max(HOSTS))


def test_choices_go_into_the_address_and_back_undoes_them(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/")
    drawn(tab.page)
    tab.page.get_by_role("button", name="The last 6 hours").click()
    tab.page.wait_for_url("**/?since=-6h")
    tab.page.get_by_label("Metric").select_option("sm_active")
    tab.page.wait_for_url("**/?since=-6h&metric=sm_active")
    tab.page.go_back()
    tab.page.wait_for_url("**/?since=-6h")
    expect(tab.page.get_by_label("Metric")).to_have_value("gpu_util")
    tab.page.locator(".wm-range").click()
    tab.page.get_by_label("From", exact=True).fill("yesterday")
    tab.page.get_by_role("button", name="Show", exact=True).click()
    expect(tab.page.locator(".wm-pop [role=alert]")).to_contain_text("yesterday")
    tab.page.get_by_label("From", exact=True).fill("-90m")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/?since=-90m")
    assert complaints(tab) == []


def test_the_heatmap_offers_every_metric_that_is_kept_and_has_a_mean(tab: Visit) -> None:
    kept = {each.name: each.kind for each in of_topic("gpu-samples") if each.rolled_up}
    assert kept.pop("throttle_reasons") == "bits"
    tab.open("/")
    options = tab.page.get_by_label("Metric").locator("option")
    expect(options).to_have_count(len(kept))
    assert set(options.all_inner_texts()) == set(kept)


def test_dragging_over_a_chart_looks_closer(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/?since=-2h&refresh=off")
    drawn(tab.page)
    box = tab.page.locator(".wm-plot").first.bounding_box()
    assert box
    y = box["y"] + box["height"] / 2
    tab.page.mouse.move(box["x"] + 300, y)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 500, y, steps=4)
    tab.page.mouse.up()
    tab.page.wait_for_url("**since=20*until=20*")
    drawn(tab.page)
    assert complaints(tab) == []


def test_dragging_over_the_heatmap_looks_at_those_gpus_and_that_time_in_one_step(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/?since=-2h&refresh=off")
    drawn(tab.page)
    heat = tab.page.locator(".wm-heat")
    heat.scroll_into_view_if_needed()
    box = heat.bounding_box()
    assert box
    tab.page.mouse.move(box["x"] + 300, box["y"] + 2)
    tab.page.mouse.down()
    tab.page.mouse.move(box["x"] + 600, box["y"] + 25, steps=4)
    tab.page.mouse.up()
    tab.page.wait_for_url("**until=20*rows=*")
    expect(tab.page.get_by_role("button", name="All 7 GPUs")).to_be_visible()
    tab.page.go_back()
    tab.page.wait_for_url("**/?since=-2h&refresh=off")


def test_pointing_at_a_chart_tells_values_and_moves_the_crosshair_of_all(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/host/ant?since=-2h&refresh=off")
    drawn(tab.page)
    tab.page.locator(".wm-plot").first.hover()
    expect(tab.page.locator(".wm-tip")).to_contain_text("GPU 0")
    assert tab.page.locator(".wm-cross:not([hidden])").count() > 2
    for _ in range(20):  # the newest step is still being filled, and those after the rows were made have none
        tab.page.locator(".wm-plot").first.press("ArrowLeft")
    expect(tab.page.locator(".wm-tip")).to_contain_text("GPU 0")


def test_the_theme_is_remembered(tab: Visit) -> None:
    scheme = "getComputedStyle(document.documentElement).colorScheme"
    tab.page.goto(f"{tab.home}/hosts")
    tab.page.get_by_label("Theme").select_option("dark")
    tab.page.wait_for_url("**theme=dark")
    assert tab.page.evaluate(scheme) == "dark"
    tab.page.goto(f"{tab.home}/jobs")
    expect(tab.page.get_by_label("Theme")).to_have_value("dark")
    assert tab.page.evaluate(scheme) == "dark"


def test_states_filter_the_tables_and_a_table_can_be_had_as_csv(tab: Visit, tmp_path: Path) -> None:
    tab.page.goto(f"{tab.home}/?since=-2h")
    drawn(tab.page)
    tab.page.locator(".wm-state-buttons button", has_text="gone").click()
    tab.page.wait_for_url("**gpus=gone")
    table = tab.page.get_by_role("region", name="Hosts")
    gone = httpx.get(f"{tab.home}/api/v1/hosts", params={"gpus": "gone"}, timeout=60).json()["data"]
    expect(table.locator(".ag-row")).to_have_count(len(gone))
    assert ODD_HOST in [host["host"] for host in gone]
    with tab.page.expect_download() as saving:
        table.get_by_role("button", name="Download Hosts as CSV").click()
    saving.value.save_as(tmp_path / "hosts.csv")
    lines = (tmp_path / "hosts.csv").read_text().splitlines()
    assert lines[0].startswith("host,state")
    assert len(lines) == 1 + len(gone)
    table.get_by_role("searchbox").fill("no such host")
    expect(table).to_contain_text("Nothing matches the filter")


def test_a_host_says_what_happened_and_why_there_is_nothing_to_show(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/host/ant?since=-3h")
    drawn(tab.page)
    for title in ("GPU Utilization", "L3 Cache Hit Ratio", "Network Bandwidth"):
        expect(tab.page.get_by_role("heading", name=title)).not_to_have_count(0)
    expect(tab.page.get_by_role("region", name="Events")).to_contain_text("XID 79")
    expect(tab.page.get_by_role("region", name="L3 Cache Hit Ratio")).to_contain_text("Not measured")
    expect(tab.page.get_by_role("region", name="Jobs").locator("a")).to_have_count(1)
    tab.page.get_by_role("region", name="Jobs").locator("a").click()
    tab.page.wait_for_url("**/job?id=*")
    expect(tab.page.locator("h1")).to_contain_text(ODD_JOB)


def test_a_host_without_a_gpu_says_so_in_words(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/host/{BARE}")
    drawn(tab.page)
    for title in ("GPU Utilization", "GPU SM Activity"):
        expect(tab.page.get_by_role("region", name=title)).to_contain_text("no NVIDIA driver")
    expect(tab.page.get_by_role("region", name="GPUs now")).to_contain_text("This host has no GPU")
    for title in ("Throttling", "Tensor cores active", "NVLink sent"):
        expect(tab.page.get_by_role("region", name=title)).to_have_count(0)
    expect(tab.page.get_by_role("region", name="CPU Utilization").locator("canvas")).to_be_visible()
    assert complaints(tab) == []


def test_panels_of_a_page_share_what_they_ask(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/host/ant?refresh=off")
    drawn(tab.page)
    asked = "performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => name.includes('/api/'))"
    found = tab.page.evaluate(asked)
    assert len(found) == len(set(found)) <= 15


def test_a_panel_of_gpus_gives_the_reason_of_the_gpus_source(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/host/ant")
    drawn(tab.page)
    told = tab.page.evaluate("""async () => {
        const { reasons } = await import("warpmeter-ui/lines.js");
        const failed = (source) => ({ source, subject: "", state: "unsupported", why: `no ${source}` });
        const sources = [failed("cpu_counters"), failed("gpu"), failed("gpu-events")];
        const say = (metric, topic) => reasons([{ metric, topic }], sources, "");
        return [say("power_watts", "gpu-samples"), say("l3_hit_ratio", "device-samples")];
    }""")
    assert told == ["gpu unsupported: no gpu", "cpu_counters unsupported: no cpu_counters"]


def test_a_job_begins_with_its_own_time(tab: Visit) -> None:
    tab.page.goto(tab.home + JOB)
    drawn(tab.page)
    assert "since=20" in tab.page.url
    expect(tab.page.get_by_role("region", name="Ranks side by side")).to_contain_text("ant")
    expect(tab.page.locator(".wm-heat canvas")).to_be_visible()


def test_a_job_opened_while_the_store_is_away_takes_its_own_time_once_that_is_known(tab: Visit) -> None:
    tab.page.route("**/api/v1/**", _store_away)
    tab.page.goto(tab.home + JOB)
    expect(tab.page.get_by_role("alert").first).to_contain_text("The store does not answer")
    assert "since=" not in tab.page.url
    tab.page.unroute_all()
    tab.page.wait_for_url("**since=20*")
    expect(tab.page.get_by_role("region", name="Ranks side by side")).to_contain_text("ant")


def test_the_keyboard_alone_reaches_a_host(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/hosts")
    drawn(tab.page)
    tab.page.keyboard.press("Tab")
    expect(tab.page.locator(".wm-skip")).to_be_focused()
    tab.page.keyboard.press("Enter")
    link = tab.page.locator(".ag-row a").first
    for _ in range(60):
        if link.evaluate("link => [link, link.closest('.ag-cell')].includes(document.activeElement)"):
            break
        tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/host/*")


INSIDE = "document.activeElement.closest('.ag-root') !== null"
CELL = """(({ activeElement: cell }) =>
    [cell.closest(".ag-row")?.getAttribute("row-index"), cell.getAttribute("col-id")])(document)"""


def test_a_table_is_one_stop_of_tab_and_arrows_go_through_it(tab: Visit) -> None:
    page = tab.page
    page.goto(f"{tab.home}/hosts")
    drawn(page)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(INSIDE):
            break
    assert page.evaluate(CELL) == ["0", "host"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(CELL) == ["1", "state"]
    host = page.locator(".ag-row[row-index='1'] a").inner_text()
    page.keyboard.press("Tab")
    assert not page.evaluate(INSIDE)
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(CELL) == ["1", "state"]
    page.keyboard.press("Enter")  # there is no link in the cell: that of its row
    page.wait_for_url("**/host/*")
    expect(page.locator("h1")).to_have_text(host)
    page.go_back()
    drawn(page)
    page.locator(".ag-row[row-index='0'] .ag-cell").first.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**hosts.sort=*")
    page.keyboard.press("Shift+Tab")
    assert not page.evaluate(INSIDE)
    assert (complaints(tab), tab.barriers()) == ([], [])


def test_on_a_phone_what_can_be_done_with_a_capture_is_in_sight(browser: Browser, home: str) -> None:
    with visit(browser, home, 390) as seen:
        seen.open("/profiling")
        expect(seen.page.get_by_role("button", name="Cancel")).to_be_in_viewport(ratio=1)
        seen.page.get_by_role("button", name="long").click()
        expect(seen.page.get_by_text("No scheduler has taken it yet")).to_be_in_viewport(ratio=1)
        seen.shot("profiling-phone")
        assert (seen.barriers(), seen.overflows) == ([], False)


def test_the_keyboard_alone_goes_from_the_heatmap_to_a_host(tab: Visit) -> None:
    tab.page.goto(f"{tab.home}/?since=-2h&order=value&refresh=off")
    drawn(tab.page)
    heat = tab.page.locator(".wm-heat")
    heat.press("ArrowDown")
    expect(heat.locator(".wm-tip")).to_contain_text("GPU")
    host = heat.locator(".wm-tip b").inner_text().rsplit(" GPU ", 1)[0]
    heat.press("Enter")
    tab.page.wait_for_url("**/host/*")
    expect(tab.page.locator("h1")).to_have_text(host)


def test_a_host_or_job_that_nobody_heard_of_is_said_once(tab: Visit) -> None:
    for address in ("/host/nope", "/job?id=nope"):
        tab.page.goto(tab.home + address)
        expect(tab.page.locator(".wm-panel").filter(visible=True)).to_have_count(1)
        expect(tab.page.get_by_role("alert").filter(visible=True)).to_contain_text("nothing has been heard")
    tab.page.goto(f"{tab.home}/job")
    tab.page.wait_for_url("**/jobs")


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_asks_ahead_is_what_its_panels_ask(tab: Visit, name: str) -> None:
    address = PAGES[name]
    chosen = "since=-2h&metric=sm_active&gpus=busy&hosts.search=n&hosts.sort=-host&jobs.page=0&refresh=off"
    tab.page.goto(f"{tab.home}{address}{'&' if '?' in address else '?'}{chosen}")
    assert tab.page.evaluate("JSON.parse(document.getElementById('wm-early').textContent).length")
    drawn(tab.page)
    assert tab.page.evaluate("import('warpmeter-ui/asking.js').then(({ ahead }) => [...ahead.keys()])") == []
    assert complaints(tab) == []
