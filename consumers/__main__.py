"""The ingest process: `python -m warpmeter.consumers FD`, started by `warpmeter ingest` and `warpmeter up`.

Exit codes: 0 after a stop that was asked for, 78 when somebody must act (the log says what on); anything else is a
crash, and may be started again.
"""

import gc
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from confluent_kafka import Consumer

from warpmeter import bus, launch, log, registry, selfmetrics, store, tokens
from warpmeter.clock import SystemClock
from warpmeter.cluster import shard
from warpmeter.consumers.broker import BrokerError, connect
from warpmeter.consumers.flight import Ports
from warpmeter.consumers.ledger import Ledger, LedgerError
from warpmeter.consumers.ledger.file import FileLedger
from warpmeter.consumers.ledger.kafka import KafkaLedger
from warpmeter.consumers.letters import KafkaLetters
from warpmeter.consumers.loop import DRAIN_S, READ_OUT_S, Halted, Loop
from warpmeter.consumers.sink.clickhouse import ClickHouse
from warpmeter.consumers.start import Tool
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.settings import Ingest, Settings

EXIT_HALTED: Final = 78  # EX_CONFIG of sysexits.h
EXIT_FAILED: Final = 1
GRACE_S: Final = 5.0
LEAVE_S: Final = 1.0  # to settle and to leave the group
LEAVE_WITHIN_S: Final = 5.0
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


def objection(settings: Settings) -> str | None:
    """Why ingest cannot run with these settings, None if it can."""
    ingest = settings.ingest
    unknown = sorted(set(ingest.topics) - TOPICS.keys())
    checks = (
        (bool(unknown), f"ingest.topics names {unknown}, which are none of {sorted(TOPICS)}"),
        (ingest.batch_bytes > ingest.budget_bytes, "ingest.batch_bytes is above ingest.budget_bytes: none would close"),
        (min(ingest.batch_bytes, ingest.batch_rows) < 1, "ingest.batch_bytes and ingest.batch_rows must be positive"),
        (ingest.batch_age_s >= 60, "ingest.batch_age_s must be below 60 s: batches are held in memory"),
        (ingest.session_timeout_s < 1, "ingest.session_timeout_s must be at least 1 s"),
        (not 0 <= ingest.reject_share <= 1, "ingest.reject_share is a ratio, 0 to 1"),
        (ingest.reject_window < 1, "ingest.reject_window must be positive"),
    )
    return next((why for wrong, why in checks if wrong), None)


def subscription(settings: Settings) -> dict[str, Topic]:
    """The topics to ingest, by full name; all of the table unless the setting names some."""
    names = settings.ingest.topics or tuple(TOPICS)
    return {TOPICS[name].full_name(settings.kafka.topic_prefix): TOPICS[name] for name in names}


def ledger(ingest: Ingest, consumer: Consumer) -> Ledger:
    """The ledger that the settings ask for. Raises LedgerError."""
    return KafkaLedger(consumer) if ingest.ledger_dir is None else FileLedger(ingest.ledger_dir, ingest.group)


def build(settings: Settings, worker: ThreadPoolExecutor) -> Loop:
    """The loop on the real broker and store. Raises LedgerError and KafkaException."""
    topics = subscription(settings)
    broker, consumer = connect(settings.kafka, settings.ingest)
    tables = {name: settings.store.local(topic.table) for name, topic in topics.items()}
    embedded = store.folder(settings.store)
    clickhouse = ClickHouse(
        partial(store.client, settings.store), topics, tables, settings.store.insert_quorum,
        lambda since: None if embedded is None else tokens.end_if_in_doubt(embedded, since, "ingest"),
        lambda partition: store.client(shard(settings.store, partition)),
    )  # fmt: skip
    producer = bus.producer(settings.kafka, logger=bus.logger("ingest"))
    letters = KafkaLetters(producer, settings.kafka.topic_prefix, registry=registry.configured(settings.kafka))
    recorded = ledger(settings.ingest, consumer)
    ports = Ports(broker, recorded, clickhouse, clickhouse, letters, SystemClock(), Tool.of(settings))
    framed = bool(settings.kafka.schema_registry_url)
    return Loop(ports, settings.ingest, topics, worker, settings.agent.host, framed)


