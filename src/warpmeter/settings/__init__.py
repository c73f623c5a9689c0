"""Every setting of every part, as one frozen object that is read once.

Plain dataclasses, so that the agent carries no validation library: `warpmeter.config` reads and validates them,
`warpmeter.launch` hands them to a child process.
"""

from dataclasses import dataclass, field, replace

from warpmeter.settings.agent import Agent, Output, Scrape, Traces
from warpmeter.settings.alerts import AlertRule, Alerts, Trigger
from warpmeter.settings.bus import Kafka
from warpmeter.settings.common import LOOPBACK, PATH, SECRET, default_data
from warpmeter.settings.ingest import Ingest
from warpmeter.settings.process import Log, Metrics
from warpmeter.settings.reports import Reports, ReportSchedule
from warpmeter.settings.scheduler import Schedule, Scheduler
from warpmeter.settings.sending import Receiver, Target, Way
from warpmeter.settings.storing import Engine, Store
from warpmeter.settings.web import Token, Web, unsendable

__all__ = [
    "Agent",
    "AlertRule",
    "Alerts",
    "Engine",
    "Ingest",
    "Kafka",
    "LOOPBACK",
    "Log",
    "Metrics",
    "Output",
    "PATH",
    "Receiver",
    "ReportSchedule",
    "Reports",
    "SECRET",
    "Schedule",
    "Scheduler",
    "Scrape",
    "Settings",
    "Store",
    "Target",
    "Token",
    "Traces",
    "Trigger",
    "Way",
    "Web",
    "default_data",
    "unsendable",
]


@dataclass(frozen=True)
class Settings:
    """All of it. One TOML table a field; environment variables `WARPMETER_<TABLE>__<KEY>`.

    Groups that are not said are called by the prefix of the topics: fleets that are kept apart by it on one Kafka would
    take each other's messages in a common group.
    """

    kafka: Kafka = field(default_factory=Kafka)
    store: Store = field(default_factory=Store)
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    agent: Agent = field(default_factory=Agent)
    ingest: Ingest = field(default_factory=Ingest)
    engine: Engine = field(default_factory=Engine)
    traces: Traces = field(default_factory=Traces)
    scheduler: Scheduler = field(default_factory=Scheduler)
    web: Web = field(default_factory=Web)
    reports: Reports = field(default_factory=Reports)
    alerts: Alerts = field(default_factory=Alerts)

    def __post_init__(self) -> None:
        group = self.kafka.group
        if not self.ingest.group:
            object.__setattr__(self, "ingest", replace(self.ingest, group=group("ingest")))
        if not self.scheduler.group:
            object.__setattr__(self, "scheduler", replace(self.scheduler, group=group("scheduler")))

    @property
    def page(self) -> str:
        """Where links of reports and alerts lead: reports.page, else where a browser on this machine finds the page."""
        return (self.reports.page or self.web.address).rstrip("/")
