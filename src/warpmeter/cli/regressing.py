"""`warpmeter regressions`: out of the store, as a table of what got worse and what else changed."""

from contextlib import closing
from datetime import UTC, datetime

from warpmeter import regressions, store
from warpmeter.cli import common
from warpmeter.regressions import Asked, Regression
from warpmeter.settings import Settings

SORTS = {"between_runs": "runs before", "within_run": "this run"}


def moment(text: str) -> str:
    """A time as every command takes it, as named queries do; exit status 2 for what is none."""
    return datetime.fromtimestamp(common.moment(text), UTC).isoformat()


def show(settings: Settings, asked: Asked, as_json: bool) -> None:
    """Print them, the largest change first. Raises QueryError, ClickHouseError."""
    with closing(store.connect(settings.store)) as client:
        found = regressions.found(client, asked)
    if as_json:
        common.print_json([each.told() for each in found])
        return
    common.print_table(
        "jobs that got slower", ("job", "user", "run", "against", "since", "what got worse", "what else changed"),
        [_cells(each) for each in found],
    )  # fmt: skip


def _cells(found: Regression) -> tuple[str, ...]:
    worse = [each.text for each in found.metrics] + [each.text for each in found.kernels if each.what == "slower"]
    other = [each.text for each in found.differs] + [each.text for each in found.kernels if each.what != "slower"]
    against = f"{found.runs} {SORTS[found.sort]}" if found.runs else SORTS[found.sort]
    return (
        found.name, found.user, found.job_id, against, common.said(found.since), "\n".join(worse), "\n".join(other)
    )  # fmt: skip
