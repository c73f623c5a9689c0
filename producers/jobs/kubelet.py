"""Which pods hold GPUs, from the kubelet's pod-resources API: gRPC on a Unix socket of the node.

gRPC is HTTP/2, which nothing light speaks and nobody should write by hand: grpcio does (the extra `kubernetes`), and is
imported only once the socket is there, so that a host without a kubelet never loads it.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warpmeter.producers import files
from warpmeter.producers.jobs.naming import Names, PodName
from warpmeter.producers.source import Reading, Sample, SourceError
from warpmeter.settings import Agent

if TYPE_CHECKING:
    from warpmeter.producers.jobs.podresources.generated.podresources_pb2 import PodResources

SOCKET: Final = ("var", "lib", "kubelet", "pod-resources", "kubelet.sock")
METHOD: Final = "/v1.PodResourcesLister/List"
PERIOD_S: Final = 10.0
ANSWER_S: Final = 3.0
ANSWER_MAX: Final = 16 << 20
"""As the kubelet's own bound of an answer."""
GPU_RESOURCES: Final = ("nvidia.com/", "amd.com/gpu", "gpu.intel.com/")
"""What device plugins call GPUs: nvidia.com/gpu, nvidia.com/mig-1g.10gb, nvidia.com/gpu.shared, …"""
GPU_DRIVERS: Final = ("gpu.nvidia.com", "gpu.amd.com", "gpu.intel.com")
"""What drivers of dynamic resource allocation call them."""
NO_GRPC: Final = (
    "the kubelet's socket {path} is there, and grpcio is not installed: pods that hold GPUs are told by their "
    "environment only; pip install 'warpmeter[kubernetes]'"
)


class KubeletSource:
    """Publishes no rows: it tells the job source which pods hold GPUs. On a host without a kubelet it does nothing."""

    name = "kubernetes"
    topic = "job-events"
    period_s = PERIOD_S
    timeout_s = 2 * ANSWER_S

    def __init__(self, agent: Agent, names: Names) -> None:
        self._path, self._names = files.below(agent.root, *SOCKET), names
        self._channel: Any = None

    def read(self) -> "Sequence[PodResources]":
        """Ask the kubelet; nothing without one. Raises SourceError when it does not answer."""
        if self._channel is None and not Path(self._path).exists():
            return ()
        try:
            import grpc
        except ModuleNotFoundError as error:
            raise SourceError("unsupported", NO_GRPC.format(path=self._path)) from error
        from warpmeter.producers.jobs.podresources.generated import podresources_pb2 as api

        if self._channel is None:
            self._channel = grpc.insecure_channel(
                f"unix:{self._path}", [("grpc.max_receive_message_length", ANSWER_MAX), ("grpc.enable_http_proxy", 0)]
            )
        call = self._channel.unary_unary(
            METHOD,
            request_serializer=api.ListPodResourcesRequest.SerializeToString,
            response_deserializer=api.ListPodResourcesResponse.FromString,
        )
        try:
            answer: api.ListPodResourcesResponse = call(api.ListPodResourcesRequest(), timeout=ANSWER_S)
        except grpc.RpcError as error:
            self.close()  # the next read looks for the socket anew
            raise SourceError("failed", f"{self._path}: {_said(error)}; see the kubelet's log") from error
        return list(answer.pod_resources)

    def parse(self, sample: Sample[Any], before: Sample[Any] | None) -> Reading:  # noqa: ARG002
        """Hand over which pods hold GPUs."""
        self._names.set_gpu_pods(gpu_pods(sample.raw))
        return Reading()

    def found(self) -> frozenset[PodName]:
        """Ask once; raises SourceError when the kubelet does not answer."""
        return gpu_pods(self.read())

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


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


def _said(error: Any) -> str:
    return f"{error.code().name}: {error.details()}"
