"""What a process's environment and container say of the job it belongs to: Slurm, Kubernetes, torchrun, MPI.

Variables: Slurm's sbatch(1) and srun(1) "OUTPUT ENVIRONMENT VARIABLES"; Kubernetes' service variables and the
downward API; PyTorch's torch.distributed.elastic; Open MPI's, PMI's and PMIx's ranks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from warpmeter.producers.jobs.pods import Pod, name_of_owner

Scheduler = Literal["slurm", "kubernetes", "torchrun", "mpi", "docker", "podman", "none"]

NAMES: Final = (
    *("SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_USER", "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION"),
    *("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_JOB_NODELIST"),
    *("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_CLUSTER_NAME", "SLURM_JOB_QOS"),
    *("KUBERNETES_SERVICE_HOST", "HOSTNAME", "POD_NAME", "POD_NAMESPACE", "JOB_COMPLETION_INDEX"),
    *("NVIDIA_VISIBLE_DEVICES",),
    *("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    *("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMIX_RANK", "PMIX_NAMESPACE"),
    *("WARPMETER_STACKS",),
)
VARIABLES: Final = frozenset(name.encode() for name in NAMES)
"""The only variables that are ever read out of an environment."""

SLURM_LABELS: Final = {
    "account": "SLURM_JOB_ACCOUNT",
    "partition": "SLURM_JOB_PARTITION",
    "qos": "SLURM_JOB_QOS",
    "cluster": "SLURM_CLUSTER_NAME",
    "step": "SLURM_STEP_ID",
    "array_job": "SLURM_ARRAY_JOB_ID",
    "array_task": "SLURM_ARRAY_TASK_ID",
    "node_list": "SLURM_JOB_NODELIST",
}
RANKS: Final = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("PMIX_RANK", "", ""),
)
"""Rank, world size and local rank by launcher, the innermost first; Slurm's, which are the outermost, come last."""
SLURM_RANK: Final = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
LOCAL_SIZES: Final = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
NUMBER_MAX: Final = (1 << 32) - 1
NO_GPU: Final = frozenset({"", "void", "none"})


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
    """A process's place in its job; None where nothing says so. `local_rank`: among the ranks of its host."""

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None


UNKNOWN: Final = Rank()


def membership(variables: Mapping[str, str], pod: Pod | None = None) -> Membership | None:
    """The job that the variables name, None when they name none. The outermost scheduler wins.

    `pod`: what the kubelet's files say of the pod that the process runs in.
    """
    return _slurm(variables) or _kubernetes(variables, pod) or _torchrun(variables) or _mpi(variables)


def rank(variables: Mapping[str, str]) -> Rank:
    """The rank that the innermost launcher gave."""
    in_step = variables.get("SLURM_STEP_ID", "").isdigit()  # a batch script has 'batch' or none, and no rank
    for name, size, local in (*RANKS, *((SLURM_RANK,) if in_step else ())):
        if (number := _number(variables, name)) is not None:
            return Rank(number, _number(variables, size), _number(variables, local))
    return UNKNOWN


def launch_labels(variables: Mapping[str, str]) -> dict[str, str]:
    """How a process was launched, whoever scheduled it."""
    labels = {
        "run_id": variables.get("TORCHELASTIC_RUN_ID", ""),
        "local_world_size": next((variables[name] for name in LOCAL_SIZES if variables.get(name)), ""),
    }
    if "MASTER_ADDR" in variables and "RANK" in variables:
        labels["rendezvous"] = f"{variables['MASTER_ADDR']}:{variables.get('MASTER_PORT', '')}"
    return {name: value for name, value in labels.items() if value and value != "none"}


def pods_job(pod: Pod) -> Membership:
    """The job that a pod is of, should it be of one."""
    labels = {**pod.labels, "pod": pod.name} | ({"namespace": pod.namespace} if pod.namespace else {})
    owner = labels.get("owner") or name_of_owner(pod.name)
    return Membership("kubernetes", f"{pod.namespace}/{owner}" if pod.namespace else owner, owner, "", labels)


def _slurm(variables: Mapping[str, str]) -> Membership | None:
    job_id = variables.get("SLURM_JOB_ID")
    if not job_id:
        return None
    labels = {label: variables[name] for label, name in SLURM_LABELS.items() if variables.get(name)}
    name, user = variables.get("SLURM_JOB_NAME", ""), variables.get("SLURM_JOB_USER", "")
    return Membership("slurm", job_id, name, user, labels)


def _kubernetes(variables: Mapping[str, str], pod: Pod | None) -> Membership | None:
    """A pod that was given GPUs, or is one of an indexed Job: the other pods of a node are its furniture."""
    if pod is None and not variables.get("KUBERNETES_SERVICE_HOST"):
        return None
    pod = pod or Pod(variables.get("POD_NAMESPACE", ""), variables.get("POD_NAME") or variables.get("HOSTNAME", ""))
    has_gpu = pod.has_gpu or variables.get("NVIDIA_VISIBLE_DEVICES", "") not in NO_GPU
    if not (pod.name and (has_gpu or "JOB_COMPLETION_INDEX" in variables)):
        return None
    return pods_job(pod)


def _torchrun(variables: Mapping[str, str]) -> Membership | None:
    """Without `--rdzv-id` the run id is 'none' for everybody: then the rendezvous' address names a job over hosts."""
    run = variables.get("TORCHELASTIC_RUN_ID")
    if run is None:
        return None
    if run in ("", "none"):
        over_hosts = variables.get("WORLD_SIZE") != variables.get("LOCAL_WORLD_SIZE")
        run = f"{variables.get('MASTER_ADDR')}:{variables.get('MASTER_PORT')}" if over_hosts else ""
    return Membership("torchrun", run or None)


def _mpi(variables: Mapping[str, str]) -> Membership | None:
    """PMIx names its job, on all hosts alike; Open MPI 4's name is a bare number, so a word stands before it.

    MPICH's Hydra and Intel MPI name none: there, a job is what one launcher started on this host.
    """
    if not any(name in variables for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")):
        return None
    namespace = variables.get("PMIX_NAMESPACE")
    return Membership("mpi", f"mpi-{namespace}" if namespace else None)


def _number(variables: Mapping[str, str], name: str) -> int | None:
    """A rank or a size; None for what is none, or is more than the message holds: anybody may set such variables."""
    value = variables.get(name, "")
    number = int(value) if value.isdecimal() and len(value) <= len(str(NUMBER_MAX)) else None
    return number if number is not None and number <= NUMBER_MAX else None
