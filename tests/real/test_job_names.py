"""Who knows names: Docker's and Podman's API on Unix sockets, and the kubelet's pod-resources API over real gRPC."""

import json
import shutil
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from threading import Event, Thread
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from tests.clock import FakeClock
from tests.real import agents
from tests.wait import until
from warpmeter.producers.jobs import engines
from warpmeter.producers.jobs.containers import Container
from warpmeter.producers.jobs.engines import AGAIN_S, EngineSource
from warpmeter.producers.jobs.kubernetes import peer
from warpmeter.producers.jobs.kubernetes.generated import cri_pb2 as cri
from warpmeter.producers.jobs.kubernetes.generated import podresources_pb2 as api
from warpmeter.producers.jobs.kubernetes.kubelet import SOCKET, KubeletSource
from warpmeter.producers.jobs.kubernetes.runtime import RuntimeSource
from warpmeter.producers.jobs.naming import Names
from warpmeter.producers.source import Reading, Sample, SourceError
from warpmeter.settings import Agent, Kafka

ID, OTHER = "3f" * 32, "4e" * 32
DESCRIBED = {
    "Id": ID,
    "Name": "/trainer",
    "Config": {"Image": "nvcr.io/nvidia/pytorch:25.10-py3", "Env": ["API_KEY=do-not-tell"], "Labels": {}},
}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For who answers: a second, or three, may be what a busy machine takes to let them."""
    monkeypatch.setattr(engines, "ANSWER_S", 30.0)
    monkeypatch.setattr(engines, "READ_S", 30.0)
    monkeypatch.setattr(peer, "ANSWER_S", 30.0)


@pytest.fixture
def root() -> Iterator[Path]:
    """A short folder: a Unix socket's path has 107 characters at most."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="wm"))
    yield folder
    shutil.rmtree(folder)


class Daemon(ThreadingMixIn, UnixStreamServer):
    """HTTP on a Unix socket, as Docker's and Podman's daemons serve their API."""

    daemon_threads = True
    asked: list[str]
    status = 200


class Api(BaseHTTPRequestHandler):
    """`GET /containers/<id>/json`."""

    server: Daemon

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        known = self.path == f"/containers/{ID}/json"
        body = json.dumps(DESCRIBED if known else {"message": "No such container"}).encode()
        self.send_response(self.server.status if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def daemon(path: Path) -> Iterator[Daemon]:
    """One that serves."""
    path.parent.mkdir(parents=True, exist_ok=True)
    server = Daemon(str(path), Api)
    server.asked = []
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        path.unlink()


class Engines:
    """The source of names; `look()` is one read of it."""

    def __init__(self, root: Path, *containers: Container) -> None:
        self.names = Names()
        self.names.want(containers)
        self.clock = FakeClock()
        self.source = EngineSource(Agent(root=root), self.names, self.clock.monotonic)

    def look(self) -> Reading:
        """Read and parse."""
        return self.source.parse(Sample(0.0, 0.0, 2.0, self.source.read()), None)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("engine", "path"), [("docker", "run/docker.sock"), ("podman", "run/podman/podman.sock")])
def test_an_engine_tells_name_and_image_and_is_asked_once(root: Path, engine: str, path: str) -> None:
    container = Container(ID, engine)
    engines = Engines(root, container)
    with daemon(root / path) as server:
        assert [engines.look().health for _ in range(3)] == [[], [], []]
        assert server.asked == [f"/containers/{ID}/json"]
    assert engines.names.labels(container) == {"container": "trainer", "image": "nvcr.io/nvidia/pytorch:25.10-py3"}
    engines.names.want([])
    engines.look()
    assert engines.names.labels(container) == {}


@pytest.mark.usefixtures("patient")
def test_a_container_that_the_engine_does_not_know_is_asked_for_again_later(root: Path) -> None:
    engines = Engines(root, Container(OTHER, "docker"))
    with daemon(root / "run/docker.sock") as server:
        for _ in range(3):
            assert engines.look().health == []
        assert len(server.asked) == 1
        engines.clock.sleep(AGAIN_S)
        engines.look()
        assert len(server.asked) == 2


@pytest.mark.usefixtures("patient")
def test_an_engine_that_fails_is_one_health_row_until_it_answers(root: Path) -> None:
    engines = Engines(root, Container(ID, "docker"), Container(OTHER, "docker"))
    with daemon(root / "run/docker.sock") as server:
        server.status = 500
        (health,) = engines.look().health
        assert (health.subject, health.state) == ("docker", "failed")
        assert "500" in health.why
        server.status = 200
        engines.clock.sleep(AGAIN_S)
        assert engines.look().health == []


