"""`warpmeter flame`: the table, the files that others read, what it says where there is nothing to show."""

import json
import re
import resource
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.stackworld import DECODE, JOB, MAIN, ODD, OLD_JOB, STEP, Stacks, landed, sampled
from tests.tables import land, row, token
from warpmeter.cli import complete
from warpmeter.cli.app import app
from warpmeter.cli.flames.asking import FlameError
from warpmeter.cli.flames.files import put
from warpmeter.settings import Store
from warpmeter.stacks import folded, speedscope
from warpmeter.stacks.profile import Profile
from warpmeter.store import Client
from warpmeter.web.flame_page import MODULES, page, script

pytestmark = pytest.mark.timeout(300)
Flame = Callable[..., Result]


@pytest.fixture(scope="module")
def world(shared_tables: Client) -> Stacks:
    return landed(shared_tables)


@pytest.fixture
def flame(embedded: Store, world: Stacks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Flame:
    """The command over the hour after the input got slow, in a folder of its own; `None` is all of its options."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARPMETER_STORE__DSN", embedded.dsn)
    monkeypatch.setenv("WARPMETER_STORE__DATABASE", "shared")
    monkeypatch.setenv("COLUMNS", "300")

    def run(*words: str, when: bool = True, fails: int = 0) -> Result:
        window = ("--since", iso(world.middle), "--until", iso(world.until)) if when else ()
        done = CliRunner().invoke(app, ["flame", *words, *window])
        assert done.exit_code == fails, done.output
        return done

    return run


def iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat()


def selves(world: Stacks, when: str = "after") -> dict[tuple[str, ...], int]:
    """What each stack weighs by itself, worked out from what was landed."""
    found = sampled(world, when)
    inner: Counter[tuple[str, ...]] = Counter()
    for path, value in found.items():
        if path:
            inner[path[:-1]] += value
    return {path: value - inner[path] for path, value in found.items() if value > inner[path]}


def weights(profile: Profile) -> dict[tuple[str, ...], int]:
    found: Counter[tuple[str, ...]] = Counter()
    for _, stack in profile.stacks():
        found[stack.frames] += stack.weight
    return dict(found)


def test_functions_stand_in_a_table(flame: Flame) -> None:
    lines = flame("--job", JOB).stdout.splitlines()
    rows = [re.split(r"\s*[│|]\s*", line)[1:-1] for line in lines if "%" in line and "│" in line]
    assert [row[0] for row in rows] == [
        "50.00 %",
        "25.00 %",
        "15.00 %",
        "5.00 %",
        "5.00 %",
        "0.00 %",
        "0.00 %",
        "0.00 %",
    ]
    decode = next(row for row in rows if row[-1] == "data/images.py:17")
    assert decode == ["25.00 %", "25.00 %", decode[2], "decode", "data/images.py:17"]
    assert JOB in lines[0]


def test_json_is_the_same_in_numbers(flame: Flame, world: Stacks) -> None:
    told = json.loads(flame("--job", JOB, "--json", "--top", "2").stdout)
    whole = sampled(world, "after")[()]
    assert (told["total"], told["unit"], told["tier"], told["source"]) == (whole, "microseconds", "raw", "py-spy")
    first, second = told["functions"]
    assert (first["name"], first["file"], first["line"]) == ("wait", "threading.py", 355)
    assert (second["function"], second["self"], second["self_share"]) == (DECODE, whole // 4, 0.25)


def test_a_job_is_shown_over_its_run_time(flame: Flame, world: Stacks) -> None:
    told = json.loads(flame("--job", JOB, "--json", when=False).stdout)
    assert told["total"] == sampled(world, "after")[()] + sampled(world, "before")[()]
    assert told["since"] == iso(world.since)


def test_parts_of_it_can_be_asked_for(flame: Flame, world: Stacks) -> None:
    half = sampled(world, "after", ranks=1)[()]
    for words in (("--rank", "1"), ("--pid", "101"), ("--host", "ant"), ("--process", "python3", "--rank", "0")):
        assert json.loads(flame("--job", JOB, *words, "--json").stdout)["total"] == half
    without = json.loads(flame("--job", JOB, "--no-lines", "--json").stdout)
    assert "decode (data/images.py)" in [each["function"] for each in without["functions"]]


def test_sources_are_not_added_up(flame: Flame) -> None:
    done = flame("--job", OLD_JOB, "--json", when=False)
    assert json.loads(done.stdout)["total"] == 900_000
    assert "--source perf" in done.stderr
    assert json.loads(flame("--job", OLD_JOB, "--source", "perf", "--json", when=False).stdout)["total"] == 100_000
    assert json.loads(flame("--job", OLD_JOB, "--unit", "bytes", "--json", when=False).stdout)["total"] == 4096


def test_folded_stacks_are_what_was_sampled(flame: Flame, world: Stacks) -> None:
    flame("--job", JOB, "-o", "out.folded")
    assert weights(folded.parse(Path("out.folded").read_text())) == selves(world)


def test_speedscope_opens_it(flame: Flame, world: Stacks) -> None:
    flame("--job", JOB, "-o", "out.speedscope.json", "--by", "rank")
    text = Path("out.speedscope.json").read_text()
    assert weights(speedscope.parse(text)) == selves(world)
    assert [each["name"] for each in json.loads(text)["profiles"]] == ["rank 0", "rank 1"]


def test_json_has_the_rows_of_the_api(flame: Flame, world: Stacks) -> None:
    flame("--job", JOB, "-o", "out.json")
    told = json.loads(Path("out.json").read_text())
    assert told["columns"]["value"][0] == told["total"] == sampled(world, "after")[()]
    assert list(told["columns"]) == ["level", "label", "value", "self"]
    assert told["top"]["function"][1] == DECODE


def test_a_page_holds_all_it_needs(flame: Flame, world: Stacks) -> None:
    flame("--job", JOB, "-o", "out.html")
    text = Path("out.html").read_text()
    assert not re.search(r"""(?:src|href)=|url\(|@import|https?:|^import |^export """, text, re.MULTILINE)
    assert "default-src 'none'" in text
    data = embedded_data(text)
    assert data["columns"]["value"][0] == sampled(world, "after")[()]
    assert ODD in data["columns"]["label"]
    assert ODD not in text  # it would be markup


def embedded_data(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_names_end_no_script() -> None:
    text = page("<b>", "a & b", {"columns": {"label": ["</script><script>alert(1)"], "level": [0], "value": [1]}})
    assert text.count("</script>") == 2
    assert "<title>&lt;b&gt;</title>" in text
    assert embedded_data(text)["columns"]["label"] == ["</script><script>alert(1)"]


def test_the_modules_of_the_page_share_no_name() -> None:
    names = re.findall(r"^(?:async )?(?:class|const|let|function) (\w+)", script(), re.MULTILINE)
    assert len(names) == len(set(names))
    assert {f"flame/{path.name}" for path in Path("web/lib/flame").glob("*.js")} < set(MODULES)


def test_a_difference_says_what_changed(flame: Flame, world: Stacks) -> None:
    told = json.loads(flame("--job", JOB, "--base-since", iso(world.middle - 3600), "--json").stdout)
    rows = {row["function"]: row for row in told["functions"]}
    assert told["functions"][0]["function"] == STEP
    assert (rows[STEP]["share"], rows[STEP]["base_share"], rows[STEP]["change"]) == (0.15, 0.35, -0.2)
    assert rows[ODD]["base_self"] == 0
    table = flame("--job", JOB, "--base-since", iso(world.middle - 3600)).stdout
    assert "-20.00" in table
    assert "against" in table


def test_a_difference_in_files(flame: Flame, world: Stacks) -> None:
    words = ("--job", JOB, "--base-since", iso(world.middle - 3600))
    for name in ("out.folded", "out.html", "out.json"):
        flame(*words, "-o", name)
    lines = Path("out.folded").read_text().splitlines()
    now = {tuple(line.rsplit(" ", 2)[0].split(";")): int(line.rsplit(" ", 1)[1]) for line in lines}
    assert now == {path: selves(world).get(path, 0) for path in now}
    assert "base_self" in embedded_data(Path("out.html").read_text())["columns"]
    assert "speedscope" in flame(*words, "-o", "out.speedscope.json", fails=2).stderr


def test_a_side_of_a_difference_without_samples_is_said(flame: Flame, world: Stacks) -> None:
    words = ("--job", JOB, "--base-since", "9d")
    done = flame(*words, "-o", "out.html")
    assert "nothing was sampled to compare with" in done.stderr
    assert "nothing was sampled to compare with" in Path("out.html").read_text()
    table = flame(*words).stdout
    assert "nothing was sampled to compare with" in re.sub(r"\s+", " ", table)
    assert re.search(r"50\.00 % +│ - +│ - +│ wait", table), table
    assert json.loads(flame(*words, "--json").stdout)["base_total"] == 0
    window = ("--since", iso(world.until + 60), "--until", iso(world.until + 120))
    gone = flame("--job", OLD_JOB, *window, "--base-job", OLD_JOB, when=False)
    assert "nothing was sampled but what is compared with" in re.sub(r"\s+", " ", gone.stdout)
    assert re.search(r"- +│ 100\.00 % +│ - +│ step", gone.stdout), gone.stdout


def test_an_agent_that_may_not_look_is_the_reason(flame: Flame, shared_tables: Client, world: Stacks) -> None:
    now = float(world.until + 30)
    of = {"host": "locked", "ts": now, "period_ms": 60_000, "source": "stacks"}
    told = (
        ("perf", "unsupported", "no perf"), ("perf/rate", "paused", "in every other turn"),
        ("processes/denied", "denied", "pid 7: ask for CAP_SYS_PTRACE"), ("rate", "paused", "1 process is slow"),
    )  # fmt: skip
    rows = [row("source-health", **of, subject=subject, state=state, why=why) for subject, state, why in told]
    land(shared_tables, "source-health", rows, token(9_000_000, 9_000_003))
    said = flame("--host", "locked", fails=1).stderr
    assert "On locked sampling is denied: pid 7: ask for CAP_SYS_PTRACE." in said
    assert "warpmeter doctor" in said
    assert (
        "On locked sampling is unsupported: no perf." in flame("--host", "locked", "--source", "perf", fails=1).stderr
    )


def test_a_difference_has_parts_as_well(flame: Flame, world: Stacks) -> None:
    words = ("--job", JOB, "--base-since", iso(world.middle - 3600))
    flame(*words, "--by", "rank", "-o", "out.json")
    columns = json.loads(Path("out.json").read_text())["columns"]
    assert {label for level, label in zip(columns["level"], columns["label"], strict=True) if level == 1} == {
        "rank 0", "rank 1",
    }  # fmt: skip
    functions = json.loads(flame(*words, "--json").stdout)["functions"]
    assert json.loads(flame(*words, "--by", "rank", "--json").stdout)["functions"] == functions


def test_a_difference_of_jobs_is_at_their_own_times(flame: Flame, world: Stacks) -> None:
    told = json.loads(flame("--job", JOB, "--base-job", OLD_JOB, "--json", when=False).stdout)
    assert told["base_since"] == iso(world.since)
    base = {row["function"]: row["base_share"] for row in told["functions"]}
    assert base[STEP] == 1
    assert base[MAIN] == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("-o", "out.pdf"), 2, ".speedscope.json"),
        (("--since", "1h", "--until", "2h"), 2, "not after"),
        (("--since", "yesterday"), 2, "no time"),
        (("--base-since", "1h", "--base-until", "2h"), 2, "--base-until"),
        (("--job", "nobody"), 1, "no stacks of job nobody"),
        (("--job", "nobody"), 1, "Nothing has been heard of a job nobody"),
        (("--host", "nowhere"), 1, "Nothing has been heard of a host nowhere"),
        (("--since", "3d", "--until", "2d"), 1, "WARPMETER_STACKS=off in their environment: `warpmeter doctor`"),
        (("--job", JOB, "--since", "3d", "--until", "2d"), 1, "It ran from 20"),
        (("--rank", "7", "--since", "1h"), 1, "others then: of processes python3, of ranks 0, 1"),
        (("--job", JOB, "--source", "perf"), 1, "were sampled by perf"),
        (("--job", JOB, "--source", "perf"), 1, "others then: of py-spy (--unit microseconds)"),
        (("--by", "colour"), 2, "colour"),
        (("--job", "nobody", "-o", "nowhere/out.html"), 1, "no stacks"),
        (("-o", "nowhere/out.html"), 1, "nowhere/out.html cannot be written (No such file or directory)"),
        (("--rank", str(2**64)), 2, "--rank"),
        (("--since", "0001-01-01"), 2, "0001-01-01 is not between 1970-01-01 and 2100-01-01"),
        (("--since", "1h", "--until", "9999-12-31T23:59"), 2, "9999-12-31T23:59 is not between"),
        (("--since", "99999999999d"), 2, "99999999999d is no time"),
        (("--pid", str(2**40)), 2, "--pid"),
        (("--job", "\udcff"), 2, "--job is a name of characters that can be printed"),
    ],
)
def test_it_says_what_is_wrong(flame: Flame, words: tuple[str, ...], status: int, said: str) -> None:
    done = flame(*words, when=False, fails=status)
    assert said in re.sub(r"\s+", " ", done.stderr)
    assert not Path("out.html").exists()


def test_what_was_there_stays_until_all_is_written(flame: Flame) -> None:
    Path("old.html").write_text("as it was")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))  # as a disk that is full: write(2) gives EFBIG
    try:
        with pytest.raises(
            FlameError, match=r"old.html cannot be written \(File too large\); what was there is as it was"
        ):
            put(Path("old.html"), "x" * 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert Path("old.html").read_text() == "as it was"
    assert [path.name for path in Path().iterdir()] == ["old.html"]
    Path("link.html").symlink_to("old.html")
    flame("--job", JOB, "-o", "link.html")
    assert Path("link.html").is_symlink()
    assert "as it was" not in Path("old.html").read_text()


def test_names_of_files_are_completed() -> None:
    assert complete.flames("out") == ["out.html", "out.folded", "out.speedscope.json", "out.json"]
    assert complete.flames("out.s") == ["out.speedscope.json"]
    assert complete.flames("")[0] == "flame.html"
