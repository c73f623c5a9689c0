"""The real thing: three nodes of Apache Kafka, the engine, one to four consumers. Faults are done to it."""

import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests import engine as engines
from tests.brokers import KafkaCluster
from tests.brokers.process import send, tail
from tests.crash.faults import BROKERS, SESSION_S, SLOTS, TOPICS
from tests.crash.feed import Feed
from tests.crash.samples import DAY_S, all_series
from tests.engine import EngineServer
from tests.ingest_process import IngestProcess, make_topics, migrated, settings_for
from tests.wait import until
from warpmeter.consumers.__main__ import EXIT_HALTED
from warpmeter.settings import Settings
from warpmeter.store import Client

PREFIX: Final = "crash"
AGAIN_S: Final = 1.0
STOP_S: Final = 15.0
UP_S: Final = 90.0
LAST_WORDS: Final = 3


@dataclass(frozen=True)
class Ended:
    """A process that ended although nobody ended it; `code` as Popen has it."""

    who: str
    at_s: float
    code: int
    words: str

    @property
    def halted(self) -> bool:
        """It says that somebody must act."""
        return self.code == EXIT_HALTED


@dataclass
class Member:
    """One consumer's place: who is in it, and whether somebody should be."""

    process: IngestProcess | None = None
    wanted: bool = False
    again_at: float = 0.0


