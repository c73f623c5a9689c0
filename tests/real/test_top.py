"""`warpmeter top` over a real engine and a real web process: its queries, the application, and a real terminal."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from typer.testing import CliRunner

from tests import topworld
from tests.brokers.process import free_ports
from tests.engine import DATABASE, EngineServer
from tests.engine.template import with_tables
from tests.python import PYTHON
from tests.tables import land, row
from tests.terminals import Terminal
from tests.web_process import WebProcess
from warpmeter.cli.app import app as cli
from warpmeter.settings import Settings, Store, Token, Web
from warpmeter.top.app import Top
from warpmeter.top.asking import Start
from warpmeter.top.lists import GPUS, HOSTS, MOST, RANKS, TABS, Place
from warpmeter.top.source import ApiSource, Source, SourceError, StoreSource

pytestmark = pytest.mark.long
HOSTS_THERE = 16
SECRET = "0123456789abcdef-top"


@dataclass
class World:
    """An engine with a planted fleet."""

    engine: EngineServer
    truth: topworld.Truth

    @property
    def source(self) -> StoreSource:
        return StoreSource(Store(dsn=self.engine.url, database=DATABASE))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    engine = with_tables(tmp_path_factory.mktemp("top") / "engine", threads=2)
    with engine.client(write=True) as client:
        found = World(engine, topworld.plant(client, HOSTS_THERE))
    try:
        yield found
    finally:
        found.engine.close()


def column(source: Source, query: str, name: str, **given: str) -> list[Any]:
    return source.ask(query, given).column(name)


def test_the_lists_say_what_is_there(world: World) -> None:
    source, truth = world.source, world.truth
    fleet = source.ask("live_fleet", {}).first()
    assert {name: fleet[f"gpus_{name}"] for name in truth.counts()} == truth.counts()
    assert (fleet["hosts_silent"], fleet["jobs_running"], fleet["jobs_lost"]) == (1, len(truth.jobs()), 0)
    there = [gpu for gpu in range(truth.gpus) if truth.status(gpu) != "gone"]
    assert fleet["gpu_util"] == pytest.approx(sum(map(truth.util_permille, there)) / len(there) / 1000, abs=1e-3)
    assert 0 <= fleet["age_s"] < 600
    gpus = source.ask("live_gpus", {})
    assert gpus.column("status") == [truth.status(gpu) for gpu in range(truth.gpus)]
    assert [util for gpu, util in enumerate(gpus.column("gpu_util")) if gpu in there] == [
        truth.util_permille(gpu) / 1000 for gpu in there
    ]
    assert all((idle is not None) == (gpu % 11 == 0) for gpu, idle in enumerate(gpus.column("idle_s")))
    assert gpus.column("total") == [truth.gpus] * truth.gpus
    assert column(source, "live_jobs", "job_id") == truth.jobs()
    job = source.ask("live_jobs", {"job_id": truth.job(0)}).first()
    assert (job["hosts"], job["gpus"], job["gpus_idle"], job["state"]) == (4, 32, 2, "running")
    assert column(source, "live_hosts", "state")[topworld.SILENT] == "silent"
    assert "XID 79" in column(source, "live_hosts", "problems")[topworld.XID // 8]


def test_the_store_sorts_searches_and_cuts(world: World) -> None:
    source, truth = world.source, world.truth
    first = source.ask("live_gpus", {"limit": "3", "sort": "power_watts", "descending": "1"})
    known = sorted((truth.util_permille(gpu) for gpu in range(truth.gpus)), reverse=True)
    assert first.column("power_watts") == [(700 + 5 * util) / 10 for util in known[:3]]
    assert first.column("total") == [truth.gpus] * 3
    idle = column(source, "live_gpus", "status", search="IDLE gpu-00")
    assert idle == ["idle"] * truth.counts()["idle"]
    assert column(source, "live_gpus", "uuid", job_id=truth.job(4))[0] == "GPU-00000032"
    assert column(source, "live_hosts", "host", search="failing", host="gpu-0001") == ["gpu-0001"]
    assert column(source, "live_jobs", "job_id", host="gpu-0000", search="train user-0") == [truth.job(0)]
    assert column(source, "live_jobs", "job_id", search="nobody's") == []


def test_alerts_are_counted_by_severity_but_not_what_was_silenced_or_is_over(world: World) -> None:
    now = time.time()
    said = (
        ("a", "critical", "firing", ""), ("b", "critical", "firing", "silence-1"), ("c", "warning", "firing", ""),
        ("d", "warning", "resolved", ""), ("e", "info", "pending", ""),
    )  # fmt: skip
    rows = [
        row("alerts", alert_id=name, ts=now, rule="r", severity=severity, state=state, silenced_by=by, started_at=now)
        for name, severity, state, by in said
    ]
    with world.engine.client(write=True) as client:
        land(client, "alerts", rows, "top/alerts")
    assert world.source.ask("live_alerts", {}).first() == {"critical": 1, "warning": 1, "info": 0}


def test_every_column_of_every_list_is_one_of_its_query(world: World) -> None:
    for kind, name in (("", ""), ("host", "gpu-0000"), ("job", world.truth.job(0))):
        for listing in TABS[kind]:
            bounds = {"limit": str(MOST)} if listing.ordered else {}
            answer = world.source.ask(listing.query, {**Place(kind, name).given, **dict(listing.asked), **bounds})
            assert {each.name for each in listing.columns} | set(listing.key) <= set(answer.columns)
            assert answer.rows


# The application


async def until(pilot: Pilot[int], condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}: {shown(pilot)}"
        await pilot.pause(0.25)


def shown(pilot: Pilot[int]) -> str:
    """What the screen says."""
    app = pilot.app
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def driven(app: Top, steps: Callable[[Pilot[int]], Coroutine[Any, Any, None]], first: bool = True) -> None:
    """Take `steps` in the running application, by default once it has its first answer."""

    async def drive() -> None:
        async with app.run_test(size=(130, 40)) as pilot:
            if first:
                await until(pilot, lambda: app._shown is not None, "the first answer")
            await steps(pilot)

    asyncio.run(drive())


def test_lists_are_sorted_filtered_and_opened_by_keys(world: World) -> None:
    app, truth = Top(world.source, Start(interval_s=2)), world.truth

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "gpu-0000" in shown(pilot) and f"{truth.gpus}" in shown(pilot), "hosts")
        await pilot.press("2")
        await until(pilot, lambda: len(app.visit.view.order) == truth.gpus, "the GPUs")
        await pilot.press("s", "down", "down", "down", "enter")
        assert (app.visit.view.sort, app.visit.view.descending) == ("gpu_util", True)
        assert app.visit.view.row["gpu_util"] == max(map(truth.util_permille, range(truth.gpus))) / 1000
        await pilot.press("r", "slash", *"idle", "down", "enter")
        assert len(app.visit.view.order) == truth.counts()["idle"]
        chosen = app.visit.view.row["uuid"]
        await pilot.press("greater_than_sign")
        assert app.visit.view.row["uuid"] == chosen
        await pilot.press("enter")
        await until(pilot, lambda: len(app.visit.view.order) == 8, "the host's GPUs")
        assert app.visit.view.row["uuid"] == chosen
        await pilot.press("escape", "escape", "tab")
        await until(pilot, lambda: len(app.visit.view.order) == len(truth.jobs()), "the jobs")
        await pilot.press("enter", "2")
        await until(pilot, lambda: app.visit.listing is RANKS and len(app.visit.view.order) == 32, "the job's ranks")
        assert "train-0.py" in shown(pilot)
        await pilot.press("question_mark")
        assert "filter as you type" in shown(pilot)
        await pilot.press("escape", "q")

    driven(app, steps)
    assert app.return_value == 0


def test_the_chosen_row_is_followed_while_samples_come_in(world: World) -> None:
    app = Top(world.source, Start(1.0, "gpus", "temperature_celsius", True))

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("down", "down", "down", "down", "down")
        chosen, at = dict(app.visit.view.row), app.visit.view.at
        sample = {"host": chosen["host"], "gpu": chosen["gpu"], "uuid": chosen["uuid"], "period_ms": 600_000}
        with world.engine.client(write=True) as client:
            rows = [row("gpu-samples", **sample, ts=time.time(), temperature_celsius=99, gpu_util_permille=500)]
            land(client, "gpu-samples", rows, "top/hotter")
        await until(pilot, lambda: app.visit.view.row.get("temperature_celsius") == 99, "the new sample")
        assert at == 5
        assert (app.visit.view.at, app.visit.view.row["uuid"]) == (0, chosen["uuid"])

    driven(app, steps)


def test_any_size_is_drawn(world: World) -> None:
    app = Top(world.source, Start(interval_s=5))

    async def steps(pilot: Pilot[int]) -> None:
        for size in ((1, 1), (20, 4), (40, 8), (80, 24), (300, 90), (60, 15)):
            await pilot.resize_terminal(*size)
            await pilot.press("end", "right", "left", "home")
            lines = shown(pilot).splitlines()
            assert len(lines) == size[1]
            assert (size[1] < 4) or any("gpu-0" in line for line in lines)

    driven(app, steps)


class Cable:
    """A port through which the store is reached as long as it is not cut, within the application's own loop."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._ends: list[asyncio.StreamWriter] = []
        self.here = free_ports(1)[0]

    async def join(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.here)

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for end in self._ends:
            end.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends += [writer, far_writer]
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()


