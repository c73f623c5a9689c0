"""The job source over a made-up /proc: events and what was used, from started to ended."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakeproc import BTIME, Fake, FakeProc
from warpmeter.producers import files
from warpmeter.producers.jobs import JobSource, sources
from warpmeter.producers.jobs.source import JobsRaw, unread
from warpmeter.producers.jobs.usage import parse_io, read_usage
from warpmeter.producers.source import Attribution, GpuUse, Reading, Sample, SourceError
from warpmeter.settings import Agent

HERTZ = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB_PAGES = (1 << 20) // PAGE
IDENTITY = ("job_id", "name", "command", "user", "scheduler", "pid", "started_at", "tree_id")


class Host:
    """A job source that looks every 2 s and tells every 10 s, on a /proc under script."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.proc = FakeProc(root)
        self.proc.put(Fake(20, 1, "bash", ["-bash"], start=2000))
        self.attribution = Attribution()
        agent = Agent(host="gpu01", root=root, job_interval_s=2.0, job_event_interval_s=10.0, **settings)
        self.source = JobSource(agent, self.attribution)
        self.uptime = 100.0

    def look(self) -> Reading:
        """One tick, 2 s after the last."""
        self.uptime += 2
        sample = Sample(BTIME + self.uptime, 5000 + self.uptime, 2.0, self.source.read())
        return self.source.parse(sample, None)

    def rows(self, looks: int = 1) -> list[Any]:
        """The events of some ticks."""
        return [row for _ in range(looks) for row in self.look().rows]

    def job(self, pid: int = 30, **what: Any) -> None:
        """Python from the shell: starts, or changes."""
        what.setdefault("start", 3000)
        self.proc.put(Fake(pid, 20, "python3", ["python3", "train.py"], **what))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host with a shell and no job."""
    return Host(tmp_path)


def events(rows: list[Any]) -> list[tuple[str, int]]:
    """What happened to whom."""
    return [(row.event, row.pid) for row in rows]


def test_a_job_from_start_to_end(host: Host) -> None:
    assert host.rows(1) == []
    host.job(start=int(102.5 * HERTZ))
    first = host.rows(1)
    assert events(first) == [("started", 30)]
    assert events(host.rows(1)) == [("running", 30)]
    assert events(host.rows(3)) == [("running", 30)]
    host.proc.end(30)
    last = host.rows(1)
    assert events(last) == [("ended", 30)]
    for name in IDENTITY:
        assert getattr(first[0], name) == getattr(last[0], name)
    assert first[0].started_at == BTIME + 102.5
    assert first[0].job_id == f"gpu01:30:{BTIME + 102}"
    assert (first[0].command, first[0].tree_id) == ("python3 train.py", "systemd/bash/python3")
    assert (first[0].period_ms, last[0].period_ms) == (0, 0)


def test_a_process_that_becomes_one_of_another_job_ends_the_first(host: Host) -> None:
    host.job()
    first = host.rows(1)[0]
    host.proc.put(Fake(30, 20, "python3.11", ["python3.11", "x.py"], start=3000, environ={"SLURM_JOB_ID": "77"}))
    rows = [(row.event, row.job_id) for row in host.rows(2)]
    assert rows[:2] == [("ended", first.job_id), ("started", "77")]


def test_ranks_that_began_since_the_last_tick_are_known_to_who_asks_now_and_told_at_the_next(host: Host) -> None:
    assert host.attribution.look([]) == []
    host.job(pid=30)
    host.rows(1)
    for rank in (0, 1):
        run = {"TORCHELASTIC_RUN_ID": "run", "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
        host.proc.put(Fake(40 + rank, 30, "python3", ["python3", "train.py"], start=3001, environ=run))
    assert [tree.rank for tree in host.attribution.trees] == [None]
    found = host.attribution.look([40])
    assert sorted((tree.job_id, tree.rank, tree.top) for tree in found if tree.rank is not None) == [
        ("run", 0, 40), ("run", 1, 41),
    ]  # fmt: skip
    assert {("started", 40), ("started", 41)} <= set(events(host.rows(1)))


def test_who_asks_out_of_turn_gets_the_last_look_where_there_can_be_none(host: Host) -> None:
    host.job()
    host.rows(1)
    (host.proc.proc / "stat").unlink()
    host.proc.proc.rename(host.proc.proc.with_name("away"))
    assert [tree.top for tree in host.attribution.look([30])] == [30]


def test_a_new_jobs_first_usage_counts_from_its_start(host: Host) -> None:
    host.rows(1)
    host.job(start=int(102 * HERTZ))
    host.rows(1)
    host.job(start=int(102 * HERTZ), utime=15 * HERTZ, stime=HERTZ, rss=512 * MIB_PAGES, io=(7_000_000, 3_000_000))
    row, later = host.rows(4)
    assert row.event == "running"
    assert row.period_ms == 4_000
    assert row.cpu_cores_milli == 4000
    assert (later.period_ms, later.cpu_cores_milli) == (6_000, 0)
    assert row.rss_mebibytes == 512
    assert (row.read_bytes, row.written_bytes) == (7_000_000, 3_000_000)
    assert row.processes == 1


def test_a_job_older_than_the_agent_has_no_rates_until_the_second_look(host: Host) -> None:
    host.job(utime=99 * HERTZ)
    started, running = host.rows(1)
    assert events([started, running]) == [("started", 30), ("running", 30)]
    assert not running.HasField("cpu_cores_milli")
    assert running.rss_mebibytes == 1
    host.job(utime=104 * HERTZ)
    second, third = host.rows(5)
    assert (second.cpu_cores_milli, second.period_ms) == (2500, 2_000)
    assert (third.cpu_cores_milli, third.period_ms) == (0, 8_000)


def test_what_children_used_is_counted_also_when_they_ended_between_ticks(host: Host) -> None:
    host.job()
    host.proc.put(Fake(31, 30, "python3", ["python3", "worker"], start=3100, utime=2 * HERTZ, rss=64 * MIB_PAGES))
    host.rows(1)
    host.proc.end(31)  # it used 5 s in all, and 32 came and went for 3 s
    host.job(cutime=8 * HERTZ)
    row = host.rows(1)[0]
    assert row.cpu_cores_milli == 3000
    assert row.processes == 1


def test_a_child_that_nobody_waited_for_never_makes_usage_negative(host: Host) -> None:
    host.job(utime=HERTZ)
    host.proc.put(Fake(31, 30, "python3", start=3100, utime=50 * HERTZ))
    host.rows(1)
    host.proc.end(31)
    assert [row.cpu_cores_milli for row in host.rows(5)] == [0, 0]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes the kernel refuse every process's file of a name; root may read all of a made-up /proc."""
    read: Callable[[str], bytes] = files.read

    def refusing(name: str) -> None:
        def refused(path: str) -> bytes:
            if path.endswith(f"/{name}"):
                raise PermissionError(13, "Permission denied", path)
            return read(path)

        monkeypatch.setattr(files, "read", refused)

    return refusing


