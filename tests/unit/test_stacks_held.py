"""Whether a sampler holds a process still at one and the same sample, or at one after the other."""

from pathlib import Path
from typing import Any

import pytest

from warpmeter.producers.stacks.pyspy import held

PROCESS, SAMPLER, THREAD_OF_IT = 700, 800, 801


def proc(folder: Path, state: str = "t (tracing stop)", tracer: int = THREAD_OF_IT, switches: int = 50) -> str:
    """The files of a process, and of the sampler's thread that traces it."""
    for pid in (PROCESS, THREAD_OF_IT):
        (folder / str(pid)).mkdir(exist_ok=True)
    status = f"Name:\tpython3\nState:\t{state}\nTracerPid:\t{tracer}\n"
    status += f"voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t7\n"
    (folder / str(PROCESS) / "status").write_text(status)
    (folder / str(THREAD_OF_IT) / "stat").write_text(f"{THREAD_OF_IT} (py-spy (1)) S 1 {SAMPLER} 1 0")
    return str(folder)


def test_the_same_stop_has_the_same_number_and_the_next_another(tmp_path: Path) -> None:
    first = held(proc(tmp_path), PROCESS, SAMPLER)
    assert held(proc(tmp_path), PROCESS, SAMPLER) == first is not None
    assert held(proc(tmp_path, switches=51), PROCESS, SAMPLER) not in (first, None)


@pytest.mark.parametrize("other", [{"state": "R (running)"}, {"state": "T (stopped)"}, {"tracer": 0}, {"tracer": 900}])
def test_who_runs_or_is_held_by_another_is_not_held(tmp_path: Path, other: dict[str, Any]) -> None:
    assert held(proc(tmp_path, **other), PROCESS, SAMPLER) is None


def test_who_is_gone_is_not_held(tmp_path: Path) -> None:
    assert held(str(tmp_path), PROCESS, SAMPLER) is None
