"""What of a list is shown: sorted, filtered, with a chosen row that stays chosen while the data change. No terminal."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from warpmeter.top.lists import Column, Kind, Listing, words
from warpmeter.top.source import Rows

Row = Sequence[Any]
Key = tuple[Any, ...]
_COMPARED: Final = re.compile(r"(\w+)(<=|>=|<|>|=)(.+)")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip
_NUMBER: Final = re.compile(r"([\d.]+)\s*(%|[kKMGT]i?)?")
_FACTORS: Final = {
    "": 1.0, "%": 0.01, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "ki": 2.0**10, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """The rows of a listing as they came, with what a filter looks for in each, and how long each text column gets.

    `total`: how many rows there are at the source.
    """

    listing: Listing
    places: dict[str, int] = field(default_factory=dict)
    rows: Sequence[Row] = ()
    texts: Sequence[str] = ()
    total: int = 0
    longest: dict[str, int] = field(default_factory=dict)

    @property
    def cut(self) -> bool:
        """Whether there are more at the source."""
        return self.total > len(self.rows)

    def value(self, row: Row, name: str) -> Any:
        """A cell; None where the query has no such column."""
        place = self.places.get(name)
        return None if place is None else row[place]

    def key(self, row: Row) -> Key:
        """What tells a row from all others."""
        return tuple(row[self.places[name]] for name in self.listing.key)


def table(listing: Listing, rows: Rows) -> Table:
    """A table of what a query answered."""
    places = {name: place for place, name in enumerate(rows.columns)}
    found = [each for each in listing.columns if each.name in places and each.kind in (Kind.TEXT, Kind.STATE)]
    columns = [[words(row[places[each.name]], each.kind) for row in rows.rows] for each in found]
    longest = {each.name: max(map(len, texts), default=0) for each, texts in zip(found, columns, strict=True)}
    texts = ["\n".join(each).lower() for each in zip(*columns, strict=True)] if columns else [""] * len(rows.rows)
    totals = rows.column("total")
    return Table(listing, places, rows.rows, texts, int(totals[0]) if totals else len(rows.rows), longest)


@dataclass(frozen=True)
class Filter:
    """What a typed text asks for: `words` that must all be in a row, and comparisons (`gpu_util<5`, `power>600`).

    A comparison names a column by its name or its title, and a number in its unit: ratios as per cent (5 is 5 %),
    watts, bytes (`mem>40Gi`), seconds.
    """

    words: tuple[str, ...] = ()
    compared: tuple[tuple[str, str, float], ...] = ()

    def keeps(self, found: Table, at: int) -> bool:
        """Whether row `at` is asked for."""
        text, row = found.texts[at], found.rows[at]
        return all(word in text for word in self.words) and all(
            _holds(found.value(row, name), sign, number) for name, sign, number in self.compared
        )


def _holds(value: Any, sign: str, number: float) -> bool:
    return value is not None and not isinstance(value, (str, list)) and _OPERATORS[sign](value, number)


def asked(text: str, listing: Listing) -> Filter:
    """The filter that a text means; what compares with no column of the list is a word like any other."""
    plain: list[str] = []
    compared: list[tuple[str, str, float]] = []
    for word in text.split():
        found = _COMPARED.fullmatch(word)
        comparison = _comparison(listing, *found.groups()) if found else None
        if comparison is None:
            plain.append(word.lower())
        else:
            compared.append(comparison)
    return Filter(tuple(plain), tuple(compared))


def senseless(text: str, listing: Listing) -> list[str]:
    """What in a text is written as a comparison and is none: of no column with numbers, or with no number."""
    looked = ((word, _COMPARED.fullmatch(word)) for word in text.split())
    return [word for word, found in looked if found and _comparison(listing, *found.groups()) is None]


def _comparison(listing: Listing, name: str, sign: str, text: str) -> tuple[str, str, float] | None:
    column = _column(listing, name.lower())
    number = _NUMBER.fullmatch(text)
    if column is None or number is None:
        return None
    try:
        value = float(number[1]) * _FACTORS[number[2] or ""]
    except ValueError:
        return None
    percent = column.kind in (Kind.RATIO, Kind.BAR) and number[2] is None
    return column.name, sign, value / 100 if percent else value


def _column(listing: Listing, name: str) -> Column | None:
    """The column that a person means: by its name, its title, how either begins, or a part of it."""
    for same in (str.__eq__, str.startswith, str.__contains__):
        for column in listing.columns:
            title = column.title.lower().replace(" ", "_")
            if column.kind not in (Kind.TEXT, Kind.STATE) and (same(column.name, name) or same(title, name)):
                return column
    return None


def sorted_rows(found: Table, places: Sequence[int], sort: str, descending: bool) -> list[int]:
    """Rows in order of a column; what is not known comes last either way, equals stay as they came."""
    at, rows = found.places.get(sort), found.rows
    if at is None:
        return list(places)
    known = [place for place in places if rows[place][at] is not None]
    known.sort(key=lambda place: _order(rows[place][at]), reverse=descending)
    return known + [place for place in places if rows[place][at] is None]


def _order(value: Any) -> tuple[int, Any]:
    """Comparable with any other value of its column."""
    if isinstance(value, (int, float)):
        return (0, value)
    return (1, ", ".join(map(str, value)).lower() if isinstance(value, list) else str(value).lower())


@dataclass
class View:
    """One list as it is looked at. `order` are the places of the rows that are shown, in their order.

    Until somebody moves, the first row is chosen, whichever that is; then the chosen row is followed by its key, and it
    keeps its line on the screen where it moves in the order. When it is gone, the one that took its place is chosen.
    """

    listing: Listing
    sort: str = ""
    descending: bool = False
    text: str = ""
    height: int = 20
    table: Table = field(init=False)
    order: list[int] = field(default_factory=list)
    at: int = 0
    top: int = 0
    chosen: Key | None = None
    large: bool = False
    known: bool = False

    def __post_init__(self) -> None:
        self.table = Table(self.listing)
        self.sort = self.sort or self.listing.sort
        self._filter = asked(self.text, self.listing)

    @property
    def row(self) -> dict[str, Any]:
        """The chosen row by column; empty when nothing is shown."""
        if not self.order:
            return {}
        row = self.table.rows[self.order[self.at]]
        return {name: row[place] for name, place in self.table.places.items()}

    def show(self, found: Table, searched: bool = False) -> None:
        """Take new data; `searched`: the source was asked for some of its rows, so they tell not how many it has."""
        self.table, self.known = found, True
        self.large = found.cut or (searched and self.large)
        self.arrange()

    def arrange(self) -> None:
        """Sort and filter again; the chosen row stays."""
        found = self.table
        kept = (
            [at for at in range(len(found.rows)) if self._filter.keeps(found, at)]
            if self.text
            else range(len(found.rows))
        )
        self.order = sorted_rows(found, kept, self.sort, self.descending)
        line = self.at - self.top
        if self.chosen is not None:
            where = next((n for n, at in enumerate(self.order) if found.key(found.rows[at]) == self.chosen), None)
            if where is not None:
                self.at, self.top = where, where - line
        self._settle()

    def _settle(self) -> None:
        """Keep the chosen row within the list, and within the lines that are seen."""
        self.at = max(0, min(self.at, len(self.order) - 1))
        self.top = max(0, min(self.top, self.at, len(self.order) - self.height))
        self.top = max(self.top, self.at - self.height + 1)
        if self.chosen is not None and self.order:
            self.chosen = self.table.key(self.table.rows[self.order[self.at]])

    def choose(self, at: int) -> None:
        """Choose a row by its line in the order; the first one lets go of what was followed."""
        self.at = max(0, min(at, len(self.order) - 1))
        self.chosen = self.table.key(self.table.rows[self.order[self.at]]) if self.order and self.at else None
        self._settle()

    def follow(self, key: Key) -> None:
        """Choose a row by its key, as soon as it is there."""
        self.chosen = key
        self.arrange()

    def scroll(self, lines: int) -> None:
        """Move what is seen; the chosen row goes along where it would leave."""
        self.top = max(0, min(self.top + lines, len(self.order) - self.height))
        at = min(max(self.at, self.top), self.top + self.height - 1)
        if at != self.at:
            self.choose(at)

    def resize(self, height: int) -> None:
        """So many rows are seen."""
        self.height = max(1, height)
        self._settle()

    def sort_by(self, name: str, descending: bool | None = None) -> None:
        """Sort by a column: numbers the highest first, texts from A; by the same again the other way round."""
        column = self.listing.column(name)
        if column is None:
            return
        if descending is None:
            descending = not self.descending if name == self.sort else column.kind not in (Kind.TEXT, Kind.STATE)
        self.sort, self.descending = name, descending
        self.arrange()

    def sort_next(self, step: int) -> None:
        """Sort by the column so many further right."""
        names = [each.name for each in self.listing.columns]
        at = names.index(self.sort) if self.sort in names else 0
        self.sort_by(names[(at + step) % len(names)])

    def filter_by(self, text: str) -> None:
        """Show what fits the text."""
        self.text = text
        self._filter = asked(text, self.listing)
        self.arrange()

    def question(self) -> dict[str, str]:
        """What the source must do itself, for it has more rows than it gives: sort, and look for the words."""
        if not self.large or not self.listing.ordered:
            return {}
        given = {"sort": self.sort, "descending": str(int(self.descending))}
        return given | ({"search": " ".join(self._filter.words)} if self._filter.words else {})