def test_io_that_may_not_be_read_is_unknown_and_one_health_row(host: Host, refuse: Callable[[str], None]) -> None:
    refuse("io")
    host.job()
    host.proc.put(Fake(31, 30, "python3", start=3100))
    reading = host.look()
    assert [(health.subject, health.state, health.count) for health in reading.health] == [("io", "denied", 2)]
    assert host.look().health == reading.health
    row: Any = host.rows(4)[-1]
    assert row.HasField("cpu_cores_milli")
    assert not row.HasField("read_bytes")


def test_io_that_the_kernel_does_not_count_is_unsupported(host: Host) -> None:
    host.job(io=None)
    host.proc.put(Fake(31, 30, "python3", start=3100, io=None))
    reading = host.look()
    (health,) = reading.health
    assert (health.subject, health.state, health.count) == ("io", "unsupported", 2)
    assert "CONFIG_TASK_IO_ACCOUNTING" in health.why
    assert "root" not in health.why
    assert not any(row.HasField("read_bytes") for row in host.rows(5))


def test_environments_that_may_not_be_read_are_one_health_row(host: Host, refuse: Callable[[str], None]) -> None:
    refuse("environ")
    host.job()
    reading = host.look()
    assert [(health.subject, health.state, health.count) for health in reading.health] == [("environ", "denied", 3)]
    assert "CAP_SYS_PTRACE" in reading.health[0].why
    assert events(list(reading.rows))[0] == ("started", 30)


def test_a_root_that_is_refused_is_not_told_to_be_root() -> None:
    raw = JobsRaw([], None, {}, hidden=3, silent=2, uncounted=0)
    assert all("run it as root" in health.why for health in unread(raw, root=False))
    for health in unread(raw, root=True):
        assert "run it as root" not in health.why
        assert "the kernel or the container refuses it" in health.why


def test_one_process_is_one() -> None:
    whys = [unread(JobsRaw([], None, {}, hidden=count, silent=0, uncounted=0), root=True)[0].why for count in (1, 2)]
    assert [why.partition(" is hidden")[0] for why in whys] == [
        "the environment of 1 process",
        "the environment of 2 processes",
    ]


def test_a_process_that_ends_while_it_is_read_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = FakeProc(tmp_path)
    read: Callable[[str], bytes] = files.read

    def ending(path: str) -> bytes:
        if path.endswith("/io"):
            proc.end(1)
        return read(path)

    monkeypatch.setattr(files, "read", ending)
    assert read_usage(str(proc.proc), 1) is None


