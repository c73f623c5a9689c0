"""Reports: what the store holds of a period, as a page, a mail, tables and figures.

`render(store, Asked(…))` gives a `Rendered`; `write(rendered, folder)` puts its files there, all or none.
"""

from warpmeter.scheduler.reports.kinds import (
    FORMATS,
    REPORTS,
    Asked,
    Finding,
    Inline,
    Period,
    Price,
    Rendered,
    ReportError,
    Table,
)
from warpmeter.scheduler.reports.rendering import render
from warpmeter.scheduler.reports.writing import write

__all__ = [
    "FORMATS",
    "REPORTS",
    "Asked",
    "Finding",
    "Inline",
    "Period",
    "Price",
    "Rendered",
    "ReportError",
    "Table",
    "render",
    "write",
]