class Stop:
    """SIGTERM and SIGINT: the first asks for a stop, which ends `grace_s` later at the latest; the second ends the
    process there and then. Both are safe: what is not settled comes again.

    A thread of its own waits for them, so that no call into the Kafka client can hold them up. Make it before any
    other thread, for they inherit that the signals are blocked.
    """

    def __init__(self, grace_s: float) -> None:
        self.asked = False
        self._grace_s = grace_s
        self._ends_at = 0.0
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        threading.Thread(target=self._wait, name="signals", daemon=True).start()

    @property
    def left_s(self) -> float:
        """Seconds until the end, once it was asked for."""
        return max(0.0, self._ends_at - time.monotonic())

    def _wait(self) -> None:
        signal.sigwait(STOPPING)
        self._ends_at = time.monotonic() + self._grace_s
        self.asked = True
        second = signal.sigtimedwait(STOPPING, self._grace_s)
        why = "told again" if second else f"not done within {self._grace_s:g} s"
        log.get("ingest").warning("ended where it stood; what is not settled comes again", why=why)
        os._exit(1)


def run(loop: Loop, stop: Stop, read_out: bool) -> int:
    """Turn the loop until it is stopped or halts; the exit code."""
    logger = log.get("ingest")
    try:
        while not stop.asked:
            loop.step()
        if read_out:
            loop.read_out()
    except Halted as halted:
        logger.error("halted: somebody must act", why=str(halted))
        leave(loop, EXIT_HALTED)
        return EXIT_HALTED
    except (BrokerError, LedgerError) as error:
        logger.error("cannot go on: to be started again", why=str(error))
        leave(loop, EXIT_FAILED)
        return EXIT_FAILED
    clean = loop.drain(min(DRAIN_S, max(0.0, stop.left_s - LEAVE_S)))
    logger.info("stopped", clean=clean, **({} if clean else {"why": loop.left}))
    return 0


def leave(loop: Loop, code: int) -> None:
    """Leave the group, so that nobody has to wait for the session to end; a broker that does not answer holds up
    nothing: then the process ends there with `code`."""
    sys.stderr.flush()
    overdue = threading.Timer(LEAVE_WITHIN_S, os._exit, (code,))
    overdue.daemon = True
    overdue.start()
    try:
        loop.leave()
    except Exception as error:  # noqa: BLE001 - it ends anyway, and why is said already
        log.get("ingest").warning("left the group unheard", why=str(error))
    overdue.cancel()


def main() -> int:
    settings, _ = launch.received(sys.argv[1:])
    logger = log.setup(settings.log, "ingest")
    if why := objection(settings):
        logger.error("cannot start", why=why)
        return EXIT_HALTED
    stop = Stop(GRACE_S + (READ_OUT_S if settings.ingest.read_out else 0))
    selfmetrics.gauge("warpmeter_ingest_group").labels(settings.ingest.group).set(1)
    selfmetrics.serve(settings.metrics, "ingest")
    # Open batches hold a few hundred thousand live tuples: collections are rare, for they would walk them all.
    gc.set_threshold(100_000, 20, 100)
    worker = ThreadPoolExecutor(1, "insert")
    try:
        loop = build(settings, worker)
    except (LedgerError, registry.RegistryError) as error:
        logger.error("cannot start", why=str(error))
        return EXIT_HALTED
    logger.info("ingesting", topics=list(subscription(settings)), group=settings.ingest.group)
    code = run(loop, stop, settings.ingest.read_out)
    # A hanging insert must not hold up the end: what it does is declared, and comes again.
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
