"""One alert: an episode of one subject of one rule, as a value and as a row of its topic."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, get_args

from warpmeter.schemas.generated.alerts_pb2 import Envelope

AlertRow = Envelope.Alert
Severity = Literal["info", "warning", "critical"]
State = Literal["pending", "firing", "resolved", "dropped"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""The mildest first."""
STATES: Final[tuple[State, ...]] = get_args(State)
LATEST: Final = 4_102_444_800.0
"""2100: the store takes no later times."""
OPEN: Final = frozenset({"pending", "firing"})
"""States of an episode that goes on; after `resolved` and `dropped` (it was pending, and never fired) nothing comes."""
_PLAIN: Final = (
    "alert_id", "ts", "rule", "severity", "state", "fingerprint", "summary", "description", "unit", "started_at",
    "flapping", "silenced_by", "acknowledged_by", "capture_id",
)  # fmt: skip
_OPTIONAL: Final = ("value", "fired_at", "resolved_at")


@dataclass(frozen=True)
class Alert:
    """One episode as it stands at `ts`, seconds since the epoch as all times here.

    `labels`: what it is about, the same all along the episode (host, gpu, uuid, job_id, …, and the rule's own);
    `fingerprint`: of rule and labels, the same in each episode of a subject. `value`, in `unit` (as the metric table
    has units), is what the rule measured when the row was written. `started_at`: the condition was first seen.
    `silenced_by`: the silence that keeps receivers from hearing of it; `capture_id`, `findings`: of a trigger.
    """

    alert_id: str
    rule: str
    severity: Severity
    state: State
    fingerprint: str
    labels: Mapping[str, str]
    summary: str
    ts: float
    started_at: float
    description: str = ""
    value: float | None = None
    unit: str = ""
    fired_at: float | None = None
    resolved_at: float | None = None
    flapping: bool = False
    silenced_by: str = ""
    acknowledged_by: str = ""
    capture_id: str = ""
    findings: tuple[str, ...] = field(default=())

    @property
    def open(self) -> bool:
        """The episode goes on."""
        return self.state in OPEN

    @property
    def meant(self) -> bool:
        """It is one that a scheduler can have written: the topic takes rows of anybody."""
        times = [each for each in (self.ts, self.started_at, self.fired_at, self.resolved_at) if each is not None]
        known = self.state in STATES and self.severity in SEVERITIES
        return known and all(0 <= each < LATEST for each in times)

    @property
    def quiet(self) -> bool:
        """Receivers are not to hear of it: somebody silenced it, or takes care of it."""
        return bool(self.silenced_by or self.acknowledged_by)

    def row(self) -> AlertRow:
        """As a row of the topic `alerts`."""
        told = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) is not None}
        return AlertRow(
            labels=dict(self.labels), findings=self.findings, **{name: getattr(self, name) for name in _PLAIN}, **told
        )

    @classmethod
    def of_row(cls, row: AlertRow) -> "Alert":
        """The alert that a row of the topic tells of."""
        told: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}
        told |= {name: getattr(row, name) if row.HasField(name) else None for name in _OPTIONAL}
        return cls(labels=dict(row.labels), findings=tuple(row.findings), **told)


def fingerprint(rule: str, labels: Mapping[str, str]) -> str:
    """16 hex digits of a rule and the labels that tell its subjects apart, in whatever order."""
    told = "\0".join([rule, *(f"{name}\1{value}" for name, value in sorted(labels.items()))])
    return blake2b(told.encode(), digest_size=8).hexdigest()
