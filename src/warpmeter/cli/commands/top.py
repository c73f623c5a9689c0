"""`warpmeter top`: the live fleet in a terminal."""

from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.options import Data, Dsn, Json


def top(
    url: Annotated[
        str | None,
        typer.Option("--url", help="The API of `warpmeter web`, in place of the store: http(s)://host:port."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the API's token; or the variable WARPMETER_TOKEN.")
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", "-i", help="Seconds between refreshes; a large fleet is asked less often.")
    ] = 2.0,
    tab: Annotated[
        str,
        typer.Option("--tab", "-t", help="List to begin with: hosts, gpus, jobs.", autocompletion=complete.top_tabs),
    ] = "hosts",
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            "-s",
            help="Column to sort by; with - in front the highest first.",
            autocompletion=complete.top_sorts,
        ),
    ] = None,
    filter: Annotated[
        str, typer.Option("--filter", help="Rows that have these words, or fit: 'idle gpu-01', 'util<5 power>600'.")
    ] = "",
    once: Annotated[
        bool, typer.Option("--once", help="Print one plain table and end; so it is without a terminal.")
    ] = False,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """The live fleet in this terminal: hosts, GPUs and jobs, sorted, filtered, opened. `?` tells the keys.

    warpmeter top                                     # the store of the `up` that runs here, or store.dsn
    warpmeter top --tab gpus --sort -power_watts --filter 'idle gpu-01'
    warpmeter top --url https://warpmeter.example.com --token-file ~/.warpmeter-token
    warpmeter top --tab jobs --once --json | jq '.rows[] | select(.gpus_idle > 0) | .job_id'
    """
    from warpmeter.cli import topping
    from warpmeter.top.source import SourceError

    begin = topping.begun(tab, sort, filter, interval)
    if url is None and token_file is not None:
        common.fail("--token-file is the API's: give its address with --url", 2)
    if url is not None and (store is not None or data is not None):
        common.fail("--url is the API, --store and --data are the store: give one of them", 2)
    with common.explained(SourceError, OSError):
        found = (
            topping.api(url, token_file)
            if url is not None
            else topping.store_of(common.settings(data, store={"dsn": store}))
        )
        topping.run(found, begin, once, as_json)
