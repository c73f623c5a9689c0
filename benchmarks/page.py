"""How long pages take until they are usable, in a browser, over a large fleet.

A week of minutes of 1,250 hosts of 8 GPUs (benchmarks/minutes.py, kept in the cache) behind a real engine process and a
real web process; the machine's own Chromium opens each page in a context of its own: once with nothing in its cache
(cold), once more in another tab with what the first left there (warm), with another window, so that no answer is.

A page is usable when every panel in its window (of Overview: every panel) has its answer and shows it: figures are
figures, charts and heatmap have their canvas, tables have rows or say why they have none; but for *Launch*, which asks
agents over Kafka, and here is none. The time is the browser's
own, from the begin of the navigation to the frame after that.

Where it went: until the first byte of the page; the libraries (until the last of them was there, and their bytes over
the wire); requests of the API (how many, when the first went out, when the last answer was there); the longest task of
the page's own thread; and CPU time, which tells more than the clock on a machine that has other work: its load, and
the share of a core that a busy loop was given, are printed for that.

Claim: Overview is usable in 1.5 s, cold, in the median, on two idle cores. `--against FOLDER` puts another checkout's
web beside ours, on the same engine in turns, and adds the ratio of ours to theirs, in time and in CPU time.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `benchmarks`, when run as a file

import psutil
from playwright.sync_api import Browser, BrowserContext

from benchmarks.fleet import print_table
from benchmarks.latest import JOB_MINUTES
from benchmarks.minutes import Minutes, made
from benchmarks.web import answering
from tests.browser.visits import chromium
from tests.engine import EngineServer

ROUNDS: Final = 9
USABLE_MS: Final = 1500
WINDOW: Final = {"width": 1440, "height": 900}
PATIENCE_MS: Final = 120_000
WHOLE: Final = "Overview"
"""Of this page every panel counts, be it in sight or not."""

WATCH: Final = """(whole) => {
  const told = (globalThis.warpmeterBench = { usable: null, tasks: [] });
  const noted = (list) => told.tasks.push(...list.getEntries().map((task) => [task.startTime, task.duration]));
  new PerformanceObserver(noted).observe({ type: "longtask", buffered: true });
  const there = (element) => element.offsetParent !== null;
  const seen = (element) => whole || element.getBoundingClientRect().top < innerHeight;
  const shows = (panel) =>
    panel.ariaBusy === "false" &&
    [...panel.querySelectorAll(".wm-stat b")].every((figure) => /\\d|–/.test(figure.innerText)) &&
    [...panel.querySelectorAll(".wm-chart")].filter(there).every((chart) => chart.querySelector("canvas")) &&
    [...panel.querySelectorAll(".wm-heat > canvas")].every((canvas) => canvas.style.width) &&
    [...panel.querySelectorAll(".wm-grid")].every(() => panel.querySelector(".ag-row, .wm-empty"));
  const usable = () => {
    const panels = [...document.querySelectorAll("section[aria-busy]")];
    if (!panels.length || (whole && panels.some((panel) => panel.ariaBusy === "true"))) return false;
    return panels.filter((panel) => there(panel) && seen(panel) && !panel.querySelector(".wm-launch")).every(shows);
  };
  const look = () => {
    if (usable()) requestAnimationFrame(() => setTimeout(() => (told.usable = performance.now())));
    else setTimeout(look, 20);
  };
  addEventListener("DOMContentLoaded", look);
}"""
TELL: Final = """() => ({
  ...warpmeterBench,
  errors: [...document.querySelectorAll("section:not(:has(.wm-launch)) > [role=alert]")]
    .map((alert) => alert.innerText).filter(Boolean),
  first: performance.getEntriesByType("navigation")[0].responseStart,
  loaded: performance.getEntriesByType("resource")
    .map(({ name, startTime, responseEnd, transferSize }) => [name, startTime, responseEnd, transferSize]),
  modules: JSON.parse(document.querySelector("script[type=importmap]").textContent).imports,
})"""


def pages(shape: Minutes) -> Mapping[str, str]:
    """Name and address of what is opened, without the window."""
    job = f"job-75-{shape.days * 1440 // JOB_MINUTES - 1}"
    return {WHOLE: "/?", "Host": "/host/gpu-0600?", "Job": f"/job?id={job}&", "Profiling": "/profiling?"}


def window(shape: Minutes, turn: int) -> str:
    """An hour, for each turn another one."""
    until = shape.until - 60 * turn
    since, until_text = (datetime.fromtimestamp(at, UTC).strftime("%FT%TZ") for at in (until - 3600, until))
    return f"since={since}&until={until_text}"


@dataclass(frozen=True)
class Loaded:
    """A file or an answer: its address, when it was asked for and had, in ms; bytes over the wire, 0 from the cache."""

    url: str
    began: float
    ended: float
    size: int

    def kind(self, modules: Mapping[str, str]) -> str:
        """`api`, `echart`, `aggrid`, `ours` (panels and their modules) or `nicegui` (all else: Vue, Quasar, styles).

        `modules` are the page's own map of imports.
        """
        if "/api/v1/" in self.url:
            return "api"
        for library in ("echart", "aggrid"):
            if modules.get(f"nicegui-{library}/", "?") in self.url:
                return library
        return "ours" if "/components/" in self.url or "/esm/" in self.url else "nicegui"


@dataclass(frozen=True)
class Seen:
    """One visit; times in ms since it began, of CPU in ms."""

    usable: float
    first_byte: float
    tasks: Sequence[tuple[float, float]]
    loaded: Sequence[tuple[str, Loaded]]
    web_cpu: float
    engine_cpu: float
    browser_cpu: float

    def figures(self) -> dict[str, float]:
        """What is told of it; every kind of file by the last one's end and its kB."""
        found = {"usable": self.usable, "first byte": self.first_byte}
        for kind in ("nicegui", "ours", "echart", "aggrid", "api"):
            mine = [each for named, each in self.loaded if named == kind and each.began < self.usable]
            found[f"{kind} requests"] = len(mine)
            found[f"{kind} first"] = min((each.began for each in mine), default=0)
            found[f"{kind} last"] = max((each.ended for each in mine), default=0)
            found[f"{kind} kB"] = sum(each.size for each in mine) / 1e3
        tasks = [length for began, length in self.tasks if began < self.usable]
        found["longest task"], found["long tasks"] = max(tasks, default=0), sum(tasks)
        found["CPU"] = self.web_cpu + self.engine_cpu + self.browser_cpu
        return found | {"web CPU": self.web_cpu, "engine CPU": self.engine_cpu, "browser CPU": self.browser_cpu}


