"""`warpmeter run`: a command with what it needs to be captured, and as if nobody stood between."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from tests import netns
from tests.kineto_host import Host
from tests.real.up import warpmeter
from tests.signals import tell
from tests.torchpython import torch_python
from tests.wait import until
from warpmeter.cli.launching import Watch
from warpmeter.producers.kineto import who

ROOT = Path(__file__).parents[2]
KINETO = ("KINETO_USE_DAEMON", "KINETO_IPC_SOCKET_DIR", "KINETO_ONDEMAND_TRACE_DIR")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with Host(tmp_path).listening() as found:
        yield found


def environment(folder: Path, **more: str) -> dict[str, str]:
    """This one's, without what a job may have been given; `folder`: the agent's."""
    kept = {name: value for name, value in os.environ.items() if name not in KINETO}
    return {**kept, "WARPMETER_AGENT__KINETO_SOCKET_DIR": str(folder), **more}


def start(
    line: list[str], folder: Path, said: IO[str] | None = None, within: Sequence[str] = (), **more: str
) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*within, *warpmeter("run", "--", *line)], env=environment(folder, **more), cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said or subprocess.DEVNULL,
    )  # fmt: skip


def test_a_command_has_the_variables_and_its_own_stay(host: Host, tmp_path: Path) -> None:
    line = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    done, _ = start(line, host.sockets, TMPDIR=str(tmp_path)).communicate(timeout=120)
    assert [json.loads(done)[name] for name in KINETO] == ["1", str(host.sockets), str(tmp_path)]
    done, _ = start(line, host.sockets, KINETO_ONDEMAND_TRACE_DIR="/var/tmp").communicate(timeout=120)
    assert json.loads(done)["KINETO_ONDEMAND_TRACE_DIR"] == "/var/tmp"
    done, _ = start(line, tmp_path / "nobody").communicate(timeout=120)
    assert "KINETO_IPC_SOCKET_DIR" not in json.loads(done)


def test_a_folder_that_an_agent_will_come_back_to_is_where_processes_ask(tmp_path: Path) -> None:
    """In a network of its own, where that can be: agents of this machine, which may answer instead, come and go."""
    line = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    within = netns.alone()
    answers = who.listens_abstract() and not within
    tmp_path.chmod(0o1777)
    done, _ = start(line, tmp_path, within=within).communicate(timeout=120)
    assert ("KINETO_IPC_SOCKET_DIR" in json.loads(done)) == (not answers)


def test_its_status_its_signals_and_its_words_are_the_commands(tmp_path: Path) -> None:
    for line, status in (("exit 3", 3), ("kill -9 $$", 137), ("exit 0", 0)):
        assert start(["sh", "-c", line], tmp_path).wait(120) == status
    # Not in one long wait: Python runs no handler for a signal that comes between its last look and the wait's begin.
    trap = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print('up', flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    process = start([sys.executable, "-c", trap], tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 7
    done = subprocess.run(warpmeter("run", "--", "no-such-command", "-x"), capture_output=True, text=True, timeout=120)
    assert (done.returncode, "cannot run no-such-command" in done.stderr) == (127, True)
    assert subprocess.run(warpmeter("run"), capture_output=True, timeout=120).returncode == 2


def test_it_says_that_processes_registered(host: Host, tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as said:
        line = [sys.executable, "-m", "tests.kineto_client", str(host.sockets), "--count", "3"]
        process = start(line, host.sockets, said)
        until(lambda: "3 processes registered" in (tmp_path / "said").read_text(), "it to say so")
        assert process.stdout is not None
        pids = json.loads(process.stdout.readline())
        assert all(str(pid) in (tmp_path / "said").read_text() for pid in pids)
        assert who.of_pid(host.sockets, pids[1]) == who.Registered(1, (pids[1],))
        assert who.of_pid(host.sockets, process.pid) == who.Registered(3, tuple(sorted(pids)))
        assert who.below_me(host.sockets) == who.Registered(3, tuple(sorted(pids)))
        assert process.communicate("", timeout=120)[0] == ""
    assert process.returncode == 0


def test_it_says_that_nothing_registered_and_that_no_agent_is_there(tmp_path: Path) -> None:
    """In a network of its own: an agent of this machine may answer by the abstract name."""
    within = netns.alone()
    if not within and who.below_me(tmp_path) is not None:
        pytest.skip("an agent answers on this host, and unshare(1) may make no network without it")
    with (tmp_path / "said").open("w") as said:
        process = start(["sh", "-c", "read line"], tmp_path, said, within)
        until(lambda: "no agent of warpmeter answers" in (tmp_path / "said").read_text(), "it to say so")
        process.communicate("\n", timeout=120)
    assert "ended before any of its processes registered" in (tmp_path / "said").read_text()


def test_what_never_registers_is_told_that_only_captures_need_it(tmp_path: Path) -> None:
    """A program without PyTorch, which is a job all the same."""
    said: list[str] = []
    watch = Watch(os.getpid(), tmp_path, said.append, look_s=0.01, late_s=0.0)
    thread = threading.Thread(target=watch.run)
    thread.start()
    until(lambda: any("not registered after 0 s, as only captures need: " in words for words in said), "it to say so")
    watch.ended()
    thread.join()


@pytest.mark.torch
@pytest.mark.timeout(600)
def test_real_pytorch_registers(host: Host, tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as said:
        process = start([torch_python(), str(ROOT / "tests" / "training.py"), "200"], host.sockets, said)
        until(lambda: "1 process registered" in (tmp_path / "said").read_text(), "PyTorch to register", 120)
        tell(process, signal.SIGINT)
        assert process.wait(120) in (1, 130)


def doctor(folder: Path, pid: int) -> dict[str, object]:
    """What `warpmeter doctor --pid` says of captures."""
    line = warpmeter("doctor", "--pid", str(pid), "--json")
    done = subprocess.run(line, capture_output=True, env=environment(folder), timeout=120)
    found: dict[str, object] = json.loads(done.stdout)["profiling"]
    return found


@pytest.mark.long
def test_doctor_says_why_a_process_can_or_cannot_be_captured(host: Host, tmp_path: Path) -> None:
    plain = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment(host.sockets))
    elsewhere = {"KINETO_USE_DAEMON": "1", "KINETO_IPC_SOCKET_DIR": "/elsewhere"}
    astray = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment(host.sockets, **elsewhere)
    )
    asking = start([sys.executable, "-m", "tests.kineto_client", str(host.sockets)], host.sockets)
    try:
        until(lambda: host.registry.clients(), "the process to register", 120)
        (client,) = host.registry.clients()
        found = doctor(host.sockets, client.pid)
        assert (found["possible"], found["reason"], found["pids"]) == (True, "", [client.pid])
        found = doctor(host.sockets, asking.pid)
        assert (found["possible"], found["pids"]) == (True, [client.pid])
        found = doctor(host.sockets, plain.pid)
        assert (found["possible"], found["reason"]) == (False, "missing_variables")
        assert "KINETO_USE_DAEMON" in str(found["why"])
        found = doctor(host.sockets, astray.pid)
        assert (found["reason"], "/elsewhere" in str(found["why"])) == ("missing_variables", True)
        assert doctor(tmp_path / "nobody", asking.pid)["possible"] is False
    finally:
        for process in (plain, astray):
            process.kill()
            process.wait(30)
        asking.communicate("", timeout=120)
