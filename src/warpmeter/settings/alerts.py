"""Alerts: rules, who is told, and what they set off."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from warpmeter.settings.sending import Receiver


@dataclass(frozen=True)
class AlertRule:
    """A rule of one's own, or of a built-in one what is to be otherwise; docs/alerts.md has them.

    Of a built-in rule's `name`, what is left out stays as it is: `parameters` are its thresholds, `enabled` false
    switches it off. A rule of one's own needs `sql` and `summary`.
    """

    name: str
    enabled: bool = True
    sql: str = ""
    summary: str = ""
    description: str = ""
    severity: Literal["", "info", "warning", "critical"] = ""
    for_s: float | None = None
    keep_s: float | None = None
    every_s: float | None = None
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Trigger:
    """Alerts that fire and fit `match` (matchers as a silence has them: `rule`, `severity` or a label, and its value,
    or `~` and an expression) ask for a capture of their job, or of their host where they name no job.

    `duration_ms` or `iterations`, half a second without either, and the rest as in `warpmeter capture`. Of a job, or
    host, there are at most `per_job_per_day` captures, `cooldown_s` apart, and for a rule at most `per_day`.
    """

    name: str
    match: Mapping[str, str] = field(default_factory=dict)
    duration_ms: int = 0
    iterations: int = 0
    process_limit: int = 8
    shapes: bool = False
    memory: bool = False
    stacks: bool = False
    flops: bool = False
    modules: bool = False
    per_job_per_day: int = 3
    per_day: int = 20
    cooldown_s: float = 3600.0


@dataclass(frozen=True)
class Alerts:
    """Alerts, which the elected scheduler evaluates each `evaluate_s`, a rule in `rule_s` of the store's time at most.

    What goes on is published again each `repeat_s`. A subject that fired `flaps` times within `flap_s` is flapping: its
    alert goes on until the condition has been gone for `flap_keep_s`.
    `receivers` are told; without one, alerts are in the store and on the page alone. `triggers` ask for captures, all
    of them together for at most `captures_per_day`; without one, no alert does.
    """

    enabled: bool = True
    evaluate_s: float = 60.0
    rule_s: float = 10.0
    rule_memory: int = 2 << 30
    repeat_s: float = 6 * 3600.0
    flaps: int = 4
    flap_s: float = 3600.0
    flap_keep_s: float = 1800.0
    captures_per_day: int = 50
    rules: tuple[AlertRule, ...] = ()
    receivers: tuple[Receiver, ...] = ()
    triggers: tuple[Trigger, ...] = ()
