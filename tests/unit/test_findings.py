"""Findings: each is provoked alone by a trace made for it, and a GPU that is well fed gives none."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.findings import RULES, Finding
from warpmeter.analysis.report import Options, RankReport, analyze

US, MS = 1_000, 1_000_000
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int, float, char*)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def work(builder: TraceBuilder, start: int, until: int, *, name: str = GEMM, each: int = 1 * MS, **more: Any) -> int:
    """Kernels back to back, launched long before, from `start` to `until`; when the last ends."""
    for place, at in enumerate(range(start, until, each)):
        builder.launch(name, (start // 10_000 + place * 4_000, 3 * US), (at, min(each, until - at)), **more)
    return until


def busy(until: int = 100 * MS) -> TraceBuilder:
    """A GPU that computes without a gap from 5 ms on, all of it launched before."""
    builder = TraceBuilder()
    builder.device(0, "NVIDIA H100 80GB HBM3", totalGlobalMem=80 << 30, computeMajor=9, computeMinor=0)
    work(builder, 5 * MS, until)
    return builder


def clean() -> TraceBuilder:
    """As above, with steps, hidden communication, copies from pinned memory, and pauses of a microsecond."""
    builder = busy()
    for step in range(5):
        builder.step(step, step * 20 * MS, 20 * MS)
    builder.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 1 * MS, 500 * US)
    builder.launch(ALL_REDUCE, (2 * MS, 5 * US), (20 * MS, 30 * MS), stream=20)
    builder.launch(ADD, (2 * MS + 50 * US, 5 * US), (100 * MS + 1 * US, 2 * MS))
    builder.launch("not_reckoned", (2 * MS + 60 * US, 5 * US), (102 * MS + 1 * US, 40 * MS), occupancy_percent=0)
    builder.copy(60 * MS, 5 * MS, bytes=1 << 28, stream=21, correlation=builder.call("cudaMemcpyAsync", 3 * MS, 5 * US))
    return builder


def input_bound() -> TraceBuilder:
    builder = busy()
    builder.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 80 * MS, 30 * MS)
    builder.launch(GEMM, (111 * MS, 3 * US), (112 * MS, 90 * MS))
    return builder


def host_sync() -> TraceBuilder:
    builder = busy()
    for place in range(5):
        at = 100 * MS + place * 10 * MS
        builder.operator("aten::item", at - 2 * MS, 2 * MS + 30 * US)
        builder.call("cudaStreamSynchronize", at - 1 * MS, 1 * MS + 10 * US)
        builder.launch(GEMM, (at + 900 * US, 3 * US), (at + 1 * MS, 9 * MS))
    return builder


def allocator_churn() -> TraceBuilder:
    builder = busy()
    for place in range(5):
        at = 100 * MS + place * 10 * MS
        builder.call("cudaFree", at - 1 * MS, 1 * MS + 10 * US)
        builder.call("cudaMalloc", at + 20 * US, 800 * US)
        builder.launch(GEMM, (at + 900 * US, 3 * US), (at + 1 * MS, 9 * MS))
    return builder


def launch_bound() -> TraceBuilder:
    builder = busy()
    for place in range(500):
        at = 100 * MS + place * 100 * US
        builder.operator("aten::linear", at + 10 * US, 60 * US)
        builder.launch(GEMM, (at + 60 * US, 8 * US), (at + 70 * US, 30 * US))
    return builder


def host_bound() -> TraceBuilder:
    builder = busy()
    for place in range(5):
        at = 100 * MS + place * 10 * MS
        builder.annotation("tokenize", at, 4 * MS)
        builder.launch(GEMM, (at + 5 * MS, 8 * US), (at + 5 * MS + 20 * US, 5 * MS - 20 * US))
    return builder


def clocks_apart() -> TraceBuilder:
    builder = busy()
    for place in range(5):
        at = 100 * MS + place * 10 * MS
        builder.launch(GEMM, (at + 200 * US, 8 * US), (at, 10 * MS))
    return builder


def device_wait() -> TraceBuilder:
    builder = busy()
    for place in range(5):
        at = 100 * MS + place * 10 * MS
        builder.launch(GEMM, (90 * MS + place * MS, 8 * US), (at + 5 * MS, 5 * MS))
    return builder


def exposed_communication() -> TraceBuilder:
    builder = busy()
    builder.launch(ALL_REDUCE, (1 * MS, 8 * US), (95 * MS, 35 * MS), stream=20)
    return builder


def exposed_memory() -> TraceBuilder:
    builder = busy()
    builder.copy(100 * MS, 30 * MS, bytes=1 << 30, correlation=builder.call("cudaMemcpyAsync", 1 * MS, 8 * US))
    return builder


def pageable_copies() -> TraceBuilder:
    builder = busy()
    for stream, start in ((21, 50 * MS), (22, 55 * MS)):
        call = builder.call("cudaMemcpyAsync", 1 * MS + stream, 8 * US)
        copied: dict[str, Any] = {"kind": "HtoD (Pageable -> Device)", "bytes": 1 << 27, "stream": stream}
        builder.copy(start, 15 * MS, correlation=call, **copied)
    return builder


def small_kernels() -> TraceBuilder:
    builder = busy()
    work(builder, 100 * MS, 150 * MS, name=ADD, each=5 * US)
    return builder


def low_occupancy() -> TraceBuilder:
    builder = busy()
    work(builder, 100 * MS, 150 * MS, name=ADD, occupancy_percent=12)
    return builder


def no_tensor_cores() -> TraceBuilder:
    builder = busy()
    work(builder, 100 * MS, 150 * MS, name="ampere_sgemm_128x64_tn")
    return builder


def layout_conversion() -> TraceBuilder:
    builder = busy()
    name = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t<float>)"
    work(builder, 100 * MS, 110 * MS, name=name)
    return builder


def slow_products() -> TraceBuilder:
    builder = busy()
    arguments: dict[str, Any] = {"dims": [[1024, 1024], [1024, 1024]], "types": ["c10::BFloat16", "c10::BFloat16"]}
    builder.operator("aten::mm", 1 * MS, 100 * US, external=7, **arguments)
    builder.launch(GEMM, (1 * MS + 20 * US, 8 * US), (100 * MS, 50 * MS), external=7)
    return builder


def uneven_steps() -> TraceBuilder:
    builder = busy()
    for step, (start, length) in enumerate([(0, 10), (10, 10), (20, 10), (30, 40), (70, 10)]):
        builder.step(step, start * MS, length * MS)
    return builder


def memory_full() -> TraceBuilder:
    builder = busy()
    builder.operator("aten::empty", 1 * MS, 100 * US)
    builder.memory(1 * MS + 10 * US, 70 << 30, address=1, allocated=70 << 30, reserved=79 << 30)
    return builder


CASES = {
    made.__name__: made
    for made in (
        input_bound, host_sync, allocator_churn, launch_bound, host_bound, clocks_apart, device_wait,
        exposed_communication, exposed_memory, pageable_copies, small_kernels, low_occupancy, no_tensor_cores,
        layout_conversion, slow_products, uneven_steps, memory_full,
    )
}  # fmt: skip


def found(builder: TraceBuilder) -> RankReport:
    return analyze(builder.build(), Options(strict=True))


def test_a_gpu_that_is_well_fed_gives_no_finding() -> None:
    report = found(clean())
    assert report.findings == []
    assert report.idle_ns == 1 * US


@pytest.mark.parametrize("made", CASES.values(), ids=list(CASES))
def test_each_finding_is_provoked_alone(made: Callable[[], TraceBuilder]) -> None:
    report = found(made())
    assert [each.id for each in report.findings] == [made.__name__]


def test_every_rule_has_its_trace() -> None:
    assert {rule.__name__ for rule in RULES} == set(CASES)


def one(made: Callable[[], TraceBuilder]) -> Finding:
    (finding,) = found(made()).findings
    return finding


@pytest.mark.parametrize(
    ("made", "cost_ns", "span_ms"),
    [
        (input_bound, 10 * MS, 197),
        (host_sync, 5 * MS, 145),
        (allocator_churn, 5 * (1 * MS + 10 * US + 800 * US), 145),
        (launch_bound, 500 * 70 * US, 145),
        (host_bound, 5 * (5 * MS + 20 * US), 145),
        (device_wait, 25 * MS, 145),
        (exposed_communication, 30 * MS, 125),
        (exposed_memory, 30 * MS, 125),
        (pageable_copies, 20 * MS, 95),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_figure_is_the_share_of_the_span(made: Callable[[], TraceBuilder], cost_ns: int, span_ms: int) -> None:
    finding = one(made)
    assert finding.cost_ns == cost_ns
    assert finding.value == pytest.approx(cost_ns / (span_ms * MS))
    assert finding.unit == "ratio"


@pytest.mark.parametrize(
    ("made", "said", "evidence"),
    [
        (input_bound, "waits for input 5.1 % of the time; 1 fetch of", ("fetches", 1.0)),
        (host_sync, "5 waits let it run dry, aten::item most of them", ("cudaStreamSynchronize", 5.0)),
        (launch_bound, "in 500 gaps", ("median gap", 70_000.0)),
        (host_bound, "mostly in tokenize", ("tokenize", 25_100_000.0)),
        (clocks_apart, "5 GPU events of 100 begin before", ("earliest before its call", 200_000.0)),
        (exposed_communication, "24 % of the time in ncclDevKernel_AllReduce", None),
        (small_kernels, "10,000 kernels of 10,095 are shorter than 10 µs", None),
        (low_occupancy, "has 12 %", None),
        (no_tensor_cores, "take 34 % of the kernels' time, most of it ampere_sgemm_128x64_tn", None),
        (uneven_steps, "Step ProfilerStep#3 takes 4 times as long", ("ProfilerStep#3", 40_000_000.0)),
        (memory_full, "79 GiB of its 80 GiB", None),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_sentence_names_what_it_rests_on(
    made: Callable[[], TraceBuilder], said: str, evidence: tuple[str, float] | None
) -> None:
    finding = one(made)
    assert said in finding.text
    assert finding.evidence
    assert evidence is None or evidence in [(each.what, each.value) for each in finding.evidence]


def test_findings_come_by_what_they_cost() -> None:
    builder = exposed_communication()
    builder.launch(GEMM, (140 * MS, 3 * US), (200 * MS, 20 * MS))
    assert [each.id for each in found(builder).findings] == ["host_bound", "exposed_communication"]


def test_a_program_without_a_gpu_waits_for_input_too() -> None:
    builder = TraceBuilder()
    builder.step(1, 0, 10 * MS)
    builder.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1 * MS, 4 * MS)
    (finding,) = found(builder).findings
    assert (finding.id, finding.value) == ("input_bound", 0.4)
    assert finding.text.startswith("The program waits for input 40 % of the time")


def test_idle_causes_add_up_to_the_idle_time() -> None:
    for made in CASES.values():
        report = found(made())
        causes = report.idle_causes
        assert causes is not None
        parts = (causes.input_ns, causes.sync_ns, causes.allocation_ns, causes.launching_ns, causes.device_ns)
        assert sum(parts) + causes.unknown_ns == report.idle_ns
        assert min(*parts, causes.unknown_ns) >= 0
