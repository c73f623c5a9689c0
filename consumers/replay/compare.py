"""What a replay would change, hour by hour: nothing is deleted before this says that nothing is lost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.consumers.replay.hours import Range, said
from warpmeter.consumers.replay.rollups import Rollups, Table, named
from warpmeter.settings import Store
from warpmeter.store import Client

SPILLED_BYTES: Final = 1 << 30
"""So much of the keys of an hour is compared in memory; what is more goes to disk."""


@dataclass(frozen=True)
class Hour:
    """One hour's rows: in the raw table (of them `different` by its sorting key), counted by its rollups, staged, and
    how many of the table's are not among the staged."""

    start: int
    in_table: int
    different: int
    in_rollups: int
    staged: int
    missing: int

    @property
    def lost(self) -> int:
        """Rows that would not be there any more, be it in a rollup alone.

        A rollup with more samples than the raw table has rows tells of rows that were deleted in the raw table.
        """
        only_rolled_up = max(0, self.in_rollups - self.staged) if self.in_rollups > self.in_table else 0
        return max(self.missing, only_rolled_up)


@dataclass(frozen=True)
class Standing:
    """One hour's rows after a replay: in the raw table, and counted by its rollups."""

    start: int
    in_table: int
    in_rollups: int


def standing(client: Client, store: Store, raw: Table, rollups: Rollups, wanted: Range) -> list[Standing]:
    """Every hour of a range as it is now."""
    counting = [table for table in rollups.windows if "samples" in table.types]
    everywhere = named(store, raw.name.removesuffix("_local") if store.cluster else raw.name)
    found = []
    for hour in wanted.hours:
        (row,) = client.query(f"SELECT count() FROM {everywhere} WHERE {hour.of_rows}").result_rows
        found.append(Standing(hour.start, int(row[0]), _samples(client, store, counting, hour)))
    return found


def compared(client: Client, store: Store, raw: Table, rollups: Rollups, staging: tuple[str, Range]) -> list[Hour]:
    """Every hour of the range. `staging` is the table of what would land, and the range."""
    staged, wanted = staging
    counting = [table for table in rollups.windows if "samples" in table.types]
    return [_hour(client, store, (raw, counting), staged, hour) for hour in wanted.hours]


def _hour(client: Client, store: Store, tables: tuple[Table, Sequence[Table]], staged: str, hour: Range) -> Hour:
    raw, counting = tables
    key = f"sipHash128({', '.join(dict.fromkeys((*raw.key, 'ts')))})"
    everywhere = named(store, raw.name.removesuffix("_local") if store.cluster else raw.name)
    found = client.query(
        "SELECT sum(here), countIf(here > 0), sum(coming), countIf(here > 0 AND coming = 0) FROM ("
        "SELECT key, countIf(NOT new) AS here, countIf(new) AS coming FROM ("
        f"SELECT {key} AS key, 0 AS new FROM {everywhere} WHERE {hour.of_rows} UNION ALL "
        f"SELECT {key} AS key, 1 AS new FROM {named(store, staged)} WHERE {hour.of_rows}) GROUP BY key)",
        settings={"max_bytes_before_external_group_by": SPILLED_BYTES},
    ).result_rows[0]
    here, different, coming, missing = (int(value) for value in found)
    return Hour(hour.start, here, different, _samples(client, store, counting, hour), coming, missing)


def _samples(client: Client, store: Store, counting: Iterable[Table], hour: Range) -> int:
    """The most that any rollup counts."""
    found = 0
    for table in counting:
        everywhere = named(store, table.name.removesuffix("_local") if store.cluster else table.name)
        (row,) = client.query(f"SELECT sum(samples) FROM {everywhere} WHERE {hour.of_windows}").result_rows
        found = max(found, int(row[0]))
    return found


def loss(hours: Sequence[Hour]) -> str | None:
    """Why the replay would lose rows, None when it would not."""
    losing = [hour for hour in hours if hour.lost]
    if not losing:
        return None
    worst = max(losing, key=lambda hour: hour.lost)
    return (
        f"{sum(hour.lost for hour in losing)} rows that the tables hold are not in the topic any more, in "
        f"{len(losing)} hour(s); most of them in the hour from {said(worst.start)} ({worst.lost})"
    )
