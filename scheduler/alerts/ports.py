"""What the evaluation of alerts works on, and who hears of it. All calls come from the alerts' own thread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from warpmeter.alerts import Alert


class Receivers(Protocol):
    """Who is told of alerts: webhooks, mail, Slack, Alertmanager.

    No call may wait for a receiver: what is to be sent is handed to threads of the receivers' own.
    """

    def recall(self, firing: Sequence[Alert]) -> None:
        """This process was elected. `firing`: what fires, as it was published last, also what is silenced or taken
        care of. Whoever was elected before may have told of it, or ended before it could: what was delivered is the
        receivers' own to remember.
        """

    def turn(self, now: float, changed: Sequence[Alert], firing: Sequence[Alert]) -> None:
        """After an evaluation, and each few seconds between two.

        `changed`: alerts that began to fire or are resolved since the last call, or fire and are silenced no more; each
        comes once, when the bus has it. What is silenced or taken care of (`Alert.quiet`) is not among them while it
        fires; its end is, for it may have been told of before it was silenced: who told of no begin tells of no end.
        `firing`: all that fires now and is not quiet, for receivers that want it repeated.
        """

    def drop(self) -> None:
        """This process is the active one no more: whoever is now tells of the rest."""

    def close(self) -> None:
        """No more; returns soon."""


@dataclass(frozen=True)
class Attached:
    """What belongs to an alert since a trigger was at work: the capture, and in words what its analysis found."""

    alert_id: str
    capture_id: str = ""
    findings: tuple[str, ...] = ()


class Triggers(Protocol):
    """What alerts set going: captures. It asks for them by the topic, as anybody does; no call may wait for long."""

    def recall(self, firing: Sequence[Alert]) -> None:
        """This process was elected. `firing`: what fires, as it was published last, with `capture_id` where a capture
        was asked for already.
        """

    def turn(self, now: float, changed: Sequence[Alert], firing: Sequence[Alert]) -> Sequence[Attached]:
        """After an evaluation, and each few seconds between two; what is new to be attached to alerts.

        `changed` and `firing` as receivers get them, and silenced ones and those taken care of as well: a silence is
        about telling people. What is attached is published with the alert.
        """

    def drop(self) -> None:
        """This process is the active one no more."""

    def close(self) -> None:
        """No more; returns soon."""


class _Nobody:
    """Where there are none."""

    def recall(self, firing: Sequence[Alert]) -> None:
        """Nothing."""

    def drop(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class NoReceivers(_Nobody):
    """Nobody is told."""

    def turn(self, now: float, changed: Sequence[Alert], firing: Sequence[Alert]) -> None:
        """Nothing."""


class NoTriggers(_Nobody):
    """Nothing is set going."""

    def turn(self, now: float, changed: Sequence[Alert], firing: Sequence[Alert]) -> Sequence[Attached]:  # noqa: ARG002
        """Nothing."""
        return ()
