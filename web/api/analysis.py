"""Analysed traces: where a capture's time went, by rank, kernel, operator, step, stream, collective; two captures."""

from collections import defaultdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Query, Response

from warpmeter.web.api import analysis_rows as rows
from warpmeter.web.request import paging
from warpmeter.web.request.context import Asking
from warpmeter.web.request.paging import Page
from warpmeter.web.request.times import invalid
from warpmeter.web.store.answers import Answers
from warpmeter.web.store.reads import Reads
from warpmeter.web.traces import analysed
from warpmeter.web.traces.analysed import Shown

router = APIRouter(tags=["analysis"])

AT: Final = "/traces/{capture:path}"
MOST: Final = 5000
"""Rows of answers that are not paged: ranks and steps."""
POINTS: Final = 20_000
ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "There is no such capture, or no such rank of it."},
    409: {"description": "The capture is there and not analysed (yet); the detail says why."},
}
Sequence = Annotated[int, Query(ge=1, lt=1 << 32, description="Round of a capture that takes several.")]
Search = Annotated[str, Query(max_length=500)]


def of(
    reads: Asking,
    capture: str,
    rank: Annotated[int | None, Query(ge=0, lt=1 << 32, description="Of this rank alone; left out: all.")] = None,
    sequence: Sequence = 1,
    process: Annotated[
        str, Query(max_length=300, description="Where several processes are that rank: which one.")
    ] = "",
) -> Shown:
    """What a request is about."""
    return analysed.shown(reads, capture, sequence, rank, process)


def after(reads: Asking, capture: str, sequence: Sequence = 1) -> Shown:
    """The whole of a capture."""
    return analysed.shown(reads, capture, sequence, None, "")


def two(
    reads: Asking,
    shown: Annotated[Shown, Depends(after)],
    base: Annotated[str, Query(min_length=1, max_length=500, description="The earlier capture, as it is loaded.")],
) -> dict[str, Any]:
    """Two captures, as named queries take them."""
    if not analysed.ranks(reads, base):
        raise invalid(
            "base", f"no capture {base} is analysed: `warpmeter queries captures_analysed` lists those that are", base
        )
    return {"capture_id": shown.capture_id, "base": base}


Trace = Annotated[Shown, Depends(of)]
Two = Annotated[dict[str, Any], Depends(two)]


def _listed(reads: Reads, answers: Answers, name: str, at: Page, **given: object) -> Response:
    """A page of a named query."""
    data, total = paging.page_of(reads, name, at, **given)
    return answers.json(paging.answer(data, total, at), lasting=True)


_LOADED: Final = ("captured_at", "loaded_at", "capture_id", "job_id", "workload", "ranks", "busy_share", "step_seconds")
ByCapture = Annotated[Page, Depends(paging.by(_LOADED, "-captured_at"))]


@router.get("/traces", response_model=rows.CapturesAnalysed)
def captures(reads: Asking, answers: Answers, at: ByCapture, search: Search = "") -> Response:
    """Captures that are analysed, those loaded by hand among them."""
    return _listed(reads, answers, "captures_loaded", at, search=search)


# --- ranks ---------------------------------------------------------------------------------------------------------


@router.get(f"{AT}/ranks", response_model=rows.Ranks, responses={404: ERRORS[404]})
def ranks(reads: Asking, answers: Answers, capture: str, sequence: Sequence = 1) -> Response:
    """Whether a capture is analysed, and each of its ranks: what its GPU did, side by side."""
    data, _ = paging.rows(reads, "capture_processes", capture_id=analysed.name(capture, sequence))
    stands = analysed.standing(reads, capture, sequence, loaded=bool(data))
    rounds = [] if stands.processes is None else analysed.rounds(reads, capture)
    return answers.json(
        {"capture_id": capture, "sequence": sequence, **vars(stands), "rounds": rounds, "data": data}, lasting=True
    )


@router.get(f"{AT}/breakdown", response_model=rows.Breakdown, responses=ERRORS)
def breakdown(reads: Asking, answers: Answers, shown: Trace) -> Response:
    """Computation, communication, memory, their overlaps, and idle time by cause, of the chosen ranks together."""
    data, _ = paging.rows(reads, "capture_processes", **shown.parameters())
    return answers.json(
        {"ranks": len(data), **{name: _sum(data, name) for name in rows.Work.model_fields}}, lasting=True
    )


