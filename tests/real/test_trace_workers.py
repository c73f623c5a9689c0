"""Several traces in worker processes: every file has its result or its reason, whatever happens to a worker."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import msgspec
import pytest

from tests.jobs import Job
from tests.tracebuilder import TraceBuilder
from tests.wait import until
from warpmeter.analysis import workers
from warpmeter.analysis.read import TraceError
from warpmeter.analysis.workers import Failed, work

COMMAND = (sys.executable, "-m", "warpmeter", "analyze")


def size_of(file: str, progress: Callable[[int, int], None]) -> int:
    size = Path(file).stat().st_size
    progress(size, size)
    return size


def spoilt(file: str, progress: Callable[[int, int], None]) -> int:
    """By the file's name: killed as for want of memory, refused, at fault, or fine."""
    name = Path(file).stem
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "refused":
        raise TraceError("no trace, in a test")
    if name == "fault":
        raise ZeroDivisionError("in a test")
    return size_of(file, progress)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(workers, "processes", lambda _files: 2)
    names = [*(f"fine{place}" for place in range(6)), "refused", "killed", "fault", "fine6"]
    for place, name in enumerate(names):
        (tmp_path / name).with_suffix(".json").write_text("x" * (place + 1))
    return [str((tmp_path / name).with_suffix(".json")) for name in names]


def test_every_file_has_its_result_and_progress(files: list[str]) -> None:
    told: dict[int, tuple[int, int]] = {}

    def hear(index: int, done: int, whole: int) -> None:
        told[index] = (done, whole)

    assert sorted(work(files, size_of, hear)) == [(place, place + 1) for place in range(10)]
    assert told == {place: (place + 1, place + 1) for place in range(10)}


def test_what_happens_to_one_file_is_its_own(files: list[str]) -> None:
    found = dict(work(files, spoilt))
    assert sorted(found) == list(range(10))
    reasons = {Path(each.file).stem: each.why for each in found.values() if isinstance(each, Failed)}
    assert reasons.pop("refused") == "no trace, in a test"
    assert "fault of warpmeter (ZeroDivisionError: in a test)" in reasons.pop("fault")
    assert "was killed, most likely for want of memory" in reasons.pop("killed")
    assert reasons == {}


def large_and_killed(file: str, _progress: Callable[[int, int], None]) -> bytes:
    """A result longer than a pipe holds, and a death that comes within its writing or close to it."""
    delay_s = float(Path(file).read_text())
    Timer(delay_s, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    return bytes(64 << 20)


def test_a_worker_killed_within_its_result_keeps_nobody_waiting(tmp_path: Path) -> None:
    files = [tmp_path / f"{place}.json" for place in range(8)]
    for place, file in enumerate(files):
        file.write_text(f"{0.005 * place:.3f}")
    found = dict(work([str(file) for file in files], large_and_killed))
    assert sorted(found) == list(range(8))
    assert all(len(each) == 64 << 20 for each in found.values() if not isinstance(each, Failed))


def test_ranks_are_analysed_in_processes_and_joined(tmp_path: Path) -> None:
    job = Job(4)
    for _ in range(5):
        for rank in range(4):
            job.compute(rank, 1_000_000 * (1 + (rank == 2)))
        job.meet()
    job.write(tmp_path)
    (tmp_path / "broken.json").write_text("nothing")
    done = subprocess.run([*COMMAND, str(tmp_path), "--json"], capture_output=True, timeout=120)
    assert done.returncode == 1
    assert b"broken.json" in done.stderr
    found = msgspec.json.decode(done.stdout)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1, 2, 3]
    assert [each["file"] for each in found["failed"]] == [str(tmp_path / "broken.json")]
    assert found["job"]["ranks"] == [0, 1, 2, 3]
    assert found["findings"][0]["id"] in ("straggler_rank", "load_imbalance")
    chosen = subprocess.run([*COMMAND, str(tmp_path), "--json", "--ranks", "1,3"], capture_output=True, timeout=120)
    assert [rank["rank"] for rank in msgspec.json.decode(chosen.stdout)["ranks"]] == [1, 3]


def test_ranks_that_traces_do_not_tell_are_those_of_their_names(tmp_path: Path) -> None:
    for rank in (3, 11):
        builder = TraceBuilder()
        builder.launch("gemm", (0, 10), (20, 100))
        builder.write(tmp_path / f"step5_rank{rank}.json.gz")
    done = subprocess.run([*COMMAND, str(tmp_path), "--json"], capture_output=True, timeout=120)
    found = msgspec.json.decode(done.stdout)
    assert [(rank["rank"], rank["notes"]) for rank in found["ranks"]] == [
        (rank, [f"the trace does not tell its rank; {rank} is from the file's name"]) for rank in (3, 11)
    ]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command at work on many files, as the leader of a group of its own, its workers there."""
    builder = TraceBuilder()
    for place in range(2_000):
        builder.launch("gemm", (place * 100, 10), (place * 100 + 20, 50))
    text = builder.json()
    for rank in range(60):
        (tmp_path / f"rank{rank}.json").write_bytes(text)
    with subprocess.Popen(
        [*COMMAND, str(tmp_path)],
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    ) as process:
        until(lambda: _children(process.pid) >= 2, "workers", 60)
        yield process
        until(lambda: not _group_lives(process.pid), "the workers to end", 60)


def test_an_interrupt_ends_all_processes_without_a_traceback(started: subprocess.Popen[bytes]) -> None:
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130
    assert b"Traceback" not in said


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_command_that_is_killed(started: subprocess.Popen[bytes], how: signal.Signals) -> None:
    os.kill(started.pid, how)
    assert started.wait(60) == -how


def _children(pid: int) -> int:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return len(file.read_text().split()) if file.exists() else 0


def _group_lives(group: int) -> bool:
    """Whether any of it runs; a zombie that nobody reaps, as in a container without an init, has ended."""
    return any(int(number) == group and state not in "ZX" for state, _, number in map(_standing, _processes()))


def _processes() -> list[Path]:
    return [each for each in Path("/proc").iterdir() if each.name.isdigit()]


def _standing(process: Path) -> list[str]:
    """State, parent and group of a process; those of an ended one when it is gone."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return ["X", "0", "0"]
