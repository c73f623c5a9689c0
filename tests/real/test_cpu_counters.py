"""Counters of the real kernel through the real system call. The machines of CI have no hardware counters, so software
events go the same way; and what a host without them says is shown.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from mmap import PAGESIZE, mmap
from pathlib import Path
from typing import Any

import pytest

from warpmeter.producers.perf import PerfRaw, SocketSource
from warpmeter.producers.perf.kernel import SOFTWARE, Event, Kernel
from warpmeter.producers.perf.plan import Group
from warpmeter.producers.source import Sample, SourceError
from warpmeter.settings import Agent

CPU_CLOCK, PAGE_FAULTS, CONTEXT_SWITCHES = 0, 2, 3


def may_count() -> bool:
    """Whether this user may count whole CPUs here."""
    try:
        Kernel().close([Kernel().open(Event("clock", SOFTWARE, CPU_CLOCK), 0, -1)])
    except OSError:
        return False
    return True


needs_perf = pytest.mark.skipif(not may_count(), reason="perf_event_open of whole CPUs is not allowed here")


def software(_: str, __: bytes | None) -> Sequence[Group]:
    """The clock in place of instructions, which are then a thousand million a CPU and second."""
    return (
        Group(
            "core", (Event("instructions", SOFTWARE, CPU_CLOCK), Event("cycles", SOFTWARE, CONTEXT_SWITCHES, 0, 1e6))
        ),
        Group("l2", (Event("l2_loads", SOFTWARE, PAGE_FAULTS, 0, 1e3),)),
    )


READ_S = 0.03
"""A read that took longer is not of one moment: between clock and counters the machine was at something else."""


def look(source: SocketSource) -> Sample[PerfRaw]:
    """One read, at a time that is known."""
    for _ in range(100):
        began = time.monotonic()
        raw = source.read()
        if time.monotonic() - began < READ_S:
            break
    return Sample(time.time(), began, 1.0, raw)


def busy(seconds: float) -> None:
    """Switch contexts, and fault in pages that are given back each time (an allocator may keep what it is given)."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with closing(mmap(-1, 1 << 20)) as pages:
            for at in range(0, len(pages), PAGESIZE):
                pages[at] = 1
        time.sleep(0.001)


@needs_perf
def test_software_events_of_every_cpu_are_summed_per_socket() -> None:
    source = SocketSource(Agent(host="h"), choose=software)
    before = look(source)
    busy(0.5)
    reading = source.parse(look(source), before)
    source.close()
    rows: list[Any] = list(reading.rows)
    assert {row.kind for row in rows} == {"socket"}
    clock = sum(row.instructions_mega_per_s for row in rows)
    assert clock == pytest.approx(1000 * len(before.raw.sockets), rel=0.2)
    assert sum(row.cycles_mega_per_s for row in rows) > 100  # context switches a second
    assert sum(row.l2_loads_kilo_per_s for row in rows) > 100  # page faults
    assert not any(row.HasField("mem_read_megabytes_per_s") for row in rows)
    assert list(reading.health) == []


@needs_perf
def test_descriptors_are_given_back() -> None:
    def descriptors() -> int:
        found = 0
        for path in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # of another thread, and closed meanwhile
                found += "perf_event" in str(path.readlink())
        return found

    source = SocketSource(Agent(), choose=software)
    raw = source.read()
    assert descriptors() == 3 * len(raw.sockets)
    source.close()
    assert descriptors() == 0


@needs_perf
def test_this_host_counts_or_says_why_not_in_one_line() -> None:
    source = SocketSource(Agent(host="h"))
    try:
        before, why = look(source), None
    except SourceError as error:
        before, why = None, error
    if before is None:
        assert why is not None
        assert why.state == "unsupported"
        assert "virtual PMU" in str(why)
        assert "cycles" in str(why)
        return
    busy(0.2)
    for row in source.parse(look(source), before).rows:
        assert row.cycles_mega_per_s > 0  # type: ignore[attr-defined]
    source.close()


NOBODY = """
import os
from pathlib import Path
from warpmeter.producers.perf import SocketSource
from warpmeter.producers.perf.kernel import SOFTWARE, Event
from warpmeter.producers.perf.plan import Group
from warpmeter.producers.source import SourceError
from warpmeter.settings import Agent

source = SocketSource(Agent(), choose=lambda *_: [Group("core", (Event("clock", SOFTWARE, 0),))])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    source.read()
except SourceError as error:
    print(error.state, error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
@pytest.mark.skipif(
    int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) <= 0, reason="here everybody may count whole CPUs"
)
def test_a_user_without_rights_is_told_the_level_and_the_remedy() -> None:
    done = subprocess.run([sys.executable, "-c", NOBODY], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("denied ")
    assert "kernel.perf_event_paranoid is" in done.stdout
    assert "CAP_PERFMON" in done.stdout
