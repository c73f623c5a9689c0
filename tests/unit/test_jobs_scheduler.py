"""What environments say of jobs: Slurm, Kubernetes, torchrun, MPI."""

import pytest

from warpmeter.producers.jobs.scheduler import Membership, Rank, membership, pod_owner, rank

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
    assert pod_owner(pod) == owner


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
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}, Rank(3, 4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, Rank()),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "batch"}, Rank()),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "8"}, Rank(2, 8)),
        ({"PMI_RANK": "1"}, Rank(1, None)),
        ({"RANK": "banana", "WORLD_SIZE": "8"}, Rank()),
        ({}, Rank()),
    ],
)
def test_ranks(variables: dict[str, str], expected: Rank) -> None:
    assert rank(variables) == expected
