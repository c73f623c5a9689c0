"""Settings that each are in order, and cannot be together."""

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from warpmeter import settings as parts
from warpmeter.config.agent import refuse_agent
from warpmeter.config.alerts import refuse_alerts, refuse_reports
from warpmeter.config.known import TABLES, ConfigError
from warpmeter.config.masking import masked_url
from warpmeter.config.web import refuse_web
from warpmeter.settings import Settings

GROUP: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
"""It names a file of the ledger, too."""
PREFIX: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,200}(?<!\.)")
"""What Kafka takes in a topic's name, with room for the rest of it; the dot behind the prefix is ours."""
PERIODS: Final = ("interval_s", "period_s")


def refuse_impossible(settings: Settings) -> None:
    """Raises ConfigError for the first value, or pair of values, that cannot work."""
    _refuse_topics(settings.kafka)
    _refuse_dsn(settings.store.dsn)
    for where, seconds in _durations(settings):
        _refuse_duration(where, seconds)
    _refuse_ports(settings)
    refuse_agent(settings.agent, settings.traces, settings.metrics)
    _refuse_ingest(settings.ingest)
    _refuse_store(settings.store)
    refuse_web(settings.web)
    refuse_alerts(settings.alerts)
    refuse_reports(settings.reports)


def _refuse_ingest(ingest: parts.Ingest) -> None:
    if not GROUP.fullmatch(ingest.group):
        raise ConfigError(
            f"ingest.group {ingest.group!r} is no plain name: use letters, digits, '.', '_' and '-', at most 200"
        )
    if ingest.batch_bytes > ingest.budget_bytes:
        raise ConfigError("ingest.batch_bytes exceeds ingest.budget_bytes: no batch could ever close by size")
    if not 0 < ingest.reject_share <= 1:
        raise ConfigError("ingest.reject_share must lie in (0, 1]")


def _durations(settings: Settings) -> Iterator[tuple[str, float]]:
    """Every setting in seconds, by its full name."""
    named = [(table, getattr(settings, table)) for table in TABLES]
    named += [(f"agent.scrape.{i}", scrape) for i, scrape in enumerate(settings.agent.scrape)]
    named += [(f"reports.targets.{i}", target) for i, target in enumerate(settings.reports.targets)]
    for prefix, part in named:
        for field in dataclasses.fields(part):
            if field.name.endswith("_s"):
                yield f"{prefix}.{field.name}", getattr(part, field.name)


def _refuse_duration(where: str, seconds: float) -> None:
    if not math.isfinite(seconds):
        raise ConfigError(f"{where} = {seconds} is no time: give seconds as a finite number")
    if where.startswith("agent.") and where.endswith(PERIODS) and seconds < 0.1:
        raise ConfigError(f"{where} below 0.1 s: the agent would measure itself")
    if seconds <= 0:
        raise ConfigError(f"{where} = {seconds:g} must be more than 0 s")


def _refuse_ports(settings: Settings) -> None:
    for table in ("metrics", "engine", "web"):
        for key, port in vars(getattr(settings, table)).items():
            if key.endswith("port") and not 0 <= port <= 65535:
                raise ConfigError(f"{table}.{key} = {port} is no port: they go to 65535")


def _refuse_dsn(dsn: str) -> None:
    """Its password must not be taken for a port or a path: errors of those would show it."""
    try:
        fine = urlsplit(dsn).port != 0
    except ValueError:  # no port
        fine = False
    if not fine:
        raise ConfigError(
            f"store.dsn {masked_url(dsn)!r} is no address: port and name must be in order, and in user and password "
            "each of / ? # @ : [ ] % written as %2F %3F %23 %40 %3A %5B %5D %25"
        )


def _refuse_store(store: parts.Store) -> None:
    if store.insert_quorum and not store.cluster:
        raise ConfigError("store.insert_quorum needs store.cluster: one server has no replicas")
    if store.shards and not store.cluster:
        raise ConfigError("store.shards needs store.cluster: one server has no shards")
    if not all(each.startswith(("http://", "https://")) for each in store.shards):
        raise ConfigError("store.shards: each must start with http:// or https://")
    if not store.dsn.startswith(("http://", "https://", "chdb://")):
        raise ConfigError("store.dsn must start with http://, https:// or chdb://")
    if store.cold_after_days < 0 or (store.cold_after_days and not store.storage_policy):
        raise ConfigError("store.cold_after_days needs store.storage_policy, and that a volume 'cold'; 0 moves nothing")


def _refuse_topics(kafka: parts.Kafka) -> None:
    if not PREFIX.fullmatch(kafka.topic_prefix):
        raise ConfigError(
            f"kafka.topic_prefix {kafka.topic_prefix!r} is no beginning of a topic's name: use letters, digits, '.', "
            "'_' and '-', at most 200, without a dot at either end (topics are called PREFIX.gpu-samples)"
        )
    if kafka.schema_registry_token and (problem := parts.unsendable(kafka.schema_registry_token)):
        raise ConfigError(f"kafka.schema_registry_token {problem}")
    if kafka.min_insync_replicas is None and not kafka.retention_hours:
        return
    from warpmeter.topics import objection

    if problem := objection(kafka):
        raise ConfigError(problem)
