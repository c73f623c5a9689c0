"""A report as rows of the tables `trace_…` (sql/migrations/0005_traces.sql and later ones), column by column.

    rows(material, report)      # all tables but trace_collectives, whose figures need the other ranks
    collectives(extracts, …)    # trace_collectives, for each rank

A table is a list of groups of columns; what a group does not name is what the table's defaults say (NULL). Times are
nanoseconds from the first event of the trace, `began_ns`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import msgspec

from warpmeter.analysis.breakdown import MAIN, Breakdown
from warpmeter.analysis.findings import Finding
from warpmeter.analysis.memory import DeviceMemory
from warpmeter.analysis.report import SCHEMA_VERSION, Material, RankReport
from warpmeter.analysis.roofline import OperatorRate
from warpmeter.analysis.timeline import Group, timeline
from warpmeter.analysis.trace import Trace

Tables = dict[str, list[Group]]

WORKLOADS: Final = ("workload", "model_name", "model", "experiment_name", "run_name")
"""Under these names a program may say in the trace's metadata what it is (`profiler.add_metadata`)."""

_SINCE_NS: Final = 946_684_800_000_000_000
"""2000: a trace that begins before that counts from its machine's start."""


def began_ns(trace: Trace) -> int:
    """The first event's start, in the trace's own time; 0 for a trace without events."""
    tables = (trace.gpu, trace.calls, trace.operators, trace.annotations, trace.frames, trace.allocations)
    return min((int(table.start[0]) for table in tables if len(table)), default=0)


def captured_at_ns(trace: Trace) -> int | None:
    """When it began, nanoseconds since the epoch; None where the trace counts from something else."""
    at = trace.epoch_ns + began_ns(trace)
    return at if at >= _SINCE_NS else None


def workload(trace: Trace) -> str:
    """What the trace's metadata say that it trains or serves; empty where they do not."""
    inner = trace.metadata.get("metadata")
    for values in (trace.metadata, inner if isinstance(inner, dict) else {}):
        for name in WORKLOADS:
            if isinstance(values.get(name), str) and values[name]:
                return str(values[name])
    return ""


def gpu_model(report: RankReport) -> str:
    """The device on which most ran, as the trace names it, else as the user did; empty where neither does."""
    names = {device.id: device.name for device in report.device_names}
    busiest = max(report.devices, key=lambda each: each.totals.gpu_events, default=None)
    told = names.get(busiest.device, "") if busiest else next(iter(names.values()), "")
    return told or (report.roofline.device if report.roofline else None) or ""


def rows(on: Material, report: RankReport) -> Tables:
    """All of one rank but its collectives, and its events."""
    began = began_ns(on.trace)
    about = {"workload": workload(on.trace), "gpu_model": gpu_model(report)}
    tables = {
        "trace_ranks": [{**about, **_rank(on.trace, report)}],
        "trace_kernels": [{**about, **each} for each in _kernels(report)],
        "trace_ops": list(_operators(report)),
        "trace_steps": list(_steps(report, began)),
        "trace_streams": list(_streams(report, began)),
        "trace_memory": list(_memory(report, began)),
    }
    return {**{name: columns(found) for name, found in tables.items()}, "trace_timeline": timeline(on.trace, began)}


def together(found: Sequence[Finding]) -> Mapping[str, Any]:
    """What every one of a job's ranks says in trace_ranks of all of them together: the job's own findings."""
    return {"job_findings": _said(found), "job_advice": [each.advice for each in found]}


def _said(found: Sequence[Finding]) -> list[tuple[str, str, float, str, int]]:
    return [(each.id, each.text, float(each.value), each.unit, each.cost_ns) for each in found]


