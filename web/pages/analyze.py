"""Analyze: where the time of a capture went, and what to do first; against an earlier one."""

from typing import Final
from urllib.parse import quote, urlencode

from nicegui import ui

from warpmeter.web.pages.columns import RATIO
from warpmeter.web.pages.frame import frame
from warpmeter.web.panels import analysis
from warpmeter.web.panels.analysis import CHOSEN
from warpmeter.web.panels.panel import Panel
from warpmeter.web.panels.table import Choice, Column, Listing, Table

TRACES: Final = "/api/v1/traces"
CAPTURES: Final = (
    Column("capture_id", "Capture", "capture", width=180, flex=2),
    Column("job_id", "Job", "job", width=120, flex=1),
    Column("workload", "Workload", width=120, flex=1),
    Column("ranks", "Ranks", "number", width=75),
    Column("busy_share", "Busy", "value", RATIO, width=80),
    Column("exposed_comm_share", "Comm. alone", "value", RATIO, width=105, sort=""),
    Column("step_seconds", "Step", "value", "s", width=95),
    Column("hosts", "Hosts", "host", width=150, sort=""),
    Column("captured_at", "Captured", "time", width=160),
)
KERNELS: Final = (
    Column("kernel", "Kernel", "kernel", width=260, flex=3),
    Column("sort", "Kind", width=85),
    Column("count", "Count", "number", width=85),
    Column("total_seconds", "Total", "value", "s", width=90),
    Column("share", "Share", "value", RATIO, width=80),
    Column("mean_seconds", "Mean", "value", "s", width=90),
    Column("max_seconds", "Longest", "value", "s", width=95),
    Column("launch_delay_seconds", "Launch delay", "value", "s", width=110),
    Column("slowest_over_fastest", "Ranks differ", "value", width=105),
    Column("operator", "Launched by", width=150, flex=1),
)
OPERATORS: Final = (
    Column("operator", "Operator", width=200, flex=2),
    Column("calls", "Calls", "number", width=90),
    Column("gpu_self_seconds", "GPU, itself", "value", "s", width=100),
    Column("gpu_total_seconds", "GPU, below too", "value", "s", width=120),
    Column("cpu_self_seconds", "Host, itself", "value", "s", width=100),
    Column("cpu_total_seconds", "Host, below too", "value", "s", width=120),
    Column("gpu_events", "GPU events", "number", width=100),
    Column("flops_per_s", "Rate", "value", "FLOP/s", width=110),
    Column("roof_share", "Of roofline", "value", RATIO, width=100),
)
COLLECTIVES: Final = (
    Column("kind", "Collective", width=130, flex=1),
    Column("group", "Group", width=110, flex=1),
    Column("bytes", "Size", "value", "B", width=90),
    Column("collectives", "Met", "number", width=80),
    Column("total_seconds", "Total", "value", "s", width=90),
    Column("wait_share", "Waiting", "value", RATIO, width=90),
    Column("transfer_p50_seconds", "Transfer", "value", "s", width=95),
    Column("skew_p50_seconds", "Skew", "value", "s", width=90),
    Column("skew_max_seconds", "Most skew", "value", "s", width=100),
    Column("bus_bytes_per_s", "Bus bandwidth", "value", "B/s", width=120),
    Column("last_rank", "Often last", "number", width=95, sort=""),
)
SKEWED: Final = (
    Column("kind", "Collective", width=120, flex=1),
    Column("bytes", "Size", "value", "B", width=90, sort=""),
    Column("skew_seconds", "Skew", "value", "s", width=90),
    Column("last_rank", "Last rank", "number", width=95),
    Column("cost_seconds", "Cost", "value", "s", width=90),
    Column("cause", "Because of", width=130, sort=""),
)
CHANGES: Final = (
    Column("kernel", "Kernel", "kernel", width=260, flex=3),
    Column("status", "Is", width=80),
    Column("change_seconds", "Change", "value", "s", width=95),
    Column("by_duration_seconds", "By duration", "value", "s", width=105),
    Column("by_number_seconds", "By number", "value", "s", width=100),
    Column("before_seconds", "Before", "value", "s", width=90),
    Column("after_seconds", "After", "value", "s", width=90),
    Column("before_mean_seconds", "Mean before", "value", "s", width=110),
    Column("after_mean_seconds", "Mean after", "value", "s", width=105),
    Column("before_count", "Count before", "number", width=110),
    Column("after_count", "Count after", "number", width=105),
)
OPERATOR_CHANGES: Final = (
    Column("operator", "Operator", width=200, flex=2),
    Column("change_gpu_seconds", "GPU change", "value", "s", width=105),
    Column("before_gpu_seconds", "GPU before", "value", "s", width=105),
    Column("after_gpu_seconds", "GPU after", "value", "s", width=100),
    Column("change_cpu_seconds", "Host change", "value", "s", width=110),
    Column("before_calls", "Calls before", "number", width=105, sort=""),
    Column("after_calls", "Calls after", "number", width=100, sort=""),
)
KINDS: Final = ("compute", "comm", "memcpy", "memset")
STATUSES: Final = ("slower", "came", "more", "faster", "went", "fewer", "same")


