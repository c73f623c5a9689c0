"""All captures that go on: where requests, events and the store's answers come in, and a turn for all goes out."""

from typing import Final

from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.capture import Capture, Resolved, Turn
from warpmeter.settings import Scheduler

REMEMBERED_S: Final = 3600.0
"""A request that comes again (its sender was not sure of the first) so long after an end begins nothing."""


class Captures:
    """Captures by id. Requests are read before events; what is heard of an unknown capture is nobody's."""

    def __init__(self, limits: Scheduler) -> None:
        self._limits = limits
        self._open: dict[str, Capture] = {}
        self._ended: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, capture_id: str) -> bool:
        return capture_id in self._open

    def asked_by(self, who: str) -> bool:
        """Whether a capture goes on that `who` asked for."""
        return any(capture.request.requested_by == who for capture in self._open.values())

    def request(self, request: Request, now: float) -> None:
        """Somebody asks for a capture, or for the end of one. A capture that is there is not begun again."""
        known = self._open.get(request.capture_id)
        if request.action in ("cancel", "detach"):
            if known is not None:
                known.ask_to_end(request.action, now)
        elif known is None and request.capture_id and request.capture_id not in self._ended:
            self._open[request.capture_id] = Capture(request, self._limits)

    def hear(self, event: Event, at: float | None = None) -> None:
        """Take an event; `at` is when it came, None where it is read again."""
        if (capture := self._open.get(event.capture_id)) is not None:
            capture.hear(event, at)

    def resolved(self, answer: Resolved) -> None:
        """The store has answered."""
        if (capture := self._open.get(answer.capture_id)) is not None:
            capture.resolved(answer)

    def turn(self, now: float) -> Turn:
        """What is due now. Captures that have ended are forgotten, but for their names."""
        turn = Turn()
        for capture_id, capture in list(self._open.items()):
            turn.add(capture.turn(now))
            if capture.ended_at is not None:
                del self._open[capture_id]
                self._ended[capture_id] = now
        self._ended = {name: at for name, at in self._ended.items() if now - at < REMEMBERED_S}
        return turn
