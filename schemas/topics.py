"""The topic table: what travels on the bus, and where it lands."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from warpmeter.schemas.generated import (
    alert_words_pb2,
    alerts_pb2,
    capture_commands_pb2,
    capture_events_pb2,
    capture_requests_pb2,
    capture_schedules_pb2,
    dead_letters_pb2,
    device_samples_pb2,
    gpu_events_pb2,
    gpu_processes_pb2,
    gpu_samples_pb2,
    host_samples_pb2,
    job_events_pb2,
    metric_samples_pb2,
    report_events_pb2,
    source_health_pb2,
    stack_samples_pb2,
)

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
MIB: Final = 1 << 20


def row_type(envelope: type[Message]) -> Descriptor:
    """The descriptor of the rows in an Envelope."""
    return cast(Descriptor, envelope.DESCRIPTOR.fields_by_name["rows"].message_type)


@dataclass(frozen=True)
class Topic:
    """One topic: `name` without the prefix, the type of its Envelope, and how it is created.

    A Kafka value is one serialised `envelope` with the rows of one tick of one key.
    """

    name: str
    envelope: type[Message]
    key: str
    meaning: str
    partitions: int = 12
    retention_ms: int = DAY_MS
    max_message_bytes: int = MIB

    @property
    def message(self) -> str:
        """Name of the row message, e.g. `GpuSample`: the header `type`, and the name ClickHouse is given."""
        return row_type(self.envelope).name

    @property
    def table(self) -> str:
        """The raw table its rows land in."""
        return self.name.replace("-", "_")

    @property
    def proto(self) -> str:
        """The `.proto` text, as ClickHouse gets it inline (`format_schema_source = 'string'`)."""
        return (resources.files("warpmeter") / "schemas" / f"{self.table}.proto").read_text()

    def full_name(self, prefix: str) -> str:
        """The name on the broker, e.g. `warpmeter.gpu-samples`."""
        return f"{prefix}.{self.name}"


_TABLE: Final = (
    Topic("gpu-samples", gpu_samples_pb2.Envelope, "host", "one GPU or MIG instance, one instant"),
    Topic("gpu-processes", gpu_processes_pb2.Envelope, "host", "one process on one GPU, every 10 s"),
    Topic("gpu-events", gpu_events_pb2.Envelope, "host", "something happened to a GPU: an XID, raised or cleared"),
    Topic("host-samples", host_samples_pb2.Envelope, "host", "one host, one instant"),
    Topic("device-samples", device_samples_pb2.Envelope, "host", "one NIC, RDMA port, disk, mount, NUMA node, socket"),
    Topic("metric-samples", metric_samples_pb2.Envelope, "host", "one value of a scraped Prometheus exporter"),
    Topic("job-events", job_events_pb2.Envelope, "host", "a job's process tree started, runs, ended"),
    Topic("stack-samples", stack_samples_pb2.Envelope, "host", "one stack of one thread, as often as it was seen"),
    Topic("source-health", source_health_pb2.Envelope, "host", "how a source of an agent fares"),
    # One partition: its consumer group has one active member, which is how the scheduler is elected.
    # Who is elected reads it again, and the events, so both are kept for longer than any capture goes on (14 days).
    Topic(
        "capture-requests",
        capture_requests_pb2.Envelope,
        "capture_id",
        "a capture is asked for, or its end",
        partitions=1,
        retention_ms=15 * DAY_MS,
    ),
    Topic(
        "capture-schedules",
        capture_schedules_pb2.Envelope,
        "name",
        "a schedule of captures is set or removed",
        partitions=1,
        retention_ms=15 * DAY_MS,
    ),
    Topic("capture-commands", capture_commands_pb2.Envelope, "host", "what a host's agent is to capture"),
    Topic(
        "capture-events",
        capture_events_pb2.Envelope,
        "capture_id",
        "a capture, or a process in it, has a new state",
        retention_ms=15 * DAY_MS,
    ),
    # The scheduler that is elected reads alerts, and what people said of them, to go on where the one before it was.
    Topic(
        "alerts", alerts_pb2.Envelope, "alert_id", "an alert reached a state", partitions=1, retention_ms=15 * DAY_MS
    ),
    Topic(
        "alert-words",
        alert_words_pb2.Envelope,
        "subject",
        "somebody silences alerts, or takes care of one",
        partitions=1,
        retention_ms=15 * DAY_MS,
    ),
    Topic(
        "report-events",
        report_events_pb2.Envelope,
        "report_id",
        "a report was rendered, or delivered to a target",
        partitions=1,
        retention_ms=15 * DAY_MS,
    ),
    Topic(
        "dead-letters",
        dead_letters_pb2.Envelope,
        "topic/partition/offset",
        "a message that could not be stored, as it came, and why",
        partitions=1,
        retention_ms=14 * DAY_MS,
        max_message_bytes=16 * MIB,  # above the sources' limit: it carries what they carried
    ),
)

TOPICS: Final[Mapping[str, Topic]] = {topic.name: topic for topic in _TABLE}
