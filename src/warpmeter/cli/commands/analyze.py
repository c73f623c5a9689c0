"""`warpmeter analyze`: where the time of a PyTorch trace went."""

from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.options import Json


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
    """
    from warpmeter.cli import analyzing

    wish = analyzing.Wish(tuple(files), as_json, csv, html, step, ranks, diff, device, top)
    with common.explained(analyzing.AnalyzeError):
        raise typer.Exit(analyzing.run(wish))
