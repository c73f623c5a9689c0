"""The runner: one source's trouble is its own, and nothing that was not read just now is published."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from google.protobuf.message import Message

from tests.clock import FakeClock
from tests.wait import until
from warpmeter.clock import SystemClock
from warpmeter.producers.health import Board
from warpmeter.producers.runner import Loop, Runner
from warpmeter.producers.schedule import Tick
from warpmeter.producers.source import Health, Reading, Sample, SourceError
from warpmeter.schemas.generated.host_samples_pb2 import Envelope

HostSample = Envelope.HostSample


class Published:
    """Rows as they were published, by topic."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Keep them."""
        self.rows.setdefault(topic, []).extend(rows)

    def states(self) -> list[tuple[str, str, str]]:
        """Source, subject and state of all health rows."""
        return [(row.source, row.subject, row.state) for row in self.rows.get("source-health", [])]

    def times(self) -> list[float]:
        """Times of all samples."""
        return [row.ts for row in self.rows.get("host-samples", [])]


class Script:
    """A source that does what `act` does; its samples are whatever that returns."""

    topic = "host-samples"

    def __init__(self, act: Callable[[], Any], name: str = "s", period_s: float = 1.0, timeout_s: float = 5.0) -> None:
        self.act, self.name, self.period_s, self.timeout_s = act, name, period_s, timeout_s
        self.closed = False
        self.befores: list[Any] = []
        self.health: Sequence[Health] = ()

    def read(self) -> Any:
        """Act."""
        return self.act()

    def parse(self, sample: Sample[Any], before: Sample[Any] | None) -> Reading:
        """One row that carries the sample's time."""
        self.befores.append(before and before.raw)
        if sample.raw == "broken":
            raise KeyError("broken")
        return Reading((HostSample(host="h", ts=sample.ts, period_ms=sample.period_ms),), self.health)

    def close(self) -> None:
        """Remember."""
        self.closed = True


