"""The text that asks Kineto for a trace: a line a key, `KEY=value`.

Kineto reads it to the first line that has not exactly one `=` and ignores the rest; `#` begins a comment anywhere.
Keys: libkineto's Config.cpp, as of PyTorch 2.13; read by 2.15 alike.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

ACTIVITY_TYPES: Final = frozenset(
    {
        "cpu_op", "user_annotation", "gpu_user_annotation", "gpu_memcpy", "gpu_memset", "kernel", "cuda_runtime",
        "external_correlation", "cuda_driver", "cpu_instant_event", "python_function", "overhead", "mtia_runtime",
        "mtia_ccp_events", "mtia_insight", "cuda_sync", "cuda_event", "mtia_counters", "xpu_runtime",
        "collective_comm", "privateuse1_runtime", "privateuse1_driver", "hpu_op",
    }
)  # fmt: skip

WARMUP_S: Final = 5
"""Kineto's own, when none is given."""


@dataclass(frozen=True)
class Tracing:
    """What one process is to trace: `duration_ms` from `start_at` (seconds since the epoch), or `iterations`.

    An iteration is a step of the optimizer. They begin at the next multiple of `iteration_roundup`.
    """

    start_at: float = 0.0
    duration_ms: int = 500
    iterations: int = 0
    iteration_roundup: int = 1
    warmup_s: int = WARMUP_S
    warmup_iterations: int = 0
    shapes: bool = False
    memory: bool = False
    stacks: bool = False
    flops: bool = False
    modules: bool = False
    activities: Sequence[str] = ()

    def text(self, file: str, trace_id: str) -> str:
        """The configuration. `file` is where Kineto writes, with `_<pid>` put before `.json`."""
        lines = [("ACTIVITIES_LOG_FILE", file), ("REQUEST_TRACE_ID", trace_id), *self._when(), *self._what()]
        return "\n".join(f"{key}={value}" for key, value in lines)

    def _when(self) -> list[tuple[str, object]]:
        if self.iterations:
            return [
                ("PROFILE_START_ITERATION", 0),
                ("PROFILE_START_ITERATION_ROUNDUP", max(1, self.iteration_roundup)),
                ("ACTIVITIES_ITERATIONS", self.iterations),
                ("ACTIVITIES_WARMUP_ITERATIONS", self.warmup_iterations),
            ]
        return [
            ("PROFILE_START_TIME", round(self.start_at * 1000)),
            ("ACTIVITIES_DURATION_MSECS", self.duration_ms),
            ("ACTIVITIES_WARMUP_PERIOD_SECS", self.warmup_s),
        ]

    def _what(self) -> list[tuple[str, object]]:
        flags = {
            "PROFILE_REPORT_INPUT_SHAPES": self.shapes,
            "PROFILE_PROFILE_MEMORY": self.memory,
            "PROFILE_WITH_STACK": self.stacks,
            "PROFILE_WITH_FLOPS": self.flops,
            "PROFILE_WITH_MODULES": self.modules,
        }
        found: list[tuple[str, object]] = [(key, str(value).lower()) for key, value in flags.items()]
        return found + [("ACTIVITY_TYPES", ",".join(self.activities))] * bool(self.activities)


def written_file(text: str, pid: int) -> str | None:
    """Where the process with that pid (its own, in its namespace) writes for a configuration; None for the default.

    `x.pt.trace.json` becomes `x_<pid>.pt.trace.json`, else the first `.json` becomes `_<pid>.json`; a name without it
    stays as it is.
    """
    found = re.search(r"^\s*ACTIVITIES_LOG_FILE\s*=\s*([^\s#]+)", text, re.MULTILINE)
    if found is None:
        return None
    for ending in (".pt.trace.json", ".json"):
        if ending in found[1]:
            return found[1].replace(ending, f"_{pid}{ending}", 1)
    return found[1]


def allowed(file: str, folder: str = "/tmp/") -> bool:
    """Whether Kineto writes there at all: below KINETO_ONDEMAND_TRACE_DIR, without `..`; else it takes its default."""
    return ".." not in PurePosixPath(file).parts and file.startswith(folder.rstrip("/") + "/")
