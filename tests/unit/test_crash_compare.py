"""The crash script's comparison finds what it is there to find."""

import pytest

from tests.crash.compare import Comparison, meet
from tests.crash.rollups import MINUTE_S, ROLLUPS, expected
from tests.crash.samples import PERIOD_MS, ROWS, all_series, envelope, jobs_of
from warpmeter import wire
from warpmeter.consumers.span import Partition

BASE = 1_700_000_000 // MINUTE_S * MINUTE_S
HERE = Partition("crash.gpu-samples", 0)


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([(0, 3), (4, 9)], []),
        ([(0, 3), (5, 9)], []),  # 4 was refused
        ([(0, 3), (6, 9)], ["offsets in no span"]),
        ([(1, 3), (4, 9)], ["offsets in no span"]),
        ([(0, 3), (4, 8)], ["offsets in no span"]),
        ([(0, 3), (3, 9)], ["overlap"]),
        ([(0, 9), (0, 9)], ["overlap"]),
        ([(0, 3), (4, 10)], ["beyond the end"]),
    ],
)
def test_gaps_overlaps_and_strangers_among_spans_are_told(spans: list[tuple[int, int]], words: list[str]) -> None:
    found = Comparison()
    meet(found, HERE, spans, 10, {4})
    assert len(found.findings) == len(words)
    assert all(word in finding for word, finding in zip(words, found.findings, strict=True))


def test_every_number_is_in_one_message_and_says_itself() -> None:
    for series in all_series(BASE):
        rows = [row for message in range(3) for row in wire.unpack(series.topic, envelope(series, message).value)]
        assert [getattr(row, series.number) for row in rows] == list(range(3 * ROWS))


def test_the_expected_sums_are_those_of_the_rows() -> None:
    gpus, hosts, _ = all_series(BASE)
    rows = [(gpus.topic.name, gpus.fields(n)) for n in range(40)] + [(hosts.topic.name, hosts.fields(3))]
    by_name = {rollup.name: expected(rollup, MINUTE_S, rows) for rollup in ROLLUPS}
    assert sum(sums[0] for sums in by_name["gpu_heatmap"].values()) == 40
    assert sum(sums[-1] for sums in by_name["gpu_heatmap"].values()) == sum(range(40))
    assert sum(sums[1] for sums in by_name["fleet_windows"].values()) == 40 * PERIOD_MS
    assert sum(sums[0] for sums in by_name["host_windows"].values()) == 1
    assert sum(sums[0] for sums in by_name["job_windows"].values()) == 40  # GPU time is shared, not counted twice
    assert {key[0] for key in by_name["job_windows"]} == {job for n in range(40) for job in jobs_of(n)}
