"""Findings between the ranks of a job: each is provoked alone, and ranks that do alike give none."""

from collections.abc import Callable

import pytest

from tests.jobs import Job
from warpmeter.analysis.findings import Finding, job_findings
from warpmeter.analysis.job import job

MS = 1_000_000


def even(size: int = 4) -> Job:
    """Ten rounds of the same work and a collective."""
    made = Job(size)
    for _ in range(10):
        for rank in range(size):
            made.compute(rank, 10 * MS)
        made.meet(transfer=1 * MS)
    return made


def straggler_rank() -> Job:
    """Rank 2 waits for its input each time."""
    made = Job(4)
    for _ in range(10):
        for rank in range(4):
            if rank == 2:
                made.host(rank, 3 * MS, loader=True)
            made.compute(rank, 10 * MS)
        made.meet(transfer=1 * MS)
    return made


def straggler_ranks() -> Job:
    """Ranks 1 and 4 wait for their input, equally long."""
    made = Job(6)
    for _ in range(10):
        for rank in range(6):
            if rank in (1, 4):
                made.host(rank, 3 * MS, loader=True)
            made.compute(rank, 10 * MS)
        made.meet(transfer=1 * MS)
    return made


def load_imbalance() -> Job:
    """Rank 1 has more to do, and nobody waits for it."""
    made = Job(4)
    for rank in range(4):
        made.compute(rank, (16 if rank == 1 else 10) * MS, kernels=10)
    return made


def slow_link() -> Job:
    """Messages of 4 MiB that take 8 ms between GPUs of one host."""
    made = Job(4)
    for worker in made.workers:
        for each in range(4):
            worker.trace.device(each, "NVIDIA H100 80GB HBM3")
    for _ in range(10):
        for rank in range(4):
            made.compute(rank, 10 * MS)
        made.meet(transfer=8 * MS)
    return made


def found(made: Job, ranks: list[int] | None = None) -> list[Finding]:
    return job_findings(job(made.extracts(ranks)))


def test_ranks_that_do_alike_give_no_finding() -> None:
    assert found(even()) == []


@pytest.mark.parametrize("made", [straggler_rank, straggler_ranks, load_imbalance, slow_link])
def test_each_finding_is_provoked_alone(made: Callable[[], Job]) -> None:
    assert [each.id for each in found(made())] == [made.__name__]


def test_a_straggler_is_named_with_what_it_costs_and_why() -> None:
    (finding,) = found(straggler_rank())
    assert finding.text.startswith("Rank 2 comes last to ")
    assert finding.cost_ns == pytest.approx(27 * MS, abs=4 * MS)
    assert "input" in finding.text
    assert any(each.what == "of it input" and each.unit == "ns" for each in finding.evidence)


def test_ranks_that_are_late_together_are_named_together() -> None:
    (finding,) = found(straggler_ranks())
    assert finding.text.startswith("2 ranks come late together, 1, 4: rank ")
    assert [each.what for each in finding.evidence] == ["rank 1: late in all", "rank 4: late in all"]


def test_a_missing_rank_is_named() -> None:
    (finding,) = found(even(), [0, 1, 3])
    assert (finding.id, finding.value) == ("missing_ranks", 1.0)
    assert finding.text == "1 rank of 4 has no trace here: 2"
