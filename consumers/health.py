"""What this consumer says of itself: rows of `source-health`, lost messages, and why it must stop."""

from typing import Final

from warpmeter import log, selfmetrics
from warpmeter.clock import Clock
from warpmeter.consumers import letters
from warpmeter.consumers.span import Partition

LOST = selfmetrics.counter("warpmeter_ingest_lost_messages_total")
FAILING_SINCE = selfmetrics.gauge("warpmeter_ingest_failing_since_timestamp_seconds")
REMIND_S: Final = 60.0
logger = log.get("ingest")


class Health:
    """`host` names the rows. `halt` is why the consumer cannot go on, None while it can; the loop looks at it."""

    def __init__(self, out: letters.Letters, clock: Clock, host: str) -> None:
        self._out = out
        self._clock = clock
        self._host = host
        self.halt: str | None = None
        self._failing_since: float | None = None
        self._said_at = 0.0

    def tell(self, subject: str, state: str, why: str, count: int | None = None) -> None:
        """One row; `count` is of what `why` tells."""
        self._out.post(letters.health(self._host, self._clock.now(), subject, state, why, count))

    def lost(self, where: Partition, messages: int, why: str) -> None:
        """So many messages will never be in the table: counted and published, never silent."""
        LOST.labels(where.topic).inc(messages)
        logger.error("messages lost", partition=str(where), why=why, messages=messages)
        self.tell(f"{where.topic}/{where.number}", "failed", why, messages)

    def cannot_insert(self, why: str) -> None:
        """One row and one line when it begins, then a line a minute, however often it is tried."""
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = self._said_at = now
            FAILING_SINCE.set(self._clock.now())
            logger.warning("cannot insert now, nothing is lost; trying again", why=why)
            self.tell("store", "failed", why)
        elif now - self._said_at >= REMIND_S:
            self._said_at = now
            logger.warning("still cannot insert; trying again", why=why, for_s=round(now - self._failing_since))

    def inserts_again(self) -> None:
        """It is over."""
        if self._failing_since is not None:
            took_s = round(self._clock.monotonic() - self._failing_since, 1)
            self._failing_since = None
            FAILING_SINCE.set(0)
            logger.info("inserting again", after_s=took_s)
            self.tell("store", "ok", "inserting again")
