"""One rank in full: findings first, then a table a part, the largest rows of each."""

from collections.abc import Iterator, Sequence
from typing import Any

from warpmeter.analysis.critical import Shortening
from warpmeter.analysis.findings import Finding
from warpmeter.analysis.names import short_name
from warpmeter.analysis.operators import OperatorTimes
from warpmeter.analysis.report import RankReport
from warpmeter.analysis.words import digits, percent, rate, size
from warpmeter.cli import common
from warpmeter.cli.reporting.lines import Rows, line, ns, said, share, table, titled


def show_rank(report: RankReport, top: int) -> None:
    """Findings first, then a table a part, the largest rows of each."""
    _head(report)
    _findings(report.findings, bool(report.gpu_events))
    for title, columns, rows in _tables(report, top):
        table(title, columns, rows)


def _head(report: RankReport) -> None:
    line(report.file, "bold")
    device = ", ".join(sorted({each.name for each in report.device_names}))
    world = f" of {report.world_size}" if report.world_size else ""
    parts = [f"rank {report.rank}{world}", device, f"{report.events:,} events, {report.gpu_events:,} of the GPU"]
    if report.steps_wanted is not None:
        parts.append(f"steps {report.steps_wanted} alone")
    line("; ".join(filter(None, parts)))
    for note in report.notes:
        line(f"! {note}", "yellow")


def _findings(found: Sequence[Finding], has_gpu: bool) -> None:
    common.out.print()
    if not has_gpu:
        line("No GPU events in this trace: it was recorded without the GPU's activities, or none ran.", "yellow")
    said(found)


