"""`warpmeter analyze`: what it prints, what its JSON and CSV hold, which steps and ranks, and how it refuses."""

import csv
import gzip
import io
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from tests.jobs import Job
from tests.tracebuilder import TraceBuilder
from tests.traces import FOLDER, needs_traces, references
from warpmeter.analysis import report as reports
from warpmeter.analysis import workers
from warpmeter.analysis.capture import Document, one
from warpmeter.analysis.findings import job_findings
from warpmeter.analysis.job import job
from warpmeter.analysis.report import SCHEMA_VERSION, Options, analyze
from warpmeter.analysis.selection import numbers, rank_in
from warpmeter.cli import analyzing, common, complete, reporting
from warpmeter.cli.app import app

PER_RANK = (
    "rank", "file", "span_ns", "busy_ns", "idle_ns", "compute_ns", "comm_ns", "mem_ns", "comm_compute_overlap_ns",
    "exposed_comm_ns", "gpu_events", "kernels", "streams", "launch", "steps", "findings",
)  # fmt: skip


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["analyze", *map(str, words)])


def document(*words: object) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return msgspec.json.decode(done.stdout)


def three_steps(kernel_us: int = 100) -> TraceBuilder:
    """Steps 5, 6, 7 of a millisecond; step n launches n kernels, the last of which runs within the next step."""
    builder = TraceBuilder()
    for place, step in enumerate((5, 6, 7)):
        start = place * 1_000_000
        builder.step(step, start, 1_000_000)
        builder.operator("aten::mm", start + 10_000, 800_000)
        for each in range(step):
            late = each == step - 1
            at = start + (1_000_000 + 10_000 if late else 50_000 + each * 130_000)
            builder.launch("gemm", (start + 20_000 + each * 100_000, 5_000), (at, kernel_us * 1_000))
    return builder


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return three_steps().write(tmp_path / "trace.json.gz")


def test_the_json_holds_every_rank_under_a_version(trace: Path) -> None:
    found = document(trace)
    assert found["schema_version"] == SCHEMA_VERSION
    (rank,) = found["ranks"]
    assert set(PER_RANK) <= set(rank)
    assert (rank["rank"], rank["file"], rank["gpu_events"]) == (0, str(trace), 18)
    assert {key: rank["kernels"][0][key] for key in ("name", "count", "total_ns", "min_ns", "max_ns")} == {
        "name": "gemm", "count": 18, "total_ns": 1_800_000, "min_ns": 100_000, "max_ns": 100_000,
    }  # fmt: skip
    assert [step["number"] for step in rank["steps"]] == [5, 6, 7]
    msgspec.convert(found, Document)


def test_what_is_printed_names_the_time_the_kernels_and_the_steps(trace: Path) -> None:
    done = run(trace)
    assert done.exit_code == 0
    for words in ("rank 0", "Findings", "Time of the GPU", "exposed", "gemm", "aten::mm", "ProfilerStep#6", "Launches"):
        assert words in done.stdout


@pytest.mark.parametrize(("width", "columns"), [(80, False), (200, True)])
def test_a_narrow_terminal_keeps_figures_whole(
    trace: Path, monkeypatch: pytest.MonkeyPatch, width: int, columns: bool
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(common, "out", Console(width=width, file=screen))
    assert run(trace).exit_code == 0
    lines = screen.getvalue().splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("Kernels"))) :]
    assert ("mean" in table[2]) == columns
    assert "1.8 ms" in table[4]
    assert max(len(line) for line in table[1:5]) <= width


def test_one_step_is_its_launches_wherever_they_ran(trace: Path) -> None:
    (rank,) = document(trace, "--step", "6")["ranks"]
    assert rank["gpu_events"] == 6
    assert [step["number"] for step in rank["steps"]] == [6]
    assert rank["start_ns"] == 1_050_000
    assert rank["start_ns"] + rank["span_ns"] == 2_110_000
    assert rank["steps_wanted"] == "6"
    assert document(trace, "--step", "6-7")["ranks"][0]["gpu_events"] == 13
    assert document(trace, "--step", "5,7")["ranks"][0]["gpu_events"] == 12


def test_a_step_that_is_not_there_is_said_with_those_that_are(trace: Path) -> None:
    done = run(trace, "--step", "9")
    assert done.exit_code == 1
    assert "no step 9 in this trace; it has 5 to 7" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(("option", "value"), [("--step", "x"), ("--step", "7-5"), ("--ranks", "1-"), ("--ranks", "")])
