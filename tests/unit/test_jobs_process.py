"""Reading processes: stat lines, names, environments, and a table that reads only what is new."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakeproc import KERNEL_THREAD, Fake, FakeProc
from warpmeter.producers import files
from warpmeter.producers.jobs.process import ProcessTable, full_name, parse_environ, parse_stat


def test_a_stat_line_is_read() -> None:
    fake = Fake(7, 3, "python3", start=555, utime=10, stime=5, cutime=100, cstime=50, rss=999)
    stat = parse_stat(fake.stat.encode())
    assert (stat.comm, stat.ppid, stat.start, stat.cpu, stat.rss_pages) == ("python3", 3, 555, 165, 999)
    assert stat.stack == 0
    assert parse_stat(Fake(7, 3, "python3", stack=140_729_470_993_872).stat.encode()).stack == 140_729_470_993_872
    assert not stat.kernel
    assert not stat.ended


@pytest.mark.parametrize("comm", ["a b", "x) R 1 (y", "((", "))", "tmux: server", "日本"])
def test_a_comm_may_hold_anything(comm: str) -> None:
    stat = parse_stat(Fake(7, 3, comm).stat.encode())
    assert (stat.comm, stat.ppid) == (comm, 3)


@given(st.binary(max_size=200))
def test_a_line_that_is_no_stat_line_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_stat(text)


@pytest.mark.parametrize(
    ("comm", "exe", "argv", "name"),
    [
        ("containerd-shim", "/usr/bin/containerd-shim-runc-v2", ["containerd-shim-runc-v2"], "containerd-shim-runc-v2"),
        ("containerd-shim", "", ["/usr/bin/containerd-shim-runc-v2", "-id"], "containerd-shim-runc-v2"),
        ("systemd", "/usr/lib/systemd/systemd", ["/sbin/init"], "systemd"),
        ("a-very-long-pro", "/opt/a-very-long-program", [], "a-very-long-program"),
        ("exactly-fifteen", "/bin/exactly-fifteen", [], "exactly-fifteen"),
        ("train.py", "/usr/bin/python3.11", ["python3", "./train.py"], "train.py"),
        ("pt_main_thread", "/usr/bin/python3.11", ["python3", "train.py"], "python3.11"),
        ("bash", "/usr/bin/bash", ["-bash"], "bash"),
        ("kworker/0:1", "", [], "kworker/0:1"),
        ("VLLM::EngineCor", "/usr/bin/python3.12", ["VLLM::EngineCore"], "VLLM::EngineCore"),
    ],
)
def test_names_are_completed(comm: str, exe: str, argv: list[str], name: str) -> None:
    assert full_name(comm, exe, argv) == name


def test_only_the_named_variables_are_kept() -> None:
    environ = b"SECRET_KEY=1\0SLURM_JOB_ID=42\0PATH=/bin\0RANK=3=3\0BROKEN\0"
    assert parse_environ(environ) == {"SLURM_JOB_ID": "42", "RANK": "3=3"}


def test_a_long_value_is_cut() -> None:
    assert parse_environ(b"RANK=" + b"1" * 100_000) == {"RANK": "1" * 4096}


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    """A host with a shell that runs python."""
    made = FakeProc(tmp_path)
    made.put(
        Fake(2, 0, "kthreadd", start=2, flags=KERNEL_THREAD),
        Fake(3, 2, "kworker/0:0", start=2, flags=KERNEL_THREAD),
        Fake(10, 1, "sshd", ["/usr/sbin/sshd"]),
        Fake(20, 10, "bash", ["-bash"], start=2000),
        Fake(30, 20, "python3", ["python3", "train.py"], start=3000),
    )
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths below /proc as they are read."""
    seen: list[str] = []
    read: Callable[[str], bytes] = files.read

    def spy(path: str) -> bytes:
        seen.append(path.rpartition("/proc/")[2])
        return read(path)

    monkeypatch.setattr(files, "read", spy)
    return seen


def table(proc: FakeProc) -> ProcessTable:
    """A table that looks every 2 s."""
    made = ProcessTable(str(proc.proc), 2.0)
    made.refresh()
    return made


def test_the_tree_id_names_all_ancestors_oldest_first(proc: FakeProc) -> None:
    assert table(proc).processes[30].tree_id == "systemd/sshd/bash/python3"


def test_kernel_threads_are_no_processes(proc: FakeProc) -> None:
    assert set(table(proc).processes) == {1, 10, 20, 30}


def test_a_process_that_could_not_be_read_once_is_found_again(proc: FakeProc) -> None:
    made = table(proc)
    stat = proc.proc / "30/stat"
    right = stat.read_text()
    stat.write_text("nonsense")
    for _ in range(6):  # within ten seconds its turn comes
        made.refresh()
    assert 30 not in made.processes
    stat.write_text(right)
    assert made.refresh()
    assert made.processes[30].tree_id == "systemd/sshd/bash/python3"


