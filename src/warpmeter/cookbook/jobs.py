"""Jobs: how each answer is read, and its pitfalls."""

from collections.abc import Mapping
from typing import Final

RECIPES: Final[Mapping[str, tuple[str, str]]] = {
    "wasting_jobs": (
        "Jobs that hold GPUs at this moment, by what they have wasted so far: the list to act on today.",
        "Over a job's whole life: one that idles only since an hour ago stands low. `top_idle_gpus` tells who idles now.",
    ),
    "runs_of_job": (
        "`sm_active_over_run_before` below 1: this run kept the multiprocessors less busy than the run before.",
        "The same name is not the same work: look at `gpus` before you compare. The earliest run has nothing before it.",
    ),
    "uneven_gpus": (
        "Ranks do the same work, so their GPUs look alike. One that is far *below* the median waits for something of its "
        "own (data, a slow link); one that is far *above* while the others idle is the straggler they wait for.",
        "With pipeline parallelism stages differ by design. For the cause take a capture and ask `capture_stragglers`.",
    ),
    "jobs_with_memory_to_spare": (
        "A larger batch, or a smaller GPU (or a MIG instance), would do for these.",
        "Frameworks reserve memory that they do not use, so `fb_used_max` is too high rather than too low: PyTorch's "
        "allocator, and JAX, which takes three quarters at the start.",
    ),
    "jobs_without_tensor_cores": (
        "Kernels run all the time, yet not on tensor cores: often FP32 without TF32, or shapes that do not fit.",
        "Tensor activity needs GPM (Hopper and later) or DCGM; jobs on GPUs where it is not known are left out.",
    ),
    "short_jobs": (
        "Runs that end within minutes, by name and user. `last_job_id` leads to the latest one.",
        "Sweeps of tiny jobs look the same and are meant. How a job ended is not known, only when.",
    ),
    "lost_jobs": (
        "Jobs whose host or agent fell silent while they ran, and what they held.",
        "An agent that was stopped by hand looks like a host that died: see `silent_hosts`.",
    ),
    "sampled_time_by_job": (
        "`cores` is the mean number of threads that ran or waited for a CPU, from sampled stacks.",
        "Sampled are the processes of jobs, in turns (docs/stacks.md); what no turn met is not in it. py-spy and perf see "
        "different time, so ask for one at a time.",
    ),
    "stack_top": (
        "`self` is time in the function's own lines, `total` with what it calls. A data loader high in `self` means that "
        "GPUs wait for input.",
        "Raw stacks are kept for two weeks; give `windows=stack_hours` for older ones.",
    ),
}
