"""Which stacks were told lately: their frames need not be told again."""

from collections import OrderedDict
from typing import Final

AGAIN_S: Final = 1800.0
"""A stack's frames are told again after so long, for what told them may be lost, or kept no longer."""
MOST: Final = 50_000


class Told:
    """Remembers the stacks told last; one that is forgotten is told again, which costs bytes and nothing else."""

    def __init__(self, again_s: float = AGAIN_S, most: int = MOST) -> None:
        self._again_s, self._most = again_s, most
        self._at: OrderedDict[tuple[str, int], float] = OrderedDict()

    def due(self, stack: tuple[str, int], now: float) -> bool:
        """Whether the frames of a stack of a job are to be told at `now` (monotonic seconds); that is done then.

        By job, for the store keeps frames by job, so that those of one lie together.
        """
        at = self._at.get(stack)
        if at is not None and now - at < self._again_s:
            self._at.move_to_end(stack)
            return False
        self._at[stack] = now
        self._at.move_to_end(stack)
        if len(self._at) > self._most:
            self._at.popitem(last=False)
        return True
