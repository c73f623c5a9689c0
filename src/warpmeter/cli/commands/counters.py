"""`warpmeter counters`: lend a GPU's performance counters to a profiler, and take them back."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common
from warpmeter.cli.common import explained
from warpmeter.cli.options import Data, Json
from warpmeter.up.folder import Folder

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback()
def main() -> None:
    """GPU performance counters of this host: lend them to a profiler that needs them for itself, and take them back."""


@app.command()
def pause(
    seconds: Annotated[str, typer.Option("--for", help="How long, at most an hour: 90s, 10m, 1h.")] = "10m",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Have this host's agent leave the counters alone, from its next tick on, until the time is over.

    Columns whose source is `gpm` (SM activity, pipes, …) are absent meanwhile, all else is measured on; source_health
    has `performance counters` of source gpu as `paused`. It is for profilers such as Nsight Compute.
    """
    from warpmeter.clock import moment
    from warpmeter.producers.gpu.pause import ask

    file, now = _file(data), time.time()
    try:
        length = now - moment(seconds, now)
        with explained(OSError):
            ask(file, length, now)
    except ValueError as error:
        common.fail(f"{error}; write --for 10m", 2)
    _say(as_json, now + length, file)


@app.command()
def resume(as_json: Json = False, data: Data = None) -> None:
    """Have them read again from the next tick on."""
    file = _file(data)
    with explained(OSError):
        file.unlink(missing_ok=True)
    _say(as_json, None, file)


def _file(data: Path | None) -> Path:
    from warpmeter.producers.gpu.pause import file_of

    settings = common.settings(data)
    at = data or settings.engine.data
    return file_of(Folder(at).spool if common.running(at) else settings.agent.spool_dir)


def _say(as_json: bool, until: float | None, file: Path) -> None:
    at = None if until is None else datetime.fromtimestamp(round(until), UTC)
    if as_json:
        common.print_json({"paused_until": at, "asked_by": file})
    elif at is None:
        typer.echo("The agent reads the counters again from its next tick on.")
    else:
        typer.echo(f"The agent leaves the counters alone until {at:%H:%M:%S} UTC; `warpmeter counters resume` ends it.")
