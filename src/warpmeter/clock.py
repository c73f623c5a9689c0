"""Time, injectable: UTC for facts, monotonic for durations."""

import time
from datetime import UTC, datetime
from typing import Final, Protocol

UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Clock(Protocol):
    """What a part may ask of time."""

    def now(self) -> float:
        """Seconds since the epoch (UTC)."""

    def monotonic(self) -> float:
        """Seconds that never step; for durations and schedules."""

    def sleep(self, seconds: float) -> None:
        """Wait; never less than asked."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch (UTC)."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def moment(text: str, now: float) -> float:
    """`15m`, `2h` (before `now`), or an ISO time (UTC unless it says otherwise), in seconds since the epoch.

    Raises ValueError for anything else.
    """
    if text[-1:] in UNITS_S and text[:-1].replace(".", "", 1).isdigit():
        return now - float(text[:-1]) * UNITS_S[text[-1]]
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time; write 15m, 2h or 2026-01-31T12:00") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
