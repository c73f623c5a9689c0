"""pandas' frames of a store with planted facts: over HTTP, in a process, over the API; and the notebook of docs.

What a frame holds is worked out from the rows that were landed.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import nbformat
import numpy as np
import pandas as pd
import pytest
from nbclient import NotebookClient

import warpmeter
from tests.cookbook_world import KERNELS, PERIOD_S, Row, World, idle, planted
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import store_settings
from tests.web_process import WebProcess
from warpmeter import queries
from warpmeter.frames import AskError, Frames, unit
from warpmeter.settings import Settings, Store, Token, Web
from warpmeter.store import connect

pytestmark = pytest.mark.long

HOUR: Final = 3600
PAGE: Final = Path(__file__).parents[2] / "docs" / "pandas.md"
NOTEBOOK: Final = Path(__file__).parents[2] / "docs" / "analysis.ipynb"
VIEWER: Final = "viewer-0123456789abcdef"
OPERATOR: Final = "operator-0123456789abcdef"


@dataclass(frozen=True)
class Site:
    """An engine with the planted facts."""

    url: str
    engine: EngineServer
    world: World


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(with_tables(tmp_path_factory.mktemp("frames") / "engine")) as engine:
        writing = store_settings(engine)
        with closing(connect(writing)) as client:
            world = planted(client, writing)
        yield Site(engine.url, engine, world)


@pytest.fixture(scope="module")
def wm(site: Site) -> Iterator[Any]:
    """Frames; not typed, for what is in their columns no type tells."""
    with warpmeter.connect(site.url, tz="Europe/Berlin") as found:
        yield found


def of_gpu(world: World, host: str, gpu: int) -> list[Row]:
    return [sample for sample in world.week() if (sample["host"], sample["gpu"]) == (host, gpu)]


def means(samples: list[Row], column: str, factor: float, step_s: int = HOUR) -> dict[int, float]:
    """By the begin of each step."""
    found: dict[int, list[float]] = {}
    for sample in samples:
        found.setdefault(int(sample["ts"]) // step_s * step_s, []).append(sample[column] * factor)
    return {at: sum(values) / len(values) for at, values in found.items()}


# --- types, units, times -----------------------------------------------------------------------------------------


def test_columns_have_the_types_units_and_times_of_what_they_are(wm: Any, site: Site) -> None:
    found = wm.gpus()
    kinds = {name: str(kind) for name, kind in found.dtypes.items()}
    expected = {
        "host": "category", "gpu": "uint8", "uuid": "string", "model": "category", "state": "category",
        "gpu_util": "float64", "fb_used_bytes": "UInt64", "temperature_celsius": "UInt8", "job_ids": "object",
        "last_seen_at": "datetime64[ms, Europe/Berlin]", "idle_since": "datetime64[ms, Europe/Berlin]",
    }  # fmt: skip
    assert {name: kinds[name] for name in expected} == expected
    units = {name: unit(found[name]) for name in ("power_watts", "gpu_util", "fb_used_bytes", "host")}
    assert units == {"power_watts": "W", "gpu_util": "ratio 0-1", "fb_used_bytes": "B", "host": ""}
    assert unit(found[found["host"] == "ant"].copy()["power_watts"]) == "W"
    last = {(s["host"], s["gpu"]): s["ts"] for s in site.world.gpus}
    assert {(r.host, r.gpu): r.last_seen_at.timestamp() for r in found.itertuples()} == last


def test_what_is_not_known_stays_unknown(wm: Any) -> None:
    found = wm.sql(
        "SELECT toNullable(number = 0 ? 7 : NULL) AS n, number = 0 ? 0.5 : NULL AS f, number = 0 ? true : NULL AS b, "
        "number = 0 ? 'x' : NULL AS s, number = 0 ? now() : NULL AS t, today() AS d, true AS plain FROM numbers(2)"
    )
    kinds = [str(kind) for kind in found.dtypes]
    assert kinds[:4] == ["UInt8", "float64", "boolean", "string"]
    assert (kinds[4].startswith("datetime64[s, Europe"), kinds[5], kinds[6]) == (True, "datetime64[s]", "bool")
    assert found.iloc[1, :5].isna().all()
    assert found.iloc[0].notna().all()


def test_an_answer_without_rows_has_its_columns_and_their_types(wm: Any) -> None:
    full, none = wm.gpus(), wm.gpus(host="nobody")
    assert len(none) == 0
    assert dict(none.dtypes.astype(str)) == dict(full.dtypes.astype(str))


@pytest.mark.parametrize("said", ["2026-01-01 12:00", pd.Timestamp("2026-01-01 11:00", tz="UTC"), 1767265200])
def test_a_time_is_the_same_however_it_is_said(wm: Any, said: Any) -> None:
    found = wm.sql("SELECT {t:DateTime} AS a, {t:DateTime64(3)} AS b, {t:DateTime('UTC')} AS c", t=said)
    assert [found[name][0] for name in "abc"] == [pd.Timestamp("2026-01-01 12:00", tz="Europe/Berlin")] * 3


def test_parameters_of_every_kind_arrive(wm: Any) -> None:
    hard = 'it\'s \\ "x" {y:String} ü'
    found = wm.sql(
        "SELECT {s:String} AS s, {l:Array(String)} AS l, {n:Nullable(UInt8)} AS n, {b:Bool} AS b, {d:Date} AS d",
        s=hard, l=[hard, "b"], n=None, b=True, d="2026-01-31",
    )  # fmt: skip
    assert found["s"][0] == hard
    assert list(found["l"][0]) == [hard, "b"]
    assert found["n"].isna().all()
    assert (bool(found["b"][0]), found["d"][0]) == (True, pd.Timestamp("2026-01-31"))


# --- over time ---------------------------------------------------------------------------------------------------


def test_a_heatmap_is_gpus_by_time(wm: Any, site: Site) -> None:
    world = site.world
    found = wm.heatmap("sm_active", pd.Timestamp(world.since, unit="s", tz="UTC"), world.hour, "1h")
    assert list(found.index.names) == ["host", "gpu", "uuid"]
    assert (found.shape, str(found.columns.tz)) == ((7, 168), "Europe/Berlin")
    assert {key: found.attrs[key] for key in ("metric", "unit", "step_s")} == {
        "metric": "sm_active", "unit": "ratio 0-1", "step_s": HOUR,
    }  # fmt: skip
    for host, gpu, uuid in found.index:
        expected = means(of_gpu(world, host, gpu), "sm_active_permille", 0.001)
        row = found.loc[(host, gpu, uuid)]
        told = {int(at.timestamp()): value for at, value in row.items() if not np.isnan(value)}
        assert told == pytest.approx(expected, abs=0.00051)
    assert np.isnan(found.loc["dog"].iloc[0, -1])  # silent since a day: not known, not zero


def test_a_heatmap_of_hosts_of_a_job_or_of_seconds_is_narrowed(wm: Any, site: Site) -> None:
    window = (site.world.since, site.world.hour)
    both = wm.heatmap("gpu_util", *window, "6h", hosts=["cow", "ant"])
    assert sorted(set(both.index.get_level_values("host"))) == ["ant", "cow"]
    many = wm.heatmap("gpu_util", *window, "6h", hosts=["cow", *(f"h{n}" for n in range(30))])
    assert set(many.index.get_level_values("host")) == {"cow"}
    of_job = wm.heatmap("gpu_util", *window, "6h", job="tune-1")
    assert list(of_job.index) == [("cow", 0, "GPU-4")]
    raw = wm.heatmap("gpu_util", site.world.hour - 1200, site.world.hour, "30s")
    assert raw.shape == (6, 40)  # without the host that is silent
    assert raw.notna().to_numpy().sum() == 6  # a sample of each
    assert wm.heatmap("gpu_util", *window, job="no such job").shape[0] == 0


def test_series_are_lines_over_time(wm: Any, site: Site) -> None:
    world = site.world
    window = (world.since, world.hour, timedelta(hours=1))
    gpus = wm.series("power_watts", *window, host="ant")
    assert sorted(gpus.columns) == ["ant/0", "ant/1"]
    expected = means(of_gpu(world, "ant", 1), "power_deciwatts", 0.1)
    assert {int(at.timestamp()): value for at, value in gpus["ant/1"].items()} == pytest.approx(expected, abs=0.01)
    assert list(wm.series("power_watts", *window, host="ant", gpu=1).columns) == ["ant/1"]
    fleet = wm.series("gpu_util", *window)
    every = means(world.week(), "gpu_util_permille", 0.001)
    assert {int(at.timestamp()): value for at, value in fleet["fleet"].items()} == pytest.approx(every, abs=0.0001)
    by_job = wm.series("gpu_util", *window, by="job")
    assert set(by_job.columns) == {"llm-1", "llm-2", "tune-1", "tune-2", "gone-1"}
    assert set(wm.series("cpu_util", *window).columns) == {"ant", "bee", "cow", "dog"}
    assert unit(gpus["ant/0"]) == "W"
    with pytest.warns(UserWarning, match="2 of 7 series"):
        assert wm.series("gpu_util", *window, by="gpu", top=2).shape[1] == 2


def test_figures_show_units_and_leave_nothing_open(wm: Any, site: Site, tmp_path: Path) -> None:
    window = (site.world.since, site.world.hour)
    from matplotlib import rcParams

    before = dict(rcParams)
    heat = wm.plot_heatmap(wm.heatmap("sm_active", *window))
    lines = wm.plot_series(wm.series("power_watts", *window, by="host"))
    heat.figure.savefig(tmp_path / "heat.png")
    lines.figure.savefig(tmp_path / "lines.png")
    assert [text.get_text() for text in heat.get_yticklabels()] == [
        "ant/0",
        "ant/1",
        "bee/0",
        "bee/1",
        "cow/0",
        "cow/1",
        "dog/0",
    ]
    assert (heat.get_xlabel(), lines.get_ylabel()) == ("Europe/Berlin", "power_watts [W]")
    assert sorted(line.get_label() for line in lines.get_lines()) == ["ant", "bee", "cow", "dog"]
    assert dict(rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    with pytest.raises(AskError, match="no GPUs"):
        wm.plot_heatmap(wm.heatmap("sm_active", *window, job="no such job"))
    with pytest.raises(AskError, match="no heatmap"):
        wm.plot_heatmap(wm.hosts())


# --- what there is -----------------------------------------------------------------------------------------------


def test_views_are_frames_that_can_be_narrowed(wm: Any, site: Site) -> None:
    world = site.world
    assert sorted(wm.hosts()["host"]) == ["ant", "bee", "cow", "dog"]
    probes = {f"probe-{number}" for number in (1, 2, 3, 4)}
    assert set(wm.jobs(world.since)["job_id"]) == {"llm-1", "llm-2", "tune-1", "tune-2", "gone-1", *probes}
    assert list(wm.jobs(world.since, state="running", user="ann")["job_id"]) == ["llm-2"]
    assert list(wm.jobs(world.at(150), account="vision")["job_id"]) == ["llm-2"]
    assert list(wm.captures(world.since)["capture_id"]) == ["c-2", "c-1"]
    assert list(wm.alerts(world.since, state="firing")["alert_id"]) == ["a-1", "a-5"]
    kernels = wm.trace_kernels("after", rank=1)
    assert dict(zip(kernels["name"], kernels["total_ns"], strict=True)) == {
        name: total for name, (total, _) in KERNELS["after"].items()
    }
    with pytest.raises(AskError, match="nothing of a capture 'nix'"):
        wm.trace_kernels("nix")


def test_a_named_query_takes_times_and_numbers_as_they_are(wm: Any, site: Site) -> None:
    since = pd.Timestamp(site.world.since, unit="s", tz="UTC")
    found = wm.query("gpus_behind_their_model", since=since, until=site.world.hour, behind=0.1)
    assert list(zip(found["host"], found["gpu"], strict=True)) == [("ant", 1)]
    assert unit(found["sm_clock_hertz"]) == "Hz"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (lambda wm: wm.sql("SELECT sm_activ FROM gpus"), "no column sm_activ; did you mean sm_active"),
        (lambda wm: wm.sql("SELECT * FROM gpuss"), "no table or view gpuss; did you mean gpus"),
        (lambda wm: wm.sql("SELECT (1"), "ends too early"),
        (lambda wm: wm.query("gpu_hours_by_teams"), "no query gpu_hours_by_teams; did you mean gpu_hours_by_team"),
        (lambda wm: wm.query("gpu_hours_by_team", since=None), "since is None"),
        (lambda wm: wm.query("gpu_hours_by_team", sinc="-1d"), "no parameter sinc; it has since"),
        (lambda wm: wm.query("capture_kernels"), "needs capture_id"),
        (lambda wm: wm.heatmap("sm_activ"), "no metric sm_activ; did you mean sm_active"),
        (lambda wm: wm.heatmap("cpu_util"), "is of hosts"),
        (lambda wm: wm.series("cpu_util", gpu=1), "no line of a GPU"),
        (lambda wm: wm.heatmap("sm_active", "now", "-1h"), "window is empty"),
        (lambda wm: wm.heatmap("sm_active", "-30d", step=1), "more than 100,000"),
        (lambda wm: wm.stream("SELECT 1", rows=0), "at least one"),
    ],
)
def test_what_cannot_be_answered_says_what_to_do(wm: Any, asked: Any, why: str) -> None:
    with pytest.raises(AskError, match=why):
        asked(wm)


# --- large answers -----------------------------------------------------------------------------------------------


def test_a_stream_comes_in_frames_and_lets_others_ask_meanwhile(wm: Any) -> None:
    sizes, total = [], 0
    for part in wm.stream("SELECT number, toNullable(number % 7) AS n FROM numbers(250001)", rows=100_000):
        sizes.append(len(part))
        total += int(part["number"].sum())
        assert (str(part["n"].dtype), part.index[0]) == ("UInt8", 0)
    assert (sizes, total) == ([100_000, 100_000, 50_001], 250_000 * 250_001 // 2)
    endless = wm.stream("SELECT number FROM system.numbers", rows=10)
    assert list(next(endless)["number"]) == list(range(10))
    assert wm.sql("SELECT 1 AS x")["x"][0] == 1
    endless.close()
    assert list(wm.stream("SELECT 1 AS x WHERE 0")) == []
    with pytest.raises(AskError, match="that far"):
        list(wm.stream("SELECT throwIf(number = 1000000, 'that far') FROM numbers(2000000)"))


MEMORY: Final = """
import resource, sys
import warpmeter
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
with warpmeter.connect(sys.argv[1]) as wm:
    sql = "SELECT number AS a, number / 3 AS b, toString(number) AS c FROM numbers({n:UInt64})"
    first = sum(len(part) for part in wm.stream(sql, n=200_000)), peak()
    all = sum(len(part) for part in wm.stream(sql, n=2_000_000)), peak()
