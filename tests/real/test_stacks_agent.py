"""Real programs with a known profile, sampled by real samplers: shares, names, files and lines are right."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import pytest

from tests.real import stack_programs as programs
from tests.real.stack_programs import Program
from tests.real.stack_turns import Turns, going, running, share, told, tree

TEXTS: Final = {
    "split": programs.SPLIT,
    "async": programs.ASYNC,
    "loader": programs.LOADER,
    "native": programs.NATIVE,
    "threads": programs.THREADS,
    "forks": programs.FORKS,
    "children": programs.CHILDREN,
}
WINDOW_S: Final = 6.0
TURNS: Final = 4
"""So many are added up where the machine is busy: a sampler that waits for a CPU takes fewer looks at a program."""
BUSY: Final = 0.01
"""Of a turn, the share that its sampler waited for a CPU."""
POINTS: Final = 0.03
"""What a share may be off: 3 points."""

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Seen:
    """What was told of one program; `of_first`: the share of what is first, by its own account."""

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
    perf = "on" if shutil.which("perf") and os.geteuid() == 0 else "off"
    with running(every) as pids:
        found = _alone(every, pids, "split")
        found |= _alone(every, pids, "async")
        found |= _alone(every, pids, "loader", stacks_idle=True)
        found |= _alone(every, pids, "native", stacks_native=True)
        found |= _others(every, pids, perf)
    return found


def _alone(every: Mapping[str, Program], pids: Mapping[str, int], name: str, **settings: Any) -> dict[str, Seen]:
    turns = Turns([tree(pids[name], name)], stacks_sampling_s=WINDOW_S, **settings)
    true = []
    with going(pids[name]):
        for _ in range(TURNS):
            waited_s = turns.turn()
            at = turns.at.pop(pids[name])
            true.append(every[name].share(at - WINDOW_S, at))
            if waited_s < BUSY * WINDOW_S:
                break
    rows = [row for row in turns.rows if row.pid == pids[name]]
    return {name: Seen(every[name], pids[name], rows, fmean(true))}


def _others(every: Mapping[str, Program], pids: Mapping[str, int], perf: str) -> dict[str, Seen]:
    names, worker = ("threads", "forks", "children"), _child(pids["children"])
    trees = [
        tree(pids["threads"], "threads"),
        tree(pids["forks"], "forks"),
        tree(pids["children"], "children", 9, [worker]),
    ]
    turns = Turns(trees, stacks_perf=perf)
    with going(*(pids[name] for name in names)):
        turns.turn()
    of_pid = {worker: "children"} | {pids[name]: name for name in names}
    rows = {name: [row for row in turns.rows if of_pid.get(row.pid) == name] for name in names}
    return {name: Seen(every[name], pids[name], rows[name], 0.0) for name in names}


def _child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def of(seen: Seen, source: str) -> Sequence[Any]:
    return [row for row in seen.rows if row.source == source]


def split(seen: Seen, first: str, second: str) -> None:
    """The share of the first of two functions is what it was while it was sampled, within three points."""
    rows = [row for row in of(seen, "py-spy") if row.thread == "MainThread"]
    found = share(rows, told(rows), first, (first, second))
    assert abs(found - seen.of_first) <= POINTS


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
        (seen["split"].pid, "MainThread", 3_600_000, 6000, "microseconds")
    }
    assert all(row.weight == round(row.samples * 1e6 / 50) for row in rows)
    turns = len({row.ts for row in rows})
    assert 4e6 * turns < sum(row.weight for row in rows) <= 6.1e6 * turns


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


@pytest.mark.skipif(shutil.which("perf") is None or os.geteuid() != 0, reason="needs perf, and root")
def test_perf_sees_the_same_processes_down_to_the_kernel(seen: dict[str, Seen]) -> None:
    rows = of(seen["threads"], "perf")
    assert {(row.job_id, row.rank, row.process) for row in rows} == {("threads", 0, "program.py")}
    assert any("libcrypto" in frame or "_hashlib" in frame for frame in seen["threads"].frames())
    forks = {frame for row in of(seen["forks"], "perf") for frame in row.frames}
    assert any("[kernel.kallsyms]" in frame for frame in forks)
