"""docs/sql.md: the data dictionary, made of what a migrated store has and of what the dictionary says of it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from warpmeter import migrate
from warpmeter.dictionary import meanings
from warpmeter.dictionary.catalogue import Catalogue, Column, Entry
from warpmeter.dictionary.meanings import Words
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Store

INTRODUCTION: Final = """# Data dictionary

Made by `make docs` from the migrations, the metric table and `sql/meanings.toml`; do not edit.

Every view, view with parameters and table of the store: what one row is, and what its columns mean. The same words
are comments in the store: `DESCRIBE gpus`, `system.columns` and BI tools show them. Queries by question are in the
[cookbook](cookbook.md); `warpmeter queries` lists those that have a name; [bi.md](bi.md) connects Superset, Metabase,
dbt and Grafana; [traces.md](traces.md) says how traces get into their tables.

What holds everywhere: times are UTC; a name in SI units carries its unit, a ratio is 0-1; what is not known is NULL,
never 0; `period_ms` is the interval that a sample stands for, so sum periods, do not count rows.

## What stays

What is marked **stable** is an interface: a column keeps its name, its type and its meaning. New columns come at any
time, so name those that you want rather than `SELECT *` where the order matters. A column or view that is to go, or
to change its type, is deprecated first: its comment in the store, and its line here, read `deprecated: use X since
0.N`, and the [changelog](../CHANGELOG.md) says so. It stays for two more minor releases, and goes with 0.N+2 at the
earliest. A test holds all stable columns against `tests/golden/stable_views.json` and fails when one is gone or
changed sooner.

Everything else may change with any release. Raw tables are the topics' rows: their fields follow the topics' own
promise ([integrations.md](integrations.md)), and SI forms stand beside what is stored.
"""
VIEWS: Final = """## Views

What people ask. A view is as fresh as the tables that it reads.
"""
PARAMETERS: Final = """## Views with parameters

They take their arguments by name, and have columns in a call alone (`DESCRIBE (SELECT * FROM gpu_heatmap(…))`).
"""
WINDOWS: Final = """## Windows

What is kept long after the raw rows are gone. A window lies in several rows until the engine merges them, so always
group by its key; a column's type names the function. Where `_sum` and `_count` are kept, the first over the second is
the mean (in the stored scale); what ends in `_seconds` is a value times its seconds, in `_known_seconds` the seconds
in which it was known: again the first over the second is the mean.

```sql
SELECT job_id, window, sum(gpu_seconds) / 3600 AS gpu_hours,
       sum(gpu_util_seconds) / sum(gpu_util_known_seconds) AS gpu_util, max(rss_bytes_max) AS rss_bytes
FROM job_windows_1h GROUP BY job_id, window ORDER BY window, job_id
```
"""
RAW: Final = """## Topics' tables

One a topic, as its rows came. A value that is stored in a scale of its own has its SI form beside it (an `ALIAS`):
ask for that one.
"""
OTHERS: Final = """## What the views are made of

