"""Processes that end, are traced by others, or may not be looked at; samplers and agents that are killed at their work.

Whatever happens, no process is left stopped or traced, and nothing of the agent's goes on without it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.python import PYTHON
from tests.real import stack_programs as programs
from tests.real.stack_programs import Program
from tests.real.stack_turns import Turns, children, goes_on, going, gone, may, running, state, tree
from tests.wait import until
from warpmeter.producers.source import JobTree, SourceError
from warpmeter.producers.stacks import pyspy

REPOSITORY: Final = Path(__file__).parents[2]
MODES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "blocking": {"stacks_blocking": True},
    "native": {"stacks_native": True},
}
IN_A_NAMESPACE: Final = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
AGENT: Final = """
import json, sys, time
from tests.real.stack_turns import Turns, tree
turns = Turns([tree(int(sys.argv[1]))], stacks_rate_hz=1000, stacks_sampling_s=60.0, **json.loads(sys.argv[2]))
turns.begin()
print(*turns.samplers(), flush=True)
while True:
    turns.look()
    time.sleep(0.05)
"""
TRACER: Final = """
import ctypes, sys, time
PTRACE_SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
print(libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None), flush=True)
time.sleep(1000)
"""
AS_NOBODY: Final = """
import json, os, sys
from tests.real.stack_turns import Turns, tree
trees = [tree(int(sys.argv[1]))]
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
turns = Turns(trees, stacks_sampling_s=1.0, stacks_perf="auto")
turns.turn()
print(json.dumps([[each.subject, each.state, each.why] for each in turns.health.values()]))
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[int]:
    """Pid of a program that computes."""
    with running({"split": Program.put(tmp_path, "split", programs.SPLIT)}) as pids, going(pids["split"]):
        yield pids["split"]


