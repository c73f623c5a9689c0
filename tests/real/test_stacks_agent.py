"""Real programs with a known profile, sampled by real samplers: shares, names, files and lines are right."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import pytest

from tests.real import stack_programs as programs
from tests.real.stack_programs import Program
from tests.real.stack_turns import Turns, children, going, may_perf, punctual, running, share, told, tree

TEXTS: Final = {
    "split": programs.SPLIT,
    "async": programs.ASYNC,
    "loader": programs.LOADER,
    "native": programs.NATIVE,
    "threads": programs.THREADS,
    "forks": programs.FORKS,
    "children": programs.CHILDREN,
}
POINTS: Final = 0.03
"""What a share may be off: 3 points."""
SIGMAS: Final = 5.5
"""The chance that sampling alone is off by more than so many standard deviations is less than 1 in 20 million."""
WINDOW_S: Final = 8.0
RATE_HZ: Final = 1000
NATIVE_HZ: Final = 500
"""It holds the program still for half a millisecond or so, and must not do so all the time."""
TURNS: Final = 4
"""So many are added up at most until the samples are enough, and were taken by a sampler that found a free CPU."""
BUSY: Final = 0.1
"""Of a turn, the share that its sampler waited for a CPU."""
OTHERS_HZ: Final = 60

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Seen:
    """What was told of one program; `of_first`: the share of what is first when it was sampled, by its own account."""

    program: Program
    pid: int
    rows: Sequence[Any]
    of_first: float

    def frames(self) -> set[str]:
        """All that were told."""
        return {frame for row in self.rows for frame in row.frames}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """A turn for each that is to be exact, and one for the others; who is not sampled is stopped, for CPUs are few."""
    folder = tmp_path_factory.mktemp("programs")
    every = {name: Program.put(folder, name, text) for name, text in TEXTS.items()}
    with running(every) as pids:
        found = _alone(every, pids, "split")
        found |= _alone(every, pids, "async")
        found |= _alone(every, pids, "loader", stacks_idle=True)
        found |= _alone(every, pids, "native", NATIVE_HZ, stacks_native=True)
        found |= _others(every, pids)
    return found


def _alone(
    every: Mapping[str, Program], pids: Mapping[str, int], name: str, rate: int = RATE_HZ, **settings: Any
) -> dict[str, Seen]:
    turns = Turns([tree(pids[name], name)], stacks_sampling_s=WINDOW_S, stacks_rate_hz=rate, **settings)
    quiet, true = 0, Counter[float]()
    with going(pids[name]), punctual():
        for _ in range(TURNS):
            before, waited_s = len(turns.rows), turns.turn()
            at = turns.at.pop(pids[name])
            samples = sum(row.samples for row in main(turns.rows[before:]))
            of_first = every[name].share(at - WINDOW_S, at)
            true[of_first] += samples
            quiet += samples if waited_s < BUSY * WINDOW_S else 0
            if quiet >= enough(of_first):
                break
    assert turns.troubles == {}
    rows = [row for row in turns.rows if row.pid == pids[name]]
    return {name: Seen(every[name], pids[name], rows, fmean(true, weights=true.values()))}


def enough(share: float) -> float:
    """Samples by which a share is known to so many points: they are taken at random times, each on its own."""
    return share * (1 - share) * (SIGMAS / POINTS) ** 2


def main(rows: Sequence[Any]) -> list[Any]:
    return [row for row in rows if (row.source, row.thread) == ("py-spy", "MainThread")]


def _others(every: Mapping[str, Program], pids: Mapping[str, int]) -> dict[str, Seen]:
    names, worker = ("threads", "forks", "children"), _child(pids["children"])
    trees = [
        tree(pids["threads"], "threads"),
        tree(pids["forks"], "forks"),
        tree(pids["children"], "children", 9, [worker]),
    ]
    turns = Turns(trees, stacks_perf="on" if may_perf() else "off", stacks_rate_hz=OTHERS_HZ)
    with going(*(pids[name] for name in names)):
        turns.turn()
    of_pid = {worker: "children"} | {pids[name]: name for name in names}
    rows = {name: [row for row in turns.rows if of_pid.get(row.pid) == name] for name in names}
    return {name: Seen(every[name], pids[name], rows[name], 0.0) for name in names}


def _child(pid: int) -> int:
    (child,) = children(pid)
    return child


def of(seen: Seen, source: str) -> Sequence[Any]:
    return [row for row in seen.rows if row.source == source]


def split(seen: Seen, first: str, second: str) -> None:
    """The share of the first of two functions is what it was while it was sampled, within three points."""
    rows = main(seen.rows)
    assert sum(row.samples for row in rows) >= enough(seen.of_first)
    assert share(rows, told(rows), first, (first, second)) == pytest.approx(seen.of_first, abs=POINTS, rel=0)


def test_a_cpu_loop_is_split_as_it_is(seen: dict[str, Seen]) -> None:
    split(seen["split"], "heavy", "light")


def test_names_files_and_lines_are_those_of_the_program(seen: dict[str, Seen]) -> None:
    found, program = seen["split"], seen["split"].program
    rows = of(found, "py-spy")
    frames = told(rows)
    most = max((row for row in rows if frames[row.stack][-1].startswith("heavy ")), key=lambda row: row.weight)
    module, work, heavy = frames[most.stack]
    assert module == f"<module> ({program.path}:{program.line('work()')})" or module.startswith(
        f"<module> ({program.path}:"
    )
    assert work.startswith(f"work ({program.path}:")
    assert heavy in {f"heavy ({program.path}:{program.line('# heavy') - less})" for less in (0, 1)}


def test_a_row_says_whose_it_is(seen: dict[str, Seen]) -> None:
    rows = of(seen["split"], "py-spy")
    assert {(row.host, row.job_id, row.rank, row.pid, row.process) for row in rows} == {
        ("gpu01", "split", 0, seen["split"].pid, "program.py")
    }
    assert {(row.tid, row.thread, row.period_ms, row.sampled_ms, row.unit) for row in rows} == {
        (seen["split"].pid, "MainThread", 3_600_000, 8000, "microseconds")
    }
    turns = len({row.ts for row in rows})
    assert 5e6 * turns < sum(row.weight for row in rows) <= 8.1e6 * turns


def test_a_sample_weighs_what_passes_until_the_next(seen: dict[str, Seen]) -> None:
    rows = of(seen["children"], "py-spy")
    assert all(row.weight == round(row.samples * 1e6 / OTHERS_HZ) for row in rows)


def test_threads_have_their_names_and_one_that_sleeps_takes_no_time(seen: dict[str, Seen]) -> None:
    rows = of(seen["threads"], "py-spy")
    by_thread = {name: sum(row.weight for row in rows if row.thread == name) for name in {row.thread for row in rows}}
    assert max(by_thread, key=lambda name: by_thread[name]) == "hasher 1"
    assert by_thread.get("sleeper 1", 0) <= 0.1 * by_thread["hasher 1"]
    assert len({row.tid for row in rows if row.thread == "hasher 1"}) == 1


def test_coroutines_are_split_as_they_are(seen: dict[str, Seen]) -> None:
    split(seen["async"], "fetch", "store")


def test_a_loader_that_is_waited_for_shows_as_waiting(seen: dict[str, Seen]) -> None:
    split(seen["loader"], "wait_for_batch", "train")
    assert {row.thread for row in of(seen["loader"], "py-spy")} >= {"MainThread", "loader"}


def test_c_code_is_told_below_the_python_that_called_it(seen: dict[str, Seen]) -> None:
    split(seen["native"], "digest", "pack")
    rows = of(seen["native"], "py-spy")
    frames = told(rows)
    most = max(
        (row for row in rows if any(each.startswith("digest ") for each in frames[row.stack])),
        key=lambda row: row.weight,
    )
    python = next(i for i, each in enumerate(frames[most.stack]) if each.startswith("digest "))
    assert any(".so" in each for each in frames[most.stack][python + 1 :]), frames[most.stack]
    assert not any(each.startswith("0x") for each in seen["native"].frames())


def test_what_a_process_started_is_sampled_with_it_and_has_its_rank(seen: dict[str, Seen]) -> None:
    rows = of(seen["children"], "py-spy")
    (worker,) = {row.pid for row in rows} - {seen["children"].pid}
    frames = told(rows)
    busy = [row for row in rows if any(frame.startswith("crunch ") for frame in frames[row.stack])]
    assert {(row.pid, row.job_id, row.rank) for row in busy} == {(worker, "children", 9)}
    assert sum(row.weight for row in busy) > 0.9 * sum(row.weight for row in rows)


def test_a_process_that_forks_all_the_time_is_sampled_as_any_other(seen: dict[str, Seen]) -> None:
    assert any("forks.py" in frame for frame in seen["forks"].frames())


def test_perf_sees_the_same_processes_down_to_the_kernel(seen: dict[str, Seen]) -> None:
    if not may_perf():
        pytest.skip("here is no perf, or it may not sample the whole host")
    rows = of(seen["threads"], "perf")
    assert {(row.job_id, row.rank, row.process) for row in rows} == {("threads", 0, "program.py")}
    assert any("libcrypto" in frame or "_hashlib" in frame for frame in seen["threads"].frames())
    forks = {frame for row in of(seen["forks"], "perf") for frame in row.frames}
    assert any("[kernel.kallsyms]" in frame for frame in forks)