def _sum(data: list[dict[str, Any]], name: str) -> float | None:
    """Of what is known; to the nanosecond, which sums of floats would not be."""
    known = [round(row[name] * 1e9) for row in data if row[name] is not None]
    return sum(known) / 1e9 if known else None


@router.get(f"{AT}/findings", response_model=rows.Findings, responses=ERRORS)
def said(reads: Asking, answers: Answers, shown: Trace) -> Response:
    """What stands out and what to do, what concerns most time first; between the ranks, where all are looked at."""
    data, _ = paging.rows(reads, "capture_findings", **shown.parameters())
    return answers.json({"data": data}, lasting=True)


@router.get(f"{AT}/stragglers", response_model=rows.Stragglers, responses=ERRORS)
def stragglers(reads: Asking, answers: Answers, shown: Annotated[Shown, Depends(after)]) -> Response:
    """Ranks for which the others waited, the costliest first, and what each did longer than they."""
    data, _ = paging.rows(reads, "capture_late_ranks", capture_id=shown.capture_id)
    return answers.json({"data": data}, lasting=True)


# --- by kernel, operator, step, stream, collective --------------------------------------------------------------------

_KERNELS: Final = (
    "total_seconds", "share", "count", "mean_seconds", "min_seconds", "max_seconds", "launch_delay_seconds", "kernel",
    "sort", "operator", "ranks", "slowest_rank", "slowest_over_fastest", "occupancy", "name",
)  # fmt: skip
ByKernel = Annotated[Page, Depends(paging.by(_KERNELS, "-total_seconds"))]


@router.get(f"{AT}/kernels", response_model=rows.Kernels, responses=ERRORS)
def kernels(
    reads: Asking, answers: Answers, shown: Trace, at: ByKernel,
    search: Search = "", kind: rows.Sort | None = None,
) -> Response:  # fmt: skip
    """Kernels, copies and sets by name."""
    return _listed(reads, answers, "capture_kernels", at, **shown.parameters(), search=search, kind=kind or "")


_OPERATORS: Final = (
    "gpu_self_seconds", "gpu_total_seconds", "cpu_self_seconds", "cpu_total_seconds", "operator", "calls", "gpu_events",
    "flops", "flops_per_s", "roof_share",
)  # fmt: skip
ByOperator = Annotated[Page, Depends(paging.by(_OPERATORS, "-gpu_self_seconds"))]


@router.get(f"{AT}/operators", response_model=rows.Operators, responses=ERRORS)
def operators(
    reads: Asking, answers: Answers, shown: Trace, at: ByOperator, search: Search = "",
    by_shape: Annotated[bool, Query(description="A row for each shape of the inputs, where they are told.")] = False,
) -> Response:  # fmt: skip
    """Operators by the GPU time that they launched, and their own on the host."""
    return _listed(reads, answers, "capture_operators", at, **shown.parameters(), search=search, by_shape=int(by_shape))


@router.get(f"{AT}/steps", response_model=rows.Steps, responses=ERRORS)
def steps(reads: Asking, answers: Answers, shown: Trace) -> Response:
    """Steps in order, each divided into what ran in its window."""
    data, _ = paging.rows(reads, "capture_steps", **shown.parameters())
    return answers.json({"data": data[:MOST]}, lasting=True)


_STREAMS: Final = (
    "busy_seconds",
    "idle_seconds",
    "host_wait_seconds",
    "kernel_wait_seconds",
    "other_seconds",
    "gpu_events",
    "rank",
    "stream",
)
ByStream = Annotated[Page, Depends(paging.by(_STREAMS, "-busy_seconds"))]


@router.get(f"{AT}/idle", response_model=rows.Streams, responses=ERRORS)
def idle(reads: Asking, answers: Answers, shown: Trace, at: ByStream) -> Response:
    """Idle time of streams by cause: waiting for the host, for a kernel, or for something else."""
    return _listed(reads, answers, "capture_idle", at, **shown.parameters())


_COLLECTIVES: Final = (
    "total_seconds", "wait_seconds", "wait_share", "collectives", "bytes", "transfer_p50_seconds", "skew_p50_seconds",
    "skew_max_seconds", "bus_bytes_per_s", "kind", "group", "late",
)  # fmt: skip
ByCollective = Annotated[Page, Depends(paging.by(_COLLECTIVES, "-total_seconds"))]