def test_what_is_known_is_not_read_again_but_in_turn(proc: FakeProc, reads: list[str]) -> None:
    made = table(proc)
    for _ in range(4):
        made.refresh()  # young processes are looked at twice more
    reads.clear()
    for _ in range(5):
        made.refresh()
    assert sorted(reads) == ["1/stat", "10/stat", "20/stat", "30/stat"]


def test_a_new_process_is_read_at_once(proc: FakeProc, reads: list[str]) -> None:
    made = table(proc)
    proc.put(Fake(40, 20, "python3", ["python3", "other.py"], start=4000))
    reads.clear()
    made.refresh()
    assert made.processes[40].argv == ("python3", "other.py")
    assert "40/environ" in reads


def test_a_pid_used_again_is_another_process(proc: FakeProc) -> None:
    made = table(proc)
    for _ in range(4):
        made.refresh()
    proc.end(30)
    (proc.proc / "keep-the-inode-busy").mkdir()
    proc.put(Fake(30, 20, "python3", ["python3", "second.py"], start=9000))
    made.refresh()
    assert made.processes[30].key == (30, 9000)
    assert made.processes[30].argv == ("python3", "second.py")


def test_an_exec_is_seen_within_ten_seconds(proc: FakeProc) -> None:
    made = table(proc)
    for _ in range(5):
        made.refresh()
    proc.put(Fake(20, 10, "python3", ["python3", "main.py"], start=2000))
    for _ in range(5):
        made.refresh()
    assert made.processes[20].tree_id == "systemd/sshd/python3"


def test_a_process_caught_before_its_exec_is_seen_at_the_next_look(proc: FakeProc) -> None:
    made = table(proc)
    proc.put(Fake(40, 20, "bash", ["-bash"], start=4000))
    made.refresh()
    proc.put(Fake(40, 20, "python3", ["python3"], start=4000))
    made.refresh()
    assert made.processes[40].tree_id == "systemd/sshd/bash/python3"


def test_an_exec_of_the_same_program_is_seen_by_its_stack_with_its_new_variables(proc: FakeProc) -> None:
    """As launchers start ranks: they fork, and the child becomes the same Python with a rank's variables."""
    made = table(proc)
    forked = Fake(40, 30, "python3", ["python3", "torchrun"], start=4000, stack=7)
    rank = replace(forked, argv=["python3", "train.py"], environ={"RANK": "3"}, stack=8)
    proc.put(forked)
    made.refresh()
    proc.put(rank)
    made.refresh()
    assert made.processes[40].variables == {"RANK": "3"}
    for _ in range(5):
        made.refresh()
    proc.put(replace(rank, environ={"RANK": "4"}, stack=9))
    assert not made.look([])
    assert made.look([40])
    assert made.processes[40].variables == {"RANK": "4"}


def test_a_look_out_of_turn_reads_what_is_new_and_leaves_the_turns_alone(proc: FakeProc) -> None:
    made = table(proc)
    proc.put(Fake(40, 30, "bash", ["-bash"], start=4000))
    assert made.look([])
    proc.put(Fake(40, 30, "python3", ["python3"], start=4000))
    assert made.look([])
    assert made.processes[40].tree_id == "systemd/sshd/bash/python3/python3"
    assert not made.refresh()


def test_a_zombie_has_ended(proc: FakeProc) -> None:
    made = table(proc)
    proc.put(Fake(30, 20, "python3", state="Z", start=3000))
    made.refresh()
    assert 30 not in made.processes


def test_processes_that_end_are_gone(proc: FakeProc) -> None:
    made = table(proc)
    proc.end(30)
    made.refresh()
    assert set(made.processes) == {1, 10, 20}


def test_a_lineage_survives_its_parents(proc: FakeProc) -> None:
    made = table(proc)
    proc.end(20)
    proc.put(Fake(30, 1, "python3", ["python3", "train.py"], start=3000))
    for _ in range(6):
        made.refresh()
    assert made.processes[30].tree_id == "systemd/sshd/bash/python3"


def test_an_environment_that_may_not_be_read_hides_the_process_variables_only(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = files.read

    def refuse(path: str) -> bytes:
        if path.endswith("environ"):
            raise PermissionError(13, "Permission denied", path)
        return read(path)

    monkeypatch.setattr(files, "read", refuse)
    process = table(proc).processes[30]
    assert process.hidden
    assert process.tree_id == "systemd/sshd/bash/python3"


def test_a_cycle_of_stale_parents_does_not_hang(proc: FakeProc) -> None:
    proc.put(Fake(50, 51, "a"), Fake(51, 50, "b"))
    assert {50, 51} <= set(table(proc).processes)


def test_a_user_without_a_name_is_a_number(proc: FakeProc) -> None:
    made = table(proc)
    assert made._user(4_000_000) == "4000000"


def test_of_a_very_deep_tree_the_oldest_and_the_youngest_are_told(proc: FakeProc) -> None:
    proc.put(*(Fake(pid, pid - 1, f"n{pid}") for pid in range(31, 331)))
    names = table(proc).processes[330].lineage
    assert (len(names), names[:4], names[-1]) == (128, ("systemd", "sshd", "bash", "python3"), "n330")