def test_an_engine_that_hangs_costs_a_second_and_then_rests(root: Path) -> None:
    (root / "run").mkdir()
    engines = Engines(root, Container(ID, "docker"), Container(OTHER, "docker"))
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(root / "run/docker.sock"))
        silent.listen()
        (health,) = engines.look().health
        assert (health.state, "timed out" in health.why) == ("failed", True)
        silent.settimeout(0)
        silent.accept()[0].close()
        engines.look()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_an_answer_that_is_no_json_is_a_failure_and_no_crash(root: Path) -> None:
    (root / "run").mkdir()
    engines = Engines(root, Container(ID, "docker"))
    with socket.socket(socket.AF_UNIX) as garbled:
        garbled.bind(str(root / "run/docker.sock"))
        garbled.listen()
        Thread(target=lambda: garbled.accept()[0].sendall(b"\x00garbage\n"), daemon=True).start()
        (health,) = engines.look().health
    assert health.state == "failed"


def test_an_engine_that_drips_is_one_that_hangs(root: Path) -> None:
    (root / "run").mkdir()
    engines, stop = Engines(root, Container(ID, "docker")), Event()
    with socket.socket(socket.AF_UNIX) as slow:
        slow.bind(str(root / "run/docker.sock"))
        slow.listen()

        def drip() -> None:
            connection, _ = slow.accept()
            with connection, suppress(OSError):
                while not stop.wait(0.1):
                    connection.sendall(b"H")

        thread = Thread(target=drip, daemon=True)
        thread.start()
        (health,) = engines.look().health
        stop.set()
        thread.join(10)
    assert (health.state, "time" in health.why) == ("failed", True)


@pytest.mark.parametrize(
    "stored", ['{"a": 1}', "[1]", f'[{{"id": "{ID}", "metadata": "[]"}}]', f'[{{"id": "{ID}", "names": 7}}]']
)
def test_a_storage_of_another_shape_is_a_failure_and_no_crash(root: Path, stored: str) -> None:
    storage = root / "var/lib/containers/storage/overlay-containers"
    storage.mkdir(parents=True)
    (storage / "containers.json").write_text(stored)
    (health,) = Engines(root, Container(ID, "podman")).look().health
    assert (health.subject, health.state) == ("podman", "failed")


def test_a_name_that_is_no_text_is_one_all_the_same(root: Path) -> None:
    storage = root / "var/lib/containers/storage/overlay-containers"
    storage.mkdir(parents=True)
    (storage / "containers.json").write_text(json.dumps([{"id": ID, "names": ["a\udcff"]}]))
    container = Container(ID, "podman")
    engines = Engines(root, container)
    assert engines.look().health == []
    assert engines.names.labels(container) == {"container": "a?"}


def test_no_socket_matters_only_where_its_containers_run(root: Path) -> None:
    assert Engines(root).look().health == []
    (health,) = Engines(root, Container(ID, "docker")).look().health
    assert (health.subject, health.state) == ("docker", "unsupported")
    assert "mount /run/docker.sock" in health.why


def test_podman_without_a_daemon_is_read_from_its_storage(root: Path) -> None:
    storage = root / "var/lib/containers/storage/overlay-containers"
    storage.mkdir(parents=True)
    metadata = json.dumps({"image-name": "docker.io/vllm/vllm-openai:v0.11"})
    (storage / "containers.json").write_text(json.dumps([{"id": ID, "names": ["vllm"], "metadata": metadata}]))
    container = Container(ID, "podman")
    engines = Engines(root, container)
    assert engines.look().health == []
    assert engines.names.labels(container) == {"container": "vllm", "image": "docker.io/vllm/vllm-openai:v0.11"}


@contextmanager
def serving(path: Path, service: str, **answers: Message) -> Iterator[list[str]]:
    """A gRPC server at a socket with a service whose methods have one answer each; yields the methods asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    asked: list[str] = []

    def method(name: str, answer: Message) -> grpc.RpcMethodHandler:
        def serve(_request: bytes, _context: grpc.ServicerContext) -> bytes:
            asked.append(name)
            return answer.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(serve)

    handlers = {name: method(name, answer) for name, answer in answers.items()}
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield asked
    finally:
        server.stop(None).wait()
        path.unlink(missing_ok=True)


@contextmanager
def kubelet(root: Path, answer: api.ListPodResourcesResponse) -> Iterator[None]:
    """The kubelet's service at its socket."""
    with serving(root.joinpath(*SOCKET), "v1.PodResourcesLister", List=answer):
        yield


def pod(name: str, resource: str = "", driver: str = "") -> api.PodResources:
    """A pod of one container that was given a device of `resource`, or a claim of `driver`."""
    devices = [api.ContainerDevices(resource_name=resource, device_ids=["GPU-1"])] if resource else []
    claims = [api.DynamicResource(claim_resources=[api.ClaimResource(driver_name=driver)])] if driver else []
    container = api.ContainerResources(name="main", devices=devices, dynamic_resources=claims)
    return api.PodResources(name=name, namespace="team-a", containers=[container])


