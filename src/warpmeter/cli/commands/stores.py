"""`warpmeter store`: what whoever runs ClickHouse does to it, besides migrating."""

from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common
from warpmeter.cli.common import explained
from warpmeter.cli.options import Data, Dsn, Json

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback()
def main() -> None:
    """The ClickHouse of all parts: who may read it."""


@app.command()
def grants(
    user: Annotated[str | None, typer.Option("--user", help="Also this user, who has the role.")] = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="Its password.", show_default="$ANALYST_PASSWORD")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Not analysts: migrate, ingest, scheduler or web, with the least that it needs.")
    ] = None,
    printed: Annotated[bool, typer.Option("--print", help="Change nothing; print the SQL.")] = False,
    seconds: Annotated[int, typer.Option(help="A query ends after so many.")] = 60,
    memory_gib: Annotated[int, typer.Option("--memory-gib", help="What a query may hold.")] = 8,
    rows: Annotated[int, typer.Option(help="Rows that an answer may have.")] = 1_000_000,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Let analysts and BI tools read: a role, bounds of a query, a quota for an hour, and a user (docs/bi.md).

    The role reads all tables and views but dead letters, and changes nothing. Run it again for other limits, or for the
    next user; passwords reach the store as salted hashes.

    warpmeter store grants --user superset --password-file superset.password

    With --part the role is that of a part of warpmeter, for the user in its store.dsn (docs/deploy/clickhouse.md).
    """
    from warpmeter import grants as granting
    from warpmeter.cli import granting as cli
    from warpmeter.migrate import MigrationError
    from warpmeter.store import ClickHouseError

    settings = common.settings(data, store={"dsn": store})
    with explained(granting.GrantsError, MigrationError, ClickHouseError, OSError):
        if part is not None and part not in granting.PARTS:
            raise granting.GrantsError(f"there is no part {part}: give one of {', '.join(granting.PARTS)}")
        limits = granting.Limits(seconds=seconds, memory_bytes=memory_gib << 30, result_rows=rows)
        who = granting.user(user, cli.password(password_file)) if user is not None else None
        if part is not None:
            statements = granting.of_part(settings.store, part, who)
        else:
            statements = granting.statements(settings.store, limits, who)
        if printed:
            cli.show(statements, as_json)
        else:
            role = granting.role(settings.store) if part is None else granting.part_role(settings.store, part)
            cli.run(settings, statements, role, as_json)
