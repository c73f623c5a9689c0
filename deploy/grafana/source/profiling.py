"""Profiling: captures and what their traces say, regressions of kernels, and the stacks that agents sampled."""

import re
from typing import Final

from deploy.grafana.source.ask import JOB, PAGE, USERS, named
from deploy.grafana.source.host import STACKS, STACKS_SINCE, flame
from deploy.grafana.source.job import captures
from deploy.grafana.source.model import Column, Dashboard, Panel, Row, Variable, link
from deploy.grafana.source.overview import BYTES, RATIO

CAPTURE: Final = Variable(
    "capture",
    "Capture",
    "SELECT capture_id, concat(formatDateTime(captured_at, '%m-%d %H:%i'), ' ', if(workload = '', job_id, workload), "
    "' ', capture_id) AS text FROM capture_summary WHERE $__timeFilter(captured_at) ORDER BY captured_at DESC LIMIT 99",
)
ONE: Final = "${capture:singlequote}"
OF_CAPTURE: Final = f"capture_id = {ONE}"
SECONDS: Final = Column("s")


def _table(title: str, columns: str, rest: str, size: tuple[int, int], **about: Column) -> Panel:
    """A table; columns that end in `_seconds` are shown as times, and others as `about` says."""
    named_times = dict.fromkeys(re.findall(r"(\w+_seconds)\b(?! AS)", columns), SECONDS)
    return Panel("table", title, f"SELECT {columns}\n{rest}", size=size, columns=named_times | about)


def _of_capture(title: str, columns: str, query: str, size: tuple[int, int], **about: Column) -> Panel:
    """Some columns of a named query that is of the chosen capture."""
    return _table(title, columns, f"FROM\n(\n{named(query, capture_id=ONE)}\n)", size, **about)


_BREAKDOWN: Final = f"""
SELECT concat(host, ' rank ', toString(rank)) AS of, compute_seconds - comm_compute_overlap_seconds
        - mem_compute_overlap_seconds AS computation,
    exposed_comm_seconds AS exposed_communication, comm_compute_overlap_seconds AS communication_under_computation,
    exposed_mem_seconds AS exposed_memory, mem_compute_overlap_seconds AS memory_under_computation, idle_seconds AS idle
FROM trace_ranks
WHERE {OF_CAPTURE}
ORDER BY rank, host
LIMIT 64"""
_IDLE: Final = f"""
SELECT concat(host, ' rank ', toString(rank)) AS of, idle_input_seconds AS input, idle_sync_seconds AS synchronising,
    idle_allocation_seconds AS allocation, idle_launching_seconds AS launching, idle_device_seconds AS between_kernels,
    idle_unknown_seconds AS unknown
FROM trace_ranks
WHERE {OF_CAPTURE}
ORDER BY rank, host
LIMIT 64"""
_TOP: Final = named(
    "stack_top", job_id="${job:singlequote}", windows="${stacks}", since=STACKS_SINCE, until="$__toTime", lines="0",
    top="200",
)  # fmt: skip

