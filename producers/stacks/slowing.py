"""Whether sampling slows processes down, by their own count of steps, where they keep one (`warpmeter run`)."""

from collections.abc import Mapping, Sequence
from threading import Thread
from typing import Final

from warpmeter.producers.kineto import steps
from warpmeter.producers.kineto.steps import Traced
from warpmeter.producers.stacks import pyspy
from warpmeter.producers.stacks.rotation import Key, Target

WITHIN_S: Final = 1.0
"""What a process has open is its own, and looking at it may take as long as it likes: it is not waited for longer."""


class Slowing:
    """Remembers of each process when it was sampled last, and how much slower it was then."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._until: dict[Key, float] = {}
        self._before: dict[Key, int] = {}

    def of(self, sampled: Sequence[tuple[Target, float, float]]) -> Mapping[Key, int]:
        """Steps a second that each lost while it was sampled, in thousandths: in this turn and in the one before.

        The smaller of the two, for one alone may be chance. `sampled`: of each process from when until when, in
        monotonic seconds. Those that count no steps, or too few, are not in it.
        """
        found: dict[Key, int] = {}
        thread = Thread(target=self._look, args=(sampled, found), name="stacks-steps", daemon=True)
        thread.start()
        thread.join(WITHIN_S)
        lost = dict(found)
        steady = {key: min(self._before.get(key, 0), permille) for key, permille in lost.items()}
        keys = {target.key for target, _, _ in sampled}
        self._before = {key: value for key, value in self._before.items() if key not in keys} | lost
        self._until |= {target.key: until for target, _, until in sampled}
        return steady

    def keep(self, keys: set[Key]) -> None:
        """Forget all but these."""
        self._until = {key: at for key, at in self._until.items() if key in keys}
        self._before = {key: at for key, at in self._before.items() if key in keys}

    def _look(self, sampled: Sequence[tuple[Target, float, float]], found: dict[Key, int]) -> None:
        quiet = dict(self._until)
        for target, since, until in sampled:
            traced = Traced(since, until, quiet.get(target.key, 0.0), warmup_s=0.0)
            try:
                own_pid = pyspy.own_pid(self._proc, target.pid)
                permille = steps.slowdown_permille(steps.counted(self._proc, target.pid, own_pid), traced)
            except OSError:  # it has ended, or may not be looked at
                continue
            if permille is not None:
                found[target.key] = permille
