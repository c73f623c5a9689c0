"""The spool keeps order and loses nothing but what its bounds say, over kills, full disks and corrupt bytes."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpmeter.producers import records
from warpmeter.producers.segment import HEADER, Position, Segment, path_of
from warpmeter.producers.spool import FIRST, Bounds, Spool, SpoolTakenError
from warpmeter.wire import Envelope

DAY_S = 86_400.0


class FakeClock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.utc = 1_800_000_000.0

    def now(self) -> float:
        """UTC."""
        return self.utc

    def monotonic(self) -> float:
        """The same, for it never steps here."""
        return self.utc

    def sleep(self, seconds: float) -> None:
        """Moves on."""
        self.utc += seconds


def message(number: int, size: int = 20) -> Envelope:
    """A message that tells its number."""
    return Envelope("host-samples", b"host", f"{number}:".encode().ljust(size, b"x"), "HostSample", 1)


def numbers(taken: list[Envelope]) -> list[int]:
    """The numbers of messages."""
    return [int(envelope.value.split(b":")[0]) for envelope in taken]


def open_spool(folder: Path, max_bytes: int = 1 << 20, clock: FakeClock | None = None) -> Spool:
    """A spool for a day."""
    return Spool(folder, Bounds(max_bytes, DAY_S), clock or FakeClock())


def take_all(spool: Spool, deliver: bool = True) -> list[int]:
    """Take everything there is, and report it as delivered."""
    taken = []
    while (found := spool.take()) is not None:
        taken.append(found[0])
        if deliver:
            spool.done(found[1])
    return numbers(taken)


def kill(spool: Spool) -> None:
    """What the kernel does when the process is killed: the lock is gone, nothing else happens."""
    os.close(spool._lock)


def test_gives_back_what_was_put_in_order(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(100):
        assert spool.append(message(number))
    assert spool.waiting
    assert take_all(spool) == list(range(100))
    assert spool.bytes == 0
    spool.commit()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_message_comes_back_whole(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    sent = Envelope("gpu-samples", "gerät-1".encode(), bytes(range(256)), "GpuSample", 8)
    spool.append(sent)
    taken = spool.take()
    assert taken is not None
    assert taken[0] == sent


def test_new_messages_go_behind_those_that_wait(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    order = []
    for number in range(10):
        spool.append(message(number))
        if number % 3 == 2:
            found = spool.take()
            assert found is not None
            order += numbers([found[0]])
    assert order + take_all(spool) == list(range(10))


def test_a_killed_agent_sends_again_only_what_was_not_reported(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(10):
        spool.append(message(number))
    positions = [found[1] for _ in range(6) if (found := spool.take())]
    for position in positions[:4]:
        spool.done(position)
    spool.commit()
    kill(spool)
    assert take_all(open_spool(tmp_path)) == [4, 5, 6, 7, 8, 9]


def test_reports_out_of_order_never_skip_what_is_still_out(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(4):
        spool.append(message(number))
    positions = [found[1] for _ in range(4) if (found := spool.take())]
    for position in (positions[3], positions[1], positions[0]):
        spool.done(position)
    spool.commit()
    kill(spool)
    assert take_all(open_spool(tmp_path)) == [2, 3]


def test_the_oldest_go_when_it_is_full_and_are_counted(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=20_000)
    for number in range(200):
        assert spool.append(message(number, size=400))
    assert sum(path.stat().st_size for path in tmp_path.glob("*.spool")) <= 20_000
    left = take_all(spool)
    assert left == list(range(200 - len(left), 200))
    assert len(left) > 20
    assert spool.lost == {"full": 200 - len(left), "corrupt": 0}


def test_messages_older_than_the_bound_go_and_are_counted(tmp_path: Path) -> None:
    clock = FakeClock()
    spool = open_spool(tmp_path, clock=clock)
    for number in range(3):
        spool.append(message(number))
    clock.sleep(DAY_S / 2)
    spool.append(message(3))
    clock.sleep(DAY_S / 2 + 1)
    assert take_all(spool) == [3]
    assert spool.lost["age"] == 3


def test_age_bounds_the_disk_even_while_nobody_takes(tmp_path: Path) -> None:
    clock = FakeClock()
    spool = open_spool(tmp_path, clock=clock)
    for hour in range(72):
        spool.append(message(hour))
        clock.sleep(3600)
    assert spool.lost["age"] >= 72 - 24 - 3
    assert len(list(tmp_path.glob("*.spool"))) <= 28


def test_put_back_goes_in_front_and_ends_what_was_taken(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(10, 15):
        spool.append(message(number))
    taken = [found[0] for _ in range(2) if (found := spool.take())]
    assert spool.put_back([message(5), *taken])
    spool.close()
    assert take_all(open_spool(tmp_path)) == [5, 10, 11, 12, 13, 14]


def test_put_back_twice_keeps_order(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.put_back([message(7), message(8)])
    spool.put_back([message(3)])
    assert take_all(spool) == [3, 7, 8]


def test_a_second_agent_is_refused_with_what_to_do(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    with pytest.raises(SpoolTakenError, match=r"another agent of this host runs on the spool"):
        open_spool(tmp_path)
    spool.close()
    open_spool(tmp_path).close()


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


def test_a_corrupt_header_sends_twice_rather_than_never(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(3):
        spool.append(message(number))
    found = spool.take()
    assert found is not None
    spool.done(found[1])
    spool.commit()
    kill(spool)
    with path_of(tmp_path, FIRST).open("r+b") as file:
        file.seek(20)
        file.write(b"garbage")
    assert take_all(open_spool(tmp_path)) == [0, 1, 2]


def test_an_empty_and_a_foreign_file_do_no_harm(tmp_path: Path) -> None:
    path_of(tmp_path, FIRST - 5).touch()
    (tmp_path / "notes.txt").write_text("not ours")
    path_of(tmp_path, FIRST + 5).write_bytes(os.urandom(3000))
    spool = open_spool(tmp_path)
    spool.append(message(1))
    assert take_all(spool) == [1]
    assert (tmp_path / "notes.txt").exists()


def test_a_report_for_a_segment_that_is_gone_is_nothing(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.done(Position(FIRST, 99))
    assert spool.take() is None


@settings(max_examples=60, deadline=None)
@given(
    data=st.binary(max_size=400),
    flips=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 255)), min_size=1, max_size=6),
)
def test_flipped_bytes_never_give_a_message_that_was_not_put(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, flips: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("flips")
    put = [Envelope("t", b"k", bytes([number]) + data, "M", 1) for number in range(4)]
    segment = Segment(path_of(folder, 1), 1, 0.0)
    for envelope in put:
        segment.append(envelope, 0.0)
    segment.close()
    _flip(path_of(folder, 1), flips)
    again = Segment(path_of(folder, 1), 1, 0.0)
    taken, lost = [], 0
    while again.unread_bytes > 0:
        record, skipped = again.take()
        lost += skipped
        taken += [record.envelope] if record else []
    again.close()
    assert [envelope for envelope in put if envelope in taken] == taken
    assert lost >= (len(taken) < len(put))


def _flip(path: Path, flips: list[tuple[int, int]]) -> None:
    content = bytearray(path.read_bytes())
    for at, mask in flips:
        if HEADER.size <= at < len(content):
            content[at] ^= mask
    path.write_bytes(content)


class Model:
    """What a spool must do, in ten lines: a list, how much of it was taken, and what of that is done."""

    def __init__(self) -> None:
        self.put: list[int] = []
        self.taken = 0
        self.done: set[int] = set()

    def reopened(self) -> list[int]:
        """What comes after a kill: all behind the unbroken run that is done."""
        first = next((i for i in range(self.taken) if i not in self.done), self.taken)
        return self.put[first:]


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.sampled_from(["put", "put", "take", "done", "commit", "kill"]), max_size=60))
def test_any_history_behaves_as_a_list(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    folder = tmp_path_factory.mktemp("model")
    spool, model, out = open_spool(folder, max_bytes=100_000), Model(), dict[int, Position]()
    number = 0
    for step in steps:
        if step == "put":
            spool.append(message(number))
            model.put.append(number)
            number += 1
        elif step == "take" and (found := spool.take()) is not None:
            assert numbers([found[0]]) == [model.put[model.taken]]
            out[model.taken] = found[1]
            model.taken += 1
        elif step == "done" and out:
            index = min(out)
            spool.done(out.pop(index))
            model.done.add(index)
        elif step == "commit":
            spool.commit()
        elif step == "kill":
            spool.commit()
            kill(spool)
            model.put, model.taken, model.done, out = model.reopened(), 0, set(), {}
            spool = open_spool(folder, max_bytes=100_000)
    assert take_all(spool) == model.put[model.taken :]
    kill(spool)


def test_what_is_delivered_out_of_order_is_not_sent_again_from_another_segment(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, max_bytes=100_000)
    spool.append(message(0))
    assert spool.take() is not None  # seals the first segment
    spool.append(message(1))
    taken = spool.take()
    assert taken is not None
    spool.done(taken[1])
    spool.commit()
    kill(spool)
    again = open_spool(tmp_path, max_bytes=100_000)
    assert take_all(again) == [0]
    kill(again)


def test_a_length_that_is_no_length_is_not_believed() -> None:
    record = records.encode(message(1), 0, 0.0)
    absurd = record[:4] + (1 << 31).to_bytes(4, "little") + record[8:]
    assert records.decode(absurd, 0) is None
    assert records.decode(record, 0) is not None
