"""Handing settings to a child: nothing in argv or environ, nothing left when the parent is killed."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wait import until
from warpmeter import launch
from warpmeter.settings import Settings, Store

SECRET = "hunter2"
SETTINGS = replace(Settings(), store=Store(dsn=f"http://writer:{SECRET}@127.0.0.1:1"))


def child_module(folder: Path, body: str) -> dict[str, str]:
    """A module `part` in `folder`, and the environment that finds it."""
    (folder / "part.py").write_text("import sys\nfrom warpmeter import launch\n" + body)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_a_child_receives_the_settings_and_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "settings, rest = launch.received(sys.argv[1:])\nprint(settings.store.dsn, rest)\n"
    monkeypatch.setenv("PYTHONPATH", child_module(tmp_path, body)["PYTHONPATH"])
    with (tmp_path / "log").open("wb") as log:
        child = launch.spawn("part", SETTINGS, ["--once"], log)
    assert child.wait(60) == 0
    assert (tmp_path / "log").read_text() == f"{SETTINGS.store.dsn} ['--once']\n"


def test_no_secret_is_in_argv_or_environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", child_module(tmp_path, "import time\ntime.sleep(60)\n")["PYTHONPATH"])
    child = launch.spawn("part", SETTINGS)
    try:
        proc = Path(f"/proc/{child.pid}")
        until(lambda: b"part" in (proc / "cmdline").read_bytes(), "the child to be executed")
        assert SECRET.encode() not in (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
    finally:
        child.kill()
        child.wait()


def test_started_by_hand_it_says_what_to_do() -> None:
    with pytest.raises(SystemExit, match="use the `warpmeter` command"):
        launch.received(["not-a-descriptor"])


def test_a_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    parent_code = (
        "import sys, time\nfrom warpmeter import launch\n"
        "print(launch.child([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True)\ntime.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", parent_code], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until(lambda: not Path(f"/proc/{child}/cmdline").exists() or not alive(child), "the orphan to end")


def alive(pid: int) -> bool:
    """Whether it runs; a zombie that nobody reaps has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: it went while it was read
        return False
