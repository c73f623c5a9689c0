"""`warpmeter analyze --load`: from files to rows, again, half way, and to stores that are not as they should be."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from tests.captures import NOON_NS, two_ranks
from tests.engine import TOKEN, WRITER, EngineServer
from tests.engine.template import with_tables
from tests.tables import ask, land, one, row, token
from tests.tracebuilder import TraceBuilder
from tests.wait import until
from warpmeter.analysis.capture import capture
from warpmeter.cli.app import app
from warpmeter.loading import Known, Loading, Target, named
from warpmeter.settings import Store
from warpmeter.store import Client, connect

HELD = "from warpmeter import landing; landing.SETTLE_S = 600.0; from warpmeter.cli.app import app; app()"
"""The command, which waits for ever with all its rows there and nothing published, as it does for a second."""
RANKS = "SELECT capture_id, host, rank, workload, busy_ns FROM trace_ranks WHERE capture_id = {c:String} ORDER BY rank"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    """An engine behind HTTP, with all tables."""
    with closing(with_tables(tmp_path_factory.mktemp("engine"))) as server:
        yield server


def _store(server: EngineServer) -> Store:
    return Store(dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{server.port}")


@pytest.fixture
def client(server: EngineServer) -> Iterator[Client]:
    with closing(connect(_store(server))) as client:
        yield client


@pytest.fixture
def load(server: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Loader":
    """The command on a folder with two ranks."""
    (folder := tmp_path / "run7").mkdir()
    two_ranks(folder)
    monkeypatch.chdir(tmp_path)
    return Loader(folder, _store(server).dsn)


class Loader:
    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self.dsn = folder, dsn

    def __call__(self, *words: object, files: str = "", dsn: str = "") -> Result:
        asked = ["analyze", files or str(self.folder), "--store", dsn or self.dsn, *map(str, words)]
        return CliRunner().invoke(app, asked)


@pytest.mark.long
def test_ranks_of_a_folder_and_again(load: Loader, client: Client) -> None:
    done = load("--load", "--json")
    assert done.exit_code == 0, done.output
    assert "loaded 2 ranks, " in done.stderr
    assert "as capture run7-20260921T141320" in done.stderr
    assert msgspec.json.decode(done.stdout)["job"]["stragglers"][0]["rank"] == 1
    found = ask(client, RANKS, c="run7-20260921T141320")
    assert [row[1:] for row in found] == [("", 0, "", 2_000_000), ("", 1, "", 2_000_000)]
    assert one(client, "SELECT rank FROM stragglers WHERE capture_id = 'run7-20260921T141320'") == 1
    again = load("--load", "--host", "ant")
    assert "in place of what was there of 2" in again.stderr
    assert [row[1] for row in ask(client, RANKS, c="run7-20260921T141320")] == ["ant", "ant"]


@pytest.mark.long
def test_a_capture_of_a_job_has_its_name(load: Loader, client: Client) -> None:
    started = row("job-events", host="ant", ts=time.time(), job_id="4711", event="running", name="train.py", pid=7)
    land(client, "job-events", [started], token(0, 0))
    done = load("--load", "--capture", "named", "--job", "4711", "--host", "ant")
    assert done.exit_code == 0, done.output
    assert [row[1:4] for row in ask(client, RANKS, c="named")] == [("ant", 0, "train.py"), ("ant", 1, "train.py")]
    assert ask(client, "SELECT DISTINCT job_id, workload FROM trace_kernels WHERE capture_id = 'named'") == [
        ("4711", "train.py")
    ]
    jobs = "SELECT jobs.name, ranks FROM capture_summary INNER JOIN jobs USING (job_id) WHERE capture_id = 'named'"
    assert ask(client, jobs) == [("train.py", 2)]


def test_one_rank_alone_and_what_it_is_called(load: Loader, client: Client) -> None:
    done = load("--load", files=str(load.folder / "rank1.json"))
    assert "loaded 1 rank, " in done.stderr
    assert [row[2] for row in ask(client, RANKS, c="rank1-20260921T141320")] == [1]
    assert named(["a/b/c.1234.pt.trace.json.gz"], []) == "c.1234"
    assert named(["s3://bucket/run/rank*.json"], []) == named(["s3://bucket/run/"], []) == "run"
    assert named(["a/rank0.json", "a/rank1.json"], []) == "a"
    assert named(["."], []) == Path.cwd().name


@pytest.mark.long
def test_into_a_folder_of_this_machine(load: Loader, embedded: Store, empty: Store, own_tables: Client) -> None:
    os.environ["WARPMETER_STORE__DATABASE"] = empty.database
    try:
        done = load("--load", "--capture", "c", dsn=embedded.dsn)
    finally:
        del os.environ["WARPMETER_STORE__DATABASE"]
    assert done.exit_code == 0, done.output
    assert [row[2] for row in ask(own_tables, RANKS, c="c")] == [0, 1]


def test_who_knows_more_of_the_processes_says_so(load: Loader, client: Client, server: EngineServer) -> None:
    """As a scheduler does, which knows host, pid and maybe the rank of each file."""
    for name in ("a", "b", "c"):
        built = TraceBuilder(base_ns=NOON_NS)
        built.kernel("gemm", 1_000, 500)
        built.write(load.folder / f"{name}.json")
    files = [str(load.folder / f"{name}.json") for name in ("a", "b", "c")]
    known = dict(zip(files, [Known("ant", called="ant/7"), Known("ant", called="ant/8"), Known("bee", 5)], strict=True))
    with Loading(Target(_store(server), "known", known=known)) as loading:
        document = capture(files, keep=loading.keep)
        landed = loading.load(document.findings)
    assert landed.processes == ("ant/7", "ant/8", "5")
    sql = "SELECT process, host, rank FROM trace_ranks WHERE capture_id = 'known' ORDER BY process"
    assert ask(client, sql) == [("5", "bee", 5), ("ant/7", "ant", 0), ("ant/8", "ant", 0)]


def test_two_files_of_one_rank_are_refused_before_anything_is_inserted(load: Loader, client: Client) -> None:
    (load.folder / "again.json").write_bytes((load.folder / "rank1.json").read_bytes())
    done = load("--load", "--capture", "double")
    assert (done.exit_code, "are both rank 1 of one capture" in done.stderr) == (1, True)
    assert one(client, "SELECT count() FROM trace_kernels_loads WHERE capture_id = 'double'") == 0


def test_what_cannot_be_is_said_before_the_analysis(load: Loader, server: EngineServer) -> None:
    away = load("--load", dsn="http://127.0.0.1:1")
    assert (away.exit_code, "cannot reach ClickHouse" in away.stderr, away.stdout) == (1, True, "")
    os.environ["WARPMETER_STORE__DATABASE"] = "system"
    try:
        bare = load("--load")
    finally:
        del os.environ["WARPMETER_STORE__DATABASE"]
    assert (bare.exit_code, "run `warpmeter migrate`" in bare.stderr, bare.stdout) == (1, True, "")
    reader = load("--load", "--capture", "r", dsn=f"http://127.0.0.1:{server.port}")
    assert reader.exit_code == 1
    assert "Traceback" not in reader.output
    for words in (["--capture", "x"], ["--job", "7"], ["--host", "h"], ["--load", "--step", "3"]):
        assert load(*words).exit_code == 2, words


@pytest.mark.long
def test_killed_half_way_it_is_not_seen_and_again_is_all_it_needs(load: Loader, client: Client) -> None:
    assert load("--load", "--capture", "killed").exit_code == 0
    whole = ask(client, RANKS, c="killed")
    unseen = (
        "SELECT count() FROM trace_timeline_loads WHERE capture_id = 'killed' "
        "AND load NOT IN (SELECT load FROM trace_loads WHERE capture_id = 'killed')"
    )
    words = ["analyze", str(load.folder), "--store", load.dsn, "--load", "--capture", "killed"]
    apart = {**os.environ, "TMPDIR": str(load.folder.parent)}  # its files stay behind
    process = subprocess.Popen([sys.executable, "-c", HELD, *words], stdout=subprocess.DEVNULL, env=apart)
    try:
        until(lambda: one(client, unseen), "a load that is half done", 120)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert ask(client, RANKS, c="killed") == whole
    assert one(client, "SELECT count() FROM trace_timeline WHERE capture_id = 'killed'") == 16
    assert load("--load", "--capture", "killed").exit_code == 0
    assert ask(client, RANKS, c="killed") == whole
    assert one(client, "SELECT uniqExact(load) FROM trace_timeline_loads WHERE capture_id = 'killed'") == 1


@pytest.mark.long
def test_two_commands_at_once_end_with_one_of_them(load: Loader, client: Client) -> None:
    words = ["analyze", str(load.folder), "--store", load.dsn, "--load", "--capture", "both", "--host"]
    both = [
        subprocess.Popen([sys.executable, "-m", "warpmeter", *words, host], stdout=subprocess.DEVNULL)
        for host in ("ant", "bee")
    ]
    assert [each.wait(200) for each in both] == [0, 0]
    hosts = {host for _, host, *_ in ask(client, RANKS, c="both")}
    assert len(ask(client, RANKS, c="both")) == 2
    assert hosts in ({"ant"}, {"bee"})
    assert load("--load", "--capture", "both", "--host", "cow").exit_code == 0
    assert one(client, "SELECT uniqExact(load) FROM trace_kernels_loads WHERE capture_id = 'both'") == 1
