"""Into the trace store: whole or not at all, packed, summed, named so that nothing leads out of it."""

import errno
import gzip
import hashlib
import io
import re
import sys
from pathlib import Path
from typing import BinaryIO

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.producers.kineto.upload import (
    LocalStore,
    Place,
    StoreError,
    TooLargeError,
    covered,
    no_room,
    store_of,
    upload,
)
from warpmeter.settings import Traces

HEAD = b'{"schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000, "traceEvents": ['
BEGIN = b'{"ph": "M", "name": "process_sort_index", "ts": 5138088682391.714, "pid": 7, "args": {}},'
END = b'{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 5138089183099.768}]}'
PLACE = Place("job-1", "cap", 2, "gpu01", 7, 3, 1_790_000_000.0)


def never() -> bool:
    return False


@pytest.mark.parametrize(("compression", "unpack"), [("gzip", gzip.decompress), ("zstd", zstd.decompress)])
def test_a_trace_is_packed_summed_and_says_what_it_covers(tmp_path: Path, compression: str, unpack: object) -> None:
    raw = HEAD + b'{"name": "Optimizer.step#SGD.step"},' + b" " * 3_000_000 + BEGIN + END
    name = PLACE.name(compression)
    stored = upload(io.BytesIO(raw), len(raw), LocalStore(tmp_path), name, never, compression)
    written = (tmp_path / name).read_bytes()
    assert unpack(written) == raw  # type: ignore[operator]
    assert (stored.url, stored.bytes, stored.raw_bytes) == (str(tmp_path / name), len(written), len(raw))
    assert stored.sha256 == hashlib.sha256(written).hexdigest()
    assert stored.traced_from == pytest.approx(1_795_995_114.682, abs=0.001)
    assert stored.traced_until == pytest.approx(1_795_995_115.183, abs=0.001)
    assert stored.stepped
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [Path(name).name]


def test_a_step_is_found_over_the_edge_of_what_is_read_at_once(tmp_path: Path) -> None:
    raw = b" " * ((1 << 20) - 5) + b"Optimizer.step#SGD.step"
    assert upload(io.BytesIO(raw), 1 << 30, LocalStore(tmp_path), "a", never, "gzip").stepped
    assert not upload(io.BytesIO(b"{}"), 1 << 30, LocalStore(tmp_path), "a", never, "gzip").stepped


def test_of_one_that_is_too_large_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(TooLargeError, match="larger than 2999999 bytes"):
        upload(io.BytesIO(b" " * 3_000_000), 2_999_999, LocalStore(tmp_path), "job/a", never, "gzip")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_one_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        upload(io.BytesIO(b"{}"), 10, LocalStore(tmp_path), "job/a", lambda: True, "gzip")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


class Full(LocalStore):
    """A store whose disk is full."""

    def open(self, name: str) -> BinaryIO:
        """Whatever is written."""
        opened = super().open(name)
        opened.close()
        return Path("/dev/full").open("wb")


def test_a_full_disk_leaves_nothing_and_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught:
        upload(io.BytesIO(b"{}" * 100_000), 1 << 20, Full(tmp_path), "job/a", never, "gzip")
    assert no_room(caught.value)
    assert not no_room(OSError(errno.EIO, "bad"))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_fsspec_takes_any_other_url() -> None:
    store = store_of(Traces(url="memory://traces"))
    stored = upload(io.BytesIO(HEAD), 1000, store, "job/a.json.gz", never, "gzip")
    assert stored.url.startswith("memory://")
    import fsspec

    files = fsspec.filesystem("memory")
    assert gzip.decompress(files.cat("/traces/job/a.json.gz")) == HEAD
    with pytest.raises(TooLargeError):
        upload(io.BytesIO(HEAD), 10, store, "job/b.json.gz", never, "gzip")
    assert files.ls("/traces/job", detail=False) == ["/traces/job/a.json.gz"]
    with pytest.raises(StoreError, match="nosuch://… cannot be used"):
        store_of(Traces(url="nosuch://traces"))


def test_a_store_whose_library_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(StoreError, match="needs more"):
        store_of(Traces(url="s3://bucket"))
    store_of(Traces(url="/traces"))
    store_of(Traces(url="file:///traces"))


def test_a_name_tells_job_capture_host_rank_and_time() -> None:
    assert PLACE.name("gzip") == "job-1/cap/gpu01_rank3_7_2_20260921T141320Z.json.gz"
    assert PLACE.name("zstd").endswith(".json.zst")


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_whatever_ids_hold_a_name_leads_nowhere_else(job: str, capture: str, host: str) -> None:
    parts = Place(job, capture, 1, host, 7, None, 0.0).name("gzip").split("/")
    assert len(parts) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", part) for part in parts), parts


@pytest.mark.parametrize(("head", "tail"), [(b"", b""), (HEAD, b"{}"), (b"{}", BEGIN + END)])
def test_a_trace_that_does_not_say_covers_nothing_known(head: bytes, tail: bytes) -> None:
    assert covered(head, tail) == (None, None)