@pytest.mark.usefixtures("patient")
def test_the_kubelet_tells_which_pods_hold_gpus(root: Path) -> None:
    names = Names()
    source = KubeletSource(Agent(root=root), names)
    pods = [
        pod("train-0", "nvidia.com/gpu"), pod("mig-0", "nvidia.com/mig-1g.10gb"), pod("dra-0", driver="gpu.nvidia.com"),
        pod("web-0"), pod("fpga-0", "intel.com/fpga"),
    ]  # fmt: skip
    with kubelet(root, api.ListPodResourcesResponse(pod_resources=pods)):
        source.parse(Sample(0.0, 0.0, 10.0, source.read()), None)
        assert [each.name for each in pods if names.has_gpu(("team-a", each.name))] == ["train-0", "mig-0", "dra-0"]
        source.close()


@pytest.mark.usefixtures("patient")
def test_a_kubelet_that_went_away_is_an_error_and_one_that_comes_back_is_found(root: Path) -> None:
    source = KubeletSource(Agent(root=root), Names())
    assert list(source.read()) == []
    answer = api.ListPodResourcesResponse(pod_resources=[pod("train-0", "nvidia.com/gpu")])
    with kubelet(root, answer):
        assert len(list(source.read())) == 1
    with pytest.raises(SourceError, match=r"kubelet\.sock: (UNAVAILABLE|DEADLINE)"):
        source.read()
    with kubelet(root, answer):
        assert len(list(source.read())) == 1
    source.close()


def test_a_socket_that_does_not_answer_is_bounded(root: Path) -> None:
    path = root.joinpath(*SOCKET)
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(SourceError, match="see the log of who serves it"):
            KubeletSource(Agent(root=root), Names()).read()


def runtime(root: Path) -> Any:
    """containerd with one pod of one container."""
    labels = {"kueue.x-k8s.io/queue-name": "research", "team": "speech", "job-name": "train", "app": "x"}
    metadata = cri.PodSandboxMetadata(name="train-x2x4z", uid="u-1", namespace="team-a")
    sandbox = cri.PodSandbox(id="aa" * 32, metadata=metadata, labels=labels)
    made = cri.Container(id=ID, pod_sandbox_id="aa" * 32, image=cri.ImageSpec(image="sha256:1"))
    made.metadata.name, made.image.user_specified_image = "main", "vllm/vllm-openai:v0.11"
    return serving(
        root / "run/containerd/containerd.sock",
        "runtime.v1.RuntimeService",
        ListPodSandbox=cri.ListPodSandboxResponse(items=[sandbox]),
        ListContainers=cri.ListContainersResponse(containers=[made, cri.Container(id=OTHER)]),
    )


@pytest.mark.usefixtures("patient")
def test_the_runtime_tells_the_labels_of_pods_and_is_asked_only_for_what_is_not_known(root: Path) -> None:
    names = Names()
    source = RuntimeSource(Agent(root=root), names)

    def look() -> None:
        source.parse(Sample(0.0, 0.0, 10.0, source.read()), None)

    with runtime(root) as asked:
        look()
        assert asked == []  # nobody wants it
        names.want([Container(ID, "containerd", "u-1"), Container("5a" * 32, "", "u-2")])
        look()
        look()
        assert sorted(asked) == ["ListContainers", "ListPodSandbox"]
        source.close()
    assert names.labels(Container(ID)) == {
        "queue": "research", "team": "speech", "owner_kind": "Job", "owner": "train", "namespace": "team-a",
        "pod": "train-x2x4z", "container": "main", "image": "vllm/vllm-openai:v0.11",
    }  # fmt: skip
    names.want([])
    look()
    assert names.labels(Container(ID)) == {}


def test_a_kubelet_that_hangs_holds_up_no_other_source(root: Path) -> None:
    """The agent measures this host, with a kubelet's socket that nobody answers at."""
    for name in ("proc", "sys"):
        (root / name).symlink_to(f"/{name}")
    path = root.joinpath(*SOCKET)
    path.parent.mkdir(parents=True)
    log = root / "log"

    def rows(topic: str) -> list[dict[str, Any]]:
        whole, _, _ = log.read_text().rpartition("\n")  # the last line may be half written
        return agents.json_rows(whole).get(topic, [])

    def states() -> dict[tuple[str, str], str]:
        return {(row["source"], row["subject"]): row["state"] for row in rows("source-health")}

    def on_time() -> int:
        """Steps of one tick. A busy machine misses some; a source that waited for the kubelet would have none."""
        return sum(b - a < 0.2 + 1e-3 for a, b in pairwise(row["ts"] for row in rows("host-samples")))

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        asked = agents.settings(root, Kafka(bootstrap_servers="127.0.0.1:1"), root=root)
        with agents.running(asked, "--dry-run", "--json", log=log):
            until(lambda: {("kubernetes", ""), ("host", ""), ("jobs", "")} <= states().keys(), "their words", 120)
            told = next(row for row in rows("source-health") if row["source"] == "kubernetes")
            assert told["state"] == "failed"
            assert "kubelet.sock" in told["why"]
            assert (states()["host", ""], states()["jobs", ""]) == ("ok", "ok")
            until(lambda: on_time() >= 10, "ten ticks in time beside a kubelet that always hangs", 120, 0.5)
