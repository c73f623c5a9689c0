"""What all reports say alike: hours, money, shares, times and rows by column."""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from warpmeter.analysis.words import count, digits, percent
from warpmeter.scheduler.reports.kinds import Finding, Period, Price, Table

Row = Mapping[str, Any]
_ORDER: Final = ("critical", "warning", "info")


def rows(table: Table) -> list[Row]:
    """The table's rows by column."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By severity, else as they came."""
    return tuple(sorted(findings, key=lambda found: _ORDER.index(found.severity)))


def hours(value: float) -> str:
    """`1,234 GPU h`."""
    return f"{digits(value)} GPU h"


def money(value: float, price: Price) -> str:
    """`1,632.00 EUR`."""
    return f"{value:,.2f} {price.currency}"


def share(value: float | None) -> str:
    """A share of 0-1, or that it is not known."""
    return "not known" if value is None else percent(value)


def when(period: Period) -> str:
    """`week 48 of 2026 (23 Nov to 29 Nov 2026)`, `1 Nov 2026 to 30 Nov 2026`, or with its hours."""
    length = period.end - period.start
    if length % timedelta(days=1) or period.start.hour:
        return str(period)
    last = period.end - timedelta(days=1)
    year, week, day = period.start.isocalendar()
    if day == 1 and length == timedelta(weeks=1):
        return f"week {week} of {year} ({period.start:%-d %b} to {last:%-d %b %Y})"
    return f"{period.start:%-d %b %Y} to {last:%-d %b %Y}" if length > timedelta(days=1) else f"{last:%-d %b %Y}"


def measured(period: Period, until: datetime | None) -> str:
    """The period, and until when it was measured where that is not its end."""
    short = until is not None and until < period.end
    return f"{period}, measured until {until:%Y-%m-%d %H:%M:%S}" if short else str(period)


def part_of(hours_with: int, period: Period, until: datetime | None, minutes: int | None = None) -> str:
    """`in 1 of 24 hours, 4 min`: in how many of the hours that were measured something was seen, and how long."""
    whole = math.ceil(((until or period.end) - period.start).total_seconds() / 3600)
    return f"in {hours_with:,} of {count(whole, 'hour')}" + (f", {minutes:,} min" if minutes is not None else "")


def day_of(text: str) -> str:
    """`23 Nov`, of a time as the engine writes it."""
    return f"{datetime.fromisoformat(text):%-d %b}"


def unpriced(price: Price) -> Iterator[str]:
    """Which prices were not given, and what that means."""
    told = ((price.per_kwh, "a kWh"), (price.per_gpu_hour, "a GPU hour"))
    if missing := [said for value, said in told if value is None]:
        yield f"No price of {' or of '.join(missing)} was given, so what would follow from it is left out."


def some(names: Iterable[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    found = list(names)
    more = f" and {count(len(found) - most, 'other')}" if len(found) > most else ""
    return ", ".join(found[:most]) + more
