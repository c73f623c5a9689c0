"""What can be set: the tables, and the form of their variables."""

import dataclasses
from typing import Final

from warpmeter import settings as parts
from warpmeter.settings import Settings

PREFIX: Final = "WARPMETER_"
LISTED: Final = {
    "agent.scrape": parts.Scrape,
    "scheduler.schedules": parts.Schedule,
    "web.tokens": parts.Token,
    "alerts.rules": parts.AlertRule,
    "alerts.receivers": parts.Receiver,
    "alerts.triggers": parts.Trigger,
    "reports.schedules": parts.ReportSchedule,
    "reports.targets": parts.Target,
}
"""Settings that are lists of tables."""
TABLES: Final = {field.name: field for field in dataclasses.fields(Settings)}


class ConfigError(Exception):
    """The settings cannot be used; the message says which key, why, and what to do."""
