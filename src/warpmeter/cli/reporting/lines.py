"""Lines and tables of a report: figures whole and to the right, on narrow terminals fewer of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from warpmeter.analysis.findings import Evidence, Finding
from warpmeter.analysis.words import duration, percent, size
from warpmeter.cli import common
from warpmeter.terminal import printable

Rows = list[tuple[Any, ...]]
"""Cells as they are printed; None and empty ones are not known."""

NAMES: Final = ("inputs", "step", "group", "file", "findings")
"""Columns of texts that may begin with a digit."""
MINOR: Final = (
    "mean", "deviation", "p95", "launches", "CPU total", "GPU total", "of roof", "type", "calls before", "time before",
    "waited itself", "skew p50", "p50", "comm", "parts", "bus", "min", "launched by", "evidence",
    "kernel wait", "file",
)  # fmt: skip
"""What a narrow terminal can do without, the first first."""
TEXT_ROOM: Final = 24
"""A column of texts is readable from that width on."""


def line(text: str, style: str = "") -> None:
    """One line, whatever its length; nothing in it is markup."""
    common.out.print(printable(text, keep=""), style=style or None, markup=False, highlight=False, soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Rows) -> None:
    """A table, or nothing where it has no rows: figures whole and to the right, texts fold. Where the terminal is too
    narrow for that, `MINOR` columns are left out."""
    if not rows:
        return
    shown = _fitting(columns, rows, common.out.width)
    made = Table(title=Text(printable(title, keep="")) if title else None, title_justify="left", title_style="bold")
    for place in shown:
        text = _is_text(columns[place], rows, place)
        made.add_column(columns[place], justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for row in rows:
        made.add_row(*(Text("" if row[place] is None else printable(str(row[place]), keep="")) for place in shown))
    common.out.print()
    common.out.print(made)


def _is_text(column: str, rows: Rows, place: int) -> bool:
    """Whether its cells are words: they begin with no digit or sign, or it names things."""
    cells = [str(row[place]) for row in rows if row[place] not in (None, "")]
    return column in NAMES or not cells or not all(cell[0].isdigit() or cell[0] in "+-" for cell in cells)


def _fitting(columns: Sequence[str], rows: Rows, width: int) -> list[int]:
    """The places of the columns that hold something and have room."""
    shown = [place for place in range(len(columns)) if any(row[place] not in (None, "") for row in rows)]
    for name in ("", *MINOR):
        shown = [place for place in shown if columns[place] != name or not name]
        if sum(_room(columns, rows, place) for place in shown) + 1 <= width:
            break
    return shown


def _room(columns: Sequence[str], rows: Rows, place: int) -> int:
    widest = max(len(columns[place]), *(len(str(row[place])) for row in rows))
    return 3 + (min(widest, TEXT_ROOM) if _is_text(columns[place], rows, place) else widest)


def ns(value: float | None) -> str:
    """A time; empty for what is not known."""
    return "" if value is None else duration(value)


def share(part: float | None, whole: float | None) -> str:
    """Per cent of the whole; empty where either is not known."""
    return percent(part / whole) if part is not None and whole else ""


def titled(title: str, there: int, shown: int) -> str:
    """The title, and how many of how many rows are shown where that is not all."""
    return f"{title} ({shown} of {there:,})" if there > shown else title


def said(found: Sequence[Finding]) -> None:
    """Findings in words, with their evidence and what to do."""
    if not found:
        line("Findings: none", "bold")
        return
    line("Findings", "bold")
    for each in found:
        line(f"  {each.text}.", "bold yellow")
        line(f"    {each.id}: {'; '.join(_evidence(one) for one in each.evidence)}")
        line(f"    {each.advice}", "dim")


SAID: Final[Mapping[str, Callable[[float], str]]] = {
    "ns": duration,
    "B": size,
    "count": "{:,.0f}".format,
    "ratio": percent,
}


def _evidence(each: Evidence) -> str:
    return f"{each.what} {SAID[each.unit](each.value)}"
