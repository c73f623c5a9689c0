"""`warpmeter captures`: what was asked for and what came of it, and the end of what goes on."""

from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common
from warpmeter.cli.common import explained
from warpmeter.cli.options import Bootstrap, Data, Json
from warpmeter.settings import Settings

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
Name = Annotated[str, typer.Argument(metavar="CAPTURE", help="Its name, as `captures list` shows it.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for its end.")]


@app.callback()
def main() -> None:
    """Captures that were asked for, what came of each process, and the end of those that go on."""


@app.command("list")
def list_(
    since: Annotated[
        str, typer.Option(help="Asked for since a time (2026-01-31T12:00Z) or so long ago (24h); 15 days are kept.")
    ] = "7d",
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Captures and how they stand, the newest last."""
    from confluent_kafka import KafkaException

    from warpmeter.cli import capturing

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    common.moment(since)
    with explained(*capturing.EXPECTED, KafkaException):
        capturing.show_list(capturing.known(settings.kafka, since), as_json)


@app.command()
def show(
    capture: Name,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Copy its traces into this folder.")] = None,
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """One capture: the state of each process, why, and where its trace is. Exit status 1 when it did not capture all
    that was meant, or a trace could not be copied."""
    from confluent_kafka import KafkaException

    from warpmeter.cli import capturing

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    with explained(*capturing.EXPECTED, KafkaException, OSError):
        found = capturing.one(settings, capture)
        if as_json:
            common.print_json(found.document())
        else:
            capturing.print_one(found)
        whole = capturing.fetched(found, settings.traces, output)
    raise typer.Exit(int(not whole or (found.ended is not None and not found.whole)))


@app.command()
def cancel(
    capture: Name, wait: Wait = True, as_json: Json = False, bootstrap_servers: Bootstrap = None, data: Data = None
) -> None:
    """End a capture at once, and drop what is not done. Traces that are in the store stay there."""
    _end(capture, "cancel", wait, as_json, common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}))


@app.command()
def detach(
    capture: Name, wait: Wait = True, as_json: Json = False, bootstrap_servers: Bootstrap = None, data: Data = None
) -> None:
    """End a continuous capture, when the round that goes on is done."""
    _end(capture, "detach", wait, as_json, common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}))


def _end(capture: str, action: str, wait: bool, as_json: bool, settings: Settings) -> None:
    from confluent_kafka import KafkaException

    from warpmeter.cli import capturing

    with explained(*capturing.EXPECTED, KafkaException):
        raise typer.Exit(capturing.end(settings, capture, action, wait, as_json))