print(*first, *all)
"""


def test_ten_times_the_rows_take_no_more_memory(site: Site) -> None:
    done = subprocess.run([sys.executable, "-c", MEMORY, site.url], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    few, before, many, after = map(int, done.stdout.split())
    assert (few, many) == (200_000, 2_000_000)
    assert after - before < 48  # MiB; the frame as a whole takes twice that and more


# --- where from --------------------------------------------------------------------------------------------------


def test_who_names_nothing_gets_the_store_of_the_settings(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPMETER_STORE__DSN", site.url)
    with warpmeter.connect() as found:
        assert len(found.hosts()) == 4


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for where, why in (
        (tmp_path, "no `warpmeter up` runs on"), ("http://127.0.0.1:1", "cannot reach ClickHouse at 127.0.0.1:1"),
        ("ftp://x", "ftp:// is no store"), ("http://127.0.0.1:1/api", None),
    ):  # fmt: skip
        if why is not None:
            with pytest.raises(AskError, match=why):
                warpmeter.connect(where)
            continue
        with pytest.raises(AskError, match="does not answer as warpmeter's API"):
            warpmeter.connect(where).hosts()
    with pytest.raises(AskError, match="no time zone"):
        warpmeter.connect("http://127.0.0.1:1", tz="Mars/Olympus")


def test_a_store_that_was_closed_answers_nothing(site: Site) -> None:
    with warpmeter.connect(site.url) as found:
        waiting = found.stream("SELECT 1")
    for ask in (found.hosts, lambda: next(waiting)):
        with pytest.raises(AskError, match="it is closed"):
            ask()


def test_the_api_gives_the_same_frames_to_whoever_may_ask(wm: Any, site: Site, tmp_path: Path) -> None:
    tokens = (Token("ann", "operator", OPERATOR), Token("bob", "viewer", VIEWER))
    settings = Settings(store=Store(dsn=site.url))
    with closing(WebProcess(tmp_path, Web(tokens=tokens, sql_rows=100), settings)) as web:
        url = web.ready().url
        mine, theirs = (warpmeter.connect(url, token=token, tz="Europe/Berlin") for token in (OPERATOR, VIEWER))
        window = (site.world.since, site.world.hour, "1h")
        pd.testing.assert_frame_equal(theirs.heatmap("sm_active", *window), wm.heatmap("sm_active", *window))
        named = ("gpu_hours_by_team", {"since": site.world.since, "until": site.world.hour})
        pd.testing.assert_frame_equal(theirs.query(named[0], **named[1]), wm.query(named[0], **named[1]))
        pd.testing.assert_frame_equal(mine.jobs(user="it's"), wm.jobs(user="it's"))
        jobs = ["job_id", "user", "state", "started_at", "ended_at", "gpus", "world_size", "hosts"]
        pd.testing.assert_frame_equal(mine.jobs()[jobs], wm.jobs()[jobs])
        for found, why in ((theirs, "operator"), (warpmeter.connect(url, token="x" * 20), "give a token")):
            with pytest.raises(AskError, match=why):
                found.hosts()
        with pytest.raises(AskError, match=r"100 rows at most \(web.sql_rows\)"):
            mine.sql("SELECT number FROM numbers(101)")
        with pytest.raises(AskError, match="sm_activ"):
            mine.sql("SELECT sm_activ FROM gpus")


IN_PROCESS: Final = """
import sys
import warpmeter
with warpmeter.connect(f"chdb://{sys.argv[1]}", database="warpmeter") as wm:
    rows = wm.heatmap("sm_active", "-7d", step="1d").shape[0]
    print(len(wm.hosts()), rows, sum(map(len, wm.stream("SELECT 1 FROM gpus"))))
