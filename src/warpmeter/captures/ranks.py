"""What is known of one process in one round of a capture: states only go forward. Pure."""

from dataclasses import dataclass, field
from typing import Final

from warpmeter.captures import FINAL
from warpmeter.schemas.generated.capture_events_pb2 import Envelope

Event = Envelope.CaptureEvent

FORWARD: Final = ("requested", "seen", "accepted", "started", *sorted(FINAL - {"captured"}), "captured", "analysed")
"""In this order a process gets on. Of two final states the one with a trace counts: an agent that was given up may
have brought it after all."""


@dataclass
class Rank:
    """One process. `told`: it was told to start; `last` is the event that brought it to `state`; `seen`: what was said
    of it when it was looked for.
    """

    host: str
    pid: int
    state: str = ""
    told: bool = False
    last: Event = field(default_factory=Event)
    captured: Event | None = None
    seen: Event | None = None

    @property
    def final(self) -> bool:
        """Nothing more comes of it, but its analysis."""
        return self.state in FINAL or self.state == "analysed"

    @property
    def ready(self) -> bool:
        """It was seen, and can be traced."""
        return self.state == "seen" and not self.last.reason

    @property
    def why(self) -> str:
        """What there is to say: of its trace, and of its analysis."""
        of_trace = "" if self.captured is None else self.captured.why
        told = (of_trace, "" if self.last.why in of_trace else self.last.why)
        return "; ".join(each for each in told if each)

    def hear(self, event: Event) -> None:
        """Take a state, unless it is at a later one."""
        if event.state == "requested":
            self.told = True
        if event.state == "captured":
            self.captured = event
        if event.state == "seen":
            self.seen = event
        if event.state in FORWARD and _place(event.state) > _place(self.state) and not self._done_by(event):
            self.state, self.last = event.state, event

    def _done_by(self, event: Event) -> bool:
        return self.final and event.state in FINAL and event.state != "captured"


def _place(state: str) -> int:
    return FORWARD.index(state) if state else -1
