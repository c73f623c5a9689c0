"""A report from the store: questions, findings, figures, pages and files."""

from datetime import datetime

from warpmeter.scheduler.reports.kinds import Asked, Rendered
from warpmeter.settings import Store


def render(store: Store, asked: Asked, now: datetime | None = None) -> Rendered:
    """The report that was asked for.

    `now`: only tells which week is the last whole one. Raises ReportError (an unknown job), ClickHouseError.
    """
    raise NotImplementedError
