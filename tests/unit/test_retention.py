"""What is removed from a trace store: the oldest traces, by age and size, and nothing that is no trace."""

import threading
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from tests.wait import until
from warpmeter import config, retention
from warpmeter.producers.kineto.upload import Place
from warpmeter.settings import Traces

DAY_S = 86_400.0
NOW = 1_800_000_000.0


def name(days_ago: float, host: str = "ant", compression: str = "gzip", job: str = "4711") -> str:
    return Place(job, "cap", 1, host, 7, 0, NOW - days_ago * DAY_S).name(compression)


def put(root: Path, path: str, size: int = 100) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    return file


def test_traces_that_are_too_old_go_with_their_folders(tmp_path: Path) -> None:
    old, new = put(tmp_path, name(31, job="old")), put(tmp_path, name(29, compression="zstd"))
    half, writing = put(tmp_path, f"{name(2)}.part"), put(tmp_path, f"{name(0.1)}.part")
    gone = retention.sweep(Traces(url=str(tmp_path)), NOW)
    assert [each.path for each in gone] == [str(old), str(half)]
    assert (new.exists(), writing.exists(), (tmp_path / "old").exists(), tmp_path.exists()) == (True, True, False, True)
    assert retention.sweep(Traces(url=str(tmp_path)), NOW) == []


def test_of_more_than_fits_the_oldest_go(tmp_path: Path) -> None:
    paths = [put(tmp_path, name(days)) for days in (3, 2, 1)]
    retention.sweep(Traces(url=f"file://{tmp_path}", keep_days=0, keep_bytes=250), NOW)
    assert [path.exists() for path in paths] == [False, True, True]


def test_nothing_goes_without_limits_and_nothing_else_ever(tmp_path: Path) -> None:
    others = [
        put(tmp_path, path)
        for path in (
            "mine.json.gz", "4711/cap/notes.txt", "4711/cap/trace_99999999T999999Z.json.gz", "a/b/c/" + name(99),
            "4711/cap/x_20200101T000000Z.json.gz.bak",
        )
    ]  # fmt: skip
    outside = put(tmp_path / "outside", name(99))
    root = tmp_path / "root"
    put(root, name(99))
    (root / "link").symlink_to(tmp_path / "outside")
    assert retention.sweep(Traces(url=str(root), keep_days=0), NOW) == []
    assert len(retention.sweep(Traces(url=str(root)), NOW)) == 1
    assert outside.exists()
    (tmp_path / "root" / "link").unlink()
    retention.sweep(Traces(url=str(tmp_path), keep_days=1, keep_bytes=1), NOW)
    assert all(other.exists() for other in others)


def test_a_store_behind_a_url_is_kept_alike() -> None:
    traces = Traces(url="memory://traces-retention", keep_days=7)
    files = fsspec.filesystem("memory")
    for days in (8, 6):
        files.pipe(f"/traces-retention/{name(days)}", b"x")
    files.pipe("/traces-retention/other.txt", b"x")
    assert not retention.is_folder(traces)
    assert len(retention.sweep(traces, NOW)) == 1
    assert sorted(files.find("/traces-retention")) == sorted(
        [f"/traces-retention/{name(6)}", "/traces-retention/other.txt"]
    )


def test_it_goes_on_while_the_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVERY_S", 0.01)
    old, stop = put(tmp_path, name(99)), threading.Event()
    stores = iter([Traces(url="nosuch://x")])
    real = retention.files
    monkeypatch.setattr(retention, "files", lambda traces: real(next(stores, traces)))
    thread = threading.Thread(target=retention.run, args=(Traces(url=str(tmp_path)), stop, lambda: NOW, 0.0))
    thread.start()
    try:
        until(lambda: not old.exists(), "the old trace to go")
    finally:
        stop.set()
        thread.join(10)


@pytest.mark.parametrize("wrong", [{"keep_days": -1}, {"keep_bytes": -1}])
def test_limits_below_nothing_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(config.ConfigError, match="keep_"):
        config.load(Path("/dev/null"), {"traces": wrong})
    assert replace(Traces(), **wrong)  # type: ignore[arg-type]
