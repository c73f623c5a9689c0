"""Tab completion of values."""

from typing import Final

from warpmeter.schemas.topics import TOPICS

FORMATS: Final = (
    "Arrow", "CSV", "CSVWithNames", "JSON", "JSONColumns", "JSONCompact", "JSONEachRow", "Markdown", "Native",
    "Parquet", "PrettyCompact", "RowBinary", "SQLInsert", "TSV", "TSVWithNames", "Values", "Vertical", "XML",
)  # fmt: skip


def formats(incomplete: str) -> list[str]:
    """ClickHouse's output formats that start so."""
    return [name for name in FORMATS if name.lower().startswith(incomplete.lower())]


def topic_names(incomplete: str) -> list[str]:
    """Topics that start so."""
    return [name for name in TOPICS if name.startswith(incomplete)]


def queries(incomplete: str) -> list[str]:
    """Named queries that start so."""
    from warpmeter import queries as named

    return [name for name in named.names() if name.startswith(incomplete)]
