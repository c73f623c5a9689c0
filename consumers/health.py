"""What this consumer says of itself: rows of `source-health`, lost messages, and why it must stop."""

from warpmeter import log, selfmetrics
from warpmeter.clock import Clock
from warpmeter.consumers import letters
from warpmeter.consumers.span import Partition

LOST = selfmetrics.counter("warpmeter_ingest_lost_messages_total")
logger = log.get("ingest")


class Health:
    """`host` names the rows. `halt` is why the consumer cannot go on, None while it can; the loop looks at it."""

    def __init__(self, out: letters.Letters, clock: Clock, host: str) -> None:
        self._out = out
        self._clock = clock
        self._host = host
        self.halt: str | None = None

    def tell(self, subject: str, state: str, why: str, count: int | None = None) -> None:
        """One row; `count` is of what `why` tells."""
        self._out.post(letters.health(self._host, self._clock.now(), subject, state, why, count))

    def lost(self, where: Partition, messages: int, why: str) -> None:
        """So many messages will never be in the table: counted and published, never silent."""
        LOST.labels(where.topic).inc(messages)
        logger.error("messages lost", partition=str(where), why=why, messages=messages)
        self.tell(f"{where.topic}/{where.number}", "failed", why, messages)
