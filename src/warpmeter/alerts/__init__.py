"""Alerts, as everybody knows them who has to do with them: rules, alerts, and what people say of these."""

from warpmeter.alerts.alert import OPEN, SEVERITIES, STATES, Alert, AlertRow, Severity, State, fingerprint
from warpmeter.alerts.rule import Parameter, Rule, RuleError
from warpmeter.alerts.words import Silence, Word, Words

__all__ = [
    "OPEN",
    "SEVERITIES",
    "STATES",
    "Alert",
    "AlertRow",
    "Parameter",
    "Rule",
    "RuleError",
    "Severity",
    "Silence",
    "State",
    "Word",
    "Words",
    "fingerprint",
]
