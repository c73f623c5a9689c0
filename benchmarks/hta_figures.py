"""Run by HolisticTraceAnalysis' own environment: its figures of one trace as JSON, in microseconds as it gives them."""

import json
import os
import sys
import time

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # with it, its times are whole microseconds and its figures off by percents

from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]


def main() -> None:
    """What it says of the trace that is named first."""
    began = time.perf_counter()
    analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
    times = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]
    _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
    analysis.get_idle_time_breakdown(visualize=False)
    analysis.get_cuda_kernel_launch_stats(visualize=False)
    analysis.get_queue_length_summary()
    figures = {
        "took_s": time.perf_counter() - began,
        "span_us": float(times["kernel_time(us)"]),
        "idle_us": float(times["idle_time(us)"]),
        "compute_us": float(times["compute_time(us)"]),
        "overlap_percent": float(overlap["comp_comm_overlap_pctg"]),
        "kernels_us": {
            str(name): float(total) for name, total in zip(kernels["name"], kernels["sum (us)"], strict=True)
        },
    }
    print("\n" + json.dumps(figures))


if __name__ == "__main__":
    main()