def test_a_store_that_is_away_leaves_what_was_known_and_is_asked_again(world: World) -> None:
    cable = Cable(world.engine.port)
    app = Top(StoreSource(Store(dsn=f"http://127.0.0.1:{cable.here}", database=DATABASE)), Start(interval_s=1))
    last = f"gpu-{HOSTS_THERE - 1:04}"

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "No answer: cannot reach ClickHouse" in shown(pilot), "the first error")
        assert "no data yet" in shown(pilot)
        await cable.join()
        await until(pilot, lambda: last in shown(pilot) and "No answer" not in shown(pilot), "the store")
        await cable.cut()
        await until(pilot, lambda: "No answer" in shown(pilot), "the error")
        await until(pilot, lambda: re.search(r"asked [1-9].* ago", shown(pilot)), "the data's age")
        await pilot.press("end", "question_mark")  # what comes meanwhile is drawn below the keys
        assert app.visit.view.row["host"] == last
        await cable.join()
        await until(pilot, lambda: not app._why, "the store to be back")
        await pilot.press("escape")
        await until(pilot, lambda: "No answer" not in shown(pilot) and "samples" in shown(pilot), "it to be told")
        assert app.visit.view.row["host"] == last
        await cable.cut()

    driven(app, steps, first=False)


# Over the API