def test_gpus_are_those_of_all_its_processes(host: Host) -> None:
    host.job()
    host.proc.put(Fake(31, 30, "python3", start=3100))
    host.rows(1)
    sample = Sample(0.0, 5000 + host.uptime + 9, 1.0, None)
    mine = [GpuUse(30, 0, "GPU-a", 1000), GpuUse(31, 1, "GPU-b", 500), GpuUse(31, 0, "GPU-a", 24)]
    host.attribution.set_gpu_uses(sample, [*mine, GpuUse(99, 5, "GPU-f", 1)])
    row = host.rows(5)[-1]
    assert (list(row.gpus), list(row.gpu_uuids), row.gpu_memory_mebibytes) == ([0, 1], ["GPU-a", "GPU-b"], 1524)


def test_gpus_are_unknown_when_the_gpu_source_is_silent(host: Host) -> None:
    host.job()
    assert not host.rows(1)[1].HasField("gpu_memory_mebibytes")


def test_gpu_memory_that_nvml_does_not_tell_is_unknown(host: Host) -> None:
    host.job()
    host.attribution.set_gpu_uses(Sample(0.0, 5102.0, 1.0, None), [GpuUse(30, 3, "GPU-d")])
    row = host.rows(1)[1]
    assert list(row.gpus) == [3]
    assert not row.HasField("gpu_memory_mebibytes")


def test_the_gpu_source_learns_the_job_of_every_process(host: Host) -> None:
    host.job()
    host.proc.put(Fake(31, 30, "python3", start=3100))
    (started, _) = host.rows(1)
    assert host.attribution.job_ids([31, 30, 20, 4]) == [started.job_id]
    assert host.attribution.job_ids([20]) == []


def test_ranks_and_labels_travel(host: Host) -> None:
    slurm = {"SLURM_JOB_ID": "77", "SLURM_JOB_ACCOUNT": "nlp", "RANK": "3", "WORLD_SIZE": "8"}
    container = "ab" * 32
    host.job(environ=slurm, cgroup=f"0::/kubepods/pod1/{container}\n", status="Name:\tx\nNSpid:\t30\t7\n")
    row = host.rows(1)[0]
    assert (row.job_id, row.scheduler, row.rank, row.world_size) == ("77", "slurm", 3, 8)
    assert dict(row.labels) == {"account": "nlp", "container_id": container, "container_pid": "7"}


def test_a_job_without_a_rank_has_none(host: Host) -> None:
    host.job()
    assert not host.rows(1)[0].HasField("rank")


def test_a_broken_expression_says_which(tmp_path: Path) -> None:
    source = Host(tmp_path, job_pattern="(").source
    with pytest.raises(SourceError, match="job_pattern or job_ignore is no regular expression"):
        source.read()


def test_no_proc_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="proc"):
        JobSource(Agent(root=tmp_path), Attribution()).read()


def test_the_settings_give_the_period() -> None:
    source, containers, kubernetes, runtime = sources(Agent(job_interval_s=5.0), Attribution())
    assert (source.name, source.topic, source.period_s) == ("jobs", "job-events", 5.0)
    assert (containers.name, containers.period_s, kubernetes.name) == ("containers", 5.0, "kubernetes")
    assert (runtime.name, runtime.period_s) == ("cri", 5.0)


def test_an_empty_io_file_tells_nothing() -> None:
    assert parse_io(b"") is None


def test_a_program_whose_name_is_no_text_and_numbers_that_are_none_hide_no_job(host: Host) -> None:
    """Names, links and variables are whatever anybody on the host makes them."""
    odd = os.fsdecode(b"/bin/exactly-fifteen\xff")
    host.proc.put(Fake(40, 20, "exactly-fifteen", exe=odd, environ={"SLURM_JOB_ID": "7", "RANK": "9" * 20}))
    host.job()
    found = host.rows(1)
    assert {row.pid for row in found} == {30, 40}
    named = next(row for row in found if row.pid == 40)
    assert (named.tree_id, list(named.ranks)) == ("systemd/bash/exactly-fifteen\ufffd", [])


def test_who_asks_hears_which_processes_run_python_and_which_want_to_be_left_alone(host: Host) -> None:
    host.job(exe="/usr/bin/python3.11", stack=7)
    host.proc.put(
        Fake(31, 30, "pt_main_thread", ["python", "-m", "loader"], start=3000, exe="/opt/conda/bin/python3.12"),
        Fake(32, 30, "nvcc", ["nvcc"], start=3000, exe="/usr/bin/nvcc"),
        Fake(
            33,
            30,
            "python3",
            ["python3", "x.py"],
            start=3000,
            exe="/usr/bin/python3",
            environ={"WARPMETER_STACKS": "off"},
        ),
    )
    host.look()
    (tree,) = host.attribution.trees
    assert [(each.pid, each.name) for each in tree.interpreters] == [(30, "train.py"), (31, "loader"), (33, "x.py")]
    assert tree.unsampled == {33}
