"""The named queries of sampled stacks, on random ones, their answers worked out from the same rows in Python."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests import tables
from warpmeter import queries
from warpmeter.stacks import identity
from warpmeter.store import Client

QUERIES: Final = ("stack_flame", "stack_top", "stack_share", "stack_diff")
SEED: Final = 4711
HOURS: Final = 3
NOT_TOLD: Final = "(frames not told)"
HOSTS: Final = ("ant", "bee", "cöw")
JOBS: Final = ("", "big", "small")
PROCESSES: Final = {11: "python3", 12: "pt_data_worker", 13: "python3"}
SAMPLED: Final = ((60_000, 10_000), (60_000, 5_000), (30_000, 30_000), (0, 0))
FRAMES: Final = (
    "<module> (train.py:3)", "<module> (train.py:9)", "step (train.py:40)", "step (train.py:41)", "step (other.py:40)",
    "fib (a dir/fib (1).py:2)", "fib (a dir/fib (1).py:3)", "native", "malloc (libc.so.6)", "operator()<int>",
    "größe (ä.py:7)",
)  # fmt: skip
Row = dict[str, Any]
Calls = tuple[str, ...]


@dataclass(frozen=True)
class World:
    """What was landed: whole hours from `since` to `until`, seconds since the epoch."""

    since: int
    until: int
    rows: tuple[Row, ...]


def stacks(rng: random.Random) -> list[Calls]:
    """Forty of few functions, so that they share beginnings; some call themselves, deep."""
    found: set[Calls] = {("fib (a dir/fib (1).py:3)",) * 30 + ("fib (a dir/fib (1).py:2)",)}
    while len(found) < 40:
        begin = rng.choice(FRAMES[:3])
        found.add((begin, *(rng.choice(FRAMES) for _ in range(rng.randint(0, 6)))))
    return sorted(found)


def made(since: int, rng: random.Random) -> Iterator[Row]:
    """Rows of agents that tell each stack of each job once, and of some stacks never."""
    known, told = stacks(rng), set[tuple[str, str, Calls]]()
    secret = set(rng.sample(known, 3))
    for ts in sorted(rng.randrange(since, since + HOURS * 3600) for _ in range(1500)):
        host, job, pid, frames = rng.choice(HOSTS), rng.choice(JOBS), rng.choice([*PROCESSES]), rng.choice(known)
        samples, (period, sampled) = rng.randint(1, 190), rng.choice(SAMPLED)
        tells = frames not in secret and (host, job, frames) not in told
        told.add((host, job, frames))
        yield {
            "host": host, "ts": float(ts), "period_ms": period, "sampled_ms": sampled, "job_id": job, "pid": pid,
            "source": rng.choice(("py-spy", "perf")), "process": PROCESSES[pid], "tid": pid + rng.randint(0, 1),
            "thread": rng.choice(("", "Main", "Loader")), "stack": identity(frames), "samples": samples,
            "weight": samples * 52_632, "unit": rng.choice(("microseconds", "microseconds", "microseconds", "bytes")),
            "rank": rng.choice((None, 0, 1, 7)) if job else None,
            "frames": list(frames) if tells else [],
            "known": (NOT_TOLD,) if frames in secret else frames,
        }  # fmt: skip


@pytest.fixture(scope="module")
def world(shared_tables: Client) -> World:
    """Three hours up to the last whole one, and a row before and after them that belongs to none."""
    now = int(tables.one(shared_tables, "SELECT toUnixTimestamp(toStartOfHour(now()))"))
    since = now - HOURS * 3600
    rows = [*made(since, random.Random(SEED))]
    outside = [{**rows[0], "ts": float(since) - 0.001, "frames": []}, {**rows[0], "ts": float(now), "frames": []}]
    for number, part in enumerate((rows[:500], rows[500:], outside)):
        given = [{key: value for key, value in each.items() if key != "known"} for each in part]
        tables.land(
            shared_tables,
            "stack-samples",
            [tables.row("stack-samples", **each) for each in given],
            tables.token(number, number),
        )
    return World(since, now, tuple(rows))


# --- worked out ---------------------------------------------------------------------------------------------------


def fits(sample: Row, given: Mapping[str, Any]) -> bool:
    """Whether a row is of what is asked for."""
    if sample["unit"] != given.get("unit", "microseconds"):
        return False
    of = {"host": "", "job_id": "", "process": "", "source": "", "pid": 0, "rank": -1}
    return all(given.get(name, none) in (none, sample[name]) for name, none in of.items())


def estimate(sample: Row) -> int:
    """Its weight, scaled to its period; the pairs above divide without rest."""
    return int(
        sample["weight"] * sample["period_ms"] // sample["sampled_ms"] if sample["sampled_ms"] else sample["weight"]
    )


def shown(frames: Calls, lines: int) -> Calls:
    return frames if lines else tuple(re.sub(r":\d+\)$", ")", text) for text in frames)


def part(sample: Row, by: str) -> Calls:
    if by == "rank":
        return ("no rank" if sample["rank"] is None else f"rank {sample['rank']}",)
    return (str(sample[by]),) if by and sample[by] else ()


def weighed(rows: tuple[Row, ...], given: Mapping[str, Any]) -> dict[Calls, int]:
    """How much was seen of each path from all on that was innermost."""
    found: dict[Calls, int] = defaultdict(int)
    for sample in rows:
        if fits(sample, given):
            frames = shown(sample["known"], given.get("lines", 1))
            found["all", *part(sample, given.get("by", "")), *frames] += estimate(sample)
    return found


def nodes(found: Mapping[Calls, int]) -> dict[Calls, tuple[int, int]]:
    """Of each path: with what it called, and itself."""
    total: dict[Calls, int] = defaultdict(int)
    for path, weight in found.items():
        for depth in range(1, len(path) + 1):
            total[path[:depth]] += weight
    return {path: (weight, found.get(path, 0)) for path, weight in sorted(total.items())}


# --- asked --------------------------------------------------------------------------------------------------------


def iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat()


def ask(client: Client, name: str, window: tuple[float, float], **given: Any) -> list[dict[str, Any]]:
    query = queries.get(name)
    of = {"source": "", **given}
    values = {"since": iso(window[0]), "until": iso(window[1]), **{key: str(value) for key, value in of.items()}}
    asked = query.statement(values)
    return [dict(found) for found in client.query(asked.sql, parameters=dict(asked.values)).named_results()]


OF: Final[tuple[dict[str, Any], ...]] = (
    {}, {"host": "ant"}, {"host": "cöw", "job_id": "big"}, {"job_id": "small", "rank": 7}, {"rank": 0},
    {"process": "python3"},
    {"source": "perf"}, {"unit": "bytes"}, {"lines": 0},
    {"lines": 0, "job_id": "big", "source": "py-spy", "process": "python3"},
)  # fmt: skip
BY: Final[tuple[dict[str, Any], ...]] = (
    {"by": "host"}, {"by": "process"}, {"by": "rank"}, {"by": "thread"}, {"by": "rank", "lines": 0, "job_id": "big"},
)  # fmt: skip
PID: Final[tuple[dict[str, Any], ...]] = ({"pid": 13}, {"pid": 12, "host": "bee", "lines": 0})


@pytest.mark.parametrize("given", [*OF, *BY, *PID], ids=str)
def test_a_flame_graph_has_every_path_in_its_order(shared_tables: Client, world: World, given: dict[str, Any]) -> None:
    found = ask(shared_tables, "stack_flame", (world.since, world.until), least=0, **given)
    expected = nodes(weighed(world.rows, given))
    assert len(expected) > 20
    assert [(row["level"], row["label"], row["value"], row["self"]) for row in found] == [
        (len(path) - 1, path[-1], *weight) for path, weight in expected.items()
    ]


@pytest.mark.parametrize("given", [*OF, *(each for each in BY if each["by"] != "thread")], ids=str)
def test_whole_hours_answer_as_the_turns_do(shared_tables: Client, world: World, given: dict[str, Any]) -> None:
    window = world.since, world.until - 3600
    for name in ("stack_flame", "stack_top"):
        asked = {key: value for key, value in given.items() if key != "by" or name == "stack_flame"}
        raw = ask(shared_tables, name, window, **asked)
        assert raw
        assert ask(shared_tables, name, window, windows="stack_hours", **asked) == raw


def test_what_is_little_is_left_out_with_all_that_it_called(shared_tables: Client, world: World) -> None:
    found = ask(shared_tables, "stack_flame", (world.since, world.until), least=0.03)
    expected = nodes(weighed(world.rows, {}))
    all_of_it = expected["all",][0]
    kept = {path: weight for path, weight in expected.items() if weight[0] >= 0.03 * all_of_it}
    assert 3 < len(kept) < len(expected) / 3
    assert [(row["level"], row["value"]) for row in found] == [(len(path) - 1, kept[path][0]) for path in kept]


@pytest.mark.parametrize("given", [*OF, *PID], ids=str)
def test_top_functions_count_a_function_that_calls_itself_once(
    shared_tables: Client, world: World, given: dict[str, Any]
) -> None:
    own, within, everything = defaultdict[str, int](int), defaultdict[str, int](int), 0
    for (_, *frames), weight in weighed(world.rows, given).items():
        everything += weight
        own[frames[-1]] += weight
        for function in set(frames):
            within[function] += weight
    expected = sorted(within, key=lambda function: (-own[function], -within[function], function))
    found = ask(shared_tables, "stack_top", (world.since, world.until), **given)
    assert [(row["function"], row["self"], row["total"]) for row in found] == [
        (function, own[function], within[function]) for function in expected
    ]
    for row in found:
        assert row["self_share"] == pytest.approx(own[row["function"]] / everything, abs=1e-6)
        assert row["total_share"] == pytest.approx(within[row["function"]] / everything, abs=1e-6)
    assert ask(shared_tables, "stack_top", (world.since, world.until), top=2, **given) == found[:2]


@pytest.mark.parametrize("function", ["step (", "step (train.py:41)", "ö", "no such function", "("])
@pytest.mark.parametrize("given", [{}, {"job_id": "big"}, {"host": "ant", "unit": "bytes"}, {"pid": 12}], ids=str)
def test_the_share_of_a_function_is_told_of_each_step(
    shared_tables: Client, world: World, given: dict[str, Any], function: str
) -> None:
    parts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for sample in world.rows:
        if fits(sample, given):
            step = parts[int(sample["ts"]) // 900 * 900]
            inside = sample["known"] != (NOT_TOLD,) and any(function in text for text in sample["known"])
            step[0] += estimate(sample) * inside
            step[1] += estimate(sample)
    found = ask(shared_tables, "stack_share", (world.since, world.until), step_s=900, function=function, **given)
    expected = [
        (datetime.fromtimestamp(start, UTC), weights[0], weights[1]) for start, weights in sorted(parts.items())
    ]
    assert [(row["start"].replace(tzinfo=UTC), row["value"], row["all"]) for row in found] == expected
    for row, (_, value, everything) in zip(found, expected, strict=True):
        assert row["share"] == pytest.approx(value / everything, abs=1e-6)


@dataclass(frozen=True)
class Against:
    """What is held against what: hours of each side, and of which host or job each is."""

    later: tuple[int, int] = (2, 3)
    before: tuple[int, int] = (0, 2)
    of: tuple[tuple[str, Any], ...] = ()
    base_of: tuple[tuple[str, Any], ...] = ()


AGAINST: Final = (
    Against(),
    Against(of=(("lines", 0), ("process", "python3")), base_of=(("lines", 0), ("process", "python3"))),
    Against((0, 3), (0, 3), (("job_id", "big"),), (("job_id", "small"),)),
    Against((0, 3), (0, 3), (("host", "ant"), ("pid", 11)), (("host", "bee"), ("pid", 11))),
    Against((0, 3), (0, 3), (("rank", 7),), (("rank", 7), ("job_id", "small"))),
    Against(of=(("by", "rank"), ("lines", 0)), base_of=(("by", "rank"), ("lines", 0))),
    Against((0, 3), (0, 3), (("by", "host"), ("job_id", "big")), (("by", "host"), ("job_id", "small"))),
    Against(of=(("by", "thread"),), base_of=(("by", "thread"),)),
)


@pytest.mark.parametrize("least", [0, 0.02])
@pytest.mark.parametrize("windows", ["stack_samples", "stack_hours"])
@pytest.mark.parametrize("case", AGAINST, ids=str)
def test_a_difference_has_both_sides_of_every_path(
    shared_tables: Client, world: World, case: Against, windows: str, least: float
) -> None:
    of, base_of = dict(case.of), dict(case.base_of)
    if windows == "stack_hours" and ("pid" in of or of.get("by") == "thread"):
        return  # hours do not tell pids and threads apart
    later, before = (
        nodes(weighed(tuple(row for row in world.rows if _within(world, row, hours)), given))
        for hours, given in ((case.later, of), (case.before, base_of))
    )
    total, base_total = later["all",][0], before["all",][0]
    paths = [
        path
        for path in sorted({*later, *before})
        if later.get(path, (0, 0))[0] >= least * total or before.get(path, (0, 0))[0] >= least * base_total
    ]
    base = {f"base_{key}": value for key, value in base_of.items() if key in ("host", "job_id")}
    base |= {
        "base_since": iso(world.since + case.before[0] * 3600),
        "base_until": iso(world.since + case.before[1] * 3600),
    }
    window = world.since + case.later[0] * 3600, world.since + case.later[1] * 3600
    found = ask(
        shared_tables, "stack_diff", window, windows=windows, base_windows=windows, least=least,
        **of, **base,
    )  # fmt: skip
    assert [
        (row["level"], row["label"], row["value"], row["self"], row["base"], row["base_self"]) for row in found
    ] == [(len(path) - 1, path[-1], *later.get(path, (0, 0)), *before.get(path, (0, 0))) for path in paths]
    for row in found:
        assert row["share"] == pytest.approx(row["value"] / total, abs=1e-6)
        assert row["base_share"] == pytest.approx(row["base"] / base_total, abs=1e-6)


def _within(world: World, sample: Row, hours: tuple[int, int]) -> bool:
    return bool(hours[0] * 3600 <= sample["ts"] - world.since < hours[1] * 3600)


def test_a_side_without_samples_is_zero_everywhere(shared_tables: Client, world: World) -> None:
    long_ago = {"base_since": iso(world.since - 7200), "base_until": iso(world.since - 3600)}
    found = ask(shared_tables, "stack_diff", (world.since, world.until), **long_ago)
    assert {(row["base"], row["base_self"], row["base_share"]) for row in found} == {(0, 0, 0)}
    flame = ask(shared_tables, "stack_flame", (world.since, world.until))
    assert [(row["level"], row["label"], row["value"], row["self"]) for row in found] == [
        tuple(row.values()) for row in flame
    ]


@pytest.mark.parametrize("name", QUERIES)
def test_of_one_source_unless_all_are_asked_for(shared_tables: Client, world: World, name: str) -> None:
    window = {"since": iso(world.since), "until": iso(world.until)}
    more = {"stack_share": {"function": "step"}, "stack_diff": {"base_since": "-9h", "base_until": "-8h"}}.get(name, {})
    asked = queries.get(name).statement({**window, **more})
    found = shared_tables.query(asked.sql, parameters=dict(asked.values)).named_results()
    assert [*map(dict, found)] == ask(shared_tables, name, (world.since, world.until), source="py-spy", **more)


@pytest.mark.parametrize("name", QUERIES)
def test_nothing_sampled_is_no_row(shared_tables: Client, world: World, name: str) -> None:
    more = {"stack_share": {"function": "step"}, "stack_diff": {"base_host": "nobody"}}.get(name, {})
    assert ask(shared_tables, name, (world.since, world.until), host="nobody", **more) == []


def test_stacks_that_nobody_told_are_one_that_says_so(shared_tables: Client, world: World) -> None:
    found = ask(shared_tables, "stack_flame", (world.since, world.until), least=0)
    (row,) = (row for row in found if row["label"] == NOT_TOLD)
    secret = sum(estimate(each) for each in world.rows if each["known"] == (NOT_TOLD,) and fits(each, {}))
    assert (row["level"], row["value"], row["self"]) == (1, secret, secret)


def test_frames_are_kept_once_of_each_job_and_of_each_host_without_one(shared_tables: Client, world: World) -> None:
    owners = {(each["job_id"] or each["host"], each["stack"]) for each in world.rows if each["frames"]}
    kept = shared_tables.query("SELECT owner, stack, frames FROM stack_frames FINAL").result_rows
    assert {(owner, stack) for owner, stack, _ in kept} == owners
    assert all(identity(frames) == stack for _, stack, frames in kept)


def test_the_query_for_grafana_draws_the_same(shared_tables: Client, world: World) -> None:
    page = (Path(__file__).parents[2] / "docs/stacks.md").read_text()
    (sql,) = re.findall(r"^### Grafana\n.*?```sql\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    window = f"ts >= toDateTime({world.since}) AND ts < toDateTime({world.until})"
    sql = sql.replace("$__timeFilter(ts)", window).replace("$job", "big")
    told = tuple(row for row in world.rows if row["known"] != (NOT_TOLD,))
    expected = nodes(weighed(told, {"job_id": "big", "source": "py-spy"}))
    assert [tuple(found) for found in shared_tables.query(sql).result_rows] == [
        (len(path) - 1, path[-1], *weight) for path, weight in expected.items()
    ]