Webs = Mapping[str, tuple[str, psutil.Process]]
"""Each web's address and process, by name; ours has none."""


class Bench:
    """A browser, the engine, and the webs that are compared."""

    def __init__(self, browser: Browser, engine: psutil.Process, webs: Webs) -> None:
        self._browser, self._engine, self._webs = browser, engine, webs

    def round(self, address: Callable[[int], str], turn: int, whole: bool) -> Iterator[tuple[str, str, Seen]]:
        """Every web once, cold and warm; who begins changes."""
        order = list(self._webs.items())
        for name, (url, process) in order if turn % 2 else reversed(order):
            context = self._browser.new_context(viewport=WINDOW)  # type: ignore[arg-type]
            context.add_init_script(f"({WATCH})({str(whole).lower()})")
            with closing(context):
                for at, cache in enumerate(("cold", "warm")):
                    yield name, cache, self._visit(context, url + address(2 * turn + at), process)

    def _visit(self, context: BrowserContext, url: str, web: psutil.Process) -> Seen:
        page = context.new_page()
        _settled()
        servers, browsers = (web, self._engine), _browsers()
        used = [_cpu_ms(each) for each in servers]
        page.goto(url, wait_until="commit")
        page.wait_for_function("globalThis.warpmeterBench?.usable", timeout=PATIENCE_MS)
        used = [*(_cpu_ms(each) - was for each, was in zip(servers, used, strict=True)), _more(browsers)]
        told: dict[str, Any] = page.evaluate(TELL)
        if told["errors"]:
            raise SystemExit(f"{url}: {told['errors']}")
        page.close()
        files = [Loaded(*each) for each in told["loaded"]]
        return Seen(told["usable"], told["first"], told["tasks"], [(f.kind(told["modules"]), f) for f in files], *used)


def _settled() -> None:
    """Return once the browser has made its window, which is no page's doing; 5 s at most."""
    deadline, quiet = time.monotonic() + 5, 0
    while quiet < 3 and time.monotonic() < deadline:
        before = _browsers()
        time.sleep(0.1)
        quiet = quiet + 1 if _more(before) < 20 else 0


def _browsers() -> dict[int, float]:
    """CPU ms of Chromium's processes, by their numbers."""
    found = {}
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "chrom" in each.name():
                found[each.pid] = _cpu_ms(each)
    return found


def _more(before: Mapping[int, float]) -> float:
    """CPU ms of Chromium since then."""
    return sum(used - before.get(pid, 0) for pid, used in _browsers().items())


def _cpu_ms(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2])) * 1e3


def given_share() -> float:
    """The share of a core that a busy loop is given."""
    wall, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < 0.1:
        pass
    return (time.process_time() - cpu) / (time.perf_counter() - wall)


@contextmanager
def serving(folder: Path, against: Path | None) -> Iterator[tuple[EngineServer, Webs]]:
    """The engine, and each web by name."""
    with ExitStack() as stack:
        engine = stack.enter_context(closing(EngineServer(folder)))
        webs = {"": stack.enter_context(answering(engine.url, folder.with_name("web.log")))[1:]}
        if against:
            with _from(against):
                webs["against"] = stack.enter_context(answering(engine.url, folder.with_name("against.log")))[1:]
        yield engine, webs