def _tables(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    """Title, columns and rows of each part that has something."""
    yield "Time of the GPU", ("", "time", "of span"), list(_time(report))
    yield "Idle time of the GPU, by what it waited for", ("", "time", "of span"), list(_idle(report))
    yield from _kernels(report, top)
    yield from _steps(report, top)
    yield from _host(report, top)
    yield from _path(report, top)
    yield from _device(report, top)


def _time(report: RankReport) -> Iterator[tuple[Any, ...]]:
    lines = (
        ("span", report.span_ns),
        ("busy", report.busy_ns),
        ("  computation", report.compute_ns),
        ("  communication", report.comm_ns),
        ("    beside computation", report.comm_compute_overlap_ns),
        ("    exposed", report.exposed_comm_ns),
        ("  copies and sets", report.mem_ns),
        ("    exposed", report.exposed_mem_ns),
        ("idle", report.idle_ns),
    )
    yield from ((name, ns(value), share(value, report.span_ns)) for name, value in lines if value is not None)


def _idle(report: RankReport) -> Iterator[tuple[Any, ...]]:
    if report.idle_causes is None:
        return
    causes = report.idle_causes
    lines = (
        ("input", causes.input_ns),
        ("a host that had waited for it", causes.sync_ns),
        ("taking or giving back memory", causes.allocation_ns),
        ("the host's next launch", causes.launching_ns),
        ("nothing on the host: launched before", causes.device_ns),
        ("not known", causes.unknown_ns),
    )
    yield from ((name, ns(value), share(value, report.span_ns)) for name, value in lines if value)


def _kernels(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    rows: Rows = [
        (
            each.short_name, f"{each.count:,}", ns(each.total_ns), percent(each.share or 0.0), ns(each.mean_ns),
            ns(each.p50_ns), ns(each.p95_ns), ns(each.max_ns), each.operators[0].name if each.operators else "",
        )
        for each in report.kernels[:top]
    ]  # fmt: skip
    columns = ("kernel", "count", "total", "share", "mean", "p50", "p95", "max", "launched by")
    yield titled("Kernels, copies and sets", len(report.kernels), len(rows)), columns, rows
    moves: Rows = [
        (each.name, f"{each.count:,}", ns(each.total_ns), "" if each.bytes is None else size(each.bytes),
         "" if each.gb_per_s is None else rate(1e9 * each.gb_per_s, "B/s"))
        for each in report.memory_operations[:top]
    ]  # fmt: skip
    yield "Memory operations", ("", "count", "total", "bytes", "achieved"), moves
    streams: Rows = [
        (f"{each.device}/{each.stream}", f"{each.gpu_events:,}", ns(each.busy_ns), ns(each.idle.idle_ns),
         ns(each.idle.host_wait_ns), ns(each.idle.kernel_wait_ns), ns(each.idle.other_ns))
        for each in sorted(report.streams, key=lambda one: -one.busy_ns)[:top]
    ]  # fmt: skip
    names = ("device/stream", "events", "busy", "idle between", "host wait", "kernel wait", "other")
    yield titled("Streams", len(report.streams), len(streams)), names, streams


def _steps(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    rows: Rows = [
        (each.name, ns(each.duration_ns), ns(each.work.busy_ns), ns(each.work.compute_ns), ns(each.work.comm_ns),
         ns(each.work.exposed_comm_ns), ns(each.during.idle_ns), f"{each.launches:,}")
        for each in report.steps[:top]
    ]  # fmt: skip
    source = f", by {report.step_source}" if report.step_source not in ("", "ProfilerStep") else ""
    columns = ("step", "host time", "busy", "compute", "comm", "exposed", "idle meanwhile", "launches")
    yield titled(f"Steps{source}", len(report.steps), len(rows)), columns, rows
    figures = ("duration_ns", "work.busy_ns", "work.compute_ns", "work.comm_ns", "work.exposed_comm_ns")
    spreads: Rows = [
        (each.figure.removesuffix("_ns"), ns(each.mean), ns(each.deviation), ns(each.min), ns(each.p50),
         ns(each.max), each.most)
        for each in report.step_spread
        if each.figure in figures and each.steps > 1 and each.max
    ]  # fmt: skip
    yield "Spread between steps", ("", "mean", "deviation", "min", "p50", "max", "most in"), spreads


def _host(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    if report.operators is not None:
        rows: Rows = [
            (each.name, f"{each.count:,}", ns(each.cpu_self_ns), ns(each.cpu_total_ns), ns(each.gpu_self_ns),
             ns(each.gpu_total_ns))
            for each in report.operators.by_name[:top]
        ]  # fmt: skip
        columns = ("operator", "count", "CPU self", "CPU total", "GPU self", "GPU total")
        yield (
            titled("Operators", len(report.operators.by_name), len(rows)),
            columns,
            [*rows, *_elsewhere(report.operators)],
        )
    if report.modules is not None:
        classes: Rows = [
            (each.name, each.modules, f"{each.count:,}", ns(each.cpu_self_ns), ns(each.gpu_self_ns),
             ns(each.backward_gpu_self_ns))
            for each in report.modules.classes[:top]
        ]  # fmt: skip
        columns = ("module", "of them", "calls", "CPU self", "GPU self", "GPU self, backward")
        yield titled("Modules by class", len(report.modules.classes), len(classes)), columns, classes
    if report.launch is not None and report.launch.from_end is not None:
        yield "Launches", ("", "mean", "p50", "p95", "max"), list(_launches(report))


def _elsewhere(operators: OperatorTimes) -> Rows:
    """The rest of the GPU's time, unless it is nothing: without it the column would not add up."""
    if operators.gpu_elsewhere_ns < 0.01 * operators.gpu_ns or not operators.gpu_elsewhere_ns:
        return []
    return [("(launched by none)", "", "", "", *[ns(operators.gpu_elsewhere_ns)] * 2)]


def _launches(report: RankReport) -> Iterator[tuple[Any, ...]]:
    launch = report.launch
    if launch is None:
        return
    for name, delay in (("from the call's end", launch.from_end), ("from the call's start", launch.from_start)):
        if delay is not None:
            yield name, *map(ns, (delay.mean_ns, delay.p50_ns, delay.p95_ns, delay.max_ns))
    for queue in launch.queues[:1]:
        yield "in the queue", digits(queue.mean or 0.0), queue.p50, queue.p95, queue.max


def _path(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    path = report.critical_path
    if path is None or not path.categories:
        return
    columns = ("", "what", "parts", "on the path", "of it", "saves at most")
    rows: Rows = [
        (each.category, _on_path(each), f"{each.count:,}", ns(each.path_ns), percent(each.share),
         ns(each.saves_at_most_ns))
        for each in (*path.categories, *path.shorten[:top])
    ]  # fmt: skip
    step = f" of {path.step}" if path.step else ""
    yield f"Critical path{step}, and what would shorten it", columns, rows


def _on_path(each: Shortening) -> str:
    return short_name(each.name) if each.category in ("computation", "communication", "memory") else each.name


def _device(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    if report.roofline is not None and report.roofline.flops:
        yield _products(report), *_rates(report, top)
    memory: Rows = [
        (each.device, size(each.peak_bytes), "" if each.reserved_bytes is None else size(each.reserved_bytes),
         each.holders[0].operator or each.holders[0].module if each.holders else "",
         size(each.holders[0].bytes) if each.holders else "")
        for each in report.memory or ()
        if each.device_type
    ]  # fmt: skip
    yield "Memory of the GPU at its peak", ("device", "allocated", "reserved", "most for", "of it"), memory


def _products(report: RankReport) -> str:
    roof = report.roofline
    if roof is None:
        return ""
    mfu = "" if roof.mfu is None else f"; MFU {percent(roof.mfu)}"
    done = "" if roof.flops_per_s is None else f", {rate(roof.flops_per_s, 'FLOP/s')} while they run"
    peak = "" if roof.peak_share is None else f", {percent(roof.peak_share)} of the peak"
    known = roof.counted_share or 1.0
    counted = f"; counted of {percent(known)} of such kernels' time" if known < 0.95 else ""
    return f"Products, convolutions, attention: {rate(float(roof.flops or 0), 'FLOP')}{done}{peak}{mfu}{counted}"


def _rates(report: RankReport, top: int) -> tuple[Sequence[str], Rows]:
    rows: Rows = [
        (each.name, _inputs(each.dims), each.dtype, f"{each.count:,}", ns(each.gpu_ns),
         "" if each.flops_per_s is None else rate(each.flops_per_s, "FLOP/s"),
         "" if each.peak_share is None else percent(each.peak_share), each.bound or "",
         "" if each.roof_share is None else percent(each.roof_share))
        for each in (report.roofline.operators[:top] if report.roofline is not None else ())
    ]  # fmt: skip
    return ("operator", "inputs", "type", "count", "time", "achieved", "of peak", "bound by", "of roof"), rows


def _inputs(dims: Sequence[Any]) -> str:
    """Sizes without the empty ones behind them: scalars and what was not given."""
    last = max((place for place, each in enumerate(dims, 1) if each), default=0)
    return str(list(dims[:last]))
