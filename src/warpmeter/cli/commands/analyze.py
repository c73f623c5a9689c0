"""`warpmeter analyze`: where the time of a PyTorch trace went."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.options import Data, Dsn, Json
from warpmeter.settings import Settings

if TYPE_CHECKING:
    from warpmeter.cli import analyzing


def analyze(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Traces: .json, .json.gz, .json.zst, a folder, a glob, a URL. Several are ranks of a job.",
            autocompletion=complete.traces,
            show_default=False,
        ),
    ],
    as_json: Json = False,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="DIR", help="Write each table into a CSV file of this folder.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="OUT", help="Write the report as one self-contained page.")
    ] = None,
    step: Annotated[
        str | None, typer.Option("--step", metavar="N[-M]", help="Only these steps, by their numbers: 5, 5-8, 5,7.")
    ] = None,
    ranks: Annotated[
        str | None, typer.Option("--ranks", metavar="N[-M]", help="Only these ranks: 0, 0-7, 0,8-11.")
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="BEFORE",
            help="Compare with this earlier capture: what came, went, slowed, sped up.",
            autocompletion=complete.traces,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="The GPU, where the trace does not tell it: H100."),
    ] = None,
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="Rows of each table that is printed.")] = 10,
    load: Annotated[
        bool, typer.Option("--load", help="Also into the store, in place of what it had of the same ranks.")
    ] = False,
    capture: Annotated[
        str | None,
        typer.Option(
            "--capture", metavar="ID", help="Of --load: what the traces were recorded as.", show_default="name and time"
        ),
    ] = None,
    job: Annotated[str, typer.Option("--job", metavar="ID", help="Of --load: the job, as in the view jobs.")] = "",
    host: Annotated[
        str | None,
        typer.Option("--host", help="Of --load: where they were recorded.", show_default="as the trace tells"),
    ] = None,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Say where the time of PyTorch (Kineto) traces went; needs no Kafka, no ClickHouse, no GPU.

    One trace is analysed by itself; several are ranks of one job and are also held against each other.
    --json prints everything, to the nanosecond (docs/analysis.md). Exit status: 0 all files were analysed, 1 a file
    was not (the others are there), 2 a mistake in the command.

    [dim]Examples:[/]
      warpmeter analyze trace.json.gz
      warpmeter analyze profile/ --json > report.json
      warpmeter analyze 'run7/rank*.json.gz' --ranks 0-7 --step 12
      warpmeter analyze --diff last-week.json.gz today.json.gz
      warpmeter analyze 'run7/rank*.json.gz' --load --capture run7 --job 4711
    """
    from warpmeter.cli import analyzing

    wish = analyzing.Wish(tuple(files), as_json, csv, html, step, ranks, diff, device, top)
    if load:
        _loaded(wish, common.settings(data, store={"dsn": store}), data, (capture, job, host))
    elif capture or job or host:
        common.fail("--capture, --job and --host say what --load loads: add --load", 2)
    with common.explained(analyzing.AnalyzeError):
        raise typer.Exit(analyzing.run(wish))


def _loaded(
    wish: "analyzing.Wish", settings: Settings, data: Path | None, named: tuple[str | None, str, str | None]
) -> NoReturn:
    """Analyse and load."""
    from warpmeter import loading
    from warpmeter.cli import analyzing
    from warpmeter.landing import LandingError
    from warpmeter.store import ClickHouseError

    target = loading.Target(common.writable(settings, data).store, *named)
    with common.explained(analyzing.AnalyzeError, LandingError, ClickHouseError):
        raise typer.Exit(analyzing.run(dataclasses.replace(wish, load=target)))
