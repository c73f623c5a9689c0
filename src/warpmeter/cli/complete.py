"""Tab completion of values."""

from pathlib import Path
from typing import Final

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
