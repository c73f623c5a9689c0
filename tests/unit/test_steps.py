"""Counting a job's steps in its own Python, and what the agent makes of the count."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.cli.launching import HOOK, setup
from warpmeter.hook import warpmeter_steps as memory
from warpmeter.producers.kineto import steps
from warpmeter.producers.kineto.captures import Member
from warpmeter.producers.kineto.steps import Step, Traced, counted, slowdown_permille
from warpmeter.producers.kineto.upload import Stored

TORCH = {
    "__init__.py": "__version__ = '2.9.1+cpu'\nfrom torch import optim, compiler\n",
    "compiler.py": "def is_dynamo_compiling(): return False\n",
    "optim/__init__.py": "from torch.optim.optimizer import step\n",
    "optim/optimizer.py": "hooks = []\nregister_optimizer_step_post_hook = hooks.append\n"
    "def step():\n    for each in hooks: each(None, (), {})\n",
}
"""What of PyTorch the count knows."""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with that PyTorch in it."""
    for name, text in TORCH.items():
        file = tmp_path / "torch" / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
    return tmp_path


def python(script: str, *path: Path, hook: str = HOOK) -> "subprocess.CompletedProcess[str]":
    """A script below `warpmeter run`, to its end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([hook, *map(str, path)])}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)


@contextmanager
def running(script: str, job: Path) -> Iterator["subprocess.Popen[str]"]:
    """A script that has printed a line, and waits for one."""
    environment = {**os.environ, "PYTHONPATH": f"{HOOK}{os.pathsep}{job}"}
    line = [sys.executable, "-c", f"{script}\nprint(flush=True)\ninput()"]
    with subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


# --- in the job's Python ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "said", "complaint"),
    [
        ("print('theirs')", "theirs\ndone\n", ""),
        ("", "done\n", ""),
        (None, "done\n", ""),
        ("import no_such_module", "done\n", "Error in sitecustomize"),
        ("raise KeyError('x')", "done\n", "Error in sitecustomize"),
    ],
)
def test_a_jobs_own_sitecustomize_runs_as_if_ours_were_not_there(
    tmp_path: Path, theirs: str | None, said: str, complaint: str
) -> None:
    if theirs is not None:
        (tmp_path / "sitecustomize.py").write_text(theirs)
    script = "import sys; assert not any('hook' in each for each in sys.path), sys.path; print('done')"
    done = python(script, tmp_path)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
    assert complaint in done.stderr
    plain = python(script, tmp_path, hook="")
    assert (plain.stdout, plain.stderr.count("\n")) == (done.stdout, done.stderr.count("\n"))


def test_steps_are_counted_from_the_first_on_with_their_time(job: Path) -> None:
    with running("from torch.optim import step\nfor _ in range(7): step()", job) as process:
        (found,) = counted("/proc", process.pid, process.pid)
        assert found.count == 7
        assert counted("/proc", process.pid, process.pid + 1) == []
    with running("import torch", job) as process:
        assert counted("/proc", process.pid, process.pid) == []


def test_the_pace_of_processes_is_asked_of_all_at_once_and_not_for_ever(job: Path) -> None:
    script = "import time; from torch.optim import step\nfor _ in range(9): step(); time.sleep(0.15)"
    with running(script, job) as process:
        asked = [(process.pid, process.pid), (os.getpid(), os.getpid()), (1 << 22, 5)]
        found = steps.paces("/proc", asked, 10.0)
    assert found.keys() == {process.pid}
    assert found[process.pid].count == 9
    assert 140_000 < found[process.pid].step_us < 1_000_000


def test_what_is_loaded_already_is_counted_and_only_once(job: Path) -> None:
    again = "import torch.optim, warpmeter_steps\nfor _ in range(2): warpmeter_steps.install()\ntorch.optim.step()"
    script = f"import sys; sys.path.append({HOOK!r})\n{again}"
    with running(script, job) as process:
        assert [each.count for each in counted("/proc", process.pid, process.pid)] == [1]
    environment = {**os.environ, "PYTHONPATH": str(job)}
    line = [sys.executable, "-c", f"{script}\nprint(len(sys.modules['torch.optim.optimizer'].hooks))"]
    assert subprocess.run(line, env=environment, capture_output=True, timeout=60).stdout == b"1\n"


def test_a_child_counts_for_itself(job: Path) -> None:
    script = (
        "import os; from torch.optim import step\nstep(); step()\nread, write = os.pipe()\n"
        "if os.fork() == 0:\n    import time; step(); os.write(write, b'%d' % os.getpid()); time.sleep(60)\n"
        "print(int(os.read(read, 20)), flush=True); step()"
    )
    environment = {**os.environ, "PYTHONPATH": f"{HOOK}{os.pathsep}{job}"}
    line = [sys.executable, "-c", f"{script}\nprint(flush=True)\ninput()"]
    with subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.stdout.readline()
        assert [each.count for each in counted("/proc", process.pid, process.pid)][-1] == 3
        assert [each.count for each in counted("/proc", child, child)] == [1]
        os.kill(child, 9)
        process.kill()


@pytest.mark.parametrize(
    "broken",
    [
        "import os; os.memfd_create = None",
        "import sys; sys.modules['mmap'].mmap = None",
        "import torch; torch.__version__ = 'none'",
        "import torch; torch.__version__ = '2.2.0'",
    ],
)
def test_a_job_goes_on_where_its_steps_cannot_be_counted(job: Path, broken: str) -> None:
    with (job / "torch" / "__init__.py").open("a") as file:
        file.write(f"{broken}\n" if "sys" in broken or "os" in broken else "")
    if "version" in broken:
        version = broken.rpartition("'")[0].rpartition("'")[2]
        (job / "torch" / "__init__.py").write_text(TORCH["__init__.py"].replace("2.9.1+cpu", version))
    done = python("from torch.optim import step\nstep(); step(); print('done')", job)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_nothing_is_counted_while_the_compiler_looks(job: Path) -> None:
    (job / "torch" / "compiler.py").write_text("def is_dynamo_compiling(): return True\n")
    with running("from torch.optim import step\nstep()", job) as process:
        assert counted("/proc", process.pid, process.pid) == []


def test_run_puts_it_before_the_jobs_own_path_and_leaves_it_out_when_told() -> None:
    found = setup(Path("/nowhere"), None, {"PYTHONPATH": "/theirs"}).variables["PYTHONPATH"]
    assert found == f"{HOOK}{os.pathsep}/theirs"
    assert setup(Path("/nowhere"), None, {}).variables["PYTHONPATH"] == HOOK
    assert "PYTHONPATH" not in setup(Path("/nowhere"), None, {}, count_steps=False).variables


# --- in the agent ----------------------------------------------------------------------------------------------


def every(interval_s: float, since: float, until: float, count: int = 0) -> list[Step]:
    """Steps at this pace, from that time on."""
    number = int((until - since) / interval_s)
    return [Step(count + n, since + n * interval_s) for n in range(1, number + 1)]


def training(before_s: float, during_s: float, traced: Traced, after_s: float = 0.1) -> list[Step]:
    """A job that takes so long for a step before, while and after it is traced."""
    first = every(before_s, traced.since - 60, traced.since)
    then = every(during_s, traced.since, traced.until, first[-1].count)
    last = then or first
    return [*first, *then, *every(after_s, max(traced.until, last[-1].at), traced.until + 100, last[-1].count)]


AT = Traced(1000.0, 1001.0, 0.0, 5.0)


@pytest.mark.parametrize(
    ("found", "permille"),
    [
        (training(0.1, 0.1, AT), 0),
        (training(0.1, 0.05, AT), 0),  # faster
        (training(0.05, 0.1, AT), 500),
        (training(0.01, 0.0125, AT), 200),
        ([], None),
        (every(0.1, 999.5, 1002.0), None),  # it had just begun
        (every(0.1, 900.0, 999.0), None),  # and none came after
    ],
)
def test_the_slow_down_is_of_steps_a_second_before_and_while_it_was_traced(
    found: Sequence[Step], permille: int | None
) -> None:
    assert slowdown_permille(found, AT) == (permille if permille is None else pytest.approx(permille, abs=3))


def test_of_long_steps_those_that_the_trace_touches_count() -> None:
    found = [*every(10.0, 900.0, 999.0), Step(10, 1004.5), Step(11, 1014.0)]
    assert [each.at for each in found[-3:]] == [990.0, 1004.5, 1014.0]
    assert slowdown_permille(found, AT) == pytest.approx(310, abs=2)  # 14.5 s in place of 10 s


def test_how_far_a_process_is_and_how_fast() -> None:
    found = steps.pace_of([*every(0.5, 900.0, 960.0), *every(0.1, 960.0, 1000.0, 120)])
    assert found is not None
    assert found.count == 520
    assert found.step_us == pytest.approx(100_000, rel=0.01)
    assert steps.pace_of(every(60.0, 0.0, 600.0)) == steps.Pace(10, 60_000_000)
    assert steps.pace_of(every(0.1, 0.0, 0.2)) is None
    assert steps.pace_of([]) is None
    assert steps.pace_of([Step(n, n * 1e-9) for n in range(100)]) == steps.Pace(99, 1)
    assert steps.pace_of(every(5000.0, 0.0, 50_000.0)) == steps.Pace(10, (1 << 32) - 1)


def test_what_an_earlier_capture_cost_is_not_held_against_this_one() -> None:
    slow, fast = every(0.5, 960.0, 985.0), every(0.1, 985.0, 1000.0, 50)
    found = [*slow, *fast, *every(0.2, 1000.0, 1002.0, 200)]
    assert slowdown_permille(found, Traced(1000.0, 1001.6, 985.0, 5.0)) == pytest.approx(500, abs=5)
    assert slowdown_permille(found, Traced(1000.0, 1001.6, 999.0, 5.0)) is None


def test_a_stored_trace_is_held_against_the_steps_of_its_process(job: Path) -> None:
    script = (
        "import time; from torch.optim import step\nbegan = last = time.time()\nwhile time.time() < began + 2:\n"
        "    step(); last = time.time(); time.sleep(0.02 if last < began + 1 else 0.04)\n"
        f"with open({str(job / 'took')!r}, 'w') as file: file.write(str(last - began))"
    )
    with running(script, job) as process:
        (first, *_, last) = counted("/proc", process.pid, process.pid)
        assert last.at - first.at == pytest.approx(float((job / "took").read_text()), abs=0.4)
        member, nobody = Member(process.pid, 0, process.pid, 0), Member(process.pid, 0, 1, 0)
        said = Stored("", 1, 1, "")
        assert steps.measured("/proc", member, said, 0, 0) is None
        assert steps.measured("/proc", nobody, said, 0, 0) is None
    assert steps.measured("/proc", member, Stored("", 1, 1, "", 1.0, 2.0), 0, 0) is None


@given(st.binary(max_size=400), st.integers(0, memory.SLOTS - 20))
def test_whatever_a_process_writes_there_is_a_count_or_none(noise: bytes, slot: int) -> None:
    text = bytearray(memory.SIZE)
    at = memory.HEAD.size + 16 * slot
    text[at : at + len(noise) // 16 * 16] = noise[: len(noise) // 16 * 16]
    found = steps._steps(bytes(text))
    assert all(after.count > before.count for before, after in pairwise(found))
    assert slowdown_permille(found, AT) in (None, *range(1001))


def test_a_descriptor_of_that_name_that_is_none_of_ours_is_left_alone(job: Path) -> None:
    script = (
        "import os; a = os.memfd_create('warpmeter-steps'); b = os.memfd_create('warpmeter-steps')\n"
        f"os.write(a, b'WMSTEPS1' + bytes(8)); os.write(b, bytes({memory.SIZE}))"
    )
    with running(script, job) as process:
        assert counted("/proc", process.pid, process.pid) == []
        assert counted("/proc", process.pid, 0) == []
