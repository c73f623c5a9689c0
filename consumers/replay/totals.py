"""Totals over all time (a job's tree: its CPU time, its bytes) when part of their rows is landed again.

They have no window that could be deleted. So the keys concerned are taken out of the table, and come back as two parts:
what a view makes of the rows that land again, and what is kept here, the total without the range. For a key that began
within the raw table's time to live that is its view's own query over the raw rows outside the range; for an older one,
whose first rows are gone, it is the total that there is less what the range has in the raw table.
"""

import re
from typing import Final

from warpmeter.consumers.replay.rollups import Table, named, on_cluster
from warpmeter.consumers.replay.staging import Run
from warpmeter.settings import Store

BEGAN: Final = "first_at"
_STATE: Final = re.compile(r"(Simple)?AggregateFunction\((\w+), ")


def affected(store: Store, run: Run, raw: Table, table: Table, staged: str) -> str:
    """A query of the keys that have rows in the range: in the raw table, or about to be."""
    keys = _keys(table)
    parts = (
        f"SELECT DISTINCT {keys} FROM {named(store, name)} WHERE {run.wanted.of_rows}" for name in (staged, raw.name)
    )
    return " UNION DISTINCT ".join(parts)


def kept(store: Store, run: Run, raw: Table, table: Table) -> tuple[str, str]:
    """Two queries of rows for `table`, together what it is to hold of the affected keys beside the range."""
    keys, concerned = _keys(table), affected(store, run, raw, table, run.name("loading"))
    old = (
        f"SELECT {keys} FROM {named(store, table.name)} WHERE ({keys}) IN ({concerned}) GROUP BY {keys} "
        f"HAVING min({BEGAN}) < now() - INTERVAL {store.raw_ttl_days} DAY"
    )
    within = f"({keys}) IN ({concerned}) AND ({keys}) NOT IN ({old}) AND NOT ({run.wanted.of_rows})"
    names = ", ".join(f"`{name}`" for name in table.types)
    young = f"SELECT {names} FROM ({_over(store, table, within)})"
    taken = _over(store, table, f"({keys}) IN ({old}) AND {run.wanted.of_rows}")
    merged = ", ".join(_merged(name, kind) for name, kind in table.types.items() if name not in table.key)
    totals = f"SELECT {keys}, {merged} FROM {named(store, table.name)} WHERE ({keys}) IN ({old}) GROUP BY {keys}"
    less = ", ".join(
        f"total.`{name}` - ifNull(taken.`{name}`, 0) AS `{name}`"
        if name in table.sums
        else f"total.`{name}` AS `{name}`"
        for name in table.types
    )
    return young, f"SELECT {less} FROM ({totals}) AS total LEFT JOIN ({taken}) AS taken USING ({keys})"


def renewed(store: Store, run: Run, raw: Table, table: Table) -> tuple[str, str]:
    """What to delete of the kept rows (a mutation), and the rows in their place: those of keys that began within the
    raw table's time to live once more, for ingest went on after they were kept. Both may be done again."""
    keys, kept_rows = _keys(table), named(store, run.totals(table.name))
    old = (
        f"SELECT {keys} FROM {kept_rows} GROUP BY {keys} "
        f"HAVING min({BEGAN}) < toDateTime({int(run.began)}) - INTERVAL {store.raw_ttl_days} DAY"
    )
    concerned = affected(store, run, raw, table, run.name("staged"))
    within = f"({keys}) IN ({concerned}) AND ({keys}) NOT IN ({old}) AND NOT ({run.wanted.of_rows})"
    names = ", ".join(f"`{name}`" for name in table.types)
    stale = f"ALTER TABLE {kept_rows}{on_cluster(store)} DELETE WHERE ({keys}) NOT IN ({old})"
    return stale, f"SELECT {names} FROM ({_over(store, table, within)})"


def _keys(table: Table) -> str:
    return ", ".join(f"`{name}`" for name in table.key)


def _over(store: Store, table: Table, condition: str) -> str:
    """The view's query over those rows of its table that meet the condition."""
    assert table.view is not None
    source = named(store, table.view.source)
    plain = source.replace("`", "")
    rows = f"(SELECT * FROM {source} WHERE {condition})"
    found, count = re.subn(
        rf"\bFROM (?:{re.escape(source)}|{re.escape(plain)})(?=\s|$)", lambda _: f"FROM {rows}", table.view.select
    )
    assert count == 1, f"{table.view.name} does not read {plain} once"
    return found


def _merged(name: str, kind: str) -> str:
    """A column's value over all rows of a key, as it is stored."""
    state = _STATE.match(kind)
    assert state is not None, f"{name} {kind} is neither key nor aggregate"
    function = state[2] if state[1] else f"{state[2]}MergeState"
    return f"{function}(`{name}`) AS `{name}`"
