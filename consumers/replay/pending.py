"""Spans that ingest declared and did not come to settle: a replay, which holds the group's place, ends them itself.

It does with them what ingest does first thing when it starts, with ingest's own parts: the same lane rebuilds the very
same span, the same check tells whether it has landed so long ago that the store has forgotten it, the same pilot
inserts it under its token, and what is stored already is dropped.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from warpmeter.consumers.batch import Limits
from warpmeter.consumers.check import Checked, Contradiction, check
from warpmeter.consumers.flight import Flight, Flown, Halt, OtherTopic, Pilot, Ports, Ready, Undeclared
from warpmeter.consumers.judge import Budget
from warpmeter.consumers.lane import Began, Lane
from warpmeter.consumers.ledger import Declared, Done, Entry, Outcome, Retry, Settled
from warpmeter.consumers.replay.errors import ReplayError
from warpmeter.consumers.replay.load import Reader
from warpmeter.consumers.replay.offsets import Piece
from warpmeter.consumers.shape import Look
from warpmeter.consumers.sink import Away
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import Tool, plan, remedy
from warpmeter.settings import Ingest

TRIES: Final = 6
NAMED: Final = 5


def waiting(entries: Iterable[Entry], uuid: str) -> list[Declared]:
    """The declared spans among a ledger's entries of this life of a topic."""
    found = [entry for entry in entries if isinstance(entry, Declared) and entry.span.uuid == uuid]
    return sorted(found, key=lambda entry: (entry.where, entry.span.first))


def named(found: Sequence[Declared]) -> str:
    """`gpu-samples[2] 40-50`, the first few of them and how many more."""
    shown = [f"{each.where} {each.span.first}-{each.span.last}" for each in found[:NAMED]]
    return ", ".join(shown + [f"… and {len(found) - NAMED} more"] * (len(found) > NAMED))


@dataclass(frozen=True)
class Finisher:
    """Stores and settles declared spans of one topic. `lows` are the first offsets that the broker still has."""

    ingest: Ingest
    ports: Ports
    look: Look
    reader: Reader
    lows: Mapping[Partition, int]
    tool: Tool
    sleep: Callable[[float], None] = time.sleep

    def finish(self, pending: Sequence[Declared], uuid: str) -> None:
        """All of them. Raises ReplayError when one cannot be; what was stored then stays stored."""
        gone = [each for each in pending if self.lows.get(each.where, 0) > each.span.first]
        if gone:
            raise ReplayError(
                f"{named(gone)}: declared, and retention took a part of it since: start `warpmeter ingest`, which "
                "stores the rest and publishes the loss, stop it, then replay"
            )
        lanes = [self._lane(each, uuid) for each in pending]
        skip = self._checked(lanes)
        budget = Budget(self.ingest.reject_window, self.ingest.reject_share)
        pilot = Pilot(self.ports, budget, self.ingest.session_timeout_s / 2)
        for lane, each in zip(lanes, pending, strict=True):
            if lane not in skip:
                self._land(pilot, self._flight(lane, each))
            self._written(partial(self.ports.ledger.settle, [Settled(each.where, uuid, each.span.last + 1)]))

    def _lane(self, pending: Declared, uuid: str) -> Lane:
        limits = Limits(self.ingest.batch_bytes, self.ingest.batch_rows, float("inf"))
        return Lane(Began(plan(pending.where, uuid, pending), pending), self.look, limits)

    def _checked(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """The lanes whose spans have landed long since. Raises ReplayError where ingest would halt."""
        why = ""
        for attempt in range(TRIES):
            match check(lanes, self.ports.history, self.ports.clock.now()):
                case Checked(_, skip):
                    return skip
                case Away(why):
                    self.sleep(0.25 * 2**attempt)
                case Contradiction(against):
                    why = remedy([found for _, found in against], self.tool)
                    raise ReplayError(f"ingest itself could not go on: {why}")
                case Halt(why):
                    raise ReplayError(f"ingest itself could not go on: {why}")
        raise ReplayError(f"{why}; run the replay again when the store answers")

    def _flight(self, lane: Lane, pending: Declared) -> Flight:
        span = pending.span
        for message in self.reader.read(Piece(lane.where, span.first, span.last, True)):
            lane.take(message, 0.0)
        lane.end_replay(0.0)
        return Flight([lane.closed.popleft()], {lane.where: lane.hold})

    def _land(self, pilot: Pilot, flight: Flight) -> None:
        why, attempt = "", 0
        while attempt < TRIES:
            match pilot.prepare(flight) if flight.stage == "prepare" else pilot.insert(flight):
                case Ready():
                    self._written(lambda: pilot.declare(flight))
                    flight.stage = "insert"
                case Flown():
                    return
                case Undeclared():
                    flight.stage = "prepare"
                    attempt += 1
                case Away(why):
                    self.sleep(0.25 * 2**attempt)
                    attempt += 1
                case Halt(why):
                    raise ReplayError(f"ingest itself could not go on: {why}")
                case OtherTopic():
                    raise ReplayError("the topic was made again meanwhile: run the replay again")
        raise ReplayError(f"{why}; run the replay again when the store answers")

    def _written(self, write: Callable[[], Outcome]) -> None:
        why = ""
        for attempt in range(TRIES):
            match write():
                case Done():
                    return
                case Retry(why):
                    self.sleep(0.25 * 2**attempt)
                case refused:
                    raise ReplayError(f"the group does not take it: {refused.why}; run the replay again")
        raise ReplayError(f"{why}; run the replay again when Kafka answers")
