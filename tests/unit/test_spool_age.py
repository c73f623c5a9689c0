"""What waits too long goes, by time that really passed: not by a clock that is set, before or after a reboot."""

import os
from pathlib import Path

import pytest

from tests.clock import FakeClock
from tests.spools import DAY_S, kill, message, open_spool, take_all
from warpmeter.producers.segment import path_of
from warpmeter.producers.spool import FIRST

HOUR_S = 3600.0
NEXT_BOOT = b"the boot after it"[:16]


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


@pytest.mark.parametrize("step", [-40 * 365 * DAY_S, -5 * HOUR_S, 5 * HOUR_S, 40 * 365 * DAY_S])
def test_a_step_of_the_clock_drops_nothing_and_keeps_nothing_longer(tmp_path: Path, step: float) -> None:
    clock = FakeClock()
    spool = open_spool(tmp_path, clock=clock)
    spool.append(message(0))
    clock.step(step)
    clock.sleep(HOUR_S)
    spool.append(message(1))
    assert take_all(spool, deliver=False) == [0, 1]
    assert spool.lost["age"] == 0
    kill(spool)
    clock.sleep(DAY_S - HOUR_S / 2)
    again = open_spool(tmp_path, clock=clock)  # of the same boot: the monotonic clock went on
    assert take_all(again) == [1]
    assert again.lost["age"] == 1


def _rebooted(clock: FakeClock, off_s: float) -> FakeClock:
    """The machine's clock after a reboot that took `off_s`: the monotonic one begins anew."""
    after = FakeClock()
    after.passed = 5.0
    after.stepped = clock.now() + off_s - after.now()
    return after


def test_over_a_reboot_the_time_off_counts(tmp_path: Path) -> None:
    clock = FakeClock()
    spool = open_spool(tmp_path, clock=clock)
    spool.append(message(0))
    clock.sleep(20 * HOUR_S)
    spool.append(message(1))
    kill(spool)
    again = open_spool(tmp_path, clock=_rebooted(clock, 6 * HOUR_S), boot=NEXT_BOOT)
    assert take_all(again) == [1]
    assert again.lost["age"] == 1


def test_a_clock_that_is_behind_after_a_reboot_keeps_what_waits_a_day_at_most(tmp_path: Path) -> None:
    clock = FakeClock()
    spool = open_spool(tmp_path, clock=clock)
    spool.append(message(0))
    kill(spool)
    after = _rebooted(clock, -30 * 365 * DAY_S)  # the battery of its clock is empty
    again = open_spool(tmp_path, clock=after, boot=NEXT_BOOT)
    after.step(30 * 365 * DAY_S)  # and now it was set by the network
    again.append(message(1))
    assert take_all(again, deliver=False) == [0, 1]
    again.rewind()
    after.sleep(DAY_S + 1)
    assert take_all(again) == []
    assert again.lost["age"] == 2


def test_the_age_of_a_file_with_a_damaged_head_begins_anew(tmp_path: Path) -> None:
    clock = FakeClock()
    spool = open_spool(tmp_path, clock=clock)
    spool.append(message(0))
    kill(spool)
    with path_of(tmp_path, FIRST).open("r+b") as file:
        file.seek(10)
        file.write(os.urandom(20))
    clock.sleep(20 * HOUR_S)
    again = open_spool(tmp_path, clock=clock)
    clock.sleep(20 * HOUR_S)
    assert take_all(again, deliver=False) == [0]
    again.rewind()
    clock.sleep(5 * HOUR_S)
    assert take_all(again) == []