@dataclass
class World:
    """All processes of a run, under `folder`. Every call returns at once; `close` ends all of them.

    `ended` is filled by `watch` with what ended by itself, and is started again as an operator's supervisor would.
    """

    folder: Path
    began: float = 0.0
    ended: list[Ended] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.members = [Member() for _ in range(SLOTS)]
        self.cluster = KafkaCluster(self.folder / "kafka", BROKERS)
        try:
            server = migrated(EngineServer(self.folder / "engine"))
            self._engine: subprocess.Popen[bytes] | None = server.process
            self._engine_wanted = True
            self.server = server
            self.settings = _settings(self.cluster, server, self.folder)
            make_topics(self.settings)
        except BaseException:
            self.cluster.close()
            raise
        base = int(time.time()) // DAY_S * DAY_S - 2 * DAY_S
        self.series = all_series(base)
        assert len(self.series) == TOPICS
        self.feed = Feed(self.settings.kafka, self.series)

    def start(self) -> None:
        """The first two consumers; time begins."""
        for slot in (0, 1):
            self.start_ingest(slot)
        for member in self.members[:2]:
            assert member.process is not None
            member.process.ready()
        self.began = time.monotonic()

    def client(self) -> Client:
        """A client that may ask long questions."""
        return self.server.client(write=True, send_receive_timeout=300)

    # What faults do.

    def start_ingest(self, slot: int) -> None:
        self.kill_ingest(slot)
        self.members[slot] = Member(IngestProcess(self.settings, self.folder / f"ingest-{slot}.log"), wanted=True)

    def kill_ingest(self, slot: int) -> None:
        member = self.members[slot]
        member.wanted = False
        if member.process is not None:
            member.process.close()

    def end_ingest(self, slot: int, signals: int = 1) -> None:
        self.members[slot].wanted = False
        for _ in range(signals):
            self._tell(slot, signal.SIGTERM)

    def pause_ingest(self, slot: int) -> None:
        self._tell(slot, signal.SIGSTOP)

    def resume_ingest(self, slot: int) -> None:
        self._tell(slot, signal.SIGCONT)

    def _tell(self, slot: int, number: signal.Signals) -> None:
        member = self.members[slot]
        if member.process is not None:
            member.process.process.send_signal(number)

    def start_engine(self) -> None:
        self.kill_engine()
        self._engine = engines.spawn(self.server.data, self.server.port, self.server.log)
        self._engine_wanted = True

    def kill_engine(self) -> None:
        self._engine_wanted = False
        process, self._engine = self._engine, None
        if process is not None:
            process.kill()
            process.wait()

    def end_engine(self) -> None:
        self._engine_wanted = False
        self._tell_engine(signal.SIGTERM)

    def pause_engine(self) -> None:
        self._tell_engine(signal.SIGSTOP)

    def resume_engine(self) -> None:
        self._tell_engine(signal.SIGCONT)

    def _tell_engine(self, number: signal.Signals) -> None:
        if self._engine is not None:
            send(self._engine, number)

    def start_broker(self, node: int) -> None:
        self.cluster.kill(node)
        self.cluster.begin(node)

    def kill_broker(self, node: int) -> None:
        self.cluster.kill(node)

    def end_broker(self, node: int) -> None:
        self.cluster.ask_to_stop(node)

    def pause_broker(self, node: int) -> None:
        self.cluster.pause(node)

    def resume_broker(self, node: int) -> None:
        self.cluster.resume(node)

    def poison(self, kind: str, topic: int) -> None:
        self.feed.poison(kind, topic)

    # What a supervisor does.

    def watch(self) -> None:
        """Note what ended by itself, and start it again a second later."""
        now = time.monotonic()
        for slot, member in enumerate(self.members):
            process = member.process
            if process is not None and member.wanted and process.process.poll() is not None:
                self._note(f"ingest-{slot}", process.process.returncode, process.said())
                self.members[slot] = Member(wanted=True, again_at=now + AGAIN_S)
            elif process is None and member.wanted and now >= member.again_at:
                self.start_ingest(slot)
        if self._engine is not None and self._engine_wanted and self._engine.poll() is not None:
            self._note("engine", self._engine.returncode, tail(self.server.log, LAST_WORDS))
            self.start_engine()

    def _note(self, who: str, code: int, said: str) -> None:
        words = "\n".join(said.splitlines()[-LAST_WORDS:])
        self.ended.append(Ended(who, round(time.monotonic() - self.began, 2), code, words))

    @property
    def up(self) -> int:
        """How many consumers should be running."""
        return sum(member.wanted for member in self.members)

    # The end.

    def mend(self) -> None:
        """Wake what sleeps, start what is down, and wait until all of it answers."""
        for slot in range(SLOTS):
            self.resume_ingest(slot)
        for node in range(BROKERS):
            self.cluster.resume(node)
            self.cluster.begin(node)
        self.resume_engine()
        if not self._engine_wanted or self._engine is None:
            self.start_engine()
        for node in range(BROKERS):
            self.cluster.wait_ready(node, UP_S)
        until(self._engine_answers, f"the engine to answer; {tail(self.server.log)}", UP_S)
        if not self.up:
            self.start_ingest(0)

    def _engine_answers(self) -> bool:
        self.watch()
        with suppress(OSError), urllib.request.urlopen(f"{self.server.url}/ping", timeout=5):
            return True
        return False

    def stop_ingest(self) -> Sequence[str]:
        """SIGTERM to all consumers; what did not end in time, or as it should."""
        running = [(slot, member.process) for slot, member in enumerate(self.members) if member.process is not None]
        for slot, _ in running:
            self.end_ingest(slot)
        wrong = []
        for slot, process in running:
            try:
                code = process.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                wrong.append(f"ingest-{slot} does not end {STOP_S:g} s after SIGTERM")
                continue
            if code == EXIT_HALTED:
                wrong.append(f"ingest-{slot} halted: {process}")
        return wrong

    def close(self) -> None:
        """End everything, as hard as it takes."""
        for slot in range(SLOTS):
            self.kill_ingest(slot)
        self.kill_engine()
        self.cluster.close()


def _settings(cluster: KafkaCluster, server: EngineServer, folder: Path) -> Settings:
    """Quick batches, a short session; as many topics as there are series, and those that ingest itself writes."""
    ingest: dict[str, Any] = {
        "topics": ("gpu-samples", "host-samples", "job-events", "source-health", "dead-letters"),
        "session_timeout_s": SESSION_S,
        "batch_age_s": 0.5,
        "settle_after_s": 1.0,
    }
    return settings_for(cluster, server, PREFIX, folder, **ingest)