def show(capture: str = "", base: str = "") -> None:
    """One capture, beside `base` where the address names one; without a capture, which there are."""
    if not capture:
        listing()
        return
    ui.page_title(f"{capture} · Analyze · warpmeter")
    of = f"{TRACES}/{quote(capture, safe='')}"
    with frame("profiling", f"Analysis of {capture}", window=False):
        analysis.Head(f"{of}/ranks", capture, base, TRACES)
        _shown(analysis.Findings(f"{of}/findings"))
        if base:
            against(of, base)
        _shown(analysis.Breakdown(f"{of}/breakdown", "Kernel types", "kinds"), "wm-half")
        _shown(analysis.Breakdown(f"{of}/breakdown", "Busy and idle", "temporal"), "wm-half")
        _shown(analysis.Steps(f"{of}/steps"))
        _shown(analysis.Ranks(f"{of}/ranks", f"{of}/stragglers"))
        tables(of)


def listing() -> None:
    """Which captures are analysed."""
    with frame("profiling", "Analyzed captures", window=False):
        Table(
            Listing(
                TRACES, "Captures", CAPTURES, "captures", "capture_id", "capture, job, workload or host", (), 50,
                "-captured_at", "No capture is analysed yet. Launch one from a job's page, or load traces by hand: "
                "warpmeter analyze FILE --load --capture NAME.",
            )
        )  # fmt: skip


def tables(of: str) -> None:
    """By kernel, stream, copy, operator and collective."""
    kinds = Choice("kind", "Kind", KINDS)
    no_kernel = "No GPU event is in the trace."
    _shown(
        Table(
            Listing(f"{of}/kernels", "Kernels", KERNELS, "kernels", "name", "kernel or operator", (kinds,), 20,
                    "-total_seconds", no_kernel), CHOSEN,
        )
    )  # fmt: skip
    _shown(analysis.Streams(f"{of}/idle?limit=500"), "wm-half")
    _shown(analysis.Copies(f"{of}/memory"), "wm-half")
    no_operator = "No operator is in the trace: it was captured without CPU activity."
    _shown(
        Table(
            Listing(f"{of}/operators", "Operators", OPERATORS, "operators", "operator", "operator", (), 15,
                    "-gpu_self_seconds", no_operator), CHOSEN,
        )
    )  # fmt: skip
    no_collective = "No collective is in the trace: the job has one rank, or communicates in another way."
    _shown(
        Table(
            Listing(f"{of}/collectives", "Collectives by group, kind and size", COLLECTIVES, "collectives", "id", "",
                    (), 10, "-total_seconds", no_collective), CHOSEN,
        )
    )  # fmt: skip
    even = "No collective waited for one rank for longer than the clocks may be wrong by."
    skewed = Listing(f"{of}/skew", "Collectives that waited longest for one rank", SKEWED, "skew", "meeting", "", (), 8,
                     "-skew_seconds", even)  # fmt: skip
    _shown(Table(skewed, ("sequence",)), "wm-half")
    _shown(analysis.Held(f"{of}/memory"), "wm-half")


def against(of: str, base: str) -> None:
    """What changed since an earlier capture."""
    query = urlencode({"base": base})
    _shown(analysis.Diff(f"{of}/diff?{query}"))
    status = Choice("status", "Is", STATUSES)
    kernels = Listing(f"{of}/diff_kernels?{query}", f"Kernels against {base}", CHANGES, "changes", "name", "kernel",
                      (status,), 15, "-changed_seconds", "Neither capture has kernels.")  # fmt: skip
    _shown(Table(kernels, ("sequence",)))
    operators = Listing(f"{of}/diff_operators?{query}", f"Operators against {base}", OPERATOR_CHANGES,
                        "operator_changes", "operator", "operator", (), 8, "-changed_gpu_seconds",
                        "Neither capture has operators.")  # fmt: skip
    _shown(Table(operators, ("sequence",)))


def _shown(panel: Panel, *classes: str) -> None:
    """Seen, and fetching, once the capture is analysed."""
    panel.classes(" ".join(("wm-analysed", *classes)))
