"""Where the job source meets those that know names: Docker and Podman, the kubelet and its runtime.

Each is asked by a source of its own, and one that hangs holds nobody else. Each side swaps a whole snapshot in one
assignment and the others read it, so no lock is needed.
"""

from collections.abc import Iterable, Mapping

from warpmeter.producers.jobs.containers import Container

PodName = tuple[str, str]
"""Namespace and name."""


class Names:
    """What is known beyond /proc. `version` grows with every change, so that the trees are looked at again."""

    def __init__(self) -> None:
        self.version = 0
        self.wanted: Mapping[str, Container] = {}
        self._containers: Mapping[str, Mapping[str, str]] = {}
        self._pods: Mapping[str, Mapping[str, str]] = {}
        self._gpu_pods: frozenset[PodName] = frozenset()

    def want(self, containers: Iterable[Container]) -> None:
        """From the job source: all containers that run jobs."""
        self.wanted = {container.id: container for container in containers}

    def labels(self, container: Container) -> Mapping[str, str]:
        """For the job source: what is known of a container, nothing before its engine answered."""
        return {**self._pods.get(container.id, {}), **self._containers.get(container.id, {})}

    def set_containers(self, known: Mapping[str, Mapping[str, str]]) -> None:
        """From the engines' source: labels (keys of `schemas/labels.py`) by container id."""
        if known != self._containers:
            self._containers = known
            self.version += 1

    def set_pods(self, known: Mapping[str, Mapping[str, str]]) -> None:
        """From the runtime's source: labels by id of containers of pods."""
        if known != self._pods:
            self._pods = known
            self.version += 1

    def has_gpu(self, pod: PodName) -> bool:
        """Whether the kubelet says that a pod was given GPUs."""
        return pod in self._gpu_pods

    def set_gpu_pods(self, pods: frozenset[PodName]) -> None:
        """From the kubelet's source: all pods that hold GPUs."""
        if pods != self._gpu_pods:
            self._gpu_pods = pods
            self.version += 1
