"""What is said of reports on their topic: rendered, late, and what became of each delivery."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from warpmeter.schemas.generated.report_events_pb2 import Envelope
from warpmeter.schemas.topics import TOPICS

ReportEvent = Envelope.ReportEvent
TOPIC: Final = TOPICS["report-events"]
RENDERED: Final = "rendered"
LATE: Final = "late"
QUEUED: Final = "queued"
DELIVERED: Final = "delivered"
FAILED: Final = "failed"
GAVE_UP: Final = "gave_up"
SKIPPED: Final = "skipped"
FINAL: Final = frozenset({DELIVERED, GAVE_UP})
"""Of a delivery: nothing comes after these but what somebody asks for by hand."""


def of_row(row: Mapping[str, Any]) -> ReportEvent:
    """An event as the table `report_events` has it."""
    values = {name: value for name, value in row.items() if value is not None}
    for name in ("ts", "period_start", "period_end"):
        at = values[name]
        values[name] = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() if isinstance(at, datetime) else at
    return ReportEvent(**values)
