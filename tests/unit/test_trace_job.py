"""A job of several ranks: arrivals, waiting, transfers, bandwidth, who was late and why, who is missing."""

import random
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.jobs import BEGIN, FalseClock, Job
from tests.traces import FOLDER, needs_traces
from warpmeter.analysis.breakdown import breakdown, sorts
from warpmeter.analysis.job import JobReport, extract, job
from warpmeter.analysis.job.arrivals import others
from warpmeter.analysis.job.collectives import bus_factor, dtype_bytes, kind_of
from warpmeter.analysis.job.report import CollectiveStats
from warpmeter.analysis.links import links
from warpmeter.analysis.read import read

Delay = Callable[[Job, int, int], None]
SECOND = 1_000_000_000
GLOO = Path(__file__).parents[1] / "golden" / "gloo"
CLOCKS = {1: FalseClock(3 * SECOND, 10e-6), 2: FalseClock(-SECOND), 3: FalseClock(77_777, -20e-6)}


def one(report: JobReport, kind: str, group: str = "0") -> CollectiveStats:
    """The only row of that kind in that group."""
    (found,) = [row for row in report.collectives if (row.kind, row.group) == (kind, group)]
    return found


def training(made: Job, steps: int = 12, *, delay: Delay | None = None) -> Job:
    """Steps of four kernels and a collective on each rank; `delay` may do more before them on a rank, in a step."""
    for step in range(steps):
        made.step(step)
        for rank in range(made.size):
            if delay is not None:
                delay(made, rank, step)
            made.compute(rank, 1_000_000, kernels=4)
        made.meet("all_reduce")
    return made


def test_waiting_and_transfer_are_told_apart() -> None:
    made = Job(4, CLOCKS)
    for _ in range(20):
        for rank in range(4):
            made.compute(rank, 1_000_000 + 200_000 * rank)
        made.meet(transfer=50_000)
    row = one(job(made.extracts()), "all_reduce")
    assert row.count == 20
    assert row.wait_ns == pytest.approx(20 * (600_000 + 400_000 + 200_000), abs=100)
    assert row.total_ns - row.wait_ns == pytest.approx(4 * 20 * 50_000, abs=100)
    assert row.transfer_p50_ns == pytest.approx(50_000, abs=2)
    assert row.skew_p50_ns == pytest.approx(600_000, abs=1_000)
    assert (row.last_rank, row.last_share) == (3, 1.0)


