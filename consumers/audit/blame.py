"""Which of raw table, book and rollups is wrong where they differ, and what mends it: pure.

Three tell of the same rows: the raw table, the book that each insert writes, the rollups. Where two agree, the third
is wrong; what follows from that (every figure of every rollup differs from a raw table that lost rows) is not told
again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Final

from warpmeter.consumers.audit.counts import BOOK, ROWS, Compared, Day, Figure
from warpmeter.consumers.audit.spans import Finding
from warpmeter.consumers.replay.hours import HOUR_S, Range, command

Hours = Callable[[str, str, date], Sequence[Range]]
"""Which hours of a day a table and one of its rollups differ in."""
NAMED: Final = 6


@dataclass(frozen=True)
class _Told:
    """What a rollup says of a day."""

    name: str
    figure: Figure
    day: Day


@dataclass(frozen=True)
class _Case:
    """One day of one table: what the book and the rollups say of it."""

    table: str
    day: date
    book: Day | None
    rollups: Sequence[_Told]

    @property
    def wrong(self) -> list[_Told]:
        """The rollups' figures that are not the table's."""
        return [told for told in self.rollups if not told.day.fits]

    @property
    def wrong_rows(self) -> list[_Told]:
        return [told for told in self.wrong if told.figure == ROWS]

    @property
    def in_book(self) -> bool:
        """Whether the table has what the book says."""
        return self.book is None or self.book.fits

    @property
    def table_is_wrong(self) -> bool:
        """Whether the rollups that differ from the table say what the book says, or, where the book leaves it open,
        all say the same."""
        differ = self.wrong_rows
        if not differ or not all(_agree(self.book, told.day) for told in differ):
            return False
        every = [told for told in self.rollups if told.figure == ROWS]
        same = len({(told.day.least, told.day.most) for told in differ}) == 1
        return not self.in_book or (len(differ) == len(every) > 1 and same)


def _agree(book: Day | None, rollup: Day) -> bool:
    return book is None or (rollup.least <= book.most and book.least <= rollup.most)


def findings(compared: Iterable[Compared], hours: Hours) -> list[Finding]:
    """What does not add up, one finding a table and day, or a rollup and day."""
    known = list(compared)
    wholes = [_whole(each, day) for each in known for day in each.wrong if day.first is not None]
    return [*wholes, *(finding for case in _cases(known) for finding in _judged(case, hours))]


def _cases(compared: Sequence[Compared]) -> list[_Case]:
    books = {(each.table, day.day): day for each in compared if each.against == BOOK
             for day in each.days if day.first is None}  # fmt: skip
    told: dict[tuple[str, date], list[_Told]] = {key: [] for key in books}
    for each in compared:
        for day in each.days if each.against != BOOK else ():
            told.setdefault((each.table, day.day), []).append(_Told(each.against, each.figure, day))
    return [_Case(*key, books.get(key), told[key]) for key in sorted(told)]


def _judged(case: _Case, hours: Hours) -> list[Finding]:
    if case.table_is_wrong:
        return [_table_alone(case, hours), *_rollups(_left(case), hours)]
    found = [] if case.in_book else [_table(case)]
    return found + _rollups(case, hours)


def _left(case: _Case) -> _Case:
    """The rollups that say of rows what the table says, where it is wrong, and not what the book says."""
    alike = [told for told in case.rollups if told.figure == ROWS and told.day.fits]
    assert case.wrong_rows
    right = case.wrong_rows[0].day
    return _Case(
        case.table, case.day, case.book,
        [_Told(told.name, ROWS, Day(case.day, right.most, told.day.least, told.day.most)) for told in alike
         if not _agree(case.book, told.day)],
    )  # fmt: skip


def _table_alone(case: _Case, hours: Hours) -> Finding:
    """The raw table against all others."""
    right = case.wrong_rows[0]
    found = case.wrong_rows[0].day.found
    names = sorted({told.name for told in case.wrong_rows})
    others = ([BOOK] if case.book is not None and not case.in_book else []) + names
    lost = found < right.day.least
    where = _where(hours(case.table, names[0], case.day), case.day)
    seen = f"{case.table} has {ROWS.said(found)}{where.said}, {_all(others)} say {_span(right.day, ROWS)}"
    what = "the raw table lost rows (deleted, or a part of it is gone)" if lost else "the raw table has rows twice"
    return Finding(
        "rows", f"{case.table} {case.day}", seen,
        f"{what}; its rollups are right. {_replay(case.table, where)} mends it",
    )  # fmt: skip


def _table(case: _Case) -> Finding:
    """The raw table against the book."""
    assert case.book is not None
    more = case.book.found > case.book.most
    what = "rows were stored twice, or by hand" if more else "rows were deleted, or a part of the table is lost"
    alike = "" if case.wrong or not case.rollups else ", and so do its rollups"
    seen = f"{case.table} has {ROWS.said(case.book.found)}{alike}, {BOOK} says {_span(case.book, ROWS)}"
    return Finding(
        "rows", f"{case.table} {case.day}", seen, f"{what}: {_replay(case.table, _where((), case.day))} mends it"
    )


def _whole(compared: Compared, day: Day) -> Finding:
    more = day.found > day.most
    what = "rows were stored twice, or by hand" if more else "rows were deleted, or a part of the table is lost"
    assert day.first is not None
    return Finding(
        "rows",
        f"{compared.table} {day.first} to {day.day}",
        f"{compared.table} has {ROWS.said(day.found)} in all, {BOOK} says {_span(day, ROWS)}",
        f"{what}, of spans over midnight: {_replay(compared.table, _Where((_day(day.first), _day(day.day))))} mends it",
    )


def _rollups(case: _Case, hours: Hours) -> list[Finding]:
    """One finding a rollup, whatever figures of it are wrong."""
    found: dict[str, list[_Told]] = {}
    for told in case.wrong:
        found.setdefault(told.name, []).append(told)
    return [_rollup(case, name, told, hours) for name, told in found.items()]


def _rollup(case: _Case, name: str, told: Sequence[_Told], hours: Hours) -> Finding:
    where = _where(hours(case.table, name, case.day), case.day)
    has = " and ".join(_span(each.day, each.figure) for each in told)
    says = " and ".join(each.figure.said(each.day.found) for each in told)
    known = case.book is not None and case.in_book
    right = f"; {case.table} agrees with {BOOK} and is right until then" if known else ""
    return Finding(
        "rollup", f"{name} {case.day}", f"{name} has {has}{where.said}, {case.table} says {says}",
        f"{_replay(case.table, where)} makes table and rollups anew{right}",
    )  # fmt: skip


def _span(day: Day, figure: Figure) -> str:
    if day.least == day.most:
        return figure.said(day.most)
    return f"{figure.said(day.least).partition(' ')[0]} to {figure.said(day.most)}"


def _all(names: Sequence[str]) -> str:
    shown = list(names[:NAMED]) + [f"{len(names) - NAMED} more"] * (len(names) > NAMED)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


@dataclass(frozen=True)
class _Where:
    """Hours that something is wrong in; `named` when they are less than the day."""

    runs: Sequence[Range]
    named: bool = False

    @property
    def said(self) -> str:
        """` in 12:00-13:00`, nothing for the whole day."""
        return f" (of them wrong: {', '.join(_clock(run) for run in self.runs)} UTC)" if self.named else ""


def _where(runs: Sequence[Range], day: date) -> _Where:
    return _Where(runs, named=True) if runs else _Where((_day(day),))


def _day(day: date) -> Range:
    start = int(datetime.combine(day, time(), UTC).timestamp())
    return Range(start, start + 24 * HOUR_S)


def _clock(run: Range) -> str:
    ends = (datetime.fromtimestamp(at, UTC) for at in (run.start, run.end))
    first, last = (f"{at:%H:%M}" for at in ends)
    return f"{first}-{'24:00' if last == '00:00' else last}"


def _replay(table: str, where: _Where) -> str:
    wanted = Range(min(run.start for run in where.runs), max(run.end for run in where.runs))
    return f"`{command(table.replace('_', '-'), wanted)}`"


def no_hours(_table: str, _rollup: str, _day: date) -> Sequence[Range]:
    """For who cannot ask."""
    return ()
