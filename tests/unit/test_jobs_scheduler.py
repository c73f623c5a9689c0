"""What environments say of jobs: Slurm, Kubernetes, torchrun, MPI."""

import pytest

from warpmeter.producers.jobs.pods import Pod, name_of_owner
from warpmeter.producers.jobs.scheduler import Membership, Rank, launch_labels, membership, rank

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NAME": "llama",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_ACCOUNT": "nlp",
    "SLURM_JOB_PARTITION": "h100",
}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-7-x2x4z"}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "run-9",
    "RANK": "5",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
}


def test_no_variable_names_no_job() -> None:
    assert membership({"RANK": "0", "WORLD_SIZE": "8"}) is None


def test_slurm() -> None:
    found = membership(SLURM)
    assert found == Membership("slurm", "4711", "llama", "ada", {"account": "nlp", "partition": "h100"})


def test_slurm_array_tasks_and_steps_are_labels() -> None:
    found = membership({**SLURM, "SLURM_ARRAY_JOB_ID": "4700", "SLURM_ARRAY_TASK_ID": "11", "SLURM_STEP_ID": "0"})
    assert found is not None
    assert (found.labels["array_job"], found.labels["array_task"], found.labels["step"]) == ("4700", "11", "0")


def test_the_outermost_scheduler_names_the_job() -> None:
    found = membership({**SLURM, **TORCHRUN})
    assert found is not None
    assert (found.scheduler, found.job_id) == ("slurm", "4711")


def test_a_pod_with_gpus_is_a_job_of_its_owner() -> None:
    found = membership({**POD, "NVIDIA_VISIBLE_DEVICES": "GPU-1", "POD_NAMESPACE": "research"})
    assert found is not None
    assert (found.scheduler, found.job_id, found.name) == ("kubernetes", "research/train", "train")
    assert found.labels == {"pod": "train-7-x2x4z", "namespace": "research"}


def test_a_pod_of_an_indexed_job_is_a_job_without_gpus() -> None:
    found = membership({**POD, "JOB_COMPLETION_INDEX": "7"})
    assert found is not None
    assert found.job_id == "train"


@pytest.mark.parametrize("devices", ["", "void", "none", None])
def test_the_furniture_of_a_node_is_no_job(devices: str | None) -> None:
    assert membership(POD | ({} if devices is None else {"NVIDIA_VISIBLE_DEVICES": devices})) is None


@pytest.mark.parametrize(
    ("pod", "owner"),
    [
        ("web-7d9f8b6c5d-x2x4z", "web"),
        ("train-x2x4z", "train"),
        ("train-3-x2x4z", "train"),
        ("db-0", "db"),
        ("llama-worker-12", "llama"),
        ("llama-master-0", "llama"),
        ("notebook", "notebook"),
        ("7", "7"),
    ],
)
def test_pods_of_one_owner_share_a_name(pod: str, owner: str) -> None:
    assert name_of_owner(pod) == owner


def test_torchrun_with_a_run_id() -> None:
    assert membership(TORCHRUN) == Membership("torchrun", "run-9")


def test_torchrun_without_a_run_id_over_hosts_is_its_rendezvous() -> None:
    assert membership({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}) == Membership("torchrun", "gpu01:29500")


def test_torchrun_without_a_run_id_on_one_host_is_its_launcher() -> None:
    found = membership({**TORCHRUN, "TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "8"})
    assert found == Membership("torchrun", None)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (TORCHRUN, Rank(5, 16)),
        ({**TORCHRUN, "LOCAL_RANK": "5"}, Rank(5, 16, 5)),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "1"}, Rank(3, 4, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, Rank()),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "batch"}, Rank()),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "8"}, Rank(2, 8)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "PMIX_RANK": "2"}, Rank(2, None, 1)),
        ({"PMI_RANK": "1"}, Rank(1, None)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}, Rank(1, 2, 0)),
        ({"PMIX_RANK": "7"}, Rank(7)),
        ({"RANK": "banana", "WORLD_SIZE": "8"}, Rank()),
        ({"RANK": "4294967296", "WORLD_SIZE": "8"}, Rank()),
        ({"RANK": "3", "WORLD_SIZE": "9" * 5000, "LOCAL_RANK": "-1"}, Rank(3)),
        ({}, Rank()),
    ],
)
def test_ranks(variables: dict[str, str], expected: Rank) -> None:
    assert rank(variables) == expected


def test_a_slurm_job_tells_its_nodes() -> None:
    found = membership({**SLURM, "SLURM_JOB_NODELIST": "gpu[001-016]"})
    assert found is not None
    assert found.labels["node_list"] == "gpu[001-016]"


def test_a_pod_that_the_kubelet_gave_gpus_is_a_job_whatever_its_environment_says() -> None:
    """With CDI the runtime sets NVIDIA_VISIBLE_DEVICES to void."""
    labels = {"owner": "llama-9", "owner_kind": "PyTorchJob", "queue": "research"}
    pod = Pod("team-a", "llama-9-worker-3", labels, has_gpu=True)
    found = membership({"NVIDIA_VISIBLE_DEVICES": "void", "HOSTNAME": "elsewhere"}, pod)
    assert found == Membership(
        "kubernetes", "team-a/llama-9", "llama-9", "", {**labels, "pod": "llama-9-worker-3", "namespace": "team-a"}
    )
    assert membership({}, Pod("kube-system", "coredns-7d9f8b6c5d-x2x4z")) is None


def test_mpi_with_pmix_is_one_job_on_all_hosts() -> None:
    found = membership({"OMPI_COMM_WORLD_RANK": "2", "PMIX_NAMESPACE": "prterun-gpu01-4711@1"})
    assert found == Membership("mpi", "mpi-prterun-gpu01-4711@1")


def test_mpi_without_a_name_is_its_launcher() -> None:
    assert membership({"PMI_RANK": "1", "PMI_SIZE": "4"}) == Membership("mpi", None)


def test_how_a_rank_was_launched_is_told_whoever_scheduled_it() -> None:
    assert launch_labels({**SLURM, **TORCHRUN}) == {
        "run_id": "run-9", "local_world_size": "8", "rendezvous": "gpu01:29500"
    }  # fmt: skip
    assert launch_labels({"TORCHELASTIC_RUN_ID": "none", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"})["local_world_size"] == "4"
    assert launch_labels({"MASTER_ADDR": "in-every-shell", "TORCHELASTIC_RUN_ID": "none"}) == {}