def test_the_api_gives_the_same_rows_and_says_what_it_refuses(world: World, tmp_path: Path) -> None:
    web = Web(tokens=(Token("ann", token=SECRET),))
    settings = Settings(store=Store(dsn=world.engine.url, database=DATABASE))
    with closing(WebProcess(tmp_path, web, settings)) as process:
        url = process.ready().url
        source = ApiSource(url, SECRET)
        for listing in (GPUS, HOSTS):
            given = {"limit": "50", "search": "gpu-000"}
            ours, theirs = world.source.ask(listing.query, given), source.ask(listing.query, given)
            assert theirs.columns == ours.columns
            keys = [[answer.column(name) for name in listing.key] for answer in (ours, theirs)]
            assert keys[0] == keys[1]
        with pytest.raises(SourceError, match="wants a token"):
            ApiSource(url).ask("live_fleet", {})
        with pytest.raises(SourceError, match="refuses the token"):
            ApiSource(url, "another one, quite long").ask("live_fleet", {})
        with pytest.raises(SourceError, match="there is no query") as absent:
            source.ask("live_nothing", {})
        assert absent.value.absent
        said = command(["--url", url, "--json", "--tab", "jobs", "--sort", "-gpu_util"], WARPMETER_TOKEN=SECRET)
        found = json.loads(said)
        assert found["fleet"]["gpus_idle"] == world.truth.counts()["idle"]
        assert sorted(each["job_id"] for each in found["rows"]) == world.truth.jobs()
        assert found["rows"][0]["gpu_util"] == max(each["gpu_util"] for each in found["rows"])


def command(arguments: list[str], **env: str) -> str:
    """What the command prints where there is no terminal."""
    found = CliRunner().invoke(cli, ["top", *arguments], env=env)
    assert found.exit_code == 0, found.output
    return found.stdout


# In a terminal


def terminal(world: World, *arguments: str, columns: int = 110, lines: int = 30, **env: str) -> Terminal:
    argv = [PYTHON, "-m", "warpmeter", "top", "--store", f"{world.engine.url}/{DATABASE}", *arguments]
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "TEXTUAL")}
    return Terminal(argv, {**kept, "TERM": "xterm-256color", **env}, columns, lines)


def test_a_terminal_is_drawn_resized_and_left_as_it_was(world: World) -> None:
    with closing(terminal(world, "--interval", "1")) as found:
        found.until("gpu-0005")
        assert b"\x1b[32m" in found.said or b";32m" in found.said  # the terminal's own green
        found.resize(60, 12)
        found.until("gpu-0003")
        found.type("/xid")
        found.until("filter: xid")
        found.type("\x03")
        assert found.ended() == 0
        assert found.restored()


def test_a_terminal_without_colours_is_left_as_it_was_by_a_signal_too(world: World) -> None:
    with closing(terminal(world, "--tab", "gpus", NO_COLOR="1")) as found:
        found.until("failing")
        coloured = [code for code in (b"\x1b[3%d" % n for n in range(1, 8)) if code in found.said]
        assert not coloured
        found.kill(signal.SIGTERM)
        assert found.ended() == 143
        assert found.restored()


def test_it_ends_with_its_terminal(world: World) -> None:
    with closing(terminal(world, "--interval", "0.5")) as found:
        found.until("gpu-0005")
        found.vanish()
        assert found.process.wait(60) == -signal.SIGHUP


def test_without_a_terminal_it_prints_a_table_and_ends(world: World) -> None:
    said = command(
        ["--store", f"{world.engine.url}/{DATABASE}", "--tab", "gpus", "--filter", "failing", "--sort", "-gpu"]
    )
    lines = said.splitlines()
    counts = world.truth.counts()
    assert f"GPUs {world.truth.gpus}  {counts['busy']} busy" in said
    assert sum("failing" in line for line in lines[5:]) == counts["failing"]
    assert "\x1b" not in said
