"""Rows to the bus: packed, produced, and spooled on disk while the broker does not take them.

The spool takes only what was never produced. While anything waits in it, new messages go behind it, so one host stays
in order. With the broker away at most STALL_S of messages are in memory, which is what a `kill -9` can lose; at most
WINDOW messages, those taken from the spool and not acknowledged, may go twice by it. A stop (or a producer that broke)
puts back what got no answer, and the broker may have it already: what was on its way then may go twice, too.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import RLock
from typing import Final

from google.protobuf.message import Message

from warpmeter import log, selfmetrics
from warpmeter.clock import Clock
from warpmeter.producers.framing import Framing
from warpmeter.producers.losses import Losses
from warpmeter.producers.outbox import STALL_S, Outbox
from warpmeter.producers.segment import Position
from warpmeter.producers.source import Health
from warpmeter.producers.spool import Bounds, Spool, SpoolTakenError
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Agent, Settings
from warpmeter.wire import Envelope, pack

WINDOW: Final = 1000
"""Most messages taken from the spool that are not acknowledged yet."""
LARGEST: Final = 900_000
"""Bytes; a larger message is split by rows, for the topics' limit is 1 MiB."""
SPOOL_AGAIN_S: Final = 60.0
"""A spool that could not be opened is tried again so often: its disk may have room again."""


def open_spool(agent: Agent, clock: Clock) -> Spool | None:
    """The spool of the settings; None, with a warning, when it cannot be used. Raises SpoolTakenError."""
    try:
        return Spool(agent.spool_dir, Bounds(agent.spool_max_bytes, agent.spool_max_age_s), clock)
    except OSError as error:
        log.get("agent").warning(
            "spool_unusable",
            folder=str(agent.spool_dir),
            error=str(error),
            next="set agent.spool_dir to a folder this user can write; until then an outage of the broker loses data",
        )
        return None


