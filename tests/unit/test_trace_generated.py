"""The benchmark's traces hold what they say."""

from pathlib import Path

from benchmarks.traces import write
from warpmeter.analysis.read import read
from warpmeter.analysis.report import Options, analyze


def test_a_generated_trace_holds_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    known = write(path, 3_000, 5, rank=2, world=4)
    report = analyze(read(str(path)), Options(strict=True))
    assert (report.events, report.rank, report.world_size, report.notes) == (known.events, 2, 4, [])
    assert {kernel.name: [kernel.count, kernel.total_ns] for kernel in report.kernels} == known.kernels
    assert len(report.steps) == 5
    assert report.launch is not None
    assert report.launch.unmatched == 0
    assert 240 < path.stat().st_size / known.events < 290
