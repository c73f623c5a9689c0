"""Broken traces: a clear message or what is whole of them, and never a traceback, from the file to the report."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.plain_trace import Row, read_rows, rows
from tests.trace_mutants import Mutant, good, mutant
from warpmeter.analysis.read import TraceError, read
from warpmeter.analysis.report import Options, analyze
from warpmeter.analysis.trace import Trace

pytestmark = pytest.mark.long

SEED = 20_260


def _check(seed: int, folder: Path) -> str:
    trace = good(seed // 10)
    broken = mutant(seed, trace)
    path = folder / "trace"
    path.write_bytes(broken.data)
    found = _read(path)
    if isinstance(found, str):
        assert found.startswith(str(path)), seed
        assert broken.touched is None or broken.touched >= len(trace.events) - 4, (seed, broken.kind, found)
        return "refused"
    _compare(seed, broken, found, trace.json())
    msgspec.json.encode(analyze(found, Options(strict=True)))
    return "noted" if found.notes else "silent"


def _read(path: Path) -> Trace | str:
    try:
        return read(str(path), processes=1)
    except TraceError as error:
        return str(error)


def _compare(seed: int, broken: Mutant, found: Trace, text: bytes) -> None:
    """What was not touched is there."""
    if broken.touched is None:
        return
    expected, rest = _counted(rows(text)), _counted(read_rows(found))
    missing = expected - rest
    assert missing.total() <= broken.touched, (seed, broken.kind, missing)


def _counted(tables: dict[str, list[Row]]) -> Counter[tuple[str, Row]]:
    return Counter((table, row) for table, values in tables.items() for row in values)


@pytest.mark.parametrize("batch", range(4))
def test_some_mutants(batch: int, tmp_path: Path) -> None:
    for seed in range(SEED + batch * 100, SEED + (batch + 1) * 100):
        _check(seed, tmp_path)


@pytest.mark.parametrize(
    "batch",
    [pytest.param(batch, marks=pytest.mark.fuzz if batch % 10 else pytest.mark.long) for batch in range(40)],
)
def test_twenty_thousand_mutants(batch: int, tmp_path: Path) -> None:
    """Each tenth batch by CI, all others by `make fuzz`: the same mutants, as their seeds are the same."""
    ends = Counter(_check(seed, tmp_path) for seed in range(batch * 500, (batch + 1) * 500))
    assert set(ends) == {"refused", "noted", "silent"}
