"""What was lost on this host so far, by reason: told once the broker hears again, also by a later agent."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from warpmeter.clock import Clock

SIZE: Final = 512
"""Bytes of the file, always the same: it is overwritten in place, for which a full disk has room."""
TELL_S: Final = 3600.0
"""A loss is a health row for so long after the last of its kind; its row in `source_health` stays."""


class Losses:
    """Counts of all agents that ever used `file`, and how much of them the broker has heard of.

    An agent that loses messages in an outage may end in it; the next one tells of them.
    """

    def __init__(self, file: Path, clock: Clock) -> None:
        """A file that is missing or damaged begins at nothing; it is made while its disk has room."""
        self._file, self._clock = file, clock
        self._total, self._heard = _read(file)
        self._earlier = dict(self._total)
        self._said: dict[str, int] = {}
        self._until: dict[str, float] = {}
        self._saved: tuple[dict[str, int], dict[str, int]] | None = None
        self.save()

    def update(self, now: Mapping[str, int]) -> dict[str, int]:
        """Take the counts of this agent so far; returns what came to them since the last time."""
        new = {}
        for why, count in now.items():
            total = self._earlier.get(why, 0) + count
            if more := total - self._total.get(why, 0):
                new[why], self._total[why] = more, total
                self._until[why] = self._clock.monotonic() + TELL_S
        return new

    def tell(self, heard: bool) -> dict[str, int]:
        """What to say now, by reason. `heard`: the broker has acknowledged everything that was said before."""
        if heard:
            self._heard |= self._said
        now = self._clock.monotonic()
        self._said = {
            why: count
            for why, count in self._total.items()
            if count > self._heard.get(why, 0) or now < self._until.get(why, now)
        }
        return self._said

    def save(self) -> None:
        """Write what changed. A disk that refuses is tried again the next time."""
        now = (dict(self._total), dict(self._heard))
        if now == self._saved:
            return
        pairs = {why: [count, self._heard.get(why, 0)] for why, count in self._total.items()}
        with suppress(OSError):
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, json.dumps(pairs).ljust(SIZE).encode(), 0)
            finally:
                os.close(descriptor)
            self._saved = now


def _read(file: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Totals and what was heard of them."""
    try:
        pairs = {str(why): (int(total), int(heard)) for why, (total, heard) in json.loads(file.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}, {}
    return {why: pair[0] for why, pair in pairs.items()}, {why: pair[1] for why, pair in pairs.items()}
