"""Labels of pods and names of their containers, from the runtime that made them (CRI: containerd, CRI-O).

The kubelet hands a pod's labels and annotations to the runtime, which tells them to root on its socket: so they are
known without an API server, and for pods that do not mount them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warpmeter.producers import files
from warpmeter.producers.jobs.kubernetes.peer import ANSWER_S, Peer
from warpmeter.producers.jobs.naming import Names
from warpmeter.producers.jobs.pods import pod_labels
from warpmeter.producers.source import Reading, Sample
from warpmeter.settings import Agent

if TYPE_CHECKING:
    from warpmeter.producers.jobs.kubernetes.generated.cri_pb2 import Container, PodSandbox

SOCKETS: Final = (
    ("run", "containerd", "containerd.sock"),
    ("run", "crio", "crio.sock"),
    ("run", "k3s", "containerd", "containerd.sock"),
)
SERVICE: Final = "/runtime.v1.RuntimeService"


@dataclass(frozen=True)
class RuntimeRaw:
    """What a runtime said: all its pods and their containers."""

    pods: "tuple[PodSandbox, ...]" = ()
    containers: "tuple[Container, ...]" = ()


class RuntimeSource:
    """Publishes no rows: it tells the job source the labels of pods that run jobs. Without such pods it asks nobody.

    It asks when a container of a pod is wanted that it did not ask for before.
    """

    name = "cri"
    topic = "job-events"
    timeout_s = 4 * ANSWER_S

    def __init__(self, agent: Agent, names: Names) -> None:
        self.period_s = agent.job_interval_s
        self._names = names
        self._peers = [Peer(files.below(agent.root, *parts)) for parts in SOCKETS]
        self._known: dict[str, Mapping[str, str]] = {}
        self._unknown: frozenset[str] = frozenset()

    def read(self) -> RuntimeRaw:
        """Ask the runtime; nothing when nobody wants it. Raises SourceError when it does not answer."""
        wanted = frozenset(number for number, container in self._names.wanted.items() if container.pod_uid)
        peer = next((peer for peer in self._peers if peer.there), None)
        if peer is None or wanted <= self._known.keys() | self._unknown:
            return RuntimeRaw()
        from warpmeter.producers.jobs.kubernetes.generated import cri_pb2 as api

        pods = peer.ask(f"{SERVICE}/ListPodSandbox", api.ListPodSandboxRequest(), api.ListPodSandboxResponse)
        containers = peer.ask(f"{SERVICE}/ListContainers", api.ListContainersRequest(), api.ListContainersResponse)
        self._unknown = wanted - {container.id for container in containers.containers}
        return RuntimeRaw(tuple(pods.items), tuple(containers.containers))

    def parse(self, sample: Sample[RuntimeRaw], before: Sample[RuntimeRaw] | None) -> Reading:  # noqa: ARG002
        """Hand over the labels of what runs jobs."""
        told = {**self._known, **labels_by_container(sample.raw)}
        self._known = {number: told[number] for number in self._names.wanted if number in told}
        self._names.set_pods(self._known)
        return Reading()

    def close(self) -> None:
        """Close the connections."""
        for peer in self._peers:
            peer.close()


def labels_by_container(raw: RuntimeRaw) -> dict[str, Mapping[str, str]]:
    """By container id: what its pod's labels say, the pod's and its own name, and its image."""
    pods = {pod.id: pod for pod in raw.pods}
    return {each.id: _labels(pods[each.pod_sandbox_id], each) for each in raw.containers if each.pod_sandbox_id in pods}


def _labels(pod: "PodSandbox", container: "Container") -> dict[str, str]:
    told = {
        **pod_labels(pod.labels, pod.annotations),
        "namespace": pod.metadata.namespace,
        "pod": pod.metadata.name,
        "container": container.metadata.name,
        "image": container.image.user_specified_image or container.image.image,
    }
    return {key: value for key, value in told.items() if value}
