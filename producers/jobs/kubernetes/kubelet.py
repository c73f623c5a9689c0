"""Which pods hold GPUs, from the kubelet's pod-resources API."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from warpmeter.producers import files
from warpmeter.producers.jobs.kubernetes.peer import ANSWER_S, Peer
from warpmeter.producers.jobs.naming import Names, PodName
from warpmeter.producers.source import Reading, Sample
from warpmeter.settings import Agent

if TYPE_CHECKING:
    from warpmeter.producers.jobs.kubernetes.generated.podresources_pb2 import PodResources

SOCKET: Final = ("var", "lib", "kubelet", "pod-resources", "kubelet.sock")
METHOD: Final = "/v1.PodResourcesLister/List"
GPU_RESOURCES: Final = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/")
"""What device plugins call GPUs: nvidia.com/gpu, nvidia.com/mig-1g.10gb, nvidia.com/gpu.shared, …"""
GPU_DRIVERS: Final = ("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com")
"""What drivers of dynamic resource allocation call them."""


class KubeletSource:
    """Publishes no rows: it tells the job source which pods hold GPUs. On a host without a kubelet it does nothing."""

    name = "kubernetes"
    topic = "job-events"
    timeout_s = 2 * ANSWER_S

    def __init__(self, agent: Agent, names: Names) -> None:
        self.period_s = agent.job_interval_s
        self._peer, self._names = Peer(files.below(agent.root, *SOCKET)), names

    def read(self) -> "Sequence[PodResources]":
        """Ask the kubelet; nothing without one. Raises SourceError when it does not answer."""
        if not self._peer.there:
            return ()
        from warpmeter.producers.jobs.kubernetes.generated import podresources_pb2 as api

        return list(self._peer.ask(METHOD, api.ListPodResourcesRequest(), api.ListPodResourcesResponse).pod_resources)

    def parse(self, sample: Sample[Any], before: Sample[Any] | None) -> Reading:  # noqa: ARG002
        """Hand over which pods hold GPUs."""
        self._names.set_gpu_pods(gpu_pods(sample.raw))
        return Reading()

    def found(self) -> frozenset[PodName]:
        """Ask once; raises SourceError when the kubelet does not answer."""
        return gpu_pods(self.read())

    def close(self) -> None:
        """Close the connection."""
        self._peer.close()


def gpu_pods(pods: "Iterable[PodResources]") -> frozenset[PodName]:
    """Namespace and name of all pods of which a container was given a GPU."""
    return frozenset((pod.namespace, pod.name) for pod in pods if _has_gpu(pod))


def _has_gpu(pod: "PodResources") -> bool:
    for container in pod.containers:
        if any(device.resource_name.startswith(GPU_RESOURCES) and device.device_ids for device in container.devices):
            return True
        claims = (claim for resource in container.dynamic_resources for claim in resource.claim_resources)
        if any(claim.driver_name in GPU_DRIVERS for claim in claims):
            return True
    return False
