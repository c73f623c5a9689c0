"""Captures and kernels: how each answer is read, and its pitfalls."""

from collections.abc import Mapping
from typing import Final

RECIPES: Final[Mapping[str, tuple[str, str]]] = {
    "captures_analysed": (
        "One row a capture, with how its GPUs spent their time and the costliest finding in words.",
        "Shares are of the traced seconds, not of the job's life. A low `ranks` against the job's size: some were not traced.",
    ),
    "capture_kernels": (
        "Where the GPU time of a capture went. `slowest_over_fastest` above 1.1 on the same kernel: GPUs or shapes differ.",
        "Kernels on several streams run at once, so `total_seconds` may exceed the traced time.",
    ),
    "capture_diff": (
        "What grew between two captures, by kernel: `slower` is longer calls, `more` is more of them, `came` and `went` is "
        "other code. Seconds are per step and rank where both captures have steps.",
        "Compare captures of the same workload and number of ranks; other shapes are other work under the same name.",
    ),
    "capture_stragglers": (
        "The rank for which the others waited, what that cost, and the cause: `slow_kernels`, `input`, `host` and others.",
        "It needs all ranks in one load; clocks that differ make small lateness uncertain, which is left out.",
    ),
    "kernels_of_fleet": (
        "What a faster kernel would save, over everything that was captured. `workloads` tells whose it is.",
        "A sample: a job that is captured often weighs more. Multiply by GPU hours before you decide.",
    ),
    "captures_failed": (
        "Reasons are those of docs/profiling.md; `why` says of the latest what to do.",
        "A process that was never found is a row of its host.",
    ),
}
