"""What a node's own files say of its pods. No API server is asked, and no token is needed.

The kubelet keeps, by pod UID (which a process's cgroup names):

- `/var/log/pods/<namespace>_<pod>_<uid>/`: the pod's name and namespace, for every pod;
- `/var/log/containers/<pod>_<namespace>_<container>-<container id>.log`: the container's name;
- `/var/lib/kubelet/pods/<uid>/volumes/kubernetes.io~{downward-api,projected}/*/labels` and `annotations`: the labels of
  a pod that mounts them (the downward API), as `key="value"` lines.

These are written by the kubelet; nothing is read out of a container, whose files its user may forge.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.jobs.containers import Container

LABELS: Final = (
    ("account", "account"),
    ("team", "team"),
    ("workload", "mkube.meta.com/workload-name"),
    ("workload", "app.kubernetes.io/name"),
    ("component", "app.kubernetes.io/component"),
    ("queue", "kueue.x-k8s.io/queue-name"),
    ("queue", "volcano.sh/queue-name"),
    ("priority_class", "kueue.x-k8s.io/priority-class"),
)
"""Our label and the pod's; of two the first that the pod has."""
OWNERS: Final = (
    ("JobSet", "jobset.sigs.k8s.io/jobset-name"),
    ("LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name"),
    ("RayCluster", "ray.io/cluster"),
    ("", "training.kubeflow.org/job-name"),
    ("VolcanoJob", "volcano.sh/job-name"),
    ("Job", "batch.kubernetes.io/job-name"),
    ("Job", "job-name"),
)
"""Kind, and the label in which its controller writes its name on every pod; the outermost owner first."""
TRAINING_KIND: Final = "training.kubeflow.org/operator-name"
TRAINING_KINDS: Final = {"pytorchjob": "PyTorchJob", "tfjob": "TFJob", "mpijob": "MPIJob", "xgboostjob": "XGBoostJob"}
VOLUMES: Final = ("kubernetes.io~downward-api", "kubernetes.io~projected")
FILE_MAX: Final = 64 << 10
POD_TAIL: Final = re.compile(r"(-[a-f0-9]{8,10})?-[a-z0-9]{5}$")
"""What a Deployment (hash and suffix) or a Job (suffix) puts behind its name."""
POD_INDEX: Final = re.compile(r"(-(master|worker|launcher|chief|ps|head))?-\d+$")
"""What an indexed Job, a StatefulSet or a training operator puts behind its name."""


@dataclass(frozen=True)
class Pod:
    """A pod. `labels`: keys of `schemas/labels.py`. `has_gpu`: the kubelet says that it was given GPUs."""

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    has_gpu: bool = False


class PodFiles:
    """The pods of this node by UID, and names of containers, below a root; each is read once."""

    def __init__(self, root: Path) -> None:
        self._logs = files.below(root, "var", "log", "pods")
        self._containers = files.below(root, "var", "log", "containers")
        self._volumes = files.below(root, "var", "lib", "kubelet", "pods")
        self._pods: dict[str, Pod] = {}
        self._names: dict[str, str] = {}

    def pod(self, uid: str) -> Pod | None:
        """The pod with this UID; None when the node's files do not know it (or not yet, or they are not mounted)."""
        if uid and uid not in self._pods and (found := self._find(uid)) is not None:
            self._pods[uid] = found
        return self._pods.get(uid)

    def container_name(self, container: Container) -> str:
        """The container's name in its pod, '' when not known."""
        if container.id not in self._names:
            tail = f"-{container.id}.log"
            found = next((name for name in _names(self._containers) if name.endswith(tail)), "")
            if not found:
                return ""
            self._names[container.id] = found.removesuffix(tail).split("_", 2)[-1]
        return self._names[container.id]

    def keep(self, containers: Iterable[Container]) -> None:
        """Forget all but these."""
        alive = list(containers)
        uids, ids = {each.pod_uid for each in alive}, {each.id for each in alive}
        self._pods = {uid: pod for uid, pod in self._pods.items() if uid in uids}
        self._names = {number: name for number, name in self._names.items() if number in ids}

    def _find(self, uid: str) -> Pod | None:
        folder = next((name for name in _names(self._logs) if name.endswith(f"_{uid}")), "")
        parts = folder.split("_")
        if len(parts) != 3:
            return None
        return Pod(parts[0], parts[1], pod_labels(self._downward(uid, "labels"), self._downward(uid, "annotations")))

    def _downward(self, uid: str, name: str) -> dict[str, str]:
        for kind in VOLUMES:
            folder = f"{self._volumes}/{uid}/volumes/{kind}"
            for volume in _names(folder):
                text = files.optional(f"{folder}/{volume}/{name}")
                if text:
                    return parse_downward(text[:FILE_MAX])
        return {}


def parse_downward(text: bytes) -> dict[str, str]:
    """A downward API file: a line `key="value"` each, the value quoted as Go quotes it."""
    found = {}
    for line in text.decode(errors="replace").splitlines():
        key, _, value = line.partition("=")
        with suppress(ValueError):
            found[key] = files.plain(str(json.loads(value)))
    return found


def pod_labels(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """The labels of a job from those of its pod; `annotations` hold Volcano's queue."""
    told = {**annotations, **labels}
    found: dict[str, str] = {}
    for ours, theirs in LABELS:
        if told.get(theirs):
            found.setdefault(ours, told[theirs])
    for kind, label in OWNERS:
        if told.get(label):
            operator = told.get(TRAINING_KIND, "").partition("-")[0]
            found |= {"owner_kind": kind or TRAINING_KINDS.get(operator, "TrainingJob"), "owner": told[label]}
            break
    return found


def name_of_owner(pod: str) -> str:
    """The name of what made a pod, from the pod's name: all pods of one Job, Deployment or StatefulSet share it."""
    return POD_INDEX.sub("", POD_TAIL.sub("", pod)) or pod


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - hot
    except OSError:
        return []