@contextmanager
def script(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program of ours."""
    line = [sys.executable, "-c", text, *arguments]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def killed_at_work(pid: int, mode: str, wait_s: float) -> None:
    """Kill an agent in the middle of a turn."""
    with script(AGENT, str(pid), json.dumps(MODES[mode])) as agent:
        assert agent.stdout is not None
        samplers = [int(each) for each in agent.stdout.readline().split()]
        time.sleep(wait_s)
        assert [state(each)[0] != "Z" for each in samplers] == [True]
        agent.send_signal(signal.SIGKILL)
        until(lambda: all(map(gone, samplers)), "the samplers to end with the agent")
    until(lambda: goes_on(pid), "the process to go on")


@pytest.mark.parametrize("mode", ["plain", "blocking"])
def test_an_agent_that_is_killed_leaves_nothing_stopped_and_nothing_at_work(busy: int, mode: str) -> None:
    killed_at_work(busy, mode, 0.5)


@pytest.mark.long
@pytest.mark.parametrize("mode", list(MODES))
def test_nor_does_it_at_any_other_moment(busy: int, mode: str) -> None:
    for number in range(8):
        killed_at_work(busy, mode, 0.2 + 0.037 * number)


@pytest.mark.parametrize("mode", list(MODES))
def test_a_sampler_that_is_killed_leaves_nothing_stopped_and_is_told(busy: int, mode: str) -> None:
    turns = Turns([tree(busy)], stacks_rate_hz=1000, stacks_sampling_s=60.0, **MODES[mode])
    for number in range(5):
        turns.begin()
        (sampler,) = turns.samplers()
        time.sleep(0.2 + 0.037 * number)
        os.kill(sampler, signal.SIGKILL)
        turns.finish()
        until(lambda: goes_on(busy), "the process to go on")
    told = turns.health["processes/failed"]
    assert (told.state, "ended by signal 9" in told.why) == ("failed", True)


def test_a_sampler_that_does_not_get_on_while_it_holds_a_process_is_ended(busy: int) -> None:
    turns = Turns([tree(busy)], stacks_rate_hz=1000, stacks_sampling_s=60.0, stacks_native=True)
    turns.begin()
    (sampler,) = turns.samplers()

    def caught() -> bool:
        """Stop the sampler; whether it held the process at that moment."""
        os.kill(sampler, signal.SIGSTOP)
        until(lambda: state(sampler)[0] == "T", "the sampler to stop")
        if state(busy)[0] == "t":
            return True
        os.kill(sampler, signal.SIGCONT)
        return False

    until(caught, "the sampler to hold the process", every_s=0.003)
    turns.finish()
    until(lambda: goes_on(busy), "the process to go on")
    assert turns.health["processes/timeout"].why.startswith(f"pid {busy}: py-spy held it still")
    assert "its sampler was behind" in turns.health["rate"].why
    assert turns.health["native"].why.startswith(f"pid {busy}: no C frames for an hour")
    turns.begin()
    (sampler,) = turns.samplers()
    assert b"--native" not in Path(f"/proc/{sampler}/cmdline").read_bytes()
    os.kill(sampler, signal.SIGINT)
    turns.finish()


@pytest.mark.long
def test_what_calls_itself_too_deep_is_said_and_tried_again(tmp_path: Path) -> None:
    with running({"deep": Program.put(tmp_path, "deep", programs.DEEP)}) as pids:
        turns = Turns([tree(pids["deep"])], stacks_sampling_s=1.0, stacks_rate_hz=10)
        with going(pids["deep"]):
            until(lambda: bool(turns.turn() or turns.rows), "its stacks before it goes deep", 120)
            os.kill(pids["deep"], signal.SIGUSR1)
            until(lambda: bool(turns.turn() or turns.troubles), "it to be deep", 120)
        (told,) = turns.troubles.values()
        assert told.state in ("failed", "paused")
        turns.begin()
        assert turns.samplers() or "in one turn of" in turns.health["rate"].why


@pytest.mark.long
def test_of_a_process_that_is_traced_by_another_the_python_is_seen_and_no_c(busy: int) -> None:
    with script(TRACER, str(busy)) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "0\n"
        plain = Turns([tree(busy)], stacks_sampling_s=1.0)
        native = Turns([tree(busy)], stacks_sampling_s=1.0, stacks_native=True)
        plain.turn()
        native.turn()
        assert (bool(plain.rows), plain.troubles) == (True, {})
        assert native.rows == []
        assert native.health["processes/denied"].why.startswith(f"pid {busy}: process {tracer.pid} traces it")
        assert state(busy)[1] == tracer.pid
    until(lambda: goes_on(busy), "the process to go on")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_who_may_not_look_says_so_and_what_to_do(busy: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(busy)], capture_output=True, text=True, timeout=120, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr
    told = {subject: (state, why) for subject, state, why in json.loads(done.stdout)}
    state_, why = told["processes/denied"]
    assert (state_, "CAP_SYS_PTRACE" in why) == ("denied", True)
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 0:
        assert told["perf"][0] == "unsupported"
    until(lambda: goes_on(busy), "the process to go on")


def test_a_process_that_ends_meanwhile_gives_what_was_seen_and_no_trouble(tmp_path: Path) -> None:
    with running({"ends": Program.put(tmp_path, "ends", programs.ENDS)}, "2") as pids:
        turns = Turns([tree(pids["ends"])])
        with going(pids["ends"]):
            turns.turn()
        assert turns.troubles == {}
        assert {row.pid for row in turns.rows} <= {pids["ends"]}


def test_what_is_no_python_is_unsupported_and_not_tried_again() -> None:
    sleeper = subprocess.Popen(["sleep", "100"])
    try:
        turns = Turns([tree(sleeper.pid)], stacks_sampling_s=1.0)
        turns.turn()
        assert turns.health["processes/unsupported"].state == "unsupported"
        turns.begin()
        assert turns.samplers() == []
        turns.attribution.trees = ()
        turns.begin()
        assert turns.look().health == []
    finally:
        sleeper.kill()
        sleeper.wait()


def test_without_samplers_the_source_is_unsupported_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceError, match=r"pip install 'warpmeter\[agent\]'") as refused:
        Turns()
    assert refused.value.state == "unsupported"


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("echo py-spy 0.4.3", ""),
        ("echo py-spy 0.3.14", "py-spy 0.3.14 may leave a process stopped"),
        ("echo py-spy 0.4.3; exit 1", "does not say which version it is"),
        ("echo nonsense", "does not say which version it is"),
    ],
)
def test_only_a_version_that_lets_go_may_pause_a_process(tmp_path: Path, says: str, why: str) -> None:
    program = tmp_path / "py-spy"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    said = pyspy.unfit(str(program))
    assert why in said
    assert bool(said) == bool(why)


def test_a_process_that_somebody_stopped_is_left_as_it_is(busy: int) -> None:
    os.kill(busy, signal.SIGSTOP)
    until(lambda: state(busy)[0] == "T", "it to stop")
    turns = Turns([tree(busy)], stacks_blocking=True)
    turns.begin()
    assert (turns.samplers(), state(busy)) == ([], ("T", 0))


def test_closing_ends_the_samplers_at_once(busy: int) -> None:
    turns = Turns([tree(busy)], stacks_sampling_s=60.0, stacks_blocking=True)
    turns.begin()
    (sampler,) = turns.samplers()
    turns.source.close()
    assert gone(sampler)
    until(lambda: goes_on(busy), "the process to go on")


def test_who_asks_to_be_left_alone_is(busy: int) -> None:
    alone = tree(busy)
    turns = Turns([JobTree(alone.job_id, 0, busy, (busy,), alone.interpreters, frozenset({busy}))])
    turns.begin()
    assert turns.samplers() == []


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace")
def test_in_a_container_threads_have_the_hosts_numbers_and_one_that_sleeps_takes_no_time(tmp_path: Path) -> None:
    if not may(*IN_A_NAMESPACE, "true"):
        pytest.skip("here nobody can make a pid namespace")
    program = Program.put(tmp_path, "threads", programs.THREADS)
    outside = subprocess.Popen([*IN_A_NAMESPACE, PYTHON, "-I", str(program.path), str(program.account)])
    try:
        until(lambda: program.begun, "the program to work")
        (pid,) = children(outside.pid)
        turns = Turns([tree(pid)], stacks_sampling_s=3.0)
        turns.turn()
        rows = [row for row in turns.rows if row.thread == "hasher 1"]
        asleep = sum(row.weight for row in turns.rows if row.thread == "sleeper 1")
        (tid,) = {row.tid for row in rows}
        assert Path(f"/proc/{pid}/task/{tid}/comm").exists()
        assert asleep <= 0.1 * sum(row.weight for row in rows)
        assert turns.troubles == {}
    finally:
        outside.kill()
        outside.wait()