class Bench:
    """One loop on a fake clock."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.clock, self.published = FakeClock(), Published()
        self.board = Board("h", 10.0)
        self.source = Script(act)
        self.loop: Loop[Any] = Loop(self.source, self.board, self.published, self.clock)

    def tick(self, ts: float) -> None:
        """One tick."""
        self.loop.tick(Tick(ts, 0))


def test_skipped_ticks_are_told() -> None:
    bench = Bench(lambda: "raw")
    bench.loop.tick(Tick(5.0, 2))
    bench.loop.tick(Tick(6.0, 1))
    (row,) = bench.board.rows(10.0)
    assert (row.state, row.count, row.why) == ("ok", 3, "ticks skipped, being late")


def raising(error: Exception) -> Callable[[], Any]:
    """An act that fails."""

    def act() -> Any:
        raise error

    return act


def test_a_good_read_publishes_its_rows_and_that_it_is_ok() -> None:
    bench = Bench(lambda: "raw")
    bench.tick(5.0)
    bench.tick(6.0)
    assert bench.published.times() == [5.0, 6.0]
    assert bench.published.states() == [("s", "", "ok")]
    assert bench.source.befores == [None, "raw"]


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (SourceError("unsupported", "no driver"), "unsupported"),
        (SourceError("gone", "fell off the bus"), "gone"),
        (PermissionError(13, "Permission denied"), "denied"),
        (FileNotFoundError(2, "No such file"), "failed"),
        (ZeroDivisionError("a bug of ours"), "failed"),
    ],
)
def test_a_failed_read_publishes_its_health_alone(error: Exception, state: str) -> None:
    bench = Bench(raising(error))
    bench.tick(5.0)
    bench.tick(6.0)
    assert bench.published.times() == []
    assert bench.published.states() == [("s", "", state)]


def test_after_a_failure_the_next_good_read_is_published() -> None:
    raws: list[Any] = ["first", raising(OSError("once")), "third"]

    def act() -> Any:
        raw = raws.pop(0)
        return raw() if callable(raw) else raw

    bench = Bench(act)
    for ts in (1.0, 2.0, 3.0):
        bench.tick(ts)
    assert bench.published.times() == [1.0, 3.0]
    assert [state for _, _, state in bench.published.states()] == ["ok", "failed", "ok"]
    assert bench.source.befores == [None, "first"]


def test_what_cannot_be_parsed_fails_and_is_no_earlier_sample() -> None:
    raws = ["good", "broken", "good"]
    bench = Bench(lambda: raws.pop(0))
    for ts in (1.0, 2.0, 3.0):
        bench.tick(ts)
    assert bench.published.times() == [1.0, 3.0]
    assert [state for _, _, state in bench.published.states()] == ["ok", "failed", "ok"]


def test_a_read_that_took_too_long_is_a_timeout_and_its_sample_is_not_published() -> None:
    def linger() -> str:
        bench.clock.sleep(6.0)
        return "late"

    bench = Bench(linger)
    bench.tick(1.0)
    assert bench.published.times() == []
    assert bench.published.states() == [("s", "", "timeout")]


def test_subjects_are_published_when_they_change_and_when_they_are_well_again() -> None:
    bench = Bench(lambda: "raw")
    for ts, health in enumerate(([Health("GPU-1", "gone")], [Health("GPU-1", "gone")], [])):
        bench.source.health = health
        bench.tick(float(ts))
    assert bench.published.states() == [("s", "", "ok"), ("s", "GPU-1", "gone"), ("s", "GPU-1", "ok")]


def test_a_stuck_source_is_reported_while_it_is_stuck_and_the_others_go_on() -> None:
    clock, published, board = SystemClock(), Published(), Board("h", 10.0)
    release = threading.Event()
    calls: list[int] = []

    def stick() -> str:
        calls.append(1)
        if len(calls) == 2:
            release.wait(200)
        return "raw"

    stuck = Script(stick, name="stuck", period_s=0.05, timeout_s=1.0)
    fine = Script(lambda: "raw", name="fine", period_s=0.05)
    runner = Runner([stuck, fine], board, published, clock)
    runner.start()
    until(lambda: len(calls) == 2, "the read that sticks")

    def reported() -> bool:
        runner.watch()
        return board.state("stuck") == "timeout"

    until(reported, "the timeout's row", every_s=0.01)
    before = len(fine.befores)
    until(lambda: len(fine.befores) >= before + 5, "the other source's ticks")
    assert len(calls) == 2
    assert board.state("fine") == "ok"
    release.set()
    until(lambda: board.state("stuck") == "ok", "the source to be well again")
    assert runner.stop(60.0) == []
    assert stuck.closed
    assert fine.closed
    assert [state for name, _, state in published.states() if name == "stuck"] == ["ok", "timeout", "ok"]


def test_stopping_does_not_wait_for_a_stuck_source() -> None:
    release = threading.Event()
    stuck = Script(lambda: release.wait(20), name="stuck", period_s=0.05)
    runner = Runner([stuck], Board("h", 10.0), Published(), SystemClock())
    runner.start()
    until(lambda: runner.loops[0]._reading_since is not None, "the read that sticks")
    assert runner.stop(0.1) == ["stuck"]
    release.set()


def test_the_board_repeats_what_stands() -> None:
    board = Board("h", 10.0)
    subjects = [Health("GPU-1", "gone", "XID 79"), Health("GPU-2/fan", "unsupported")]
    board.report("gpu", 1.0, 0.25, Health("", "ok"), subjects)
    board.report("shipper", 1.0, None, Health("", "ok"), [Health("lost/full", "failed", "full", 7)])
    rows = board.rows(10.0)
    assert [(row.source, row.subject, row.state, row.why) for row in rows] == [
        ("gpu", "", "ok", ""),
        ("gpu", "GPU-1", "gone", "XID 79"),
        ("gpu", "GPU-2/fan", "unsupported", ""),
        ("shipper", "", "ok", ""),
        ("shipper", "lost/full", "failed", "full"),
    ]
    assert rows[0].seconds == 0.25
    assert not rows[1].HasField("seconds")
    assert not rows[3].HasField("seconds")
    assert rows[4].count == 7
    assert [row.period_ms for row in rows] == [10_000, 10_000, 600_000, 10_000, 10_000]


def test_what_a_host_does_not_have_is_repeated_each_ten_minutes() -> None:
    board = Board("h", 10.0)
    nothing = Health("", "unsupported", "no driver")
    fan = Health("GPU-2/fan", "unsupported")
    assert [row.subject for row in board.report("gpu", 1.0, 0.25, subjects=[fan])] == ["", "GPU-2/fan"]
    board.report("scrape", 1.0, 0.25, nothing)
    times = [ts for ts in range(10, 3610, 10) if "GPU-2/fan" in [row.subject for row in board.rows(float(ts))]]
    assert times == [10, *range(600, 3601, 600)]
    assert [row.subject for row in board.report("gpu", 3601.0, 0.25, subjects=[])] == ["GPU-2/fan"]
    assert {row.source for row in board.rows(3610.0)} == {"gpu", "scrape"}  # sources themselves are never rare
    board.report("gpu", 3611.0, 0.25, subjects=[fan])
    assert [row.subject for row in board.rows(100.0) if row.subject] == ["GPU-2/fan"]  # also when the clock went back


def test_the_subjects_of_a_source_that_is_not_ok_rest() -> None:
    board = Board("h", 10.0)
    board.report("gpu", 1.0, 0.1, Health("", "ok"), [Health("GPU-1", "gone")])
    board.report("gpu", 2.0, 5.0, Health("", "timeout"))
    assert [(row.subject, row.state) for row in board.rows(10.0)] == [("", "timeout")]
    changed = board.report("gpu", 3.0, 0.1, Health("", "ok"), [Health("GPU-1", "gone")])
    assert [(row.subject, row.state) for row in changed] == [("", "ok")]


def test_what_is_told_is_text_and_not_too_long() -> None:
    board = Board("gpu01", 10.0)
    (row,) = board.report("s", 1.0, 0.1, Health("", "failed", "\udcff" + "x" * 70_000))
    assert row.why == "?" + "x" * 998 + "…"
