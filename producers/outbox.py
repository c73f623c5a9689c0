"""librdkafka's producer and what is in its hands: how much waits, since when, and what became of each message.

What entered it stays in it: it retries for ever, and sending again what timed out would double it. Only when the
producer is given up, at the end or after a fatal error, its messages are taken back.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Final, Literal

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from warpmeter import bus, log, selfmetrics
from warpmeter.clock import Clock
from warpmeter.producers.segment import Position
from warpmeter.registry import unframed
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Settings
from warpmeter.wire import Envelope, unpack

Outcome = Literal["taken", "full", "refused"]
STALL_S: Final = 10.0
"""The broker counts as away when it acknowledged nothing for so long while messages wait."""
TAKE_BACK_S: Final = 0.8
"""Most seconds that taking messages back may take; it is a matter of milliseconds."""
TOPIC_WAIT_MS: Final = 1_800_000
"""A topic that the broker does not have is waited for, in memory. Later its messages are lost, and counted: waiting on
would hold up all others. librdkafka multiplies it by 1000 in 32 bits, so half an hour is about the most."""
KEPT: Final = frozenset(
    {
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._FATAL,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
"""Delivery errors after which the message is ours again; all others mean that the broker will never take it."""


@dataclass
class _Waiting:
    """Messages of one topic that are not acknowledged, and when the broker last acknowledged one of it."""

    messages: int = 0
    progress: float = 0.0


@dataclass(frozen=True)
class _Sent:
    number: int
    size: int
    position: Position | None


@dataclass
class Tally:
    """What became of messages so far: refused for good by topic, and what the producer last complained about."""

    lost: Counter[str] = field(default_factory=Counter)
    complaint: str = ""


class Outbox:
    """A producer and its bookkeeping. Every method may be called from any thread; callbacks come from `poll`.

    `frames`: what goes in front of each topic's values; set before the first `send`.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        lock: RLock,
        delivered: Callable[[Position], None],
    ) -> None:
        """`delivered`: a message from the spool is done with.

        It is called with `lock` held, which is the owner's own: two locks would be taken in either order.

        Raises KafkaException for options that librdkafka refuses. A broker that is away is no error.
        """
        self.tally = Tally()
        self.frames: Mapping[str, bytes] = {}
        self.fatal = False
        self.unacked = self.unacked_bytes = self.from_spool = 0
        self._settings, self._clock = settings, clock
        self._on_delivered = delivered
        self._prefix = f"{settings.kafka.topic_prefix}."
        self._lock = lock
        self._log = log.get("agent").bind(source="shipper")
        self._number = 0
        self._topics = {name: _Waiting() for name in TOPICS}
        self._progress = clock.monotonic()
        self._returned: list[tuple[int, Envelope, Position | None]] = []
        self._warned: set[tuple[str, str]] = set()
        acknowledged = selfmetrics.counter("warpmeter_shipper_messages_total")
        self._acknowledged = {name: acknowledged.labels(name) for name in TOPICS}
        self._producer = self._connect()

    def send(self, envelope: Envelope, position: Position | None = None) -> Outcome:
        """Hand over one message. `full`: it is still the caller's. `refused`: it never goes, and is counted as lost."""
        with self._lock:
            sent = _Sent(self._number, len(envelope.value), position)
            headers: list[tuple[str, str | bytes | None]] = [*envelope.headers]
            try:
                self._producer.produce(
                    self._prefix + envelope.topic,
                    self.frames[envelope.topic] + envelope.value,
                    envelope.key,
                    headers=headers,
                    on_delivery=partial(self._delivered, sent),
                )
            except BufferError:
                return "full"
            except KafkaException as error:
                return self._refused(envelope.topic, error.args[0])
            self._count(envelope.topic, sent, 1)
            self._number += 1
        return "taken"

    def poll(self) -> None:
        """Hear what was delivered."""
        self._producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        """Wait until everything is delivered, at most `timeout_s`."""
        self._producer.flush(timeout_s)

    @property
    def stalled(self) -> bool:
        """The broker acknowledged nothing for STALL_S although messages wait."""
        return self.unacked > 0 and self._clock.monotonic() - self._progress > STALL_S

    def stalled_topics(self) -> list[str]:
        """Topics of which nothing was acknowledged for STALL_S although messages wait."""
        limit = self._clock.monotonic() - STALL_S
        return [name for name, topic in self._topics.items() if topic.messages > 0 and topic.progress < limit]

    def take_back(self) -> list[tuple[Envelope, Position | None]]:
        """Everything not acknowledged, oldest first, also what came back by itself; the producer is empty then.

        What was on its way and got no answer is among it: it may be on the broker already.
        """
        with self._lock:
            self._producer.purge(in_queue=True, in_flight=True)
            deadline = self._clock.monotonic() + TAKE_BACK_S
            while self.unacked and self._clock.monotonic() < deadline:
                self._producer.poll(0.05)
            taken, self._returned = sorted(self._returned, key=lambda each: each[0]), []
        return [(envelope, position) for _, envelope, position in taken]

    def renew(self) -> None:
        """A new, empty producer in place of one that cannot go on; take back first."""
        with self._lock:
            self.fatal = False
            self.unacked = self.unacked_bytes = self.from_spool = 0
            self._topics = {name: _Waiting() for name in TOPICS}
            self._producer = self._connect()

    def _connect(self) -> Producer:
        # A host's messages are small: their count must not bind before their bytes do.
        extra: dict[str, bus.Value] = {
            "queue.buffering.max.kbytes": max(1, self._settings.agent.queue_max_bytes >> 10),
            "queue.buffering.max.messages": 1_000_000,
            "topic.metadata.propagation.max.ms": TOPIC_WAIT_MS,
            "log_level": 2,
        }
        return bus.producer(self._settings.kafka, extra, self._on_error)

    def _on_error(self, error: KafkaError) -> None:
        self.tally.complaint = str(error.str())
        if error.fatal() or error.code() == KafkaError._FATAL:
            self.fatal = True
            self._log.error("producer_fatal", error=str(error), next="a new producer takes over")

    def _count(self, topic: str, sent: _Sent, step: int) -> None:
        waiting = self._topics[topic]
        if step > 0:
            now = self._clock.monotonic()
            self._progress = self._progress if self.unacked else now
            waiting.progress = waiting.progress if waiting.messages else now
        waiting.messages += step
        self.unacked += step
        self.unacked_bytes += step * sent.size
        self.from_spool += step * (sent.position is not None)

    def _delivered(self, sent: _Sent, error: KafkaError | None, message: Message) -> None:
        """Called once for every message, from poll, flush or take_back."""
        topic = (message.topic() or "").removeprefix(self._prefix)
        with self._lock:
            self._count(topic, sent, -1)
            if error is not None and (error.code() in KEPT or self.fatal):
                self._ours_again(sent, _envelope(topic, message), error)
                return
            if error is None:
                self._progress = self._topics[topic].progress = self._clock.monotonic()
                self._acknowledged[topic].inc()
            else:
                self._refused(topic, error)
            if sent.position is not None:
                self._on_delivered(sent.position)

    def _ours_again(self, sent: _Sent, envelope: Envelope, error: KafkaError) -> None:
        """Kept, in order, until it is taken back: by itself a message comes back only from a producer that broke."""
        self._returned.append((sent.number, envelope, sent.position))
        if error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self.fatal = True
            self._warn(envelope.topic, error, "not_delivered_yet")

    def _refused(self, topic: str, error: KafkaError) -> Outcome:
        """At once by librdkafka, or by the broker: a fatal state keeps the message, anything else loses it."""
        if error.code() == KafkaError._FATAL:
            self.fatal = True
            return "full"
        self.tally.lost[topic] += 1
        selfmetrics.counter("warpmeter_shipper_lost_messages_total").labels(topic, error.name()).inc()
        self._warn(topic, error, "refused_for_good_and_lost")
        return "refused"

    def _warn(self, topic: str, error: KafkaError, event: str) -> None:
        """Once for each topic and error: a topic that may not be written fails at every tick."""
        if (topic, error.name()) not in self._warned:
            self._warned.add((topic, error.name()))
            right = f"Write on topic {self._prefix}{topic}"
            self._log.error(event, topic=topic, error=bus.refusal(error, self._settings.kafka, right))


def _envelope(topic: str, message: Message) -> Envelope:
    """What a message was made from; librdkafka gives back all but the headers."""
    framed, key = message.value(), message.key()
    assert isinstance(framed, bytes)
    assert isinstance(key, bytes)
    value = unframed(framed)
    return Envelope(topic, key, value, TOPICS[topic].message, len(unpack(TOPICS[topic], value)))
