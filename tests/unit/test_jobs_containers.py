"""Containers by their cgroup, pods by the kubelet's files, and what the job source makes of both."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakeproc import BTIME, Fake, FakeProc
from warpmeter.producers.jobs.containers import Container, container_of, inner_pid
from warpmeter.producers.jobs.naming import Names
from warpmeter.producers.jobs.pods import Pod, PodFiles, parse_downward, pod_labels
from warpmeter.producers.jobs.source import JobSource
from warpmeter.producers.source import Attribution, Sample
from warpmeter.schemas.labels import LABELS
from warpmeter.settings import Agent

ID = "3f" * 32
UID = "2c48913c-b29f-11e7-9350-020968147796"
SLICE = UID.replace("-", "_")
DOWNWARD = b"""kueue.x-k8s.io/queue-name="research"
kueue.x-k8s.io/priority-class="high"
team="speech"
training.kubeflow.org/job-name="llama-9"
training.kubeflow.org/operator-name="pytorchjob-controller"
secret-sauce="42"
"""


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
        ("", None),
        (f"0::/system.slice/docker-{ID}.scope\n", Container(ID, "docker")),
        (f"12:cpu,cpuacct:/docker/{ID}\n0::/\n", Container(ID, "docker")),
        (f"1:name=systemd:/docker/{'aa' * 32}/docker/{ID}\n", Container(ID, "docker")),  # Docker in Docker
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", Container(ID, "podman")),
        (f"4:memory:/libpod_parent/libpod-{ID}\n", Container(ID, "podman")),
        (
            f"0::/user.slice/user-7.slice/user@7.service/libpod-{ID}.scope/container\n",
            Container(ID, "podman"),
        ),
        (f"0::/default/{ID}\n", Container(ID)),  # nerdctl
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice/cri-containerd-{ID}.scope\n",
            Container(ID, "containerd", UID),
        ),
        (f"9:memory:/kubepods/besteffort/pod{UID}/{ID}\n", Container(ID, "", UID)),
        (f"9:memory:/kubepods-pod{SLICE}.slice:cri-containerd:{ID}\n", Container(ID, "containerd", UID)),
        (f"0::/kubepods.slice/kubepods-pod{SLICE}.slice/crio-{ID}.scope/container\n", Container(ID, "cri-o", UID)),
        (f"0::/kubepods.slice/kubepods-pod{SLICE}.slice/docker-{ID}.scope\n", Container(ID, "docker", UID)),
        (f"0::/kubepods/pod{UID.replace('-', '')}/{ID}\n", Container(ID, "", UID.replace("-", ""))),  # a static pod
    ],
)
def test_the_cgroup_tells_the_container(cgroup: str, expected: Container | None) -> None:
    assert container_of(cgroup.encode()) == expected


def test_the_pid_inside() -> None:
    assert inner_pid(b"Name:\tx\nNSpid:\t4711\t12\t7\n") == "7"
    assert inner_pid(b"Name:\tx\nNSpid:\t4711\n") == ""
    assert inner_pid(b"") == ""


class Node:
    """The kubelet's files of one pod below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs = root / "var/log/pods" / f"team-a_llama-9-worker-3_{UID}"
        self.logs.mkdir(parents=True)
        links = root / "var/log/containers"
        links.mkdir()
        (links / f"llama-9-worker-3_team-a_pytorch-{ID}.log").touch()
        volume = root / "var/lib/kubelet/pods" / UID / "volumes/kubernetes.io~downward-api/podinfo"
        volume.mkdir(parents=True)
        (volume / "labels").write_bytes(DOWNWARD)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one pod."""
    return Node(tmp_path)


def test_the_kubelets_files_tell_the_pod(node: Node) -> None:
    labels = {
        "queue": "research", "priority_class": "high", "team": "speech", "owner_kind": "PyTorchJob", "owner": "llama-9",
    }  # fmt: skip
    found = PodFiles(node.root)
    assert found.pod(UID) == Pod("team-a", "llama-9-worker-3", labels)
    assert found.container_name(Container(ID)) == "pytorch"
    assert found.pod("another") is None
    assert found.container_name(Container("00" * 32)) == ""


def test_a_pod_is_read_once_and_forgotten_when_it_is_gone(node: Node) -> None:
    found = PodFiles(node.root)
    first = found.pod(UID)
    shutil.rmtree(node.logs)
    found.keep([Container(ID, "containerd", UID)])
    assert found.pod(UID) == first
    found.keep([])
    assert found.pod(UID) is None


def test_downward_files_are_read_as_go_quotes() -> None:
    assert parse_downward(b'a="x \\"y\\" \\\\ z"\nbroken\nb="\xc3\xa9"\n') == {"a": 'x "y" \\ z', "b": "é"}


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({"batch.kubernetes.io/job-name": "train", "job-name": "train"}, ("Job", "train")),
        ({"job-name": "old"}, ("Job", "old")),
        ({"jobset.sigs.k8s.io/jobset-name": "set", "job-name": "set-w-0"}, ("JobSet", "set")),
        ({"ray.io/cluster": "ray"}, ("RayCluster", "ray")),
        ({"training.kubeflow.org/job-name": "x"}, ("TrainingJob", "x")),
        ({"volcano.sh/job-name": "v"}, ("VolcanoJob", "v")),
        ({}, None),
    ],
)
def test_controllers_write_their_name_on_every_pod(labels: dict[str, str], owner: tuple[str, str] | None) -> None:
    found = pod_labels(labels, {})
    assert (("owner" in found) and (found["owner_kind"], found["owner"])) == (owner or False)


class Host:
    """A job source over a made-up node; `look()` is one tick, 2 s after the last."""

    def __init__(self, node: Node) -> None:
        self.proc = FakeProc(node.root)
        self.names = Names()
        self.source = JobSource(Agent(host="gpu01", root=node.root), Attribution(), self.names)
        self.uptime = 100.0

    def put(self, pid: int, cgroup: str, **environ: str) -> None:
        """A python in a container, started by its shim."""
        self.proc.put(Fake(20, 1, "containerd-shim", ["containerd-shim-runc-v2"], start=500))
        self.proc.put(Fake(pid, 20, "python3", ["python3", "t.py"], start=3000, cgroup=cgroup, environ=environ))

    def look(self) -> list[Any]:
        """Its events."""
        self.uptime += 2
        sample = Sample(BTIME + self.uptime, 5000 + self.uptime, 2.0, self.source.read())
        return list(self.source.parse(sample, None).rows)


POD_CGROUP = f"0::/kubepods.slice/kubepods-pod{SLICE}.slice/cri-containerd-{ID}.scope\n"


def test_a_pods_job_has_its_owner_queue_and_container(node: Node) -> None:
    host = Host(node)
    host.put(30, POD_CGROUP, NVIDIA_VISIBLE_DEVICES="GPU-1", HOSTNAME="llama-9-worker-3")
    row = host.look()[0]
    assert (row.job_id, row.scheduler, row.name) == ("team-a/llama-9", "kubernetes", "llama-9")
    told = {
        "namespace": "team-a",
        "pod": "llama-9-worker-3",
        "container": "pytorch",
        "queue": "research",
        "pod_uid": UID,
    }
    assert told.items() <= dict(row.labels).items()
    assert set(row.labels) <= set(LABELS)
    assert "42" not in row.labels.values()


def test_a_pods_python_is_the_pods_job_before_and_after_the_kubelet_tells_of_its_gpus(node: Node) -> None:
    host = Host(node)
    host.put(30, POD_CGROUP)
    started, *_ = host.look()
    assert (started.event, started.scheduler, started.job_id) == ("started", "kubernetes", "team-a/llama-9")
    assert host.names.wanted == {ID: Container(ID, "containerd", UID)}
    host.names.set_gpu_pods(frozenset({("team-a", "llama-9-worker-3")}))
    assert {row.event for _ in range(5) for row in host.look()} == {"running"}


def test_ranks_that_torchrun_starts_in_a_pod_are_of_the_pods_job(node: Node) -> None:
    host = Host(node)
    host.put(30, POD_CGROUP)
    torchrun = {"TORCHELASTIC_RUN_ID": "run-9", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    for rank in range(2):
        environ = {**torchrun, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        host.proc.put(Fake(31 + rank, 30, "python3", ["python3", "t.py"], 3100, cgroup=POD_CGROUP, environ=environ))
    rows = [row for row in host.look() if row.event == "started"]
    assert {(row.job_id, row.scheduler) for row in rows} == {("team-a/llama-9", "kubernetes")}
    assert sorted((list(row.ranks), list(row.local_ranks), list(row.rank_pids)) for row in rows) == [
        ([], [], []), ([0], [0], [31]), ([1], [1], [32]),
    ]  # fmt: skip
    assert {row.labels["run_id"] for row in rows if row.ranks} == {"run-9"}


def test_any_program_of_a_pod_with_gpus_is_a_job_once_the_kubelet_tells(node: Node) -> None:
    host = Host(node)
    host.proc.put(Fake(30, 1, "a.out", ["./a.out"], start=3000, cgroup=POD_CGROUP))
    assert host.look() == []
    host.names.set_gpu_pods(frozenset({("team-a", "llama-9-worker-3")}))
    assert [(row.event, row.job_id) for row in host.look()][:1] == [("started", "team-a/llama-9")]


def test_a_docker_containers_name_comes_with_the_next_event(node: Node) -> None:
    host = Host(node)
    host.put(30, f"0::/system.slice/docker-{ID}.scope\n")
    row = host.look()[0]
    assert (row.scheduler, row.labels["runtime"], row.labels["container_id"]) == ("docker", "docker", ID)
    assert "container" not in row.labels
    host.names.set_containers({ID: {"container": "vllm", "image": "vllm/vllm-openai:v0.11"}})
    row = next(row for _ in range(6) for row in host.look() if row.event == "running")
    assert (row.labels["container"], row.labels["image"]) == ("vllm", "vllm/vllm-openai:v0.11")