"""


def test_what_the_page_shows_can_be_run(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WARPMETER_STORE__DSN", site.url)
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    assert (unit(names["df"]["power_watts"]), names["total"] > 0) == ("W", True)
    assert (tmp_path / "power.png").stat().st_size > 1000
    told = set(re.findall(r"`(\w+)\([^`]*\)`", page)) | {"hosts"}
    public = {name for name in dir(Frames) if not name.startswith("_")}
    assert public - {"close"} <= told | {"plot_heatmap", "plot_series"}
    names["wm"].close()


# --- the notebook ------------------------------------------------------------------------------------------------


def said(notebook: Any) -> str:
    """What its cells printed."""
    outputs = (each for cell in notebook.cells if cell.cell_type == "code" for each in cell.outputs)
    return "".join(each.text for each in outputs if each.output_type == "stream" and each.name == "stdout")


def test_the_notebook_finds_what_was_planted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPMETER_STORE__DSN", site.url)
    world = site.world
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shares = world.shares()
    held = sum(seconds for _, _, seconds in shares) / HOUR
    wasted = sum(seconds for _, sample, seconds in shares if idle(sample)) / HOUR
    worst = sum(seconds for job, sample, seconds in shares if job == "tune-1" and idle(sample)) / HOUR
    of_worst = sum(seconds for job, _, seconds in shares if job == "tune-1") / HOUR
    assert said(notebook).splitlines() == [
        f"{held:.0f} GPU hours were held, {wasted:.0f} of them wasted ({wasted / held:.1%})",
        f"tune-1 (tune.py of bob) wasted {worst:.0f} GPU hours, {worst / of_worst:.0%} of its own",
        f"idle in most hours that begin at: {nights(world)}",
        "llm-2: GPU 1 of bee has 0.50 times the median's sm_active",
        "softmax takes 2.50 times as long a call",
    ]
    kinds = [kind for cell in notebook.cells for each in cell.get("outputs", ()) for kind in each.get("data", {})]
    assert kinds.count("image/png") == 2


def nights(world: World) -> list[int]:
    """Hours of the day (UTC) at which the tuning job's GPU was idle."""
    resting = {int(sample["ts"]) // HOUR % 24 for sample in of_gpu(world, "cow", 0) if idle(sample)}
    assert len(resting) == 8
    assert PERIOD_S < HOUR
    return sorted(resting)


def test_the_notebook_is_kept_without_outputs_and_asks_what_there_is() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    asked = {part.split('"')[0] for cell in code for part in cell.source.split('wm.query("')[1:]}
    assert len(asked) >= 4
    assert asked <= set(queries.names())


def test_a_folder_is_read_by_the_engine_in_the_process(site: Site) -> None:
    """The last test of the module: the engine ends, for a folder is open in one process alone."""
    assert site.engine.close() == 0
    done = subprocess.run(
        [sys.executable, "-c", IN_PROCESS, str(site.engine.data)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4", "7", "7"]
