"""A report before it is a page: what is said, in sections of tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from warpmeter.scheduler.reports.kinds import Finding, Price, Shown, Table


@dataclass(frozen=True)
class Figure:
    """An image; `alt` says in words what it shows."""

    name: str
    title: str
    alt: str
    png: bytes


@dataclass(frozen=True)
class Tile:
    """One of the figures at the top."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Section:
    """`nothing`: what is said in place of tables without rows."""

    title: str
    text: str = ""
    figures: tuple[Figure, ...] = ()
    tables: tuple[Shown, ...] = ()
    nothing: str = ""

    @property
    def filled(self) -> tuple[Shown, ...]:
        """Tables with rows."""
        return tuple(shown for shown in self.tables if shown.table.rows)


@dataclass(frozen=True)
class Document:
    """A whole report. `notes`: what holds for all of it, and what is missing."""

    title: str
    subtitle: str
    summary: str
    tiles: tuple[Tile, ...] = ()
    findings: tuple[Finding, ...] = ()
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    more_tables: tuple[Table, ...] = field(default=())
    empty: bool = False
    currency: str = ""

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of them, those that only files hold last."""
        return tuple(shown.table for shown in self.shown) + self.more_tables

    @property
    def shown(self) -> tuple[Shown, ...]:
        """The tables that the page shows."""
        return tuple(shown for section in self.sections for shown in section.tables)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All of them."""
        return tuple(figure for section in self.sections for figure in section.figures)


def without(table: Table, dropped: Sequence[str]) -> Table:
    """The table without some columns."""
    kept = [place for place, column in enumerate(table.columns) if column not in dropped]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        types=tuple(table.types[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
    )


def priced(table: Table, price: Price) -> Table:
    """The table without the costs that need a price which was not given."""
    by_energy = ("energy_cost",) if price.per_kwh is None else ()
    by_hours = ("allocated_cost", "wasted_cost") if price.per_gpu_hour is None else ()
    return without(table, by_energy + by_hours)