PROFILING: Final = Dashboard(
    "profiling",
    "Profiling",
    (
        Row(
            "Captures",
            (
                captures("1 = 1", (18, 9)),
                Panel(
                    "text",
                    "Ask for one",
                    size=(6, 9),
                    options={
                        "mode": "markdown",
                        "content": "Trace, attach, detach, view: [warpmeter's page](${page}/profiling), or by "
                        "command:\n\n`warpmeter capture JOB --duration 2s`\n\n"
                        "[Timeline](${page}/timeline?capture=${capture:percentencode}) · "
                        "[Analysis](${page}/analyze?capture=${capture:percentencode})",
                    },
                ),
                Panel(
                    "table",
                    "Why captures failed",
                    """
SELECT reason, any(r.why) AS why, count() AS processes, uniqExact(capture_id) AS captures, uniqExact(host) AS hosts,
    max(r.last_at) AS last_at
FROM capture_ranks AS r
WHERE state IN ('failed', 'cancelled') AND $__timeFilter(r.last_at)
GROUP BY reason
ORDER BY processes DESC, reason""",
                    size=(24, 6),
                    columns={"why": Column(width=500)},
                ),
            ),
        ),
        Row(
            "$capture: where its GPUs' time went",
            (
                Panel(
                    "stat",
                    "Shares of its time",
                    f"SELECT busy_share AS busy, compute_share AS computation, "
                    f"comm_share AS communication, exposed_comm_share AS exposed_communication, mem_share AS memory, "
                    f"idle_share AS idle, mfu FROM capture_summary WHERE {OF_CAPTURE}",
                    "percentunit",
                    size=(16, 4),
                ),
                Panel(
                    "stat",
                    "Step and span",
                    f"SELECT step_p50_seconds AS step, span_seconds AS span, straggler_cost_seconds "
                    f"AS waited_for_straggler FROM capture_summary WHERE {OF_CAPTURE}",
                    "s",
                    size=(8, 4),
                ),
                _of_capture(
                    "What stands out, and what to do",
                    "id, text, advice, cost_seconds, worst_rank, ranks",
                    "capture_findings",
                    (24, 8),
                    text=Column(width=500),
                    advice=Column(width=500),
                ),
                Panel(
                    "barchart",
                    "Computation, communication, memory and their overlaps",
                    _BREAKDOWN,
                    "s",
                    size=(12, 9),
                    help="Each rank, the first 64.",
                ),
                Panel("barchart", "Idle, by what the GPU waited for", _IDLE, "s", size=(12, 9)),
                _of_capture(
                    "Kernels",
                    "kernel, sort, total_seconds, share, count, mean_seconds, max_seconds, ranks, slowest_rank, "
                    "slowest_over_fastest, launch_delay_seconds, occupancy, operator",
                    "capture_kernels",
                    (24, 9),
                    share=RATIO,
                    occupancy=RATIO,
                    kernel=Column(width=350),
                ),
                _of_capture(
                    "Copies and sets of memory",
                    "operation, count, total_seconds, mean_seconds, max_seconds, bytes, bytes_per_s, ranks",
                    "capture_copies",
                    (12, 8),
                    bytes=BYTES,
                    bytes_per_s=Column("Bps"),
                ),
                _of_capture(
                    "Streams: idle because of the host, of a kernel, of something else",
                    "rank, device, stream, gpu_events, busy_seconds, idle_seconds, host_wait_seconds, "
                    "kernel_wait_seconds, other_seconds",
                    "capture_idle",
                    (12, 8),
                ),
                _of_capture(
                    "Steps",
                    "step, ranks, duration_seconds, slowest_rank, compute_seconds, exposed_comm_seconds, "
                    "during_idle_seconds, input_seconds, busy_share, mfu, odd",
                    "capture_steps",
                    (12, 8),
                    busy_share=RATIO,
                    mfu=RATIO,
                ),
                _table(
                    "Ranks for which the others waited",
                    "rank, host, last, of, cause, cost_seconds, late_seconds, waited_seconds, compute_over_median",
                    f"FROM stragglers\nWHERE {OF_CAPTURE}\nORDER BY cost_seconds DESC, rank\nLIMIT 100",
                    (12, 8),
                ),
            ),
        ),
        Row(
            "Over weeks",
            (
                _table(
                    "Kernels that got slower",
                    "week, workload, gpu_model, short_name AS kernel, slowdown, mean_seconds, "
                    "baseline_seconds, cost_seconds, captures",
                    """FROM kernel_regressions
WHERE regressed AND week >= toDate($__fromTime) - 7 AND week <= toDate($__toTime)
ORDER BY cost_seconds DESC
LIMIT 100""",
                    (24, 8),
                    kernel=Column(width=350),
                ),
                _table(
                    "Captures that were analysed",
                    "captured_at, capture_id, job_id, workload, ranks, busy_share, "
                    "exposed_comm_share, idle_share, mfu, step_p50_seconds, top_kernel, top_kernel_share, straggler, "
                    "straggler_cause",
                    """FROM capture_summary
WHERE $__timeFilter(captured_at)
ORDER BY captured_at DESC
LIMIT 200""",
                    (24, 8),
                    busy_share=RATIO,
                    exposed_comm_share=RATIO,
                    idle_share=RATIO,
                    mfu=RATIO,
                    top_kernel_share=RATIO,
                    top_kernel=Column(width=300),
                    capture_id=Column(link=link("profiling", capture="${__data.fields.capture_id}")),
                ),
            ),
        ),
        Row(
            "Sampled stacks of $job",
            (
                flame("Where its CPU time went", job="${job:singlequote}"),
                Panel(
                    "table",
                    "Functions",
                    f"SELECT function, self / 1e6 AS self, total / 1e6 AS total, self_share, total_share\n"
                    f"FROM\n(\n{_TOP}\n)",
                    size=(24, 9),
                    columns={
                        "self": SECONDS,
                        "total": SECONDS,
                        "self_share": RATIO,
                        "total_share": RATIO,
                        "function": Column(width=600),
                    },
                ),
            ),
        ),
    ),
    (STACKS, CAPTURE, USERS, JOB, PAGE),
    since="now-7d",
    refresh="5m",
)
