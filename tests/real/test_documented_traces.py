"""docs/traces.md: the tables of analysed traces, column by column, as the engine describes them."""

from pathlib import Path
from typing import Final

from tests.captures import OF_THE_PAGE, QUERIES
from tests.tables import ask
from warpmeter.landing import RANKS, TABLES
from warpmeter.settings import Store
from warpmeter.store import Client

PAGE: Final = Path(__file__).parents[2] / "docs" / "traces.md"
BEGIN: Final = "All tables begin with "
"""What stands before it is written by hand."""
MEANINGS: Final = {
    "trace_ranks": "One row a rank of a capture.",
    "trace_kernels": "One row a rank and kernel (or direction of copies, or kind of sets).",
    "trace_ops": "One row a rank and operator, and one for each shape of its inputs: ask with `by_shape` or without.",
    "trace_steps": "One row a rank and step. What the GPU did counts for the step that launched it, whenever it ran.",
    "trace_streams": "One row a rank, device and stream.",
    "trace_collectives": "One row a rank and collective.",
    "trace_memory": "A rank's device memory over time, at most 1,000 points a device.",
    "trace_timeline": "Every event.",
}
KEYS: Final = 8
"""Columns that all tables begin with."""
DERIVED: Final = {
    "mean_ns": "`total_ns` over `count`",
    "bus_bytes_per_s": "bus bandwidth as nccl-tests reckon it, from `bytes` and `transfer_ns`",
    "bytes_per_s": "`bytes` over `sized_ns`",
    "during_busy_share": "`during_busy_ns` over `duration_ns`",
}


def meaning(name: str, comments: dict[str, str], over: str) -> str:
    """What a column of a view means: its own comment, or how it follows from another."""
    if name in comments:
        return comments[name]
    if name in DERIVED:
        return DERIVED[name]
    stem = name.removesuffix("_seconds").removesuffix("_share")
    return f"`{stem}_ns` over `{over}`" if name.endswith("_share") else f"`{stem}_ns` in seconds"


def table(client: Client, name: str) -> str:
    """A table's part of the page."""
    comments = {column: comment for column, _, _, _, comment, *_ in ask(client, f"DESCRIBE {name}_loads")}
    columns = [
        (column, kind.replace("\n", "").replace("    ", "")) for column, kind, *_ in ask(client, f"DESCRIBE {name}")
    ]
    over = "duration_ns" if name == "trace_steps" else "span_ns"
    lines = [f"| `{column}` | {kind} | {meaning(column, comments, over)} |" for column, kind in columns]
    shown = lines if name == RANKS else lines[KEYS:]
    return (
        "\n".join([f"## {name}", "", MEANINGS[name], "", "| column | type | meaning |", "|---|---|---|", *shown]) + "\n"
    )


def written(client: Client) -> str:
    """The page's part about columns, as it should be."""
    begins = ", ".join(f"`{column}`" for column, *_ in ask(client, "DESCRIBE trace_ranks")[:KEYS])
    note = f"{BEGIN}{begins}, which only the first below lists.\n"
    return "\n".join([note, *(table(client, name) for name in (RANKS, *TABLES))])


def test_the_page_says_what_the_tables_have(tables: Client, update: bool) -> None:
    by_hand, _, _ = PAGE.read_text().partition(BEGIN)
    if update:
        PAGE.write_text(by_hand + written(tables))
    assert PAGE.read_text() == by_hand + written(tables), "run pytest with --update, and look at what changed"


def test_the_page_names_every_query_of_captures() -> None:
    assert [
        name
        for name in (*QUERIES, *OF_THE_PAGE)
        if f"`{name}`" not in PAGE.read_text() and f" {name}" not in PAGE.read_text()
    ] == []


def test_tables_are_kept_as_the_page_says(tables: Client) -> None:
    kept = {RANKS: Store().hour_ttl_days, **dict.fromkeys(TABLES, Store().hour_ttl_days)}
    kept["trace_timeline"] = Store().raw_ttl_days
    sql = "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase() AND name LIKE 'trace%_loads'"
    engines = dict(ask(tables, f"{sql} AND engine LIKE '%MergeTree'"))
    assert len(engines) == 8
    for name, days in kept.items():
        assert f"TTL toDateTime(loaded_at) + toIntervalDay({days})" in engines[f"{name}_loads"]
