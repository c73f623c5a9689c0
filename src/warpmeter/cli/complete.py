"""Tab completion of values."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import typer

FORMATS: Final = (
    "Arrow", "CSV", "CSVWithNames", "JSON", "JSONColumns", "JSONCompact", "JSONEachRow", "Markdown", "Native",
    "Parquet", "PrettyCompact", "RowBinary", "SQLInsert", "TSV", "TSVWithNames", "Values", "Vertical", "XML",
)  # fmt: skip

FLAMES: Final = (".html", ".folded", ".speedscope.json", ".json")
TRACES: Final = (".json", ".json.gz", ".json.zst")


def formats(incomplete: str) -> list[str]:
    """ClickHouse's output formats that start so."""
    return [name for name in FORMATS if name.lower().startswith(incomplete.lower())]


def topic_names(incomplete: str) -> list[str]:
    """Topics that start so."""
    from warpmeter.schemas.topics import TOPICS  # not above: it loads every generated message

    return [name for name in TOPICS if name.startswith(incomplete)]


def queries(incomplete: str) -> list[str]:
    """Named queries that start so."""
    from warpmeter import queries as named

    return [name for name in named.names() if name.startswith(incomplete)]


def traces(incomplete: str) -> list[str]:
    """Trace files and folders that start so."""
    found = sorted(Path().glob(f"{incomplete}*")) if incomplete and not incomplete.startswith("/") else []
    if incomplete.startswith("/"):
        folder, _, name = incomplete.rpartition("/")
        found = sorted(Path(folder or "/").glob(f"{name}*"))
    elif not incomplete:
        found = sorted(Path().iterdir())
    return [f"{path}/" if path.is_dir() else str(path) for path in found if path.is_dir() or path.name.endswith(TRACES)]


def flames(incomplete: str) -> list[str]:
    """Names of files that `warpmeter flame` writes: what is typed so far, with each ending."""
    stem = incomplete.split(".", 1)[0] or "flame"
    return [name for name in (f"{stem}{ending}" for ending in FLAMES) if name.startswith(incomplete)]


def reports(incomplete: str) -> list[str]:
    """Reports that start so."""
    from warpmeter.scheduler.reports.kinds import REPORTS

    return [name for name in REPORTS if name.startswith(incomplete)]


def report_formats(incomplete: str) -> list[str]:
    """Formats that go on a list of them, with commas between."""
    from warpmeter.scheduler.reports.kinds import FORMATS

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in FORMATS if name.startswith(last) and name not in before.split(",")]


def top_tabs(incomplete: str) -> list[str]:
    """Lists of `warpmeter top` that start so."""
    return [name for name in ("hosts", "gpus", "jobs") if name.startswith(incomplete)]


def top_sorts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Columns of the list that `--tab` names, with or without a dash."""
    from warpmeter.top.lists import Place

    dash = "-" if incomplete.startswith("-") else ""
    tabs = [each for each in Place().tabs if each.name == ctx.params.get("tab", "hosts")]
    names = [column.name for each in tabs for column in each.columns]
    return [f"{dash}{name}" for name in names if name.startswith(incomplete.removeprefix("-"))]


def rules(incomplete: str) -> list[str]:
    """Built-in rules of alerts that start so."""
    from warpmeter.alerts.rule import builtin

    return [name for name in builtin() if name.startswith(incomplete)]


def matchers(incomplete: str) -> list[str]:
    """What a silence may say, of what starts so: rules, severities, and names of labels."""
    from warpmeter.alerts import SEVERITIES

    if incomplete.startswith("rule="):
        return [f"rule={name}" for name in rules(incomplete.removeprefix("rule="))]
    every = [*(f"severity={each}" for each in SEVERITIES), "rule=", "host=", "job_id=", "gpu=", "uuid="]
    return [each for each in every if each.startswith(incomplete)]


def receivers(incomplete: str) -> list[str]:
    """Receivers of the settings that start so."""
    from warpmeter.cli import common

    with suppress(BaseException):  # what is wrong with them, the command says
        return [each.name for each in common.settings().alerts.receivers if each.name.startswith(incomplete)]
    return []


def alerts(incomplete: str) -> list[str]:
    """Open alerts that start so."""
    return [name for name in _known("alerts_listed", "alert_id", state="open") if name.startswith(incomplete)]


def silences(incomplete: str) -> list[str]:
    """Silences that start so."""
    return [name for name in _known("silences_listed", "silence_id") if name.startswith(incomplete)]


def _known(query: str, column: str, **given: Any) -> list[str]:
    """A column of a named query; nothing where the store does not answer."""
    from warpmeter.cli import alerting, common

    with suppress(BaseException):
        return [str(row[column]) for row in alerting.rows(common.settings(), query, **given)]
    return []


def report_schedules(incomplete: str) -> list[str]:
    """Schedules of reports in the settings, and reports, that start so."""
    names = [schedule.name for schedule in _reports().schedules] + reports("")
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def report_targets(incomplete: str) -> list[str]:
    """Targets of reports in the settings that start so."""
    return [target.name for target in _reports().targets if target.name.startswith(incomplete)]


def _reports() -> Any:
    from warpmeter import config
    from warpmeter.settings import Reports

    try:
        return config.load().reports
    except config.ConfigError:
        return Reports()
