"""GPUs and hosts: how each answer is read, and its pitfalls."""

from collections.abc import Mapping
from typing import Final

GPUS: Final[Mapping[str, tuple[str, str]]] = {
    "xids_with_jobs": (
        "Each XID with the jobs that were on the GPU at that instant, by name and owner: whom to tell, and whom to ask. "
        "`cleared_at` is NULL while it stands.",
        "13, 31, 43 and 45 are mostly the program's own fault; 48, 63, 64, 74, 79, 94 and 95 the hardware's. A job that the "
        "agent had not yet seen (it began seconds before) is missing.",
    ),
    "xids_by_code": (
        "`times` counts an XID once until it is cleared, `reports` each line of the driver. `standing`: GPUs not yet reset.",
        "One faulty program raises 31 on every GPU that it runs on: look at `hosts` together with the jobs.",
    ),
    "gpus_to_repair": (
        "The list for whoever goes to the machines. `failing` has a reason in `problems`, `gone` left the bus or its host is "
        "silent (`why` tells which).",
        "It is of now. What failed and recovered is in `xids_with_jobs`.",
    ),
    "ecc_growth": (
        "Errors that were added in the window. One uncorrectable error is reason to drain the GPU; remapped rows tell that "
        "the GPU mended itself, of which it can do a limited number.",
        "Counters start again with the driver; that is taken into account. What came before the first minute is not in it.",
    ),
    "throttled_gpus": (
        "Seconds in which something held the clocks down. `heat_s` is cooling, `power_s` the power limit (normal under full "
        "load), `hardware_s` a power brake or a failing supply.",
        "It reads raw samples, so windows of days over thousands of GPUs take seconds, and it ends where these do (14 days).",
    ),
    "hottest_gpus": (
        "Highest and mean temperature. Neighbours that are hot together point to the rack's air, one alone to its heat sink.",
        "Temperatures rise with the work: compare GPUs that do the same.",
    ),
    "gpus_behind_their_model": (
        "GPUs whose clock under load is below that of their model by `behind`: a job over many GPUs runs at the pace of the "
        "slowest.",
        "Clocks that an administrator has set apart look the same. With few GPUs of a model the median says little.",
    ),
    "slow_pcie_links": (
        "`of_best` is the bandwidth against the best link of that model: 0.5 is half the lanes, or a generation less.",
        "If all GPUs of a model are in slow slots, none stands out. Links rest while idle: `generation` is of busy hours only.",
    ),
    "shared_gpus": (
        "Jobs that run on one GPU at this instant, and how much memory is left for more.",
        "MIG instances are GPUs of their own here, each with its UUID.",
    ),
}

HOSTS: Final[Mapping[str, tuple[str, str]]] = {
    "silent_hosts": (
        "Hosts of which nothing is heard, for how long, and the jobs that were lost with them.",
        "Silent is not down: the agent may have been stopped, or the way to Kafka is cut. Silent since the same second, "
        "several hosts share what failed.",
    ),
    "host_pressure": (
        "Pressure is the share of time in which tasks waited for CPU, memory or I/O; above 0.1 it is felt.",
        "The kernel needs PSI switched on; where it is not, the columns are NULL, and CPU use must do.",
    ),
    "top_disks": (
        "`busy` near 1 with a latency of milliseconds is a disk at its limit.",
        "NVMe serves many requests at once and may be busy all the time without being slow: look at the latency.",
    ),
    "top_network": (
        "`link_use_max` near 1 is a full link; `errors` and `drops` should be 0.",
        "Virtual devices and bonds are devices, too: their traffic is counted on each.",
    ),
    "source_states": (
        "What agents could not read, and why: `denied` needs a right, `unsupported` is not there, `failed` is a fault.",
        "`silent` rows are old words of hosts that say nothing any more.",
    ),
    "agent_versions": (
        "What is to be updated. `hosts_not_ok` higher with one version than with another is worth a look.",
        "Hosts that were taken away stay listed, as silent, until their minutes expire (90 days).",
    ),
}
