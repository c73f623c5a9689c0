"""One process a file: who comes second learns who has it."""

import os
from pathlib import Path
from threading import Thread

import pytest

from tests.wait import until
from warpmeter.filelock import HeldError, hold, locked


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def test_who_holds_a_file_is_told_and_nothing_stays_open(tmp_path: Path) -> None:
    held = hold(tmp_path / "lock")
    assert (tmp_path / "lock").stat().st_mode & 0o077 == 0
    before = descriptors()
    with pytest.raises(HeldError) as refused:
        hold(tmp_path / "lock")
    assert refused.value.holder == str(os.getpid())
    assert descriptors() == before
    os.close(held)
    os.close(hold(tmp_path / "lock"))


def test_who_holds_it_without_a_word_is_unknown(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as file:
        assert locked(file)
        with pytest.raises(HeldError) as refused:
            hold(tmp_path / "lock")
    assert refused.value.holder == "unknown"


def test_an_older_longer_pid_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("99999999999")
    descriptor = hold(tmp_path / "lock")
    assert (tmp_path / "lock").read_text() == str(os.getpid())
    os.close(descriptor)


def test_who_has_it_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    asks = hold(tmp_path / "lock")
    found: list[int] = []
    starts = Thread(target=lambda: found.append(hold(tmp_path / "lock", within_s=60)))
    starts.start()
    os.close(asks)
    until(lambda: found != [], "the lock")
    starts.join()
    os.close(found[0])
    with pytest.raises(OSError, match="No such file"):
        hold(tmp_path / "nowhere" / "lock")
