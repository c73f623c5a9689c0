"""Commands that ask: SQL, named queries, topics as they pass."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.common import explained
from warpmeter.cli.options import Bootstrap, Data, Dsn, Format, Json, Params


def sql(
    statement: Annotated[str | None, typer.Argument(help='SQL, or "-" for standard input.')] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the SQL from a file.")] = None,
    output: Format = None,
    param: Params = None,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Ask the store in SQL.

    warpmeter sql "SELECT host, gpu, sm_active FROM gpus ORDER BY sm_active" --format JSONEachRow
    """
    from warpmeter.cli import asking
    from warpmeter.store import ClickHouseError

    settings = common.settings(data, store={"dsn": store})
    with explained(ClickHouseError, ValueError, OSError):
        asking.run(settings, asking.statement(statement, file), output, asking.parameters(param or []))


def queries(
    name: Annotated[
        str | None, typer.Argument(help="Query to run; none lists them.", autocompletion=complete.queries)
    ] = None,
    output: Format = None,
    param: Params = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the SQL and the values of its parameters instead of running it.")
    ] = False,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """List the named queries, or run one.

    warpmeter queries gpu_hours_by_user --param since="2026-01-01 00:00:00"
    """
    from warpmeter.cli import asking
    from warpmeter.queries import QueryError
    from warpmeter.store import ClickHouseError

    with explained(ClickHouseError, QueryError, ValueError):
        if name is None:
            asking.list_queries(as_json)
            return
        settings = common.settings(data, store={"dsn": store})
        asking.run_query(settings, name, "JSONEachRow" if as_json and not output else output, param or [], show)


def tail(
    topic: Annotated[str, typer.Argument(help="Topic, without the prefix.", autocompletion=complete.topic_names)],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a row.")] = False,
    si: Annotated[bool, typer.Option("--si", help="SI names and values, as in SQL (power_watts).")] = False,
    host: Annotated[str | None, typer.Option(help="Only rows of this host.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Start at a time (2026-01-31T12:00:00Z) or so long ago (15m).")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more, or end with what is there.")
    ] = True,
    number: Annotated[int | None, typer.Option("-n", help="End after so many rows.")] = None,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Decoded messages of a topic, as they pass or from a time on."""
    from warpmeter import tail as tailing

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    if since is not None:
        since = datetime.fromtimestamp(common.moment(since), UTC).isoformat()
    with explained(tailing.TailError):
        tailing.tail(settings.kafka, tailing.Wanted(topic, host, since, follow, number), tailing.Shape(as_json, si))