@contextmanager
def _from(checkout: Path) -> Iterator[None]:
    """What is started in here is of another checkout."""
    os.environ["PYTHONPATH"] = str(checkout.resolve() / "src")
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]


@dataclass(frozen=True)
class Result:
    """Of one page, web and cache: each figure's values over the rounds."""

    page: str
    web: str
    cache: str
    figures: Mapping[str, Sequence[float]]

    def p50(self, name: str) -> float:
        """The median of a figure."""
        return statistics.median(self.figures[name])

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        names = {"page": self.page, "web": self.web or "ours", "cache": self.cache}
        found = self.figures.items()
        return names | {name: {"p50": round(self.p50(name), 1), "max": round(max(values), 1)} for name, values in found}


def measured(bench: Bench, shape: Minutes, wanted: str, rounds: int) -> tuple[list[Result], dict[str, float]]:
    """All pages whose name has `wanted`, and how busy the machine was meanwhile. One round is not counted."""
    seen: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    loads, shares = [], []
    for turn in range(rounds + 1):
        for name, path in pages(shape).items():
            if wanted.lower() not in name.lower():
                continue
            loads.append(os.getloadavg()[0])
            shares.append(given_share())
            for web, cache, visit in bench.round(lambda at, path=path: path + window(shape, at), turn, name == WHOLE):  # type: ignore[misc]
                if turn:
                    seen.setdefault((name, web, cache), []).append(visit.figures())
    results = [Result(*key, {name: [each[name] for each in found] for name in found[0]}) for key, found in seen.items()]
    busy = {"cores": os.cpu_count() or 0, "load": statistics.median(loads), "share": statistics.median(shares)}
    return results, busy


COLUMNS: Final = {
    "first byte": "first byte",
    "NiceGUI": "nicegui last",
    "kB": "nicegui kB",
    "panels": "ours last",
    "n": "ours requests",
    "ECharts": "echart last",
    "kB ": "echart kB",
    "AG Grid": "aggrid last",
    "kB  ": "aggrid kB",
    "API from": "api first",
    "to": "api last",
    "n ": "api requests",
    "longest task": "longest task",
    "long tasks": "long tasks",
    "CPU web": "web CPU",
    "engine": "engine CPU",
    "browser": "browser CPU",
}


def show(results: Sequence[Result], shape: Minutes, rounds: int, busy: Mapping[str, float]) -> None:
    """One table."""
    title = (
        f"{shape.hosts * 8:,} GPUs, {shape.days} days of minutes; {rounds} rounds, medians, ms; "
        f"{busy['cores']:.0f} cores, load {busy['load']:.1f}, a busy loop was given {busy['share']:.0%} of one"
    )
    rows = []
    for each in results:
        name = f"{each.page}, {each.cache}" + (f", {each.web}" if each.web else "")
        usable = [f"{each.p50('usable'):.0f}", f"{max(each.figures['usable']):.0f}"]
        ratios = [ratio(each, results, figure) for figure in ("usable", "CPU")]
        rows.append([name, *usable, *ratios, *(f"{each.p50(figure):.0f}" for figure in COLUMNS.values())])
    print_table(title, ["page", "usable", "max", "ratio", "of CPU", *COLUMNS], rows)


def ratio(one: Result, results: Sequence[Result], figure: str) -> str:
    """The median of ours to the other's in the same round; '' of the other, and without one."""
    others = [each for each in results if each.web and (each.page, each.cache) == (one.page, one.cache)]
    if one.web or not others:
        return ""
    pairs = zip(one.figures[figure], others[0].figures[figure], strict=True)
    return f"{statistics.median(ours / theirs for ours, theirs in pairs):.2f}"


def main() -> int:
    """Visit all, print one table; 1 when the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="pages whose name has this")
    parser.add_argument("--against", type=Path, help="another checkout, to compare with")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    given = parser.parse_args()
    folder, shape = made(given.hosts, given.days)
    if not any(given.only.lower() in name.lower() for name in pages(shape)):
        parser.error(f"no page has {given.only!r} in its name; there are {', '.join(pages(shape))}")
    with serving(folder, given.against) as (engine, webs), chromium() as browser:
        bench = Bench(browser, psutil.Process(engine.process.pid), webs)
        results, busy = measured(bench, shape, given.only, given.rounds)
    if given.json:
        print(json.dumps({"machine": busy, "pages": [each.document() for each in results]}, indent=2))
    else:
        show(results, shape, given.rounds, busy)
    slow = [each for each in results if (each.page, each.web, each.cache) == (WHOLE, "", "cold")]
    return int(any(each.p50("usable") > USABLE_MS for each in slow))


if __name__ == "__main__":
    sys.exit(main())
