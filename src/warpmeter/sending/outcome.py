"""What became of one attempt to send."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sent:
    """The other side has acknowledged it. `note`: what is to be known. `url`: of a folder, where it lies."""

    note: str = ""
    url: str = ""


@dataclass(frozen=True)
class TryAgain:
    """It may go later as it is. `after_s`: when the other side asks for a pause, else 0."""

    why: str
    after_s: float = 0.0


@dataclass(frozen=True)
class Refused:
    """It will not go until somebody acts; `why` says what happened and what to do."""

    why: str


Outcome = Sent | TryAgain | Refused