@router.get(f"{AT}/collectives", response_model=rows.Collectives, responses=ERRORS)
def collectives(reads: Asking, answers: Answers, shown: Trace, at: ByCollective) -> Response:
    """Collectives by group, kind, type and size: how fast, how much waiting, how far apart the ranks came."""
    return _listed(reads, answers, "capture_collectives", at, **shown.parameters())


_SKEWED: Final = ("skew_seconds", "late_seconds", "cost_seconds", "start_ns", "kind", "last_rank")
BySkew = Annotated[Page, Depends(paging.by(_SKEWED, "-skew_seconds"))]


@router.get(f"{AT}/skew", response_model=rows.SkewedPage, responses=ERRORS)
def skew(
    reads: Asking, answers: Answers, shown: Annotated[Shown, Depends(after)],
    at: BySkew,
) -> Response:  # fmt: skip
    """Single collectives to which one rank surely came last: which rank, by how much, and why."""
    return _listed(reads, answers, "capture_skew", at, capture_id=shown.capture_id)


@router.get(f"{AT}/memory", response_model=rows.Memory, responses=ERRORS)
def memory(reads: Asking, answers: Answers, shown: Trace) -> Response:
    """Copies and sets by direction and kind; what tensors held over time, and who held it at the peak."""
    copies, _ = paging.rows(reads, "capture_copies", **shown.parameters())
    points, _ = paging.rows(reads, "capture_memory", **shown.parameters(), limit=POINTS)
    return answers.json({"copies": copies, "devices": _devices(points)}, lasting=True)


def _devices(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Points of each device, in order, as columns."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    about = ("process", "rank", "device_type", "device", "absolute")
    for point in points:
        found[tuple(point[name] for name in about)].append(point)
    made = []
    for key, each in found.items():
        peak = max(each, key=lambda point: (point["peak"], point["allocated_bytes"]))
        columns = {
            name: [point[name] for point in each] for name in ("at_seconds", "allocated_bytes", "reserved_bytes")
        }
        peaks = {
            "peak_bytes": peak["allocated_bytes"],
            "peak_at_seconds": peak["at_seconds"],
            "holders": peak["holders"],
        }
        made.append({**dict(zip(about, key, strict=True)), **columns, **peaks})
    return made


# --- two captures ---------------------------------------------------------------------------------------------------


@router.get(f"{AT}/diff", response_model=rows.Diff, responses=ERRORS)
def diff(reads: Asking, answers: Answers, both: Two) -> Response:
    """A capture against an earlier one: which part of the time changed, of a step where both have steps."""
    data, _ = paging.rows(reads, "capture_diff_parts", **both)
    sides = {row["side"]: row for row in data}
    if len(sides) < 2:
        raise HTTPException(
            analysed.CONFLICT, f"{both['base']} is the same capture: choose another one to compare with"
        )
    names = {"before": both["base"], "after": both["capture_id"]}
    made = {side: {**row, "capture_id": names[side]} for side, row in sides.items()}
    return answers.json({"unit": data[0]["unit"], **made}, lasting=True)


_CHANGES: Final = (
    "changed_seconds", "change_seconds", "by_duration_seconds", "by_number_seconds", "before_seconds", "after_seconds",
    "before_mean_seconds", "after_mean_seconds", "before_count", "after_count", "kernel", "status", "operator",
)  # fmt: skip
ByChange = Annotated[Page, Depends(paging.by(_CHANGES, "-changed_seconds"))]


@router.get(f"{AT}/diff_kernels", response_model=rows.ChangedPage, responses=ERRORS)
def diff_kernels(
    reads: Asking, answers: Answers, both: Two, at: ByChange,
    search: Search = "", status: rows.Status | None = None,
) -> Response:  # fmt: skip
    """Kernels of two captures: what came, went, got slower, faster, more or fewer."""
    return _listed(reads, answers, "capture_diff", at, **both, search=search, status=status or "")


_CHANGED: Final = (
    "changed_gpu_seconds", "change_gpu_seconds", "change_cpu_seconds", "before_gpu_seconds", "after_gpu_seconds",
    "operator",
)  # fmt: skip
ByOperatorChange = Annotated[Page, Depends(paging.by(_CHANGED, "-changed_gpu_seconds"))]


@router.get(f"{AT}/diff_operators", response_model=rows.ChangedOperators, responses=ERRORS)
def diff_operators(reads: Asking, answers: Answers, both: Two, at: ByOperatorChange, search: Search = "") -> Response:
    """Operators of two captures."""
    return _listed(reads, answers, "capture_diff_operators", at, **both, search=search)
