"""GPU hours and what they cost: how each answer is read, and its pitfalls."""

from collections.abc import Mapping
from typing import Final

RECIPES: Final[Mapping[str, tuple[str, str]]] = {
    "gpu_hours_by_team": (
        "`wasted_gpu_hours` are GPU hours in which the team held a GPU that was below 5 % busy; `wasted` is their share. "
        "For last week give `since` and `until` as two Mondays.",
        "A job without any of the labels is the team `unknown`: set an account in Slurm, or a label on the pod. Several "
        "jobs on one GPU share its hours, so that the sum over teams never exceeds what was there.",
    ),
    "gpu_hours_by_user": (
        "One row a user, over all jobs, whatever these are called.",
        "A user of a container may be `root`, and of Kubernetes the pod's: then the team tells more.",
    ),
    "idle_gpu_hours_by_job": (
        "The jobs that are worth a word with their owner. `idle` is the share of the job's own GPU hours.",
        "A job that has just begun loads data and is idle for minutes: look at hours, not at shares, of short jobs.",
    ),
    "gpu_hours_by_model": (
        "Where the demand is, by what was bought. `partition` is Slurm's; `none` where the job has no such label.",
        "The model is that of the host. A host with two models is a row of its own (`A100 + H100`), for hours of jobs are "
        "kept by host.",
    ),
    "free_gpu_hours": (
        "`gpu_hours` were there, `held_gpu_hours` had a job, `free_gpu_hours` had none. What was held and idle is "
        "`wasted_gpu_hours`: two problems, with two cures.",
        "A host that is down is not there: its hours are missing from all columns, not free.",
    ),
    "gpu_hours_by_hour_of_day": (
        "A curve of 24 points: where `idle` is high, there is room for jobs that can wait.",
        "Free GPUs count as idle as well. Hours are kept in UTC; in a zone of half hours (India) a row is off by 30 "
        "minutes. Two weeks level out single days.",
    ),
    "gpu_hours_by_job_size": (
        "`up_to_gpus` 8 are jobs with 5 to 8 GPUs. `wasted` tells whether large jobs use what they hold.",
        "The size is the number of GPUs that a job ever held, so that an elastic job counts by its largest extent.",
    ),
    "cost_by_team": (
        "GPU hours and kWh times your prices. `wasted_cost` is part of `gpu_cost`.",
        "Energy is what the GPUs draw: multiply `kwh_price` by your PUE, and add what hosts draw, to come to the bill.",
    ),
    "cost_of_nights": (
        "One row a night, dated by its evening, with what all GPUs drew. Compare `idle_gpu_hours` with `gpu_hours`: this "
        "is what could be switched off.",
        "The first and the last night of the window may be cut. GPUs whose power is not known add nothing.",
    ),
    "idle_gpu_energy": (
        "What is drawn for nothing, by host: only whole hours in which a GPU did nothing at all count.",
        "It is a lower bound: idle minutes within a busy hour are left out.",
    ),
}
