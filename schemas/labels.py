"""The keys of a job event's `labels`: the only ones that an agent sends, whatever the scheduler.

What every query of jobs reads is a field of its own (job_id, name, user, rank, …); what tells where a job comes from
and who pays for it is a label, for it differs by scheduler. An absent key means "not known".
"""

from collections.abc import Mapping
from typing import Final

# fmt: off
LABELS: Final[Mapping[str, str]] = {
    # who it is for
    "account":        "who is charged: SLURM_JOB_ACCOUNT, or the pod's label `account`",
    "team":           "whose it is: the pod's label `team`",
    "workload":       "what it is part of: the pod's label mkube.meta.com/workload-name or app.kubernetes.io/name",
    "component":      "which part: the pod's label app.kubernetes.io/component",
    # how it was queued
    "queue":          "the pod's label kueue.x-k8s.io/queue-name, or volcano.sh/queue-name",
    "priority_class": "the pod's label kueue.x-k8s.io/priority-class",
    "partition":      "SLURM_JOB_PARTITION",
    "qos":            "SLURM_JOB_QOS",
    "cluster":        "SLURM_CLUSTER_NAME",
    "step":           "SLURM_STEP_ID",
    "array_job":      "SLURM_ARRAY_JOB_ID",
    "array_task":     "SLURM_ARRAY_TASK_ID",
    "node_list":      "SLURM_JOB_NODELIST, as Slurm writes it: gpu[001-016]",
    # where it runs
    "namespace":      "of the pod",
    "pod":            "its name",
    "pod_uid":        "its UID",
    "container":      "name of the container: of the pod, of Docker or of Podman",
    "container_id":   "64 hexadecimal digits, from the cgroup",
    "container_pid":  "pid of the topmost process in its container",
    "image":          "of the container",
    "runtime":        "docker, podman, containerd, cri-o",
    "owner_kind":     "what made the pod: Job, JobSet, PyTorchJob, RayCluster, …",
    "owner":          "its name",
    # how it was launched
    "run_id":         "torchrun's TORCHELASTIC_RUN_ID",
    "rendezvous":     "torchrun's MASTER_ADDR:MASTER_PORT",
    "local_world_size": "ranks on this host: LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE or MPI_LOCALNRANKS",
}
# fmt: on

ACCOUNTS: Final = ("account", "team", "queue", "namespace")
"""The view `jobs` names as account the first of these that a job has."""