@pytest.mark.parametrize(
    ("kind", "size", "factor"),
    [("all_reduce", 4 << 20, 1.5), ("all_gather", 16 << 20, 0.75), ("reduce_scatter", 16 << 20, 0.75)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(kind: str, size: int, factor: float) -> None:
    made = Job(4)
    for _ in range(10):
        for rank in range(4):
            made.compute(rank, 500_000)
        made.meet(kind, transfer=100_000)
    row = one(job(made.extracts()), kind)
    assert row.bytes == size
    assert row.algorithm_bytes_per_s == size / 100e-6
    assert row.bus_bytes_per_s == pytest.approx(factor * size / 100e-6)


def test_factors_of_bus_bandwidth() -> None:
    assert bus_factor("all_reduce", 8) == 1.75
    assert bus_factor("all_to_all", 8) == 0.875
    assert bus_factor("broadcast", 8) == 1
    assert bus_factor("send_recv", 2) == 1
    assert bus_factor("barrier", 8) is None
    assert bus_factor("all_reduce", 1) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("allreduce", "all_reduce"),
        ("c10d::allreduce_", "all_reduce"),
        ("nccl:all_reduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("allgather_into_tensor_coalesced", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("alltoall_base", "all_to_all"),
        ("broadcast", "broadcast"),
        ("reduce", "reduce"),
        ("gather", "gather"),
        ("scatter", "scatter"),
        ("barrier", "barrier"),
        ("send", "send_recv"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("void vllm::cross_device_reduce_1stage<float, 2>(vllm::RankData*)", "all_reduce"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "unknown"),
    ],
)
def test_kinds_by_any_of_their_names(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_widths_of_types() -> None:
    assert [dtype_bytes(name) for name in ("BFloat16", "c10::Half", "Float8_e4m3fn", "Long")] == [2, 2, 1, 8]
    assert dtype_bytes("QInt9") is None


def test_groups_are_kept_apart() -> None:
    made = Job(4, CLOCKS)
    made.group("tp0", (0, 1))
    made.group("tp1", (2, 3))
    for _ in range(15):
        for group, slow in (("tp0", 1), ("tp1", 2)):
            for rank in made.groups[group]:
                made.compute(rank, 900_000 if rank == slow else 600_000)
            made.meet("all_gather", group=group)
        made.meet("all_reduce")
    report = job(made.extracts())
    assert {group.name: group.traced for group in report.groups} == {
        "0": [0, 1, 2, 3],
        "tp0": [0, 1],
        "tp1": [2, 3],
    }
    assert (one(report, "all_gather", "tp0").last_rank, one(report, "all_gather", "tp1").last_rank) == (1, 2)
    assert one(report, "all_reduce").last_rank is None


def test_one_name_for_groups_of_different_ranks() -> None:
    """Every rank calls its tensor-parallel group the same."""
    made = Job(4, CLOCKS)
    for _ in range(15):
        for pair in ((0, 1), (2, 3)):
            made.group("tp", pair)
            for rank in pair:
                made.compute(rank, 500_000)
            made.meet("all_gather", group="tp")
        made.group("tp", (0, 1))
        made.meet("all_reduce")
    extracts = made.extracts()
    assert sorted(group.traced for group in job(extracts).groups if group.name == "tp") == [[0, 1], [2, 3]]


def test_point_to_point_is_by_pair() -> None:
    made = Job(3, CLOCKS)
    for _ in range(20):
        for rank, took in enumerate((800_000, 500_000, 300_000)):
            made.compute(rank, took)
        made.send(0, 1)
        made.send(1, 2)
    report = job(made.extracts())
    assert {(group.source, group.target) for group in report.groups} == {(0, 1), (1, 2)}
    assert all(group.collectives == 20 for group in report.groups)
    sent = next(row for row in report.collectives if row.ranks == [0, 1])
    assert (sent.last_rank, sent.bytes) == (0, 4 << 20)
    assert sent.bus_bytes_per_s == pytest.approx((4 << 20) / 50e-6, rel=1e-3)


def test_small_transfers_are_matched_though_the_receiver_asks_late() -> None:
    made, chance = Job(2, CLOCKS), random.Random(11)
    for turn in range(60):
        made.compute(0, 300_000 + chance.randint(0, 50_000))
        made.compute(1, 300_000)
        behind, ahead = sorted(made.workers, key=lambda worker: (worker.rank == 1) == bool(turn % 3))
        ahead.now = max(ahead.now, behind.now + 200_000 + chance.randint(0, 300_000))
        made.send(0, 1, elements=1_000, transfer=30_000, rid=8_000)
    report = job(made.extracts())
    assert report.groups[0].unmatched == []
    row = one(report, "send_recv")
    assert row.count == 60
    assert row.transfer_p50_ns == pytest.approx(30_000, abs=10)


def test_broadcasts_are_matched_though_the_root_leaves_early() -> None:
    made, chance = Job(3, CLOCKS), random.Random(12)
    for _ in range(30):
        for rank in range(3):
            made.compute(rank, 300_000 + chance.randint(0, 900_000))
        made.meet("all_reduce")
        sent = made.workers[0].now
        for rank, took in ((0, 10_000), (1, 20_000), (2, 30_000)):
            late = chance.randint(0, 2_000_000) if rank else 0
            made.compute(rank, late)
            worker = made.workers[rank]
            begin, worker.now = worker.now, max(worker.now, sent) + took
            made.write_one(rank, "broadcast", (begin, worker.now))
    report = job(made.extracts())
    row = one(report, "broadcast")
    assert (row.count, report.groups[0].unmatched) == (30, [])
    assert row.transfer_max_ns == pytest.approx(30_000, abs=10)


def test_transfers_that_do_not_tell_their_peers_are_left_out() -> None:
    made = Job(4, CLOCKS)
    for _ in range(5):
        for rank in range(4):
            made.compute(rank, 500_000)
            start, duration = made.workers[rank].shown(made.workers[rank].now, made.workers[rank].now + 50_000)
            made.workers[rank].trace.kernel("ncclDevKernel_SendRecv", start, duration, group="0", group_size=4)
            made.workers[rank].now += 50_000
        made.meet()
    report = job(made.extracts())
    assert [row.kind for row in report.collectives] == ["all_reduce"]
    assert "20 point-to-point transfers do not tell" in report.notes[-1]


def late_by_input(made: Job, rank: int, _step: int) -> None:
    if rank == 2:
        made.host(rank, 400_000, loader=True)


def late_on_host(made: Job, rank: int, step: int) -> None:
    if rank == 1 and step % 3 == 0:
        made.host(rank, 5_000_000)


def late_by_slow_kernels(made: Job, rank: int, _step: int) -> None:
    made.compute(rank, 1_300_000 if rank == 3 else 1_000_000, name="flash_fwd", kernels=2)


def late_by_more_kernels(made: Job, rank: int, _step: int) -> None:
    made.compute(rank, 500_000 if rank == 0 else 100_000, name="expert", kernels=5 if rank == 0 else 1)


def late_by_copies(made: Job, rank: int, _step: int) -> None:
    if rank == 1:
        made.copy(rank, 700_000)


@pytest.mark.parametrize(
    ("delay", "rank", "cause", "evidence"),
    [
        (late_by_input, 2, "input", "next batch"),
        (late_on_host, 1, "host", "nothing ran"),
        (late_by_slow_kernels, 3, "slow_kernels", "flash_fwd: 1.30 times the others' median, 24 against 24"),
        (late_by_more_kernels, 0, "more_kernels", "expert: 5.00 times the others' median, 60 against 12"),
        (late_by_copies, 1, "memory", "copies"),
    ],
)
def test_the_late_rank_and_its_cause_are_told(delay: Delay, rank: int, cause: str, evidence: str) -> None:
    report = job(training(Job(4, CLOCKS), delay=delay).extracts())
    found = report.stragglers[0]
    assert (found.rank, found.cause) == (rank, cause)
    assert evidence in found.evidence
    assert sum(found.causes.values()) == found.late_ns
    assert report.skewed[0].last_rank == rank
    assert len(report.stragglers) == 1


def test_two_late_ranks_have_their_own_causes() -> None:
    def delay(made: Job, rank: int, step: int) -> None:
        if rank == 0 and step % 2:
            made.host(rank, 900_000, loader=True)
        late_by_slow_kernels(made, rank, step)

    report = job(training(Job(4, CLOCKS), 20, delay=delay).extracts())
    assert {each.rank: each.cause for each in report.stragglers} == {0: "input", 3: "slow_kernels"}
    assert sum(each.last for each in report.stragglers) == 20


def test_ranks_that_are_late_together_are_told_although_none_of_them_alone_costs_much() -> None:
    """Two of six, as of one slow host: the last is now the one, now the other."""

    def delay(made: Job, rank: int, step: int) -> None:
        if rank in (2, 5):
            made.compute(rank, 500_000 + 1_000 * ((step + rank) % 2))

    report = job(training(Job(6, CLOCKS), 20, delay=delay).extracts())
    assert {each.rank: each.late for each in report.stragglers} == {2: 20, 5: 20}
    for each in report.stragglers:
        assert each.late_ns == pytest.approx(20 * 500_500, abs=20_000)
        assert each.cost_ns < 50_000


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(0, 5), columns=st.integers(1, 7))
def test_the_median_of_the_others(seed: int, rows: int, columns: int) -> None:
    chance = np.random.default_rng(seed)
    values = chance.integers(-20, 20, (rows, columns))
    there = chance.random((rows, columns)) < 0.7
    found = others(values, there)
    for row, column in np.ndindex(rows, columns):
        if not there[row, column]:
            continue
        rest = sorted(values[row, other] for other in range(columns) if there[row, other] and other != column)
        low, high = (rest[(len(rest) - 1) // 2], rest[len(rest) // 2]) if rest else (0, 0)
        assert found[row, column] == low + (high - low) // 2


def test_being_late_for_having_waited_elsewhere_is_no_fault_of_ones_own() -> None:
    """Rank 1 waits for rank 0 in their own group and so keeps the whole job waiting."""
    made = Job(4, CLOCKS)
    made.group("pair", (0, 1))
    for _ in range(15):
        for rank in range(4):
            made.compute(rank, 1_000_000)
        made.host(0, 2_000_000, loader=True)
        made.meet("all_gather", group="pair")
        made.compute(1, 100_000)
        made.meet("all_reduce")
    report = job(made.extracts())
    causes = {each.rank: each for each in report.stragglers}
    assert causes[0].cause == "input"
    assert causes[1].cause == "communication"


def test_nobody_is_late_below_what_the_clocks_may_be_wrong_by() -> None:
    made, chance = Job(4, CLOCKS), random.Random(8)
    for _ in range(50):
        for rank in range(4):
            made.compute(rank, 1_000_000 + chance.randint(0, 10_000))
        made.meet(transfer=40_000, late_ends={rank: chance.randint(0, 5_000) for rank in range(4)})
    report = job(made.extracts())
    assert report.stragglers == []
    assert report.skewed == []
    row = one(report, "all_reduce")
    assert (row.skew_p50_ns, row.skew_max_ns, row.last_rank) == (None, None, None)


def test_a_constant_difference_of_ends_makes_no_straggler() -> None:
    made = Job(2)
    for _ in range(50):
        made.compute(0, 1_000_000)
        made.compute(1, 1_000_000)
        made.meet(transfer=40_000, late_ends={1: 30_000})
        made.workers[0].now = made.workers[1].now
    assert job(made.extracts()).stragglers == []


def test_missing_ranks_are_named() -> None:
    made = training(Job(6, CLOCKS))
    made.group("tail", (4, 5))
    made.meet("all_gather", group="tail")
    report = job(made.extracts([0, 2, 5]))
    assert (report.world_size, report.ranks, report.missing_ranks) == (6, [0, 2, 5], [1, 3, 4])
    assert {group.name: group.missing for group in report.groups} == {"0": [1, 3, 4], "tail": [4]}
    assert "3 of 6 ranks missing: 1, 3, 4" in report.notes[0]


def test_a_rank_that_lacks_collectives_is_told() -> None:
    made = Job(3, CLOCKS)
    for turn in range(30):
        for rank in range(3):
            made.compute(rank, 500_000 + 1_000 * ((turn * 7 + rank) % 11))
        made.meet(absent=[1] if turn >= 24 else [])
    group = job(made.extracts()).groups[0]
    assert group.collectives == 30
    assert group.unmatched == []
    told = job(made.extracts([0, 1]))
    alone = told.groups[0]
    assert "6 of 30 collectives of rank 0 in 0 were found on no other rank" in told.notes[-1]
    assert [(each.rank, each.unmatched) for each in alone.unmatched] == [(0, 6)]
    assert alone.collectives == 24


def test_a_rank_in_two_files_counts_once() -> None:
    made = training(Job(2))
    report = job([*made.extracts(), *made.extracts([1])])
    assert report.ranks == [0, 1]
    assert "rank 1 is in two files" in report.notes[0]


def test_loads_and_balance() -> None:
    made = Job(4, CLOCKS)
    for _ in range(10):
        for rank in range(4):
            made.compute(rank, 2_000_000 if rank == 2 else 1_000_000)
        made.meet(transfer=50_000)
    report = job(made.extracts())
    assert [load.compute_ns for load in report.loads] == pytest.approx([10**7, 10**7, 2 * 10**7, 10**7], abs=500)
    assert [load.waited_ns for load in report.loads] == pytest.approx([10**7, 10**7, 0, 10**7], abs=500)
    compute = next(each for each in report.balance if each.figure == "compute_ns")
    assert compute.most_rank == 2
    assert compute.imbalance == pytest.approx(0.6, abs=1e-4)


def test_gloo_on_cpus() -> None:
    made = Job(3, CLOCKS, backend="gloo")
    for step in range(20):
        made.step(step)
        for rank in range(3):
            start, duration = made.workers[rank].shown(made.workers[rank].now, made.workers[rank].now + 800_000)
            made.workers[rank].trace.operator("aten::mm", start, duration)
            made.workers[rank].now += 800_000
        made.host(1, 1_000_000, loader=True)
        made.meet("all_reduce", transfer=300_000)
    report = job(made.extracts())
    row = one(report, "all_reduce", "gloo")
    assert (row.count, row.last_rank, row.bytes) == (20, 1, 4 << 20)
    assert row.bus_bytes_per_s == pytest.approx(4 / 3 * (4 << 20) / 300e-6, rel=1e-3)
    assert row.wait_ns == pytest.approx(2 * 20 * 1_000_000, abs=500)
    assert report.stragglers[0].cause == "input"
    assert report.loads[0].compute_ns == pytest.approx(20 * 800_000, abs=500)


def test_links_of_one_host() -> None:
    made = Job(4)
    for worker in made.workers:
        for device in range(8):
            worker.trace.device(device, "NVIDIA H100 80GB HBM3")
    training(made)
    report = job(made.extracts())
    assert report.groups[0].link_bytes_per_s == 450e9
    row = one(report, "all_reduce")
    assert row.link_share == pytest.approx(1.5 * (4 << 20) / 50e-6 / 450e9, rel=1e-3)


def test_links_of_several_hosts_are_not_known() -> None:
    made = Job(4)
    for worker in made.workers:
        worker.trace.device(0, "NVIDIA H100 80GB HBM3")
    assert job(training(made).extracts()).groups[0].link_bytes_per_s is None


def test_one_rank_alone() -> None:
    report = job(training(Job(2)).extracts([1]))
    assert (report.ranks, report.missing_ranks, report.stragglers) == ([1], [0], [])
    assert (report.groups[0].collectives, report.groups[0].missing) == (0, [0])


def test_nothing_at_all() -> None:
    with pytest.raises(ValueError, match="at least one rank"):
        job([])
    made = Job(2)
    report = job(made.extracts())
    assert report.groups == []
    assert report.loads[0].span_ns == 0


def test_the_report_is_plain() -> None:
    """JSON and back is the same: no arrays, no numbers of numpy."""
    report = job(training(Job(3, CLOCKS), delay=late_by_input).extracts())
    assert msgspec.json.decode(msgspec.json.encode(report), type=JobReport) == report


@needs_traces
@pytest.mark.parametrize("name", ["hta_nccl_parser_config", "hta_negative_queue_length", "tl_b200_vllm_eager"])
def test_loads_are_the_figures_of_the_rank(name: str) -> None:
    trace = read(str(FOLDER / f"{name}.json.gz"))
    load = job([extract(trace, links(trace))]).loads[0]
    found = breakdown(trace.gpu, sorts(trace.gpu, trace.names))
    for figure in ("span_ns", "busy_ns", "idle_ns", "compute_ns", "comm_ns", "mem_ns", "exposed_comm_ns"):
        assert getattr(load, figure) == getattr(found, figure)
    assert load.kernels == found.compute_events + found.comm_events


@needs_traces
def test_two_ranks_that_were_real() -> None:
    """Of each rank ten of its collectives are left in the files, of some both: clocks of one host, so 0 apart."""
    traces = [read(str(FOLDER / f"hta_trace_filter_2ranks_rank{rank}.json.gz")) for rank in (0, 1)]
    report = job([extract(trace, links(trace)) for trace in traces])
    assert (report.ranks, len(report.missing_ranks)) == ([0, 1], 126)
    clock = report.clocks[1]
    assert abs(clock.offset_ns) <= clock.uncertainty_ns < SECOND // 1_000
    assert clock.matched == 5
    gathered = next(row for row in report.collectives if row.kind == "all_gather")
    assert (gathered.count, gathered.bytes) == (2, 1 << 30)
    assert gathered.total_ns == (42_496 + 42_744 + 63_644 + 62_163) * 1_000
    assert gathered.wait_ns == (42_744 - 42_496 + 63_644 - 62_163) * 1_000


def test_three_ranks_that_were_real_on_cpus() -> None:
    """Rank 1 waited for its input in even steps, rank 2 computed more in odd ones, all by one clock."""
    traces = [read(str(GLOO / f"rank{rank}.json.gz")) for rank in range(3)]
    report = job([extract(trace, links(trace)) for trace in traces])
    for clock in report.clocks:
        assert abs(clock.offset_ns) <= clock.uncertainty_ns < SECOND // 1_000
        assert clock.drift_ppb == 0
    assert report.missing_ranks == []
    reduced = {row.bytes: row for row in report.collectives if row.kind == "all_reduce"}
    assert {size: row.count for size, row in reduced.items()} == {4 * 256 * 257: 8, 4 * 1_000: 8}
    assert [(each.rank, each.cause) for each in report.stragglers[:2]] == [(2, "slow_kernels"), (1, "input")]
    assert "aten::mm" in report.stragglers[0].evidence
    assert "32 against 8 of them" in report.stragglers[0].evidence
    assert all(each.causes["input"] < each.late_ns / 100 for each in report.stragglers if each.rank != 1)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), size=st.integers(2, 5), turns=st.integers(1, 12))
def test_against_what_truly_happened(seed: int, size: int, turns: int) -> None:
    """Waits, skews and last ranks of random jobs, from their course in true time."""
    chance = random.Random(seed)
    right = {rank: FalseClock(chance.randint(-(10**10), 10**10)) for rank in range(1, size)}
    made = Job(size, right)
    came = []
    for _ in range(turns):
        for rank in range(size):
            made.compute(rank, chance.randint(100_000, 2_000_000))
        came.append([worker.now for worker in made.workers])
        made.meet(transfer=chance.randint(10_000, 90_000))
    truth = np.array(came)
    extracts = made.extracts()
    report = job(extracts)
    row = one(report, "all_reduce")
    assert row.count == turns
    assert row.wait_ns == int((truth.max(axis=1, keepdims=True) - truth).sum())
    skew = int((truth.max(axis=1) - truth.min(axis=1)).max())
    assert row.skew_max_ns in (None, pytest.approx(skew, abs=1))
    assert [load.waited_ns for load in report.loads] == (truth.max(axis=1, keepdims=True) - truth).sum(axis=0).tolist()
    for each in report.skewed:
        turn = int(np.argmin(np.abs(truth.min(axis=1) - (each.start_ns - BEGIN))))
        assert each.last_rank == int(truth[turn].argmax())
    assert sum(each.last for each in report.stragglers) <= turns
    assert {column.name for column in fields(report)} >= {"clocks", "groups", "collectives", "stragglers", "balance"}
