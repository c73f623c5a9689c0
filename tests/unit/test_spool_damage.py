"""Full disks, and files that are cut or corrupt: what is intact arrives once and in order, the rest is counted."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spools import kill, message, numbers, open_spool, take_all
from warpmeter.producers import records
from warpmeter.producers.segment import HEADER, path_of
from warpmeter.producers.spool import FIRST


def test_a_full_disk_drops_the_newest_and_leaves_the_file_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path)
    for number in range(3):
        spool.append(message(number))
    monkeypatch.setattr(os, "pwrite", _half_then_full(os.pwrite))
    assert not spool.append(message(3))
    assert not spool.append(message(4))
    monkeypatch.undo()
    assert spool.append(message(5))
    assert spool.lost["disk"] == 2
    assert take_all(spool) == [0, 1, 2, 5]
    assert spool.lost["corrupt"] == 0


def _half_then_full(pwrite: Callable[[int, bytes, int], int]) -> Callable[[int, bytes, int], int]:
    def write(descriptor: int, data: bytes, offset: int) -> int:
        if offset == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, data[: len(data) // 2], offset)

    return write


def test_a_full_disk_keeps_the_producers_messages_where_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path)
    spool.append(message(0))
    spool.take()
    monkeypatch.setattr(os, "pwrite", _half_then_full(os.pwrite))
    assert not spool.put_back([message(0)])
    monkeypatch.undo()
    kill(spool)
    assert take_all(open_spool(tmp_path)) == [0]


def test_a_truncated_end_loses_that_message_only(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(5):
        spool.append(message(number))
    kill(spool)
    file = path_of(tmp_path, FIRST)
    os.truncate(file, file.stat().st_size - 7)
    again = open_spool(tmp_path)
    again.append(message(9))
    assert take_all(again) == [0, 1, 2, 3, 9]
    assert again.lost["corrupt"] == 1


def test_a_corrupt_stretch_in_the_middle_is_skipped_and_counted(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    ends = [HEADER.size]
    for number in range(10):
        spool.append(message(number))
        ends.append(path_of(tmp_path, FIRST).stat().st_size)
    kill(spool)
    with path_of(tmp_path, FIRST).open("r+b") as file:
        file.seek(ends[3] + 5)
        file.write(b"\xff" * (ends[5] - ends[3]))  # into the records 3, 4 and 5
    again = open_spool(tmp_path)
    assert take_all(again) == [0, 1, 2, 6, 7, 8, 9]
    assert again.lost["corrupt"] == 3


def test_a_corrupt_header_loses_nothing_and_sends_nothing_twice(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(3):
        spool.append(message(number))
    found = spool.take()
    assert found is not None
    spool.done(found[1])
    kill(spool)
    with path_of(tmp_path, FIRST).open("r+b") as file:
        file.write(os.urandom(HEADER.size))
    again = open_spool(tmp_path)
    assert take_all(again) == [1, 2]
    assert again.lost["corrupt"] == 0


def test_a_file_that_is_cut_while_it_is_in_use_counts_all_that_is_gone(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(5):
        spool.append(message(number))
    size = path_of(tmp_path, FIRST).stat().st_size
    os.truncate(path_of(tmp_path, FIRST), size // 2)
    left = take_all(spool)
    assert left == list(range(len(left)))
    assert 0 < len(left) < 5
    assert spool.lost["corrupt"] == 5 - len(left)


def test_a_file_that_cannot_be_opened_is_left_alone_and_the_others_are_sent(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append(message(1))
    kill(spool)
    path_of(tmp_path, FIRST + 1).mkdir()
    again = open_spool(tmp_path)
    again.append(message(2))
    assert take_all(again) == [1, 2]
    assert again.lost["corrupt"] == 1


def test_an_empty_and_a_foreign_file_do_no_harm(tmp_path: Path) -> None:
    path_of(tmp_path, FIRST - 5).touch()
    (tmp_path / "notes.txt").write_text("not ours")
    path_of(tmp_path, FIRST + 5).write_bytes(os.urandom(3000))
    spool = open_spool(tmp_path)
    spool.append(message(1))
    assert take_all(spool) == [1]
    assert (tmp_path / "notes.txt").exists()


Damage = tuple[str, int, int, int]
"""What (flip, zero, cut, insert, remove), where as a share of all bytes in permille, how many bytes, and a seed."""
damages = st.tuples(
    st.sampled_from(["flip", "flip", "zero", "cut", "insert", "remove"]),
    st.integers(0, 1000),
    st.integers(1, 300),
    st.integers(0, 255),
)


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.integers(8, 400), min_size=1, max_size=40),
    delivered=st.sets(st.integers(0, 39), max_size=20),
    done=st.lists(damages, min_size=1, max_size=4),
)
def test_damage_of_any_kind_at_any_place_takes_what_it_hits_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], delivered: set[int], done: list[Damage]
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    _filled(folder, sizes, delivered)
    before = _records(folder)
    for damage in done:
        _damage(folder, *damage)
    intact = {number for number, bytes_ in before.items() if bytes_ in b"".join(_contents(folder).values())}
    again = open_spool(folder, max_bytes=64_000)
    taken = take_all(again)
    kill(again)
    waiting = {number for number in before if number not in delivered}
    assert taken == sorted(set(taken))  # none twice, none out of order
    assert set(taken) <= waiting  # nothing that was never put, nothing that was delivered
    assert waiting & intact <= set(taken)
    hit = {number for number in before if number not in intact}
    assert again.lost["corrupt"] <= len(hit) + sum(kind != "flip" for kind, *_ in done) + 1
    if all(kind in ("flip", "zero") for kind, *_ in done):
        assert (again.lost["corrupt"] > 0) >= (len(taken) < len(waiting))


def _filled(folder: Path, sizes: list[int], delivered: set[int]) -> None:
    """A spool of several files, of which some messages were delivered."""
    spool = open_spool(folder, max_bytes=64_000)
    for number, size in enumerate(sizes):
        spool.append(message(number, size))
    for number in range(len(sizes)):
        found = spool.take()
        assert found is not None
        if number in delivered:
            spool.done(found[1])
    kill(spool)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.glob("*.spool"))}


def _records(folder: Path) -> dict[int, bytes]:
    """The bytes of every record, by the number in it."""
    found = {}
    for data in _contents(folder).values():
        at = HEADER.size
        while (record := records.decode(data, at)) is not None:
            found[numbers([record.envelope])[0]] = data[record.start : record.end]
            at = record.end
    return found


def _damage(folder: Path, kind: str, permille: int, length: int, seed: int) -> None:
    contents = _contents(folder)
    at = sum(map(len, contents.values())) * permille // 1000
    for path, data in contents.items():
        if at >= len(data):
            at -= len(data)
            continue
        new = {
            "flip": data[:at] + bytes([data[at] ^ (1 + seed % 255)]) + data[at + 1 :],
            "zero": data[:at] + bytes(len(data[at : at + length])) + data[at + length :],
            "cut": data[:at],
            "insert": data[:at] + bytes((seed + i) % 256 for i in range(length)) + data[at:],
            "remove": data[:at] + data[at + length :],
        }
        path.write_bytes(new[kind])
        return


def test_a_length_that_is_no_length_is_not_believed() -> None:
    record = records.encode(message(1), 0, 0.0)
    absurd = record[:4] + (1 << 31).to_bytes(4, "little") + record[8:]
    assert records.decode(absurd, 0) is None
    assert records.decode(record, 0) is not None