def test_what_are_no_numbers_is_a_mistake_in_the_command(trace: Path, option: str, value: str) -> None:
    done = run(trace, option, value)
    assert done.exit_code == 2
    assert "write numbers as 5, 5-8 or 0,8-11" in done.stderr.replace("\n", " ")


def test_what_is_no_trace_is_said_and_the_status_is_1(tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text("no trace")
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "empty.json.gz").write_bytes(gzip.compress(b""))
    for file in ("words.json", "empty.json", "empty.json.gz", "none.json"):
        done = run(tmp_path / file)
        assert done.exit_code == 1, file
        assert done.stderr.startswith("warpmeter: "), file
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_a_trace_without_gpu_events_says_so(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.operator("aten::mm", 0, 1000)
    file = builder.write(tmp_path / "cpu.json")
    assert "No GPU events in this trace" in run(file).stdout
    (rank,) = document(file)["ranks"]
    assert rank["gpu_events"] == 0
    assert rank["span_ns"] is None


def test_csv_has_a_table_a_part_with_rank_and_file(trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "made" / "csv"
    assert run(trace, "--csv", folder).exit_code == 0
    tables = {path.stem: list(csv.DictReader(path.open())) for path in folder.glob("*.csv")}
    assert {"ranks", "kernels", "kernels_operators", "streams", "steps", "operators_by_name"} <= set(tables)
    assert tables["kernels"][0]["name"] == "gemm"
    assert tables["kernels"][0]["total_ns"] == "1800000"
    assert [tables["kernels_operators"][0][key] for key in ("of", "name", "count")] == ["gemm", "aten::mm", "18"]
    assert tables["steps"][1]["work_gpu_events"] == "6"
    assert tables["ranks"][0]["launch_from_end_p50_ns"]
    assert (folder / "stacks_gpu.folded").read_text() == "thread 100;aten::mm;gemm 1800000\n"
    assert {row["file"] for rows in tables.values() for row in rows} == {str(trace)}


def test_a_diff_names_what_became_slower(trace: Path, tmp_path: Path) -> None:
    later = three_steps(kernel_us=110).write(tmp_path / "later.json")
    found = document("--diff", trace, later)
    (change,) = found["diff"]["kernels"]
    assert (change["name"], change["status"], change["change_ns"]) == ("gemm", "slower", pytest.approx(60_000))
    assert [rank["file"] for rank in found["ranks"]] == [str(later)]
    assert found["before"] == [str(trace)]
    assert "slower" in run("--diff", trace, later).stdout


def test_names_in_a_trace_neither_move_nor_colour_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(common, "out", Console(width=200, file=screen))
    builder = TraceBuilder()
    builder.kernel("a\x1b[31mred\x07\nline", 0, 100)
    builder.operator("[bold]aten::\x9bmm[/]", 0, 100)
    assert run(builder.write(tmp_path / "trace.json")).exit_code == 0
    said = screen.getvalue()
    assert "\\x1b[31mred\\x07\\nline" in said
    assert "[bold]aten::\\x9bmm[/]" in said
    assert all(each.isprintable() for each in said.replace("\n", ""))


def test_a_part_that_fails_takes_no_other_along(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: object) -> None:
        raise ZeroDivisionError("in a test")

    monkeypatch.setattr(reports, "stacks", fails)
    (rank,) = document(trace)["ranks"]
    assert rank["stacks"] is None
    assert rank["kernels"]
    assert rank["notes"] == ["stacks left out, by a fault of warpmeter: ZeroDivisionError: in a test"]
    with pytest.raises(ZeroDivisionError):
        analyze(three_steps().build(), Options(strict=True))


def test_a_fault_with_a_file_is_a_message(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: object) -> None:
        raise ZeroDivisionError("in a test")

    monkeypatch.setattr("warpmeter.analysis.capture.material", fails)
    done = run(trace)
    assert done.exit_code == 1
    assert "fault of warpmeter (ZeroDivisionError: in a test)" in done.stderr.replace("\n", " ")


def test_memory_bounds_how_many_files_are_under_way(tmp_path: Path) -> None:
    files = [tmp_path / f"{rank}.json" for rank in range(8)]
    for size, expected in ((1 << 20, 8), (60 << 20, 8), (300 << 20, 3), (2 << 30, 1)):
        for file in files:
            with file.open("wb") as empty:
                empty.truncate(size)
        assert workers.processes([str(file) for file in files], cpus=8) == expected
    assert workers.processes([str(file) for file in files[:3]], cpus=1) == 1
    assert workers.processes(["s3://bucket/trace.json"], cpus=8) == 1


def test_ranks_are_chosen_by_what_traces_or_their_names_tell(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        builder = three_steps()
        if rank != 3:
            builder.distributed(rank, 4)
        builder.write(tmp_path / (f"rank{rank}.json" if rank else "first.json"))
    assert [rank["rank"] for rank in document(tmp_path / "rank3.json", "--ranks", "3")["ranks"]] == [3]
    assert [rank["rank"] for rank in document(tmp_path / "first.json", "--ranks", "0-1")["ranks"]] == [0]
    done = run(tmp_path / "first.json", tmp_path / "rank1.json", "--ranks", "7")
    assert done.exit_code == 1
    assert "none of 2 traces is of rank 7" in done.stderr


def test_what_is_whole_of_a_damaged_file_is_analysed_and_the_rest_told(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_bytes(three_steps().json()[:-100])
    (rank,) = document(tmp_path / "cut.json")["ranks"]
    assert rank["gpu_events"] == 17
    (note,) = rank["notes"]
    assert note in run(tmp_path / "cut.json").stdout
    assert note in run(tmp_path / "cut.json", "--json").stderr


def test_numbers_and_ranks_are_read_as_people_write_them() -> None:
    chosen = numbers("0,8-11, 20")
    assert [each for each in range(30) if each in chosen] == [0, 8, 9, 10, 11, 20]
    assert str(chosen) == "0,8-11,20"
    names = ("rank3.json", "x/rank-12_step5.json.gz", "job_rank_7.json", "host.pid.json", "rank1/rank2.pt.trace.json")
    assert [rank_in(name) for name in names] == [3, 12, 7, None, 2]
    assert rank_in(f"rank{'9' * 5000}.json") is None


def test_traces_and_folders_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profile").mkdir()
    for name in ("profile/rank0.json.gz", "plan.txt", "other.json"):
        (tmp_path / name).write_bytes(b"")
    assert complete.traces("p") == ["profile/"]
    assert complete.traces("") == ["other.json", "profile/"]
    assert complete.traces("profile/") == ["profile/rank0.json.gz"]
    assert complete.traces(f"{tmp_path}/o") == [f"{tmp_path}/other.json"]


def test_the_bar_counts_bytes_of_all_files(tmp_path: Path) -> None:
    from rich.progress import Progress

    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * 100)
    progress = Progress(disable=True)
    told = analyzing.Bars(progress, [str(tmp_path / "a"), str(tmp_path / "b"), "s3://bucket/c"]).told
    task = progress.tasks[0]
    assert (task.completed, task.total) == (0, 200)
    told(0, 100, 100)
    told(2, 10, 50)
    assert (task.completed, task.total, task.description) == (110, 250, "read 1 of 3 traces")
    told(1, 100, 100)
    told(2, 50, 50)
    assert (task.completed, task.description) == (250, "analysing")


def test_a_log_gets_a_line_now_and_then(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * 1000)
    clock = iter([0.0, 5.0, 11.0, 11.0, 12.0])
    told = analyzing.Lines([str(tmp_path / "a"), str(tmp_path / "b")], lambda: next(clock)).told
    told(0, 500, 1000)
    told(0, 1000, 1000)
    told(1, 300, 1000)
    assert capsys.readouterr().err == "read 1 of 2 traces, 50 % of 1.95 KiB\n"


def test_what_cannot_be_written_is_a_message(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for words in (("--csv", tmp_path / "file"), ("--html", tmp_path / "none" / "report.html")):
        done = run(trace, *words)
        assert done.exit_code == 1
        assert "cannot be written" in done.stderr


def test_names_of_files_are_neither_markup_nor_steer_a_terminal_nor_need_be_text(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff[/b]\x1b[31m"))
    odd.parent.mkdir()  # rich takes [/b] for markup that ends
    three_steps().write(odd)
    broken = odd.with_name(odd.name + "2")
    broken.write_bytes(b"{")

    done = run(odd, broken, "--json", "--html", odd.with_suffix(".html"), "--csv", odd.with_suffix(".csv"))

    assert done.exit_code == 1
    found = msgspec.json.decode(done.stdout)
    assert found["ranks"][0]["file"].endswith("/a?[/b]\x1b[31m")
    assert found["failed"][0]["file"].endswith("/a?[/b]\x1b[31m2")
    assert "wrote the report into" in done.stderr
    assert "[/b]\\x1b[31m" in done.stderr
    assert "\x1b" not in done.stderr


def _little_room(words: Sequence[object], to: IO[bytes]) -> "subprocess.CompletedProcess[bytes]":
    """The command where files grow no further than 4 KiB, as on a full disk."""
    return subprocess.run(
        [sys.executable, "-m", "warpmeter", "analyze", *map(str, words)],
        stdout=to, stderr=subprocess.PIPE, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )  # fmt: skip


def test_a_full_disk_is_a_message_and_an_earlier_report_stays(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("earlier")
    with (tmp_path / "out").open("wb") as out:
        done = _little_room([trace, "--html", page], out)

    assert (done.returncode, b"cannot be written" in done.stderr) == (1, True), done.stderr
    assert page.read_text() == "earlier"
    assert {each.name for each in tmp_path.iterdir()} == {trace.name, "out", "report.html"}


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_result_that_cannot_be_printed_is_a_message(trace: Path, how: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = _little_room([trace, *how], full)

    assert (done.returncode, done.stderr) == (
        1,
        b"warpmeter: what was found cannot be printed: No space left on device\n",
    )


@needs_traces
def test_what_is_not_in_a_tables_figures_is_told() -> None:
    shown = run(FOLDER / "tl_h100_qwen.json.gz").stdout
    assert "counted of 70 % of such kernels' time" in shown
    (rest,) = [line.split() for line in shown.splitlines() if "(launched by none)" in line]
    assert rest.count("13.7") == 2
    assert "4.54 MB/s" in shown


@needs_traces
@pytest.mark.parametrize("case", [pytest.param(case[1:], id=case[0]) for case in references()])
def test_real_traces_equal_their_references(case: tuple[Path, dict[str, Any]]) -> None:
    path, expected = case
    (rank,) = document(path)["ranks"]
    assert (rank["rank"], rank["gpu_events"]) == (expected["rank"], expected["n_gpu"])
    if not expected["n_gpu"]:
        assert rank["kernels"] == []
        return
    same = {
        "span_ns": "span", "busy_ns": "busy", "idle_ns": "idle", "compute_ns": "compute_kernels", "comm_ns": "comm",
        "mem_ns": "mem", "comm_compute_overlap_ns": "comm_and_compute_overlap",
        "exposed_comm_ns": "comm_exposed_vs_compute", "exposed_mem_ns": "mem_exposed_vs_compute_comm",
    }  # fmt: skip
    assert {ours: rank[ours] for ours in same} == {ours: expected[theirs] for ours, theirs in same.items()}
    by_name = {each["name"]: [each[key] for key in ("count", "sum", "min", "max")] for each in expected["by_name"]}
    ours = {each["name"]: [each[key] for key in ("count", "total_ns", "min_ns", "max_ns")] for each in rank["kernels"]}
    assert {name: ours[name] for name in by_name} == by_name
    assert len(ours) == expected["n_distinct_gpu_names"]
    assert rank["launch"]["matched"] == expected["launch"]["gpu_matched_to_runtime"]


def test_of_several_ranks_a_line_each_is_shown_and_what_they_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Job(3)
    for _ in range(5):
        for rank in range(3):
            made.host(rank, 4_000_000 if rank == 1 else 1_000_000)
            made.compute(rank, 2_000_000)
        made.meet()
    ranked = [one(str(file), lambda *_: None).ranked for file in made.write(tmp_path)]
    parts = [each for each in ranked if each is not None]
    both = job([extract for _, extract in parts])
    found = Document(SCHEMA_VERSION, [report for report, _ in parts], both, job_findings(both), [])
    screen = io.StringIO()
    monkeypatch.setattr(common, "out", Console(width=200, file=screen))
    reporting.show(found, 10)
    said = screen.getvalue()
    assert "Rank 1 comes last to " in said
    for title in ("3 ranks", "Findings of single ranks", "Collectives", "Ranks that others waited for"):
        assert f"\n{title}" in said
    assert "│ exposed_communication │ 2 of 3 │" in said


def test_a_single_rank_is_no_job(tmp_path: Path) -> None:
    made = Job(3)
    made.meet()
    made.write(tmp_path)
    found = document(tmp_path / "rank1.json")
    assert [rank["rank"] for rank in found["ranks"]] == [1]
    assert (found["job"], found["findings"]) == (None, [])
