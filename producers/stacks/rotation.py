"""Which processes a turn samples: pure, over the trees of jobs as they are. Of too many each gets its turn."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

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


def unsampled(trees: Iterable[JobTree]) -> frozenset[int]:
    """Pids that are to be left alone."""
    return frozenset().union(*(tree.unsampled for tree in trees))


def ranks(trees: Iterable[JobTree]) -> Mapping[int, tuple[str, int | None]]:
    """Job and rank of every process of a job."""
    return {pid: (tree.job_id, tree.rank) for tree in trees for pid in tree.pids}
