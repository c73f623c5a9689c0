"""`warpmeter flame`: where the CPU time went."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.common import explained
from warpmeter.cli.options import Data, Dsn, Json

COMPARE = "Compare with another window or job"


def flame(
    job: Annotated[
        str, typer.Option("--job", "-j", help="Stacks of this job: over its run time unless --since is given.")
    ] = "",
    host: Annotated[str, typer.Option(help="Stacks of this host.")] = "",
    since: Annotated[
        str | None, typer.Option(help="From a time (2026-01-31T12:00) or so long ago (15m).", show_default="1h")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Until a time.", show_default="now")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT", autocompletion=complete.flames,
            help="A file: .html (one page, works from anywhere), .folded, .speedscope.json, .json.",
        ),
    ] = None,
    rank: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Of this rank alone.")] = None,
    process: Annotated[str, typer.Option(help="Of processes of this name alone.")] = "",
    pid: Annotated[
        int | None, typer.Option(min=1, max=2**32 - 1, help="Of this process alone, as its host numbers it.")
    ] = None,
    source: Annotated[
        str, typer.Option(help="Of what this took alone: py-spy, perf, …", show_default="that with the most")
    ] = "",
    unit: Annotated[
        Literal["microseconds", "bytes", "count"], typer.Option(help="What they weigh by; agents sample time.")
    ] = "microseconds",
    by: Annotated[
        Literal["host", "process", "rank", "thread"] | None,
        typer.Option(help="In files: a level of its own below all."),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines/--no-lines", help="Tell lines of a function apart, or take it as one.")
    ] = True,
    base_since: Annotated[
        str | None, typer.Option(help="Compare with stacks from then on.", rich_help_panel=COMPARE)
    ] = None,
    base_until: Annotated[
        str | None, typer.Option(help="… until then.", show_default="as long a window", rich_help_panel=COMPARE)
    ] = None,
    base_job: Annotated[
        str, typer.Option(help="… of that job: over its run time, or from --base-since.", rich_help_panel=COMPARE)
    ] = "",
    base_host: Annotated[str, typer.Option(help="… of that host.", rich_help_panel=COMPARE)] = "",
    top: Annotated[int, typer.Option("--top", "-n", min=1, max=1_000_000, help="Functions that are printed.")] = 30,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:  # fmt: skip
    """Where the CPU time went, function by function, out of the stacks that agents sample.

    warpmeter flame --job 4711 --top 20

    A flame graph to open or to send: warpmeter flame --job 4711 --since 2h -o out.html

    What changed since yesterday: warpmeter flame --host gpu-0001 --since 10m --base-since 1d
    """
    from warpmeter.cli import flaming
    from warpmeter.cli.flames.asking import Base, FlameError, Wanted, Whose
    from warpmeter.queries import QueryError
    from warpmeter.store import ClickHouseError

    settings = common.settings(data, store={"dsn": store})
    told = {
        "job": job,
        "host": host,
        "process": process,
        "source": source,
        "base-job": base_job,
        "base-host": base_host,
    }
    for name, value in told.items():
        if not value.isprintable():
            common.fail(f"--{name} is a name of characters that can be printed", 2)
    whose = Whose(job, host, rank, process, pid, source, unit)
    base = Base(base_since, base_until, base_job, base_host)
    wanted = Wanted(whose, since, until, base, by, lines, top)
    with explained(FlameError, ClickHouseError, QueryError, OSError):
        if output is None:
            flaming.show(settings, wanted, as_json)
        else:
            flaming.write(settings, wanted, output)
