"""The data folder of `up`: one holder, found by others, honest about what it cannot do."""

import fcntl
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpmeter.log import Unfailing
from warpmeter.up import folder as module
from warpmeter.up import logs
from warpmeter.up.folder import Folder, Running, UpError


def running(pid: int) -> Running:
    return Running(
        pid, 1.7e9, "127.0.0.1:9092", True, "http://127.0.0.1:8123", "http://w:t@127.0.0.1:8123", "w", {}, {"engine": 7}
    )


def test_a_second_holder_is_told_who_has_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    held = folder.lock()
    with pytest.raises(UpError, match=rf"already runs on {tmp_path} \(pid {os.getpid()}\)"):
        folder.lock()
    os.close(held)
    os.close(folder.lock())


def test_others_find_what_runs_and_nobody_else_reads_the_token(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    held = folder.lock()
    folder.announce(running(os.getpid()))
    found = folder.running()
    assert found == running(os.getpid())
    os.close(held)
    assert folder.run_file.stat().st_mode & 0o077 == 0
    folder.withdraw()
    assert folder.running() is None


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Folder]:
    """A folder that this process holds, as `up` does."""
    folder = Folder(tmp_path)
    descriptor = folder.lock()
    yield folder
    os.close(descriptor)


@pytest.mark.parametrize("content", ["", "{", "{}", '{"pid": "x"}', "[]"])
def test_a_broken_run_file_is_no_running_up(held: Folder, content: str) -> None:
    held.run_file.write_text(content)
    assert held.running() is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": []},
        {"parts": {"engine": "7"}},
        {"parts": {"engine": -7}},
        {"metrics_ports": None},
        {"started_at": "yesterday"},
        {"started_at": 1e300},
        {"dsn": 5},
        {"embedded_bus": "no"},
        {"pid": True},
    ],
)
def test_a_run_file_with_a_wrong_type_inside_is_no_running_up(held: Folder, wrong: dict[str, Any]) -> None:
    held.announce(running(os.getpid()))
    assert held.running() is not None
    held.run_file.write_text(json.dumps(json.loads(held.run_file.read_text()) | wrong))
    assert held.running() is None


def test_a_run_file_whose_pid_is_another_process_by_now_is_no_running_up(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    descriptor = folder.lock()
    folder.announce(running(os.getpid()))
    os.close(descriptor)  # it ended without a word, and this very pid lives
    assert folder.running() is None
    folder.lock_file.unlink()
    assert folder.running() is None


def test_a_run_file_of_the_up_before_is_no_running_up(held: Folder) -> None:
    held.announce(running(os.getppid()))
    assert held.running() is None


def test_asking_what_runs_keeps_nobody_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks has the lock for an instant: here for a tenth of a second, or what a busy machine makes of it."""
    monkeypatch.setattr(module, "LOCK_WITHIN_S", 30.0)
    folder = Folder(tmp_path)
    os.close(folder.lock())
    file = folder.lock_file.open("rb")
    fcntl.flock(file, fcntl.LOCK_SH)
    threading.Timer(0.1, file.close).start()
    os.close(folder.lock())


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UpError, match="choose another folder with --data"):
        Folder(tmp_path / "file" / "data").prepare()


def test_a_nearly_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOW_DISK_BYTES", 1 << 62)
    with pytest.raises(UpError, match="make room"):
        Folder(tmp_path).prepare()


def test_last_words_prefer_the_error_over_later_lines(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_text(
        '{"event": "cannot insert", "table": "gpu_samples", "level": "error", "timestamp": "t", "part": "ingest"}\n'
        '{"event": "stopped", "level": "info"}\n'
    )
    assert logs.last_words(log) == "cannot insert table=gpu_samples"
    log.write_text("Traceback\nValueError: no\n")
    assert logs.last_words(log) == "ValueError: no"
    assert "it said nothing" in logs.last_words(tmp_path / "absent.log")


def test_a_long_log_is_set_aside_and_its_writer_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_BYTES", 10)
    log = tmp_path / "part.log"
    with logs.open_log(log) as writer:
        writer.write(b"x" * 20)
        writer.flush()
        logs.trim(log)
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "part.log.1").read_bytes().endswith(b"x" * 20)


def test_last_words_are_of_the_last_start(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_text('{"event": "old trouble", "level": "error"}\n')
    logs.open_log(log).close()
    assert "it said nothing" in logs.last_words(log)


def test_a_log_on_a_full_disk_loses_lines_and_ends_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "full.log"
    path.symlink_to("/dev/full")
    logs.open_log(path).close()
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        stream = Unfailing()
        for _ in range(10_000):
            stream.write("a line\n")
            stream.flush()
        with (tmp_path / "room.log").open("wb") as room:  # as when there is room again
            os.dup2(room.fileno(), full.fileno())
        stream.write("after it\n")
        stream.flush()
        monkeypatch.undo()
    said = (tmp_path / "room.log").read_text()
    assert said.endswith("after it\n")
    assert len(said) < 100_000  # what could not be written is not held for ever


def test_a_run_file_that_does_not_fit_leaves_the_one_before(held: Folder) -> None:
    held.announce(running(os.getpid()))
    before = held.run_file.read_bytes()
    held.run_file.with_suffix(".new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space"):
        held.announce(running(os.getpid()))
    assert held.run_file.read_bytes() == before
    held.announce(running(os.getpid()))
    assert held.running() == running(os.getpid())
