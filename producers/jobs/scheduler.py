"""What a process's environment says of the job it belongs to: Slurm, Kubernetes, torchrun, MPI.

Variables: Slurm's sbatch(1) and srun(1) "OUTPUT ENVIRONMENT VARIABLES"; Kubernetes' service variables and the
downward API; PyTorch's torch.distributed.elastic; Open MPI's and PMI's ranks.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Scheduler = Literal["slurm", "kubernetes", "torchrun", "none"]

VARIABLES: Final = frozenset(
    name.encode()
    for name in (
        *("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_USER", "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION"),
        *("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
        *("SLURM_CLUSTER_NAME", "SLURM_JOB_QOS"),
        *("KUBERNETES_SERVICE_HOST", "HOSTNAME", "POD_NAME", "POD_NAMESPACE", "JOB_COMPLETION_INDEX"),
        *("NVIDIA_VISIBLE_DEVICES",),
        *("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"),
    )
)
"""The only variables that are ever read out of an environment."""

SLURM_LABELS: Final = {
    "account": "SLURM_JOB_ACCOUNT",
    "partition": "SLURM_JOB_PARTITION",
    "qos": "SLURM_JOB_QOS",
    "cluster": "SLURM_CLUSTER_NAME",
    "step": "SLURM_STEP_ID",
    "array_job": "SLURM_ARRAY_JOB_ID",
    "array_task": "SLURM_ARRAY_TASK_ID",
}
NO_GPU: Final = frozenset({"", "void", "none"})
POD_TAIL: Final = re.compile(r"(-[a-f0-9]{8,10})?-[a-z0-9]{5}$")
"""What a Deployment (hash and suffix) or a Job (suffix) puts behind its name."""
POD_INDEX: Final = re.compile(r"(-(master|worker|launcher|chief|ps|head))?-\d+$")
"""What an indexed Job, a StatefulSet or a training operator puts behind its name."""


@dataclass(frozen=True)
class Membership:
    """The job that an environment names. `job_id` None: one per launcher process, which the tree has to tell."""

    scheduler: Scheduler
    job_id: str | None
    name: str = ""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rank:
    """A process's place in its job; None where nothing says so."""

    rank: int | None = None
    world_size: int | None = None


UNKNOWN: Final = Rank()


def membership(variables: Mapping[str, str]) -> Membership | None:
    """The job that the variables name, None when they name none. The outermost scheduler wins."""
    return _slurm(variables) or _kubernetes(variables) or _torchrun(variables)


def rank(variables: Mapping[str, str]) -> Rank:
    """The rank that the innermost launcher gave."""
    in_step = variables.get("SLURM_STEP_ID", "").isdigit()  # a batch script has 'batch' or none, and no rank
    pairs = [("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")]
    pairs += [("SLURM_PROCID", "SLURM_NTASKS")] if in_step else []
    for name, size in pairs:
        if (number := _number(variables, name)) is not None:
            return Rank(number, _number(variables, size))
    return UNKNOWN


def pod_owner(pod: str) -> str:
    """The name of what made a pod, from the pod's name: all pods of one Job, Deployment or StatefulSet share it."""
    return POD_INDEX.sub("", POD_TAIL.sub("", pod)) or pod


def _slurm(variables: Mapping[str, str]) -> Membership | None:
    job_id = variables.get("SLURM_JOB_ID")
    if not job_id:
        return None
    labels = {label: variables[name] for label, name in SLURM_LABELS.items() if variables.get(name)}
    name, user = variables.get("SLURM_JOB_NAME", ""), variables.get("SLURM_JOB_USER", "")
    return Membership("slurm", job_id, name, user, labels)


def _kubernetes(variables: Mapping[str, str]) -> Membership | None:
    """A pod that was given GPUs, or is one of an indexed Job: the other pods of a node are its furniture."""
    pod = variables.get("POD_NAME") or variables.get("HOSTNAME", "")
    has_gpu = variables.get("NVIDIA_VISIBLE_DEVICES", "") not in NO_GPU
    if not (variables.get("KUBERNETES_SERVICE_HOST") and pod and (has_gpu or "JOB_COMPLETION_INDEX" in variables)):
        return None
    namespace, owner = variables.get("POD_NAMESPACE", ""), pod_owner(pod)
    labels = {"pod": pod} | ({"namespace": namespace} if namespace else {})
    return Membership("kubernetes", f"{namespace}/{owner}" if namespace else owner, owner, "", labels)


def _torchrun(variables: Mapping[str, str]) -> Membership | None:
    """Without `--rdzv-id` the run id is 'none' for everybody: then the rendezvous' address names a job over hosts."""
    run = variables.get("TORCHELASTIC_RUN_ID")
    if run is None:
        return None
    if run in ("", "none"):
        over_hosts = variables.get("WORLD_SIZE") != variables.get("LOCAL_WORLD_SIZE")
        run = f"{variables.get('MASTER_ADDR')}:{variables.get('MASTER_PORT')}" if over_hosts else ""
    return Membership("torchrun", run or None)


def _number(variables: Mapping[str, str], name: str) -> int | None:
    value = variables.get(name, "")
    return int(value) if value.isdecimal() else None
