"""What lies where a trace should be: only the process's own regular file is read; links lead nowhere."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpmeter.producers.kineto.files import Folder, RefusedError, UnreachableError, environment, trace_folder

ME = os.getuid()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The process's folder for traces, as the process names it, below a root of its own."""
    made = tmp_path / "proc" / "7" / "root" / "tmp"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def folder(tmp_path: Path, place: Path) -> Iterator[Folder]:
    assert place.is_dir()
    opened = Folder(str(tmp_path / "proc"), 7, ME, "/tmp")
    yield opened
    opened.close()


def content(folder: Folder, name: str) -> bytes:
    with folder.read(name) as (file, size):
        found = file.read()
        assert len(found) == size
        return found


def test_the_processs_own_file_is_read_and_removed(folder: Folder, place: Path) -> None:
    with pytest.raises(FileNotFoundError):
        content(folder, "a.json")
    (place / "a.json").write_bytes(b"{}")
    assert content(folder, "a.json") == b"{}"
    assert folder.has("a.json")
    folder.remove("a.json", "a.json.tmp")
    assert not folder.has("a.json")
    assert folder.free_bytes() > 0


def test_a_link_a_hard_link_a_pipe_and_a_folder_are_refused(folder: Folder, place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root's")
    (place / "link").symlink_to(secret)
    (place / "hard").hardlink_to(secret)
    os.mkfifo(place / "pipe")
    (place / "folder").mkdir()
    for name, what in (("link", "symbolic link"), ("hard", "2 names"), ("pipe", "a pipe"), ("folder", "a folder")):
        with pytest.raises(RefusedError, match=what):
            content(folder, name)
    folder.remove("link", "hard", "pipe", "folder")
    assert [each.name for each in place.iterdir()] == ["folder"]
    assert secret.read_text() == "root's"


def test_a_file_of_another_user_is_refused(tmp_path: Path, place: Path) -> None:
    (place / "a.json").write_bytes(b"{}")
    folder = Folder(str(tmp_path / "proc"), 7, ME + 1, "/tmp")
    with pytest.raises(RefusedError, match=f"belongs to user {ME}"):
        content(folder, "a.json")
    folder.close()


def test_a_folder_behind_a_link_is_not_opened(tmp_path: Path, place: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "in").mkdir(parents=True)
    (place / "out").symlink_to(outside)
    for path in ("/tmp/out", "/tmp/out/in"):
        with pytest.raises(UnreachableError, match="leads over a link"):
            Folder(str(tmp_path / "proc"), 7, ME, path)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/tmp/none", "must be there"), ("tmp", "absolute"), ("/tmp/../x", "absolute"), ("", "absolute")],
)
def test_a_folder_that_cannot_be_opened_is_said_with_what_to_do(
    tmp_path: Path, place: Path, path: str, said: str
) -> None:
    assert place.is_dir()
    with pytest.raises(UnreachableError, match=said):
        Folder(str(tmp_path / "proc"), 7, ME, path)


def test_a_folder_that_is_swapped_later_stays_the_one_that_was_opened(
    folder: Folder, place: Path, tmp_path: Path
) -> None:
    (place / "a.json").write_bytes(b"mine")
    place.rename(tmp_path / "moved")
    place.symlink_to("/etc")
    assert content(folder, "a.json") == b"mine"
    assert not folder.has("passwd")


def test_of_an_environment_only_what_kineto_reads_is_taken(tmp_path: Path) -> None:
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "environ").write_bytes(b"PASSWORD=x\0KINETO_USE_DAEMON=1\0KINETO_ONDEMAND_TRACE_DIR=/scratch\0")
    found = environment(str(tmp_path), 9)
    assert found == {"KINETO_USE_DAEMON": "1", "KINETO_ONDEMAND_TRACE_DIR": "/scratch"}
    assert trace_folder(found) == "/scratch"
    assert trace_folder({}) == "/tmp"
