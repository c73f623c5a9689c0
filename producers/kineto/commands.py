"""Commands for this host off the bus: one partition is read, without a group, by a long poll.

Reading begins some minutes back: what an agent that was away would have been told, and what is not too late. The desk
does nothing twice.
"""

import time
from collections.abc import Callable
from threading import Event
from typing import Final, cast

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage
from google.protobuf.message import DecodeError

from warpmeter import bus, log
from warpmeter.producers.kineto.captures import CaptureCommand
from warpmeter.registry import FramingError, unframed
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Agent, Kafka
from warpmeter.wire import unpack

TOPIC: Final = TOPICS["capture-commands"]
GROUP: Final = "agent"
"""Of the prefix. librdkafka wants a name; nothing joins it or commits to it."""
LOOK_BACK_S: Final = 300.0
TIMEOUT_S: Final = 5.0
AGAIN_S: Final = 5.0
POLL_S: Final = 0.5
EMBEDDED: Final = "warpmeter"
"""How the clusters of embedded brokers are called (`warpmeter.tansu`)."""
EMBEDDED_WAIT_S: Final = 0.5
CHECK_S: Final = 300.0
"""So often it is looked whether the topic has more partitions, or is another one, by now."""
OPTIONS: Final[bus.Options] = {
    "auto.offset.reset": "latest",
    "queued.max.messages.kbytes": 1024,
    "fetch.message.max.bytes": 1 << 20,
    "fetch.max.bytes": 2 << 20,
    "allow.auto.create.topics": False,
    "log_level": 2,
}
logger = log.get("kineto")

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995
MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key (org.apache.kafka.common.utils.Utils.murmur2), as an unsigned number of 32 bits."""
    value = SEED ^ len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * M & MASK
        value = (value * M & MASK) ^ ((word ^ word >> 24) * M & MASK)
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * M & MASK
    value = (value ^ value >> 13) * M & MASK
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Where the Java clients' partitioner, and librdkafka's `murmur2_random`, put a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Commands:
    """The reader. `take` gets each command, from the thread that runs it; `why` says what keeps it from reading."""

    def __init__(self, kafka: Kafka, agent: Agent, take: Callable[[CaptureCommand], None]) -> None:
        """Connects in the background; raises KafkaException for refused options."""
        self.why = ""
        self._kafka, self._host, self._take = kafka, agent.host, take
        self._name = TOPIC.full_name(kafka.topic_prefix)
        self._complaint = ""
        self._wait_s, self._fresh = agent.command_wait_s, True
        self._consumer = self._opened()

    def run(self, stop: Event) -> None:
        """Read until `stop`."""
        assigned: tuple[int, int] | None = None
        checked = float("-inf")
        while not stop.is_set():
            if time.monotonic() - checked > CHECK_S or assigned is None:
                checked, found = time.monotonic(), self._found()
                if found is None:
                    stop.wait(AGAIN_S)
                    continue
                if found != assigned or self._fresh:
                    assigned = found if self._assign(found[1]) else None
            self._poll()
        self._consumer.close()

    def _found(self) -> tuple[int, int] | None:
        """How many partitions there are, and which is this host's; None when the broker does not say."""
        try:
            known = self._consumer.list_topics(self._name, timeout=TIMEOUT_S)
        except KafkaException as error:
            self.why = bus.said(error, self._kafka, self._complaint)
            return None
        self._ask_often(str(known.cluster_id))
        topic = known.topics[self._name]
        if topic.error is not None and topic.error.code() in bus.FORBIDDEN:
            self.why = bus.forbidden(self._kafka, f"Read on topic {self._name}")
            return None
        if topic.error is not None or not topic.partitions:
            self.why = f"there is no topic {self._name}: `warpmeter topics --create` makes it"
            return None
        return len(topic.partitions), partition_of(self._host.encode(), len(topic.partitions))

    def _opened(self) -> Consumer:
        waits: bus.Options = {"fetch.wait.max.ms": round(self._wait_s * 1000)}
        asked = bus.options(self._kafka, bus.CONSUMER, {"group.id": self._kafka.group(GROUP)}, OPTIONS, waits)
        return Consumer(asked, error_cb=self._complain)

    def _ask_often(self, cluster_id: str) -> None:
        """Of the embedded broker, which answers a long poll when its time is over, whatever came meanwhile."""
        if cluster_id.startswith(EMBEDDED) and self._wait_s > EMBEDDED_WAIT_S:
            self._consumer.close()
            self._wait_s, self._fresh = EMBEDDED_WAIT_S, True
            self._consumer = self._opened()

    def _assign(self, partition: int) -> bool:
        since = TopicPartition(self._name, partition, int((time.time() - LOOK_BACK_S) * 1000))
        try:
            (found,) = self._consumer.offsets_for_times([since], timeout=TIMEOUT_S)
            offset = found.offset if found.offset >= 0 else OFFSET_END
            self._consumer.assign([TopicPartition(self._name, partition, offset)])
        except KafkaException as error:
            self.why = bus.said(error, self._kafka, self._complaint, f"Read on topic {self._name}")
            return False
        self.why, self._fresh = "", False
        return True

    def _poll(self) -> None:
        message = self._consumer.poll(POLL_S)
        if message is None:
            return
        error = message.error()
        if error is None:
            self._read(message)
        elif error.code() in bus.AWAY:
            self.why = f"Kafka at {self._kafka.bootstrap_servers}: {error.str()}"
        else:
            grouped = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
            right = f"Describe on group {self._kafka.group(GROUP)}" if grouped else f"Read on topic {self._name}"
            logger.warning("cannot read commands", why=bus.refusal(error, self._kafka, right))

    def _read(self, message: KafkaMessage) -> None:
        self.why = ""
        value = message.value()
        try:
            rows = unpack(TOPIC, unframed(value if isinstance(value, bytes) else b""))
        except (DecodeError, FramingError) as error:
            logger.warning("a command that cannot be read is left out", why=str(error), offset=message.offset())
            return
        for row in cast("list[CaptureCommand]", rows):
            if row.host == self._host:
                self._take(row)

    def _complain(self, error: KafkaError) -> None:
        self._complaint = str(error.str())
        if error.code() in bus.AWAY:
            self.why = f"Kafka at {self._kafka.bootstrap_servers}: {self._complaint}"