Not stable: ask the views. The tables whose names end in `_loads` hold every load of a trace, whole or not.
"""
_SETTINGS: Final = ("raw_ttl_days", "minute_ttl_days", "hour_ttl_days")


def document(catalogue: Catalogue, store: Store) -> str:
    """The whole page."""
    parts = [INTRODUCTION, *_deprecated(catalogue), *_contents(catalogue)]
    for heading, entries in _grouped(catalogue):
        parts.append(heading)
        parts += [_section(catalogue, entry, store) for entry in entries]
    return "\n".join(parts)


def _grouped(catalogue: Catalogue) -> Iterator[tuple[str, Sequence[Entry]]]:
    """Headings of the page, each with its entries in the order of `sql/meanings.toml`."""
    known = {name: number for number, name in enumerate(meanings.words())}
    entries = sorted(catalogue.entries.values(), key=lambda entry: known.get(entry.name, len(known)))
    topics = {topic.table for topic in TOPICS.values()}
    for heading, kind in ((VIEWS, "view"), (PARAMETERS, "call"), (WINDOWS, "window"), (RAW, "raw"), (OTHERS, "other")):
        yield heading, [entry for entry in entries if _kind(entry, topics) == kind]


def _kind(entry: Entry, topics: set[str]) -> str:
    if entry.view:
        return "call" if _words(entry).example else "view"
    if entry.name in topics:
        return "raw"
    return "window" if entry.name.endswith(("_1m", "_1h")) else "other"


def _words(entry: Entry) -> Words:
    return meanings.words().get(entry.name, Words())


def _contents(catalogue: Catalogue) -> Iterator[str]:
    yield "## All of it\n"
    rows = (
        (f"[{entry.name}](#{entry.name})", "yes" if _words(entry).stable else "", _words(entry).row)
        for _, entries in _grouped(catalogue)
        for entry in entries
    )
    yield _table(("name", "stable", "one row is"), rows)


def _deprecated(catalogue: Catalogue) -> Iterator[str]:
    told = (
        (f"`{entry.name}.{column.name}`", str(catalogue.told(entry.name, column.name)))
        for entry in catalogue.entries.values()
        for column in entry.columns
        if str(catalogue.told(entry.name, column.name)).startswith("deprecated: ")
    )
    rows = list(told)
    if rows:
        yield _table(("deprecated", ""), rows)


def _section(catalogue: Catalogue, entry: Entry, store: Store) -> str:
    words = _words(entry)
    stable = "**Stable.** " if words.stable else ""
    lines = [f"### {entry.name}", "", f"{stable}One row: {words.row}."]
    if words.example:
        lines += ["", "```sql", f"SELECT * FROM {entry.name}({words.example})", "```"]
        arguments = words.arguments or meanings.words()[words.like[0]].arguments
        lines += ["", _table(("argument", "meaning"), [(f"`{name}`", text) for name, text in arguments.items()])[:-1]]
    if keys := _keys(entry, store):
        lines += ["", keys]
    if twin := _twin(catalogue, entry):
        return "\n".join(
            [*lines, "", f"Its columns are those of [{twin}](#{twin}) that have these names: {_names(entry)}.", ""]
        )
    lines += ["", _table(("column", "type", "unit", "meaning"), _rows(catalogue, entry))]
    return "\n".join(lines)


def _twin(catalogue: Catalogue, entry: Entry) -> str | None:
    """What further up the page has all columns of this table, or of a view that is like it."""
    for _, entries in _grouped(catalogue):
        for other in entries:
            if other.name == entry.name:
                return None
            kin = not entry.view or other.name in _words(entry).like
            if kin and _columns(entry) <= _columns(other):
                return other.name
    return None


def _columns(entry: Entry) -> set[tuple[str, str]]:
    return {(each.name, each.type) for each in entry.columns}


def _names(entry: Entry) -> str:
    """The names of its columns; of a rollup those alone that tell its key."""
    rollup = _words(entry).rollup
    names = [each.name for each in entry.columns if not (rollup and meanings.base(rollup, each.name))]
    return ", ".join(f"`{name}`" for name in names) + (", and all that it keeps of metrics" if rollup else "")


def _keys(entry: Entry, store: Store) -> str:
    """Topic, sort key, partitions and retention of a table."""
    if entry.view:
        return ""
    topic = next((topic.name for topic in TOPICS.values() if topic.table == entry.name), None)
    came = f"From topic `{topic}`, sorted" if topic else "Sorted"
    parts = f"partitioned by `{entry.partition}`" if entry.partition else "not partitioned"
    return f"{came} by `{entry.order}`, {parts}, kept {_retention(entry, store)}."


def _retention(entry: Entry, store: Store) -> str:
    if entry.days is None:
        return "for ever"
    days = migrate.ttl_days(store, entry.name)
    setting = next(name for name in _SETTINGS if getattr(store, name) == days)
    return f"{days} days (`store.{setting}`)"


def _rows(catalogue: Catalogue, entry: Entry) -> Iterator[tuple[str, ...]]:
    """A line a column; what a rollup keeps of a metric in one line, and a stored column with its SI form."""
    rollup = _words(entry).rollup
    stored = {_stored(column): column for column in entry.columns if column.alias}
    seen: set[str] = set()
    for column in entry.columns:
        of = meanings.base(rollup, column.name) if rollup else None
        if of is not None:
            if of[0].column not in seen:
                seen.add(of[0].column)
                yield _rolled(entry, of[0].column, of[0].meaning)
        elif column.name not in stored:
            yield _row(catalogue, entry, column)


def _rolled(entry: Entry, column: str, meaning: str) -> tuple[str, ...]:
    """What a rollup keeps of one metric."""
    kept = [each for each in entry.columns if re.fullmatch(rf"{column}_(count|sum|min|max|quantiles)", each.name)]
    names = ", ".join(f"`_{each.name.removeprefix(column)[1:]}`" for each in kept)
    unit = meanings.unit_of(column)
    return f"`{column}`{names}", ", ".join(dict.fromkeys(_function(each.type) for each in kept)), unit, meaning


def _function(type_: str) -> str:
    """The function of an aggregating type."""
    found = re.match(r"\w+\((\w+)", type_)
    return found[1] if found else type_


def _stored(column: Column) -> str:
    """The stored column that an ALIAS is made of."""
    found = re.search(r"[a-z]\w+_\w+", column.alias.replace("toUInt64", ""))
    return found[0] if found else ""


def _row(catalogue: Catalogue, entry: Entry, column: Column) -> tuple[str, ...]:
    told = catalogue.told(entry.name, column.name) or meanings.Told("")
    kept = next((each for each in entry.columns if column.alias and each.name == _stored(column)), None)
    as_stored = f"; stored as `{kept.name}`, {kept.type}" if kept else ""
    return f"`{column.name}`", column.type, told.unit, told.meaning + as_stored


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *lines]) + "\n"
