"""Children: started in order, started again, given up with their last words, stopped in reverse."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.wait import until
from warpmeter import log
from warpmeter.up.folder import UpError
from warpmeter.up.supervisor import PASSING, PERMANENT, Part, Supervisor


def part(name: str, code: str, **more: object) -> Part:
    return Part(name, lambda: subprocess.Popen([sys.executable, "-c", code]), **more)  # type: ignore[arg-type]


SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor(log.get("test"), lambda name: f"last words of {name}")
    yield made
    made.kill()


def test_a_part_that_ends_is_started_again(supervisor: Supervisor) -> None:
    supervisor.start([part("a", SLEEP)])
    first = supervisor.pids["a"]
    supervisor._children["a"].process.kill()
    supervisor._children["a"].process.wait()
    supervisor.check()
    assert supervisor.pids["a"] != first
    assert supervisor._children["a"].process.poll() is None


def test_a_part_that_ends_for_good_stops_all_with_its_last_words(supervisor: Supervisor) -> None:
    supervisor.start([part("a", f"raise SystemExit({PERMANENT})")])
    supervisor._children["a"].process.wait()
    with pytest.raises(UpError, match=rf"the a stopped \(status {PERMANENT}\): last words of a"):
        supervisor.check()


def test_a_restart_that_fails_counts_as_an_end_and_is_tried_again(supervisor: Supervisor) -> None:
    ready = iter([True, False, False, True])
    supervisor.start([part("a", SLEEP, ready=lambda: next(ready), ready_within_s=0.0)])
    supervisor._children["a"].process.kill()
    supervisor._children["a"].process.wait()
    supervisor.check()
    assert supervisor._children["a"].process.poll() is None
    assert len(supervisor._children["a"].starts) > 2


def test_a_part_that_waits_for_room_is_tried_for_as_long_as_it_takes(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("warpmeter.up.supervisor.SOON_S", 0.0)
    starts = tmp_path / "starts"
    full = f"raise SystemExit({PASSING})"

    def start() -> subprocess.Popen[bytes]:
        with starts.open("a") as file:
            file.write("x")
        made = len(starts.read_text())
        return subprocess.Popen([sys.executable, "-c", full if 1 < made < 9 else SLEEP])

    def ready() -> bool:
        return len(starts.read_text()) in (1, 9)

    supervisor.start([Part("a", start, ready)])
    supervisor._children["a"].process.kill()
    supervisor._children["a"].process.wait()
    with capture_logs() as lines:
        supervisor.check()
    assert supervisor._children["a"].process.poll() is None
    assert len(starts.read_text()) == 9
    assert [line["status"] for line in lines if line["event"] == "restarting"] == [-9, PASSING]


def test_a_part_that_never_gets_ready_is_named(supervisor: Supervisor) -> None:
    with pytest.raises(UpError, match="the a was not ready within 0 s: last words of a"):
        supervisor.start([part("a", SLEEP, ready=lambda: False, ready_within_s=0.2)])


def test_a_part_that_ends_at_its_start_is_named(supervisor: Supervisor) -> None:
    with pytest.raises(UpError, match="the a ended at its start: last words of a"):
        supervisor.start([part("a", "raise SystemExit(1)", ready=lambda: False)])


def test_what_must_follow_a_start_follows_every_start(supervisor: Supervisor) -> None:
    done: list[int] = []
    supervisor.start([part("a", SLEEP, after_start=lambda: done.append(1))])
    supervisor._children["a"].process.kill()
    supervisor._children["a"].process.wait()
    supervisor.check()
    assert done == [1, 1]


def test_a_part_is_started_again_after_what_it_needs(supervisor: Supervisor) -> None:
    supervisor.start([part("broker", SLEEP), part("other", SLEEP), part("agent", SLEEP, needs=("broker",))])
    before = dict(supervisor.pids)
    supervisor._children["broker"].process.kill()
    supervisor._children["broker"].process.wait()
    supervisor.check()
    changed = {name for name, pid in supervisor.pids.items() if before[name] != pid}
    assert changed == {"broker", "agent"}


def test_parts_stop_in_reverse_and_a_stubborn_one_is_killed(supervisor: Supervisor, tmp_path: Path) -> None:
    order = tmp_path / "order"
    polite = (
        "import signal, sys, time\n"
        "def end(*_):\n open({!r}, 'a').write(sys.argv[-1]); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); open({!r} + sys.argv[-1], 'w')\n"
        "while True: time.sleep(0.05)"  # one long sleep misses a signal that comes just before it
    )
    stubborn = (
        f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(order)!r} + 's', 'w'); {SLEEP}"
    )
    code = polite.format(str(order), str(order))
    parts = [
        Part(name, lambda name=name: subprocess.Popen([sys.executable, "-c", code, name]))  # type: ignore[misc]
        for name in ("a", "b")
    ]
    supervisor.start([*parts, part("s", stubborn, stop_within_s=0.2)])
    for name in ("a", "b", "s"):
        until(lambda name=name: Path(f"{order}{name}").exists(), "the handlers")  # type: ignore[misc]
    supervisor.stop()
    assert order.read_text() == "ba"
    assert all(child.process.returncode is not None for child in supervisor._children.values())