class Shipper:
    """Publishes from any thread; one thread calls `pump` about once a second, and at once while it asks for more.

    `spool`: None when it cannot be used; what the producer cannot take is lost then, and counted.
    """

    name: Final = "shipper"
    gone: Final = False

    def __init__(self, settings: Settings, spool: Spool | None, clock: Clock) -> None:
        """Connects in the background; a broker or Schema Registry that is away is no error.

        Raises KafkaException for refused options, RegistryError for a registry's URL that is none.
        """
        self._framing = Framing(settings.kafka)
        self._agent, self._clock = settings.agent, clock
        self._spool, self._spool_at = spool, clock.monotonic() + SPOOL_AGAIN_S
        self._lost = Losses(settings.agent.spool_dir / "lost.json", clock)
        self._lock = RLock()
        self._next: tuple[Envelope, Position] | None = None
        self._unspooled = 0
        self._outbox = Outbox(settings, clock, self._lock, self._delivered)
        self._outbox.frames = self._framing.frames or {}
        self._log = log.get("agent").bind(source="shipper")
        self._queue_bytes = selfmetrics.gauge("warpmeter_shipper_queue_bytes")
        self._spool_bytes = selfmetrics.gauge("warpmeter_spool_bytes")
        self._dropped = selfmetrics.counter("warpmeter_spool_dropped_messages_total")
        self._observe()  # what an earlier agent left is there before the first look at the producer

    def publish(self, topic: str, rows: Sequence[Message]) -> None:
        """Take the rows of one tick, which have one key.

        Never waits for the broker, never raises for what the broker does.
        """
        envelope = pack(TOPICS[topic], self._key(TOPICS[topic], rows), rows)
        if len(envelope.value) > LARGEST and len(rows) > 1:
            half = len(rows) // 2
            self.publish(topic, rows[:half])
            self.publish(topic, rows[half:])
            return
        with self._lock:
            if self._behind() or self._outbox.send(envelope) == "full":
                self._to_spool(envelope)

    def _key(self, topic: Topic, rows: Sequence[Message]) -> str:
        """The host, whose rows they all are; of a topic that is in order by something else, what they have of that."""
        return self._agent.host if topic.key == "host" else str(getattr(rows[0], topic.key))

    def pump(self) -> bool:
        """Hear what was delivered and send what waits in the spool; True when more can be sent soon."""
        self._outbox.poll()
        with self._lock:
            if self._outbox.fatal:
                self._put_back()
                self._outbox.renew()
            self._outbox.frames = self._framing.frames or {}
            self._open_again()
            more = self._drain()
            if self._spool is not None:
                self._spool.sweep()
            self._observe()
        return more

    def health(self) -> tuple[Health, list[Health]]:
        """How the shipper fares, and what of it does not."""
        with self._lock:
            complaint = self._outbox.tally.complaint or "see the broker"
            if self._outbox.stalled:
                return Health("", "failed", f"the broker acknowledged nothing for {STALL_S:g} s: {complaint}"), []
            if self._framing.frames is None:
                return Health("", "failed", self._framing.why), []
            stalled = self._outbox.stalled_topics()
            hint = f"not acknowledged for {STALL_S:g} s; does the topic exist (`warpmeter topics`)? {complaint}"
            subjects = [Health(f"topic/{name}", "failed", hint) for name in stalled]
            self._count_losses()
            told = self._lost.tell(heard=self._outbox.unacked == 0 and not self._behind())
            subjects += [Health(f"lost/{why}", "failed", LOST[why], count) for why, count in told.items()]
            if self._spool is None:
                subjects.append(Health("spool", "failed", "cannot be used: see the log and agent.spool_dir"))
        return Health("", "ok"), subjects

    def close(self, timeout_s: float) -> None:
        """Send what can be sent within `timeout_s`; what remains goes to the front of the spool."""
        self._framing.close()
        self._outbox.flush(0.2 if self._outbox.stalled else timeout_s)
        with self._lock:
            self._put_back()
            if self._spool is not None:
                self._log.info("shipper_closed", spooled_bytes=self._spool.bytes)
                self._spool.close()
            self._observe()

    def _behind(self) -> bool:
        """Whether a new message has to wait for others, for the broker, or for the Schema Registry."""
        waits = self._next is not None or (self._spool is not None and self._spool.waiting)
        return waits or not self._outbox.frames or self._outbox.stalled or self._outbox.fatal

    def _to_spool(self, envelope: Envelope) -> None:
        if self._spool is None:
            self._unspooled += 1
        else:
            self._spool.append(envelope)

    def _drain(self) -> bool:
        """Send from the spool while its window has room; True when it holds more and the broker answers."""
        if self._spool is None or not self._outbox.frames or self._outbox.stalled:
            return False
        while self._outbox.from_spool < WINDOW:
            self._next = self._next or self._spool.take()
            if self._next is None:
                return False
            envelope, position = self._next
            outcome = self._outbox.send(envelope, position)
            if outcome == "full":
                return True
            if outcome == "refused":
                self._spool.done(position)
            self._next = None
        return True

    def _put_back(self) -> None:
        """What the producer holds, to the front of the spool: it is older than what waits there."""
        left = self._outbox.take_back()
        if self._next is not None:
            left.append(self._next)
            self._next = None
        lost = self._outbox.unacked  # it did not give them back in time
        if self._spool is None:
            lost += len(left)
        elif left and not self._spool.put_back([envelope for envelope, _ in left]):
            self._spool.rewind()  # its own messages are safe where they lie
            lost += sum(position is None for _, position in left)
        if lost:
            self._unspooled += lost
            self._log.error("messages_lost", count=lost, why="no spool, or its disk is full")

    def _open_again(self) -> None:
        if self._spool is None and self._clock.monotonic() >= self._spool_at:
            self._spool_at = self._clock.monotonic() + SPOOL_AGAIN_S
            with suppress(SpoolTakenError):  # two agents: the other one has it, and its messages
                self._spool = open_spool(self._agent, self._clock)

    def _delivered(self, position: Position) -> None:
        if self._spool is not None:
            self._spool.done(position)

    def _losses(self) -> Mapping[str, int]:
        """Messages lost since the start, by reason."""
        losses: dict[str, int] = {"unspooled": self._unspooled, "refused": self._outbox.tally.lost.total()}
        if self._spool is not None:
            losses.update(self._spool.lost.items())
        return {why: count for why, count in losses.items() if count}

    def _observe(self) -> None:
        self._queue_bytes.set(self._outbox.unacked_bytes)
        self._spool_bytes.set(0 if self._spool is None else self._spool.bytes)
        self._count_losses()

    def _count_losses(self) -> None:
        new = self._lost.update(self._losses())
        self._lost.save()
        for why, more in new.items():
            if why != "refused":  # the outbox counts those
                self._dropped.labels(why).inc(more)


LOST: Final = {
    "full": "messages dropped so far: the spool was full; raise agent.spool_max_bytes",
    "age": "messages dropped so far: older than agent.spool_max_age_s",
    "disk": "messages dropped so far: the spool's disk refused them; is it full?",
    "corrupt": "messages dropped so far: what the spool had of them was corrupt",
    "unspooled": "messages dropped so far: the producer could not take them and there is no spool",
    "refused": "messages dropped so far: the broker refused them for good; see the log",
}
