"""Asking for captures: a request, and its way onto the bus, acknowledged."""

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Message as KafkaMessage
from google.protobuf.message import Message

from warpmeter import bus, log, wire
from warpmeter.captures.wishes import Request
from warpmeter.registry import RegistryError, configured
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Kafka

REQUESTS: Final = TOPICS["capture-requests"]
TAKEN_S: Final = 10.0
"""A broker that is there takes a request in milliseconds."""
OPTIONS: Final[Mapping[str, bus.Value]] = {"message.timeout.ms": int(TAKEN_S * 1000), "enable.idempotence": False}
"""An idempotent producer is refused for ever by a broker that forgot it, as the embedded one that began anew; and that
a request comes twice does nothing: the scheduler knows it by its name."""
Delivered = Callable[[KafkaError | None, KafkaMessage | None], None]
"""What became of a message. No message where librdkafka knew already that the login may not write the topic."""


class NotTakenError(Exception):
    """The bus did not take a request, and will not take it later either; the message says why."""


class Sender:
    """Rows onto the bus: packed and, where a Schema Registry is set, framed. Threads may share it.

    `part`: whose log has librdkafka's lines. Raises KafkaException for options that librdkafka refuses.
    """

    def __init__(self, kafka: Kafka, part: str, extra: Mapping[str, bus.Value] | None = None) -> None:
        self._kafka, self._prefix, self._log = kafka, kafka.topic_prefix, log.get(part)
        self._producer = bus.producer(kafka, {"linger.ms": 2, **(extra or {})}, logger=bus.logger(part))
        self._registry = configured(kafka)
        self._refused = False

    def put(self, topic: Topic, key: str, rows: Sequence[Message], delivered: Delivered | None = None) -> None:
        """One message; `delivered` is called from a later `poll` or `flush`, or at once where librdkafka knows that the
        login may not write this topic. Raises RegistryError, KafkaException."""
        sent = wire.pack(topic, key, rows)
        frame = b"" if self._registry is None else self._registry.frame(topic)
        name = topic.full_name(self._prefix)
        told = delivered or partial(self._note, name)
        try:
            self._producer.produce(name, frame + sent.value, sent.key, headers=list(sent.headers), on_delivery=told)
        except KafkaException as error:
            if error.args[0].code() not in bus.FORBIDDEN:
                raise
            told(error.args[0], None)
        self._producer.poll(0)

    def poll(self, wait_s: float) -> None:
        """Hear from the broker, waiting so long for its next word."""
        self._producer.poll(wait_s)

    def flush(self, within_s: float) -> bool:
        """Whether the broker has all of it within so long: nothing waits, and none was refused since the last time."""
        taken = bool(self._producer.flush(within_s) == 0)
        refused, self._refused = self._refused, False
        return taken and not refused

    def _note(self, topic: str, error: KafkaError | None, _: KafkaMessage | None) -> None:
        if error is not None:
            self._refused = True
            why = bus.refusal(error, self._kafka, f"Write on topic {topic}")
            self._log.error("the broker did not take a message", topic=topic, why=why)


class Asker:
    """Asks for captures. What was not taken in time is dropped: nothing is begun that its asker has given up."""

    def __init__(self, kafka: Kafka, part: str) -> None:
        self._kafka = kafka
        self._sender = Sender(kafka, part, OPTIONS)

    def ask(self, asked: Request) -> None:
        """Returns once the broker has it; raises NotTakenError."""
        self.put(REQUESTS, {asked.capture_id: asked})

    def put(self, topic: Topic, rows: Mapping[str, Message]) -> None:
        """The same for rows of any topic, by their keys."""
        left, problems, done = set(rows), list[str](), threading.Event()

        def delivered(key: str, error: KafkaError | None, _: KafkaMessage | None) -> None:
            left.discard(key)
            if error is not None:
                right = f"Write on topic {topic.full_name(self._kafka.topic_prefix)}"
                problems.append(bus.refusal(error, self._kafka, right))
            if not left:
                done.set()

        try:
            for key, row in rows.items():
                self._sender.put(topic, key, [row], partial(delivered, key))
        except (KafkaException, BufferError, RegistryError) as error:
            raise NotTakenError(f"{topic.name} could not be written: {error}") from error
        until = time.monotonic() + TAKEN_S + 1
        while not done.is_set() and time.monotonic() < until:
            self._sender.poll(0.05)
        if problems or not done.is_set():
            why = problems[0] if problems else "no answer"
            raise NotTakenError(f"Kafka at {self._kafka.bootstrap_servers} did not take the request; is it up? ({why})")


def request(action: str, by: str, capture_id: str = "", **wanted: Any) -> Request:
    """A request of somebody, now. A new capture is named by the time, so that names sort as captures do."""
    now = time.time()
    name = capture_id or f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    return Request(capture_id=name, ts=round(now, 3), action=action, requested_by=by, **wanted)
