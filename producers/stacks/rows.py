"""Rows of `stack-samples` out of what a sampler found. Pure but for what was told before."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from warpmeter.producers.stacks.intern import Told
from warpmeter.schemas.generated.stack_samples_pb2 import Envelope
from warpmeter.stacks import NAME_BYTES, Frame, fitted, frame, identity
from warpmeter.stacks.profile import Profile, Who

StackSample = Envelope.StackSample
ADDRESS: Final = re.compile(r"0x[0-9a-f]+")
UNKNOWN: Final = "[unknown]"
DEEPEST: Final = 512
"""Frames of a stack that are kept, the innermost; more is a recursion that ran away."""
CUT: Final = "[cut off]"
FRAME_BYTES: Final = 1024
"""Of one frame: with the deepest stack of such a row stays below half of what a topic takes."""


@dataclass(frozen=True)
class Whose:
    """What the agent knows of a process that was seen: its name, and its job and rank where it is of one."""

    process: str
    job_id: str = ""
    rank: int | None = None


@dataclass(frozen=True)
class Sampled:
    """What the rows of one sampler have in common. `ts`: when it began, UTC seconds; see the schema for the rest."""

    host: str
    ts: float
    period_ms: int
    sampled_ms: int
    source: str


class Rows:
    """Makes rows; `paths` are the rules that shorten the files of frames."""

    def __init__(self, paths: Mapping[str, str], told: Told | None = None) -> None:
        self._told = told or Told()
        self._rules = [(re.compile(pattern), into) for pattern, into in paths.items()]
        self._frame: Callable[[str], str] = lru_cache(maxsize=20_000)(self._shortened)

    def of(
        self, profile: Profile, sampled: Sampled, whose: Callable[[Who], Whose | None], now: float
    ) -> Iterable[StackSample]:
        """One for each stack of each thread; none of whom `whose` knows nothing. `now`: monotonic seconds."""
        for part in profile.parts:
            owner = whose(part.who)
            if owner is None:
                continue
            seen: dict[tuple[str, ...], tuple[int, int]] = {}
            for stack in part.stacks:
                frames = _cut(tuple(map(self._frame, stack.frames)))
                samples, weight = seen.get(frames, (0, 0))
                seen[frames] = (samples + stack.samples, weight + stack.weight)
            for frames, (samples, weight) in seen.items():
                yield self._row(sampled, part.who, owner, frames, (samples, weight), now)

    def _row(
        self, sampled: Sampled, who: Who, owner: Whose, frames: tuple[str, ...], seen: tuple[int, int], now: float
    ) -> StackSample:  # fmt: skip
        stack = identity(frames)
        return StackSample(
            host=sampled.host,
            ts=sampled.ts,
            period_ms=sampled.period_ms,
            sampled_ms=sampled.sampled_ms,
            source=sampled.source,
            job_id=owner.job_id,
            rank=owner.rank,
            pid=who.pid,
            process=fitted(owner.process, NAME_BYTES),
            tid=who.tid,
            thread=fitted(who.thread, NAME_BYTES),
            stack=stack,
            frames=frames if self._told.due((owner.job_id, stack), now) else (),
            samples=seen[0],
            weight=seen[1],
            unit="microseconds",
        )

    def _shortened(self, text: str) -> str:
        """A frame by the rules. What has only an address, which is another one in each process, is unknown."""
        found = frame(text)
        function = UNKNOWN if ADDRESS.fullmatch(found.function) else found.function
        file = found.file
        for pattern, into in self._rules:
            file = pattern.sub(into, file)
        return fitted(str(Frame(function, file, found.line)), FRAME_BYTES)


def _cut(frames: tuple[str, ...]) -> tuple[str, ...]:
    return frames if len(frames) <= DEEPEST else (CUT, *frames[-DEEPEST:])
