"""What `warpmeter analyze` prints: findings first, then a table a part, the largest rows of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from warpmeter.analysis.capture import Document
from warpmeter.analysis.critical import Shortening
from warpmeter.analysis.diff import Change, Diff
from warpmeter.analysis.findings import Evidence, Finding
from warpmeter.analysis.names import short_name
from warpmeter.analysis.report import RankReport
from warpmeter.analysis.words import digits, duration, percent, rate, size
from warpmeter.cli import common

Rows = list[tuple[Any, ...]]

NAMES: Final = ("inputs", "step", "group", "file", "findings")
"""Columns of texts that may begin with a digit."""
MINOR: Final = (
    "mean", "deviation", "p95", "launches", "CPU total", "GPU total", "of roof", "type", "calls before", "time before",
    "waited itself", "skew p50", "p50", "comm", "parts", "bus", "min", "launched by", "evidence",
    "kernel wait", "file",
)  # fmt: skip
"""What a narrow terminal can do without, the first first."""
TEXT_ROOM: Final = 24
"""A column of texts is readable from that width on."""


def show(document: Document, top: int) -> None:
    """What changed, where there is an earlier capture; one rank in full; of several a line each and their job."""
    if document.diff is not None:
        _diff(document.diff, top)
        return
    if len(document.ranks) == 1:
        _rank(document.ranks[0], top)
        return
    _ranks(document, top)


def _line(text: str, style: str = "") -> None:
    common.out.print(text, style=style or None, markup=False, highlight=False, soft_wrap=True)


def _table(title: str, columns: Sequence[str], rows: Rows) -> None:
    """A table, or nothing where it has no rows: figures whole and to the right, texts fold. Where the terminal is too
    narrow for that, `MINOR` columns are left out."""
    if not rows:
        return
    shown = _fitting(columns, rows, common.out.width)
    table = Table(title=title or None, title_justify="left", title_style="bold")
    for place in shown:
        text = _is_text(columns[place], rows, place)
        table.add_column(columns[place], justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if row[place] is None else str(row[place])) for place in shown))
    common.out.print()
    common.out.print(table)


def _is_text(column: str, rows: Rows, place: int) -> bool:
    """Whether its cells are words: they begin with no digit or sign, or it names things."""
    cells = [str(row[place]) for row in rows if row[place] not in (None, "")]
    return column in NAMES or not cells or not all(cell[0].isdigit() or cell[0] in "+-" for cell in cells)


def _fitting(columns: Sequence[str], rows: Rows, width: int) -> list[int]:
    """The places of the columns that hold something and have room."""
    shown = [place for place in range(len(columns)) if any(row[place] not in (None, "") for row in rows)]
    for name in ("", *MINOR):
        shown = [place for place in shown if columns[place] != name or not name]
        if sum(_room(columns, rows, place) for place in shown) + 1 <= width:
            break
    return shown


def _room(columns: Sequence[str], rows: Rows, place: int) -> int:
    widest = max(len(columns[place]), *(len(str(row[place])) for row in rows))
    return 3 + (min(widest, TEXT_ROOM) if _is_text(columns[place], rows, place) else widest)


def _ns(value: float | None) -> str:
    return "" if value is None else duration(value)


def _share(part: float | None, whole: float | None) -> str:
    return percent(part / whole) if part is not None and whole else ""


def _rank(report: RankReport, top: int) -> None:
    _head(report)
    _findings(report.findings, bool(report.gpu_events))
    for title, columns, rows in _tables(report, top):
        _table(title, columns, rows)


def _head(report: RankReport) -> None:
    _line(report.file, "bold")
    device = ", ".join(sorted({each.name for each in report.device_names}))
    world = f" of {report.world_size}" if report.world_size else ""
    parts = [f"rank {report.rank}{world}", device, f"{report.events:,} events, {report.gpu_events:,} of the GPU"]
    if report.steps_wanted is not None:
        parts.append(f"steps {report.steps_wanted} alone")
    _line("; ".join(filter(None, parts)))
    for note in report.notes:
        _line(f"! {note}", "yellow")


def _findings(found: Sequence[Finding], has_gpu: bool) -> None:
    common.out.print()
    if not has_gpu:
        _line("No GPU events in this trace: it was recorded without the GPU's activities, or none ran.", "yellow")
    _said(found)


def _said(found: Sequence[Finding]) -> None:
    if not found:
        _line("Findings: none", "bold")
        return
    _line("Findings", "bold")
    for each in found:
        _line(f"  {each.text}.", "bold yellow")
        _line(f"    {each.id}: {'; '.join(_evidence(one) for one in each.evidence)}")
        _line(f"    {each.advice}", "dim")


SAID: Final[Mapping[str, Callable[[float], str]]] = {
    "ns": duration,
    "B": size,
    "count": "{:,.0f}".format,
    "ratio": percent,
}


def _evidence(each: Evidence) -> str:
    return f"{each.what} {SAID[each.unit](each.value)}"


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
    yield from ((name, _ns(value), _share(value, report.span_ns)) for name, value in lines if value is not None)


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
    yield from ((name, _ns(value), _share(value, report.span_ns)) for name, value in lines if value)


def _kernels(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    rows: Rows = [
        (
            each.short_name, f"{each.count:,}", _ns(each.total_ns), percent(each.share or 0.0), _ns(each.mean_ns),
            _ns(each.p50_ns), _ns(each.p95_ns), _ns(each.max_ns), each.operators[0].name if each.operators else "",
        )
        for each in report.kernels[:top]
    ]  # fmt: skip
    columns = ("kernel", "count", "total", "share", "mean", "p50", "p95", "max", "launched by")
    yield _titled("Kernels, copies and sets", len(report.kernels), len(rows)), columns, rows
    moves: Rows = [
        (each.name, f"{each.count:,}", _ns(each.total_ns), "" if each.bytes is None else size(each.bytes),
         "" if each.gb_per_s is None else f"{digits(each.gb_per_s)} GB/s")
        for each in report.memory_operations[:top]
    ]  # fmt: skip
    yield "Memory operations", ("", "count", "total", "bytes", "achieved"), moves
    streams: Rows = [
        (f"{each.device}/{each.stream}", f"{each.gpu_events:,}", _ns(each.busy_ns), _ns(each.idle.idle_ns),
         _ns(each.idle.host_wait_ns), _ns(each.idle.kernel_wait_ns), _ns(each.idle.other_ns))
        for each in sorted(report.streams, key=lambda one: -one.busy_ns)[:top]
    ]  # fmt: skip
    names = ("device/stream", "events", "busy", "idle between", "host wait", "kernel wait", "other")
    yield _titled("Streams", len(report.streams), len(streams)), names, streams


def _titled(title: str, there: int, shown: int) -> str:
    return f"{title} ({shown} of {there:,})" if there > shown else title


def _steps(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    rows: Rows = [
        (each.name, _ns(each.duration_ns), _ns(each.work.busy_ns), _ns(each.work.compute_ns), _ns(each.work.comm_ns),
         _ns(each.work.exposed_comm_ns), _ns(each.during.idle_ns), f"{each.launches:,}")
        for each in report.steps[:top]
    ]  # fmt: skip
    source = f", by {report.step_source}" if report.step_source not in ("", "ProfilerStep") else ""
    columns = ("step", "host time", "busy", "compute", "comm", "exposed", "idle meanwhile", "launches")
    yield _titled(f"Steps{source}", len(report.steps), len(rows)), columns, rows
    figures = ("duration_ns", "work.busy_ns", "work.compute_ns", "work.comm_ns", "work.exposed_comm_ns")
    spreads: Rows = [
        (each.figure.removesuffix("_ns"), _ns(each.mean), _ns(each.deviation), _ns(each.min), _ns(each.p50),
         _ns(each.max), each.most)
        for each in report.step_spread
        if each.figure in figures and each.steps > 1 and each.max
    ]  # fmt: skip
    yield "Spread between steps", ("", "mean", "deviation", "min", "p50", "max", "most in"), spreads


def _host(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    if report.operators is not None:
        rows: Rows = [
            (each.name, f"{each.count:,}", _ns(each.cpu_self_ns), _ns(each.cpu_total_ns), _ns(each.gpu_self_ns),
             _ns(each.gpu_total_ns))
            for each in report.operators.by_name[:top]
        ]  # fmt: skip
        columns = ("operator", "count", "CPU self", "CPU total", "GPU self", "GPU total")
        yield _titled("Operators", len(report.operators.by_name), len(rows)), columns, rows
    if report.modules is not None:
        classes: Rows = [
            (each.name, each.modules, f"{each.count:,}", _ns(each.cpu_self_ns), _ns(each.gpu_self_ns),
             _ns(each.backward_gpu_self_ns))
            for each in report.modules.classes[:top]
        ]  # fmt: skip
        columns = ("module", "of them", "calls", "CPU self", "GPU self", "GPU self, backward")
        yield _titled("Modules by class", len(report.modules.classes), len(classes)), columns, classes
    if report.launch is not None and report.launch.from_end is not None:
        yield "Launches", ("", "mean", "p50", "p95", "max"), list(_launches(report))


def _launches(report: RankReport) -> Iterator[tuple[Any, ...]]:
    launch = report.launch
    if launch is None:
        return
    for name, delay in (("from the call's end", launch.from_end), ("from the call's start", launch.from_start)):
        if delay is not None:
            yield name, *map(_ns, (delay.mean_ns, delay.p50_ns, delay.p95_ns, delay.max_ns))
    for queue in launch.queues[:1]:
        yield "in the queue", digits(queue.mean or 0.0), queue.p50, queue.p95, queue.max


def _path(report: RankReport, top: int) -> Iterator[tuple[str, Sequence[str], Rows]]:
    path = report.critical_path
    if path is None or not path.categories:
        return
    columns = ("", "what", "parts", "on the path", "of it", "saves at most")
    rows: Rows = [
        (each.category, _on_path(each), f"{each.count:,}", _ns(each.path_ns), percent(each.share),
         _ns(each.saves_at_most_ns))
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
    return f"Products, convolutions, attention: {rate(float(roof.flops or 0), 'FLOP')}{done}{peak}{mfu}"


def _rates(report: RankReport, top: int) -> tuple[Sequence[str], Rows]:
    rows: Rows = [
        (each.name, _inputs(each.dims), each.dtype, f"{each.count:,}", _ns(each.gpu_ns),
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


def _ranks(document: Document, top: int) -> None:
    loads = {load.rank: load for load in document.job.loads} if document.job is not None else {}
    rows: Rows = []
    for each in document.ranks:
        of = each if each.span_ns is not None else loads.get(each.rank, each)  # without a GPU: the host's own figures
        parts = (of.busy_ns, of.compute_ns, of.comm_ns, of.exposed_comm_ns, of.idle_ns)
        rows.append((each.rank, _ns(of.span_ns), *(_share(part, of.span_ns) for part in parts), each.file))
    columns = ("rank", "span", "busy", "compute", "comm", "exposed", "idle", "file")
    _table(f"{len(document.ranks)} ranks", columns, rows)
    common.out.print()
    _said(document.findings)
    _of_ranks(document)
    _job(document, top)
    for each in document.ranks:
        for note in each.notes:
            _line(f"! {each.file}: {note}", "yellow")


def _of_ranks(document: Document) -> None:
    """Findings of single ranks: each kind once, in the words of the rank where it costs most."""
    found: dict[str, list[tuple[int, Finding]]] = {}
    for rank in document.ranks:
        for each in rank.findings:
            found.setdefault(each.id, []).append((rank.rank, each))
    worst = {id_: max(those, key=lambda pair: pair[1].cost_ns) for id_, those in found.items()}
    rows: Rows = [
        (id_, f"{len(found[id_]):,} of {len(document.ranks):,}", rank, each.text)
        for id_, (rank, each) in sorted(worst.items(), key=lambda item: -item[1][1].cost_ns)
    ]
    _table("Findings of single ranks", ("finding", "ranks", "worst in", "where it is worst"), rows)


def _job(document: Document, top: int) -> None:
    if document.job is None:
        return
    rows: Rows = [
        (each.group or "(not told)", each.kind, "" if each.bytes is None else size(each.bytes), f"{each.count:,}",
         _ns(each.transfer_p50_ns), _share(each.wait_ns, each.total_ns), _ns(each.skew_p50_ns), _ns(each.skew_max_ns),
         "" if each.bus_bytes_per_s is None else rate(each.bus_bytes_per_s, "B/s"),
         "" if each.link_share is None else percent(each.link_share), each.last_rank)
        for each in document.job.collectives[:top]
    ]  # fmt: skip
    columns = (
        "group",
        "collective",
        "bytes",
        "count",
        "transfer",
        "waiting",
        "skew p50",
        "max",
        "bus",
        "of link",
        "last",
    )
    _table(_titled("Collectives", len(document.job.collectives), len(rows)), columns, rows)
    late: Rows = [
        (each.rank, f"{each.last:,} of {each.of:,}", _ns(each.late_ns), _ns(each.cost_ns), _ns(each.waited_ns),
         each.cause or "", each.evidence)
        for each in document.job.stragglers[:top]
    ]  # fmt: skip
    _table("Ranks that others waited for", ("rank", "last", "late", "gain", "waited itself", "cause", "evidence"), late)
    for note in document.job.notes:
        _line(f"! {note}", "yellow")


def _diff(found: Diff, top: int) -> None:
    whole: Rows = [
        (name, _ns(part.before_ns), _ns(part.after_ns), _change(part.change_ns), _share(part.change_ns, part.before_ns))
        for name, part in (
            ("span", found.span_ns),
            *(("  " + part.part.removesuffix("_ns").replace("_", " "), part) for part in found.parts),
            ("kernels, copies and sets", found.kernels_ns),
            ("operators on the host", found.cpu_ns),
        )
        if part is not None
    ]
    one = "of one step of one rank" if found.unit == "step" else "of the whole captures"
    _table(f"Times {one}", ("", "before", "after", "change", ""), whole)
    by: Rows = [(name, _change(value)) for name, value in found.by_status.items() if value]
    _table("The kernels' change, by what became of them", ("", "change"), by)
    parts = {
        "Kernels, copies and sets": [_shortened(each) for each in found.kernels],
        "Operators, on the GPU": found.operators_gpu,
        "Operators, on the host": found.operators_cpu,
    }
    for title, changes in parts.items():
        _changes(title, [each for each in changes if each.status != "same"], top)
    for note in found.notes:
        _line(f"! {note}", "yellow")


def _change(ns: float) -> str:
    return f"{'+' if ns > 0 else '-' if ns < 0 else ''}{duration(abs(ns))}"


def _shortened(change: Change) -> Change:
    instead = None if change.instead is None else short_name(change.instead)
    return replace(change, name=short_name(change.name), instead=instead)


def _changes(title: str, changes: Sequence[Change], top: int) -> None:
    rows: Rows = [
        (each.status, each.name, f"{each.before_count:,}", f"{each.after_count:,}", _ns(each.before_ns),
         _ns(each.after_ns), _change(each.change_ns), each.instead or "")
        for each in changes[:top]
    ]  # fmt: skip
    columns = ("", "name", "calls before", "after", "time before", "after", "change", "instead")
    _table(_titled(title, len(changes), len(rows)), columns, rows)
