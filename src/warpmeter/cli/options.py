"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import complete

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="Data folder of `up`.", show_default="~/.local/share/warpmeter")
]
Bootstrap = Annotated[str | None, typer.Option("--bootstrap-servers", help="Kafka, as host:port[,host:port…].")]
Dsn = Annotated[
    str | None, typer.Option("--store", help="ClickHouse: http(s)://user:password@host:8123 or chdb:///path.")
]
Params = Annotated[list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE for {NAME:Type}; repeatable.")]
Format = Annotated[
    str | None,
    typer.Option("--format", "-F", help="Any of ClickHouse's output formats.", autocompletion=complete.formats),
]