def columns(found: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Rows, all with the same names, as one group of columns; none for no rows."""
    return [{name: [row[name] for row in found] for name in found[0]}] if found else []


# --- what one rank has --------------------------------------------------------------------------------------------


def _rank(trace: Trace, report: RankReport) -> dict[str, Any]:
    delay = report.launch.from_end if report.launch else None
    queues = report.launch.queues if report.launch else ()
    rates, steps = report.roofline, [step.duration_ns for step in report.steps]
    return {
        "file": report.file.encode(errors="replace").decode(),  # names of files may be no text
        "schema_version": SCHEMA_VERSION,
        "devices": [each.device for each in report.devices],
        "backend": trace.distributed.backend if trace.distributed else "",
        "world_size": report.world_size or None,
        "events": report.events,
        **{name: getattr(report, name) for name in (*MAIN, "mem_compute_overlap_ns", "mem_comm_overlap_ns")},
        **_idle(report),
        "total_ns": report.total_ns,
        "launch_matched": report.launch.matched if report.launch else None,
        "launch_delay_p50_ns": delay.p50_ns if delay else None,
        "launch_delay_p99_ns": delay.p99_ns if delay else None,
        "queue_depth": next((queue.mean for queue in queues if queue.stream is None), None),
        "steps": len(steps),
        "step_source": report.step_source,
        "step_p50_ns": _median(steps),
        "step_min_ns": min(steps, default=None),
        "step_max_ns": max(steps, default=None),
        "flops": _counted(rates.flops) if rates else None,
        "flops_per_s": rates.flops_per_s if rates else None,
        "mfu": rates.mfu if rates else None,
        "memory_peak_bytes": max((each.peak_bytes for each in _gpus(report)), default=None),
        "memory_reserved_bytes": max(
            (each.peak_reserved_bytes for each in _gpus(report) if each.peak_reserved_bytes is not None), default=None
        ),
        "findings": _said(report.findings),
        "advice": [each.advice for each in report.findings],
        "notes": list(report.notes),
    }


def _idle(report: RankReport) -> dict[str, Any]:
    """Idle time by what it waited for."""
    found = {} if report.idle_causes is None else asdict(report.idle_causes)
    causes = ("input_ns", "sync_ns", "allocation_ns", "launching_ns", "device_ns", "unknown_ns")
    return {f"idle_{name}": found.get(name) for name in causes}


def _counted(value: int | None) -> int | None:
    """A product of sizes; None where they are made up: no machine counts to 2⁶⁴."""
    return value if value is None or 0 <= value < 1 << 64 else None


def _gpus(report: RankReport) -> list[DeviceMemory]:
    return [each for each in report.memory or () if each.device_type != 0]


def _median(values: Sequence[int]) -> int | None:
    """By nearest rank, as in the report."""
    return sorted(values)[(len(values) - 1) // 2] if values else None


def _kernels(report: RankReport) -> Iterable[dict[str, Any]]:
    for each in report.kernels:
        yield {
            "name": each.name,
            "short_name": each.short_name,
            "sort": each.sort,
            "count": each.count,
            "total_ns": each.total_ns,
            "min_ns": each.min_ns,
            "p50_ns": each.p50_ns,
            "p95_ns": each.p95_ns,
            "max_ns": each.max_ns,
            "share": each.share,
            "streams": list(each.streams),
            "operator": each.operators[0].name if each.operators else "",
            "operators": [(one.name, one.count, one.total_ns) for one in each.operators],
            "occupancy": each.occupancy,
            "matrix_units": each.matrix_units,
            "launched": each.launched,
            "launch_delay_mean_ns": each.launch_delay_mean_ns,
            "bytes": _counted(each.bytes),
            "sized_ns": each.sized_ns,
        }


def _operators(report: RankReport) -> Iterable[dict[str, Any]]:
    if report.operators is None:
        return
    rates = _Rates(report)
    for each in report.operators.by_name:
        yield {**_operator(each), "by_shape": False, "dims": "", "types": "", **rates.of(each.name)}
    for shape in report.operators.by_shape:
        key = (shape.name, _json(shape.dims), _json(shape.types))
        yield {**_operator(shape), "by_shape": True, "dims": key[1], "types": key[2], **rates.of(*key)}


def _operator(each: Any) -> dict[str, Any]:
    names = ("name", "count", "cpu_total_ns", "cpu_self_ns", "gpu_total_ns", "gpu_self_ns", "gpu_events")
    return {name: getattr(each, name) for name in names}


def _json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


class _Rates:
    """FLOPs of operators, by name and by name and shapes; an operator with several costs for one shape has the sum."""

    def __init__(self, report: RankReport) -> None:
        self._found: dict[tuple[str, ...], list[OperatorRate]] = {}
        for each in report.roofline.operators if report.roofline else ():
            for key in ((each.name,), (each.name, _json(each.dims), _json(each.types))):
                self._found.setdefault(key, []).append(each)

    def of(self, *key: str) -> dict[str, Any]:
        """The columns; of rates only where one kind alone is behind them."""
        found = self._found.get(key, [])
        alone = found[0] if len(found) == 1 else None
        flops, took = sum(each.flops for each in found), sum(each.gpu_ns for each in found)
        moved = [each.bytes for each in found if each.bytes is not None]
        return {
            "flops": _counted(flops) if found else None,
            "bytes": _counted(sum(moved)) if found and len(moved) == len(found) else None,
            "flops_per_s": flops / took * 1e9 if took else None,
            "peak_share": alone.peak_share if alone else None,
            "roof_share": alone.roof_share if alone else None,
            "bound": (alone.bound or "") if alone else "",
        }


def _steps(report: RankReport, began: int) -> Iterable[dict[str, Any]]:
    rates = {each.name: each for each in report.roofline.steps} if report.roofline else {}
    peaks = _step_peaks(report)
    for place, step in enumerate(report.steps):
        rate = rates.get(step.name)
        yield {
            "step": place,
            **{name: getattr(step, name) for name in ("number", "name", "duration_ns", "period_ns")},
            "start_ns": step.start_ns - began,
            **_parts(step.work),
            **{f"during_{name}": getattr(step.during, name) for name in _OF_WINDOWS},
            **{name: getattr(step, name) for name in _OF_STEPS},
            "flops": _counted(rate.flops) if rate else None,
            "mfu": rate.mfu if rate else None,
            "memory_peak_bytes": peaks.get(step.name),
        }


_OF_STEPS: Final = ("lead_ns", "tail_ns", "wait_ns", "input_ns", "operators", "launches")


_OF_WINDOWS: Final = ("busy_ns", "compute_ns", "exposed_comm_ns", "exposed_mem_ns")


def _parts(found: Breakdown) -> dict[str, Any]:
    return {name: getattr(found, name) for name in MAIN}


def _step_peaks(report: RankReport) -> dict[str, int]:
    peaks: dict[str, int] = {}
    for device in _gpus(report):
        for each in device.steps:
            if each.peak_bytes is not None:
                peaks[each.step] = max(each.peak_bytes, peaks.get(each.step, 0))
    return peaks


def _streams(report: RankReport, began: int) -> Iterable[dict[str, Any]]:
    for each in report.streams:
        figures = asdict(each)
        idle = figures.pop("idle")
        figures["start_ns"] -= began
        del figures["overlapping_events"]
        waits = {name: idle[name] for name in ("idle_ns", "host_wait_ns", "kernel_wait_ns", "other_ns")}
        yield {**figures, **waits}


def _memory(report: RankReport, began: int) -> Iterable[dict[str, Any]]:
    for device in report.memory or ():
        about = {
            "device_type": "cpu" if device.device_type == 0 else "gpu",
            "device": device.device,
            "absolute": device.absolute,
        }
        holders = [(each.operator, each.module, each.step or "", each.blocks, each.bytes) for each in device.holders]
        yield {
            **about, "at_ns": device.peak_ns - began, "allocated_bytes": device.peak_bytes,
            "reserved_bytes": device.reserved_bytes, "peak": True, "holders": holders,
        }  # fmt: skip
        line = device.timeline
        reserved: Sequence[int | None] = line.reserved_bytes or [None] * len(line.at_ns)
        for at, allocated, kept in zip(line.at_ns, line.allocated_bytes, reserved, strict=True):
            if at != device.peak_ns:
                yield {
                    **about, "at_ns": at - began, "allocated_bytes": allocated, "reserved_bytes": kept,
                    "peak": False, "holders": [],
                }  # fmt: skip
