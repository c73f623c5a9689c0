"""Process trees of jobs: the metrics of `job-events`.

One a line: stored column, kind, meaning, sources in the order of preference.
"""

from typing import Final

# fmt: off
ROWS: Final = (
    ("processes",            "gauge",   "processes in the tree", "/proc/<pid>/stat"),
    ("cpu_cores_milli",      "gauge",   "cores used, mean over the interval", "/proc/<pid>/stat"),
    ("rss_mebibytes",        "gauge",   "resident memory of the tree", "/proc/<pid>/stat"),
    ("read_bytes",           "gauge",   "bytes read from storage in the interval", "/proc/<pid>/io"),
    ("written_bytes",        "gauge",   "bytes written to storage in the interval", "/proc/<pid>/io"),
    ("gpu_memory_mebibytes", "gauge",   "device memory of the tree over all its GPUs", "NVML nvmlDeviceGetComputeRunningProcesses_v3"),
)
# fmt: on
