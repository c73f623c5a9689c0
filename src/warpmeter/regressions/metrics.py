"""What is looked at: which way is worse, the unit, how it is called; in the order in which it names a regression."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Metric:
    """`up`: more is worse. `unit` as the metric table names units; a ratio is 0-1. `alone`: it says that a job got
    worse; others are told beside one that does, for they follow from it, or may have another cause.
    """

    name: str
    words: str
    unit: str
    up: bool
    alone: bool = True


_ALL: Final = (
    Metric("step_seconds", "step", "s", up=True),
    Metric("traced_step_seconds", "step in traces", "s", up=True),
    Metric("sm_active", "SM activity", "ratio 0-1", up=False),
    Metric("gpu_util", "GPU utilisation", "ratio 0-1", up=False),
    Metric("tensor_active", "tensor core activity", "ratio 0-1", up=False, alone=False),
    Metric("dram_active", "device memory activity", "ratio 0-1", up=False, alone=False),
    Metric("power_watts", "power of a GPU", "W", up=False, alone=False),
    Metric("cpu_cores", "cores used by a process tree", "1", up=False, alone=False),
)
METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for metric in _ALL}
KERNEL: Final = "kernel_seconds"
