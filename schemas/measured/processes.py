"""Processes on GPUs: the metrics of `gpu-processes`.

One a line: stored column, kind, meaning, sources in the order of preference.
"""

from typing import Final

# fmt: off
ROWS: Final = (
    ("mem_mebibytes",         "gauge",   "device memory of the process on this GPU", "NVML nvmlDeviceGetComputeRunningProcesses_v3"),
    ("sm_util_permille",      "ratio",   "share of time in which a kernel of the process ran", "NVML nvmlDeviceGetProcessUtilization.smUtil"),
    ("mem_util_permille",     "ratio",   "share of time in which the process read or wrote device memory", "NVML nvmlDeviceGetProcessUtilization.memUtil"),
    ("encoder_util_permille", "ratio",   "video encoder utilisation by the process", "NVML nvmlDeviceGetProcessUtilization.encUtil"),
    ("decoder_util_permille", "ratio",   "video decoder utilisation by the process", "NVML nvmlDeviceGetProcessUtilization.decUtil"),
)
# fmt: on
