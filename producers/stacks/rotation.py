"""Which processes a turn samples: pure, over the trees of jobs as they are. Of too many each gets its turn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from warpmeter.producers.source import JobTree

Key = tuple[int, int]


@dataclass(frozen=True)
class Target:
    """A Python process that may be sampled. `start`: ticks since boot; `process`: what it is called."""

    pid: int
    start: int
    process: str
    job_id: str
    rank: int | None

    @property
    def key(self) -> Key:
        """Pid and start: pids are used again."""
        return self.pid, self.start


@dataclass(frozen=True)
class Turn:
    """Whom it samples, and how many turns each of them stands for: so many it is, on average, until its next one."""

    targets: Sequence[Target]
    turns: float


def candidates(trees: Iterable[JobTree], subprocesses: bool = True) -> list[Target]:
    """Python processes of jobs, but for those that asked to be left alone; without `subprocesses` one of each tree."""
    found: dict[int, Target] = {}
    for tree in trees:
        wanted = [each for each in tree.interpreters if each.pid not in tree.unsampled]
        for each in wanted if subprocesses else wanted[:1]:
            found[each.pid] = Target(each.pid, each.start, each.name, tree.job_id, tree.rank)
    return list(found.values())


class Rotation:
    """Remembers who was sampled when."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._number = 0
        self._last: dict[Key, int] = {}

    def turn(self, found: Sequence[Target], rests: Callable[[Target], bool] = lambda _: False) -> Turn:
        """The next turn: who waited longest comes first, then in their order; who `rests` sits it out."""
        self._last = {each.key: self._last[each.key] for each in found if each.key in self._last}
        due = sorted((each for each in found if not rests(each)), key=lambda each: self._last.get(each.key, 0))
        taken = due[: self._at_once]
        for each in taken:
            self._number += 1
            self._last[each.key] = self._number
        return Turn(taken, max(1.0, len(due) / self._at_once))


@dataclass(frozen=True)
class Met:
    """Processes of jobs that were met in the course of a turn, also those that have ended meanwhile.

    By pid: what Python processes are called, whose each process is; and which are to be left alone.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    ranks: Mapping[int, tuple[str, int | None]] = field(default_factory=dict)
    unsampled: frozenset[int] = frozenset()

    def also(self, trees: Iterable[JobTree]) -> "Met":
        """With those of these trees."""
        kept = list(trees)
        names = {each.pid: each.name for tree in kept for each in tree.interpreters}
        ranks = {pid: (tree.job_id, tree.rank) for tree in kept for pid in tree.pids}
        return Met(
            {**self.names, **names}, {**self.ranks, **ranks}, self.unsampled.union(*(tree.unsampled for tree in kept))
        )
