"""A capture from the request to its end: round after round, until it has what was asked for, or something ends it.

Pure: requests, events and the time go in, and a `Turn` comes out. The scheduler's own events are taken the moment they
are said, and again when they come back from the topic; all that counts is in them, so a capture that is read from the
topic is the one that it was. What is not (a question to the store, an analysis under way) is asked again.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from warpmeter.captures import wishes
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Command, Request
from warpmeter.scheduler.round import Round, Said, Target
from warpmeter.settings import Scheduler

ROUNDS_IN_VAIN: Final = 5
"""A continuous capture that got nothing so often in a row ends."""
UNMEASURED: Final = 2
"""In so many rounds in a row nothing was measured, or in the first: one may fall into a pause of the job."""
TOO_SOON: Final = frozenset({"cancelled_by_kineto", "not_polling", "expired"})
LATER_S: Final = 3.0
LATER_MOST_S: Final = 15.0
QUEUED: Final = 4
"""So many times what one analysis may take is waited for: others may be before it."""
ASK_EVERY_S: Final = 2.0
"""The store, where a job runs: it may have begun a moment ago."""


@dataclass(frozen=True)
class Resolve:
    """Ask the store which hosts the target of a capture is on."""

    request: Request


@dataclass(frozen=True)
class Resolved:
    """Its answer: targets, or what went wrong (a reason and words). `final`: it will not be another one later."""

    capture_id: str
    targets: tuple[Target, ...] = ()
    reason: str = ""
    why: str = ""
    final: bool = False


@dataclass(frozen=True)
class Analyse:
    """Analyse and load the traces of a round."""

    capture_id: str
    sequence: int
    traces: tuple[Event, ...]


@dataclass
class Turn:
    """What is to be done: commands before events, for who takes over must not believe that something was sent."""

    commands: list[Command] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    resolve: list[Resolve] = field(default_factory=list)
    analyse: list[Analyse] = field(default_factory=list)

    def add(self, other: "Turn | Said") -> None:
        """Join two."""
        self.commands += other.commands
        self.events += other.events
        if isinstance(other, Turn):
            self.resolve += other.resolve
            self.analyse += other.analyse


@dataclass
class Capture:
    """One capture. Times are the scheduler's, UTC seconds."""

    request: Request
    limits: Scheduler
    rounds: list[Round] = field(default_factory=list)
    begun_at: float | None = None
    ended_at: float | None = None
    cancelled_at: float | None = None
    detached: bool = False
    _asked_at: float | None = None
    _asking_since: float | None = None
    _answer: Resolved | None = None
    _analysing: set[int] = field(default_factory=set)

    # --- what is heard ---------------------------------------------------------------------------------------

    def hear(self, event: Event, at: float | None = None) -> None:
        """Take an event; `at` is when it came, None where it is read again."""
        if event.sequence > len(self.rounds) + 1:
            return  # of no round that anybody began
        if event.sequence:
            self._round(event.sequence).hear(event, at)
        elif event.state == "requested":
            self.begun_at = event.ts
        elif event.state == "ended":
            self.ended_at = event.ts

    def _round(self, sequence: int) -> Round:
        while len(self.rounds) < sequence:
            self.rounds.append(Round(self.request, len(self.rounds) + 1, self.limits))
        return self.rounds[sequence - 1]

    def ask_to_end(self, action: str, now: float) -> None:
        """Somebody wants it to end: `cancel` at once, `detach` when the round is done."""
        if action == "cancel":
            self.cancelled_at = self.cancelled_at or now
        self.detached = True

    def resolved(self, answer: Resolved) -> None:
        """The store has answered."""
        self._answer = answer

    # --- what is to be said ----------------------------------------------------------------------------------

    def turn(self, now: float) -> Turn:
        """What is due now. Whatever events it holds are taken already."""
        turn = Turn()
        if self.ended_at is None:
            self._turn(now, turn)
        return turn

    def _turn(self, now: float, turn: Turn) -> None:
        if self.begun_at is None and not self._begin(now, turn):
            return
        for each in self.rounds:
            self._say(turn, each.turn(now, self.cancelled_at))
            self._analyse(each, now, turn)
        if not self._all_over(now):
            return
        reason, why = self._stop(now)
        if not why:
            self._next_round(now, turn)
        elif not any(self._waits_for_analysis(each) for each in self.rounds):
            self._end(now, turn, reason, why)

    def _all_over(self, now: float) -> bool:
        """Nothing is waited for in any round but analyses."""
        for each in self.rounds:
            if each.over and each.over_at is None:
                each.over_at = now
        return all(each.over for each in self.rounds if each.begun)

    def _say(self, turn: Turn, said: Said) -> None:
        turn.add(said)
        for event in said.events:
            self.hear(event)

    def _begin(self, now: float, turn: Turn) -> bool:
        age_s = now - self.request.ts
        if self.cancelled_at is not None:
            self._refuse(now, turn, "cancelled_by_request", "it was cancelled before it began")
        elif why := wishes.objection(self.request):
            self._refuse(now, turn, "bad_request", why)
        elif age_s > self.limits.request_age_s:
            words = f"the request was {age_s:.0f} s old when a scheduler read it: none was there, or a clock is off"
            self._refuse(now, turn, "expired", words)
        else:
            self._say(turn, Said(events=[self._event(now, "requested")]))
            return True
        return False

    def _refuse(self, now: float, turn: Turn, reason: str, why: str) -> None:
        self._say(turn, Said(events=[self._event(now, "ended", reason, why)]))

    # --- rounds ----------------------------------------------------------------------------------------------

    def _next_round(self, now: float, turn: Turn) -> None:
        if now < self._due_at():
            return
        if self._asking_since is None:
            self._asking_since = now
        if not self.request.job_id and not self.request.where:
            self._look([Target(host, "", tuple(self.request.pids)) for host in self.request.hosts], now, turn)
        elif self._answer is None or (not self._answer.targets and not self._given_up(now)):
            self._ask(now, turn)
        elif self._answer.targets:
            self._look(self._answer.targets, now, turn)
        else:
            self._say(turn, self._fresh_round().void(self._answer.reason or "no_process", self._answer.why, now))
            self._forget_answer()

    def _given_up(self, now: float) -> bool:
        """The answer, which names nobody, is the last."""
        asked_enough = self._asking_since is not None and now >= self._asking_since + self.limits.resolve_s
        return asked_enough or (self._answer is not None and self._answer.final)

    def _ask(self, now: float, turn: Turn) -> None:
        if self._asking_since is not None and now >= self._asking_since + 2 * self.limits.resolve_s:
            self._answer = Resolved(self.request.capture_id, (), "store_away", "the store did not answer", True)
        elif self._asked_at is None or (self._answer is not None and now >= self._asked_at + ASK_EVERY_S):
            self._asked_at, self._answer = now, None
            turn.resolve.append(Resolve(self.request))

    def _look(self, targets: Sequence[Target], now: float, turn: Turn) -> None:
        self._say(turn, self._fresh_round().look(targets, now))
        self._forget_answer()

    def _forget_answer(self) -> None:
        self._answer = self._asked_at = self._asking_since = None

    def _fresh_round(self) -> Round:
        """The start of one that was too soon for somebody is followed by one that is further ahead: who asks each 5 s,
        and is captured each 20 s, asks at the same moment of each round.
        """
        done = [each for each in self.rounds if each.begun]
        made = self._round(len(done) + 1)
        if done:
            missed = any(rank.last.reason in TOO_SOON for rank in done[-1].ranks)
            made.later_s = min(LATER_MOST_S, done[-1].later_s + LATER_S * missed)
        return made

    def _due_at(self) -> float:
        """When the next round is to begin: at once; of a continuous one at a multiple of its interval."""
        done = [each for each in self.rounds if each.begun]
        if self.request.mode != "continuous" or not done:
            return 0.0
        first, last, every = done[0].looked_at, done[-1], self.request.interval_s
        passed = max(last.looked_at, last.over_at or 0.0) - first
        return first + every * (math.floor(passed / every) + 1)

    # --- the end ---------------------------------------------------------------------------------------------

    def _stop(self, now: float) -> tuple[str, str]:
        """Why there is no further round (a reason, and words); no words while there is one."""
        done = [each for each in self.rounds if each.begun]
        got = sum(bool(each.captured) for each in done)
        if self.cancelled_at is not None:
            return "cancelled_by_request", f"cancelled in round {len(done)}"
        if done and self.request.mode != "continuous":
            return self._stop_trace(done)
        if self.detached:
            return "", f"detached after {len(done)} rounds"
        if done and all(not each.captured for each in done[-ROUNDS_IN_VAIN:]) and len(done) >= ROUNDS_IN_VAIN:
            return self._commonest(done[-1]), f"{ROUNDS_IN_VAIN} rounds in a row captured nothing"
        if done and (too_slow := self._slowdown(done))[0]:
            return too_slow
        if why := self._ceiling(len(done), now):
            return "limit", f"{why}; {got} rounds captured something"
        return "", ""

    def _stop_trace(self, done: Sequence[Round]) -> tuple[str, str]:
        wanted, last = wishes.rounds(self.request), done[-1]
        if len(done) < wanted and last.captured and not self.detached:
            return "", ""
        reason = "" if last.captured else self._commonest(last)
        return reason, self._summary(done)

    def _slowdown(self, done: Sequence[Round]) -> tuple[str, str]:
        """Whether it costs more than it may, as most of its processes have it; or, twice in a row, nobody can tell."""
        most = self.request.max_slowdown_permille
        told = [_slowdowns(each) for each in done if each.captured]
        if not most or not told:
            return "", ""
        if not any(told[-UNMEASURED:]):
            why = f"no process counted its steps, so that the limit of {most / 10:g} % on the slow-down cannot be kept"
            return "unmeasured", f"{why}: start the job by `warpmeter run`, or capture without `--max-slowdown`"
        if not told[-1] or median(told[-1]) <= most:
            return "", ""
        cost = f"capturing cost {median(told[-1]) / 10:g} % of the steps a second"
        return "slowdown", f"{cost}, and may cost {most / 10:g} %"

    def _ceiling(self, done: int, now: float) -> str:
        if self.request.mode != "continuous":
            return ""
        size = sum(rank.captured.bytes for each in self.rounds for rank in each.captured if rank.captured)
        began = self.begun_at or now
        if self.request.max_count and done >= self.request.max_count:
            return f"the ceiling of {self.request.max_count} rounds is reached"
        if self.request.max_bytes and size >= self.request.max_bytes:
            return f"{size} bytes are captured, the ceiling is {self.request.max_bytes}"
        if now >= began + wishes.seconds(self.request):
            return f"it has gone on for {wishes.seconds(self.request):.0f} s, its ceiling"
        return ""

    def _summary(self, done: Sequence[Round]) -> str:
        ranks = [rank for each in done for rank in each.ranks]
        got = sum(rank.captured is not None for rank in ranks)
        failed = Counter(rank.last.reason for rank in ranks if rank.captured is None and rank.last.reason)
        hosts = Counter(reason for each in done for reason in each.reasons.values())
        rest = [f"{count} {reason}" for reason, count in failed.most_common()]
        rest += [f"{count} host{'s' * (count > 1)} {reason}" for reason, count in hosts.most_common()]
        return f"{got} of {len(ranks)} processes captured" + (f": {', '.join(rest)}" if rest else "")

    @staticmethod
    def _commonest(each: Round) -> str:
        reasons = [rank.last.reason for rank in each.ranks if rank.last.reason] or list(each.reasons.values())
        return Counter(reasons).most_common(1)[0][0] if reasons else "no_process"

    def _end(self, now: float, turn: Turn, reason: str, why: str) -> None:
        for each in self.rounds:
            self._say(turn, each.late(now))
        self._say(turn, Said(events=[self._event(now, "ended", reason, why)]))

    # --- analysis --------------------------------------------------------------------------------------------

    def _waits_for_analysis(self, each: Round) -> bool:
        return self.limits.analyse and bool(each.unanalysed)

    def _analyse(self, each: Round, now: float, turn: Turn) -> None:
        if not each.over or not self._waits_for_analysis(each):
            return
        if each.analyse_since is None:
            each.analyse_since = now
        if now >= each.analyse_since + QUEUED * self.limits.analyse_s:
            why = f"not analysed within {QUEUED * self.limits.analyse_s:g} s; `warpmeter analyze --load` does it alone"
            self._say(turn, each.unanalysable(why, now))
        elif each.sequence not in self._analysing:
            self._analysing.add(each.sequence)
            traces = tuple(rank.captured for rank in each.captured if rank.captured is not None)
            turn.analyse.append(Analyse(self.request.capture_id, each.sequence, traces))

    def _event(self, now: float, state: str, reason: str = "", why: str = "") -> Event:
        return Event(
            capture_id=self.request.capture_id, ts=now, state=state, by="scheduler", reason=reason, why=why,
            job_id=self.request.job_id,
        )  # fmt: skip


def _slowdowns(each: Round) -> list[int]:
    """What its processes told."""
    said = [rank.captured for rank in each.captured if rank.captured is not None]
    return [event.slowdown_permille for event in said if event.HasField("slowdown_permille")]
