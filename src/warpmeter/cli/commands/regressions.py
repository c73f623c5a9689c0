"""`warpmeter regressions`: jobs that got slower."""

from typing import Annotated

import typer

from warpmeter.cli import common
from warpmeter.cli.common import explained
from warpmeter.cli.options import Data, Dsn, Json


def regressions(
    job: Annotated[str, typer.Option("--job", "-j", help="Jobs of this name alone.", metavar="NAME")] = "",
    user: Annotated[str, typer.Option(help="Jobs of this user alone.")] = "",
    run: Annotated[str, typer.Option(help="This run alone, by its job id.", metavar="JOB_ID")] = "",
    since: Annotated[
        str, typer.Option(help="Runs that were there since then: 2026-01-31T12:00, or so long ago.")
    ] = "7d",
    until: Annotated[str, typer.Option(help="… and until then.")] = "now",
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Jobs that got slower: than their own past runs, or in the middle of a run; and what changed with it.

    Runs of the same user and name are held against each other, those of the four weeks before the window included:
    the step's time, SM activity, GPU utilisation, and kernels of what was captured.

    warpmeter regressions --job train.py --since 2d
    """
    from warpmeter.cli import regressing
    from warpmeter.queries import QueryError
    from warpmeter.regressions import Asked
    from warpmeter.store import ClickHouseError

    asked = Asked(regressing.moment(since), regressing.moment(until), job, user, run)
    settings = common.settings(data, store={"dsn": store})
    with explained(ClickHouseError, QueryError):
        regressing.show(settings, asked, as_json)
