"""Alerts and reports that could not be made, or sent."""

import math
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from warpmeter import settings as parts
from warpmeter.config.known import ConfigError
from warpmeter.config.masking import masked_url
from warpmeter.config.words import is_url, refuse_any
from warpmeter.sending.checking import objection as target_problem


def refuse_alerts(alerts: parts.Alerts) -> None:
    """Raises ConfigError for rules, receivers or triggers that cannot work."""
    if alerts.evaluate_s < 1:
        raise ConfigError("alerts.evaluate_s must be 1 s or more: rules are questions to the store")
    if alerts.flaps < 2:
        raise ConfigError("alerts.flaps must be 2 or more: what fires once is not flapping")
    if alerts.rule_memory < 1 << 20:
        raise ConfigError("alerts.rule_memory below 1 MiB: no rule could be evaluated")
    _refuse_receivers(alerts.receivers)
    _refuse_triggers(alerts.triggers)
    if alerts.rules or alerts.receivers or alerts.triggers:
        _refuse_rules(alerts)


def _refuse_receivers(receivers: Sequence[parts.Receiver]) -> None:
    if not receivers:
        return
    from warpmeter.alerts.receiving import objection

    refuse_any("alerts.receivers", receivers, objection)


def _refuse_triggers(triggers: tuple[parts.Trigger, ...]) -> None:
    if not triggers:
        return
    from warpmeter.alerts.triggering import objection

    refuse_any("alerts.triggers", triggers, objection)


def _refuse_rules(alerts: parts.Alerts) -> None:
    from warpmeter.alerts.configured import rules, stray
    from warpmeter.alerts.rule import RuleError

    try:
        rules(alerts)
    except RuleError as error:
        raise ConfigError(f"alerts.rules: {error}") from error
    told = [(f"alerts.triggers {each.name!r}: match", each.match) for each in alerts.triggers]
    told += [(f"alerts.receivers {each.name!r}: routes", route) for each in alerts.receivers for route in each.routes]
    for where, matchers in told:
        if why := stray(alerts, matchers):
            raise ConfigError(f"{where}: {why}")


def refuse_reports(reports: parts.Reports) -> None:
    """Raises ConfigError for schedules or targets that cannot work."""
    if "://" not in reports.url and not Path(reports.url).is_absolute():
        raise ConfigError(
            f"reports.url {reports.url!r} must be an absolute folder, or a URL such as s3://bucket/reports"
        )
    for key in ("keep_days", "price_per_kwh", "price_per_gpu_hour"):
        if not 0 <= getattr(reports, key) < math.inf:
            raise ConfigError(f"reports.{key} must be a number, and not below 0")
    if reports.page and not is_url(reports.page):
        raise ConfigError(f"reports.page {masked_url(reports.page)!r} is no URL: e.g. https://warpmeter.example")
    refuse_any("reports.targets", reports.targets, target_problem)
    targets = [target.name for target in reports.targets]
    refuse_any("reports.schedules", reports.schedules, lambda each: "; ".join(_report_problems(each, targets)))


def _report_problems(schedule: parts.ReportSchedule, targets: Sequence[str]) -> Iterator[str]:
    """All that is wrong with a schedule."""
    there, of_job = ", ".join(targets) or "none yet", schedule.report == "job"
    if not schedule.targets:
        yield f"targets is empty: name one or more of [[reports.targets]], which has {there}"
    for name in schedule.targets:
        if name not in targets:
            yield f"there is no target {name!r}; [[reports.targets]] has {there}"
    if of_job and schedule.cron:
        yield "report job is made of each job that ended: leave cron out"
    elif not of_job and not schedule.cron:
        yield "cron is needed, e.g. cron = '0 7 * * mon', and timezone beside it"
    if not of_job and (schedule.where or schedule.min_gpu_hours):
        yield "where and min_gpu_hours are of report job alone"
    if not 0 <= schedule.min_gpu_hours < math.inf:
        yield "min_gpu_hours must be a number, and not below 0"
    if find_spec("apscheduler") is not None:  # else there is no scheduler here, and the one that is there refuses it
        from warpmeter.reports.periods import objection

        if problem := objection(schedule):
            yield problem
