"""Rows with every measured field set, as no single host ever has them."""

from typing import Any, Final

from google.protobuf.message_factory import GetMessageClass

from warpmeter.schemas.metrics import of_topic
from warpmeter.schemas.topics import TOPICS, row_type

IDENTITY: Final[dict[str, dict[str, Any]]] = {
    "gpu-samples": {
        "gpu": 3,
        "uuid": "GPU-3",
        "model": "H100",
        "job_ids": ["a", "b"],
        "job_share_permille": [250, 750],
    },
    "gpu-processes": {"gpu": 3, "uuid": "GPU-3", "pid": 7, "job_id": "a", "name": "python", "user": "ann"},
    "gpu-events": {
        "gpu": 3,
        "uuid": "GPU-3",
        "kind": "xid",
        "code": 79,
        "what": "fallen off the bus",
        "state": "raised",
    },
    "host-samples": {"kernel": "6.1", "agent_version": "0.1"},
    "device-samples": {"kind": "nic", "device": "eth0"},
    "job-events": {"job_id": "a", "event": "running", "pid": 7, "name": "train", "user": "ann", "scheduler": "slurm"},
    "source-health": {"source": "gpu", "subject": "GPU-3/fan", "state": "unsupported"},
}
DEVICES: Final = ("nic", "rdma", "disk", "mount", "numa", "socket")


def full_row(topic: str, value: int = 1, **fields: Any) -> Any:
    """A row of the topic: all its metrics at `value` in stored units, told apart as in IDENTITY unless `fields` say."""
    about = {"host": "gpu01", "ts": 1.8e9, **IDENTITY[topic], **fields}
    if topic != "gpu-events":
        about.setdefault("period_ms", 1000)
    measured = {metric.column: value for metric in of_topic(topic)}
    return GetMessageClass(row_type(TOPICS[topic].envelope))(**{**measured, **about})


def everything() -> dict[str, list[Any]]:
    """A tick of all topics of IDENTITY."""
    rows = {topic: [full_row(topic)] for topic in IDENTITY}
    rows["device-samples"] = [full_row("device-samples", kind=kind, device=f"{kind}0") for kind in DEVICES]
    return rows
