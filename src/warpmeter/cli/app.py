"""The command: its global options, and the table of what it can do."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from warpmeter import __version__
from warpmeter.cli import common
from warpmeter.cli.commands import (
    alerts,
    analyze,
    ask,
    captures,
    counters,
    flame,
    letters,
    operate,
    profile,
    regressions,
    report,
    reports,
    run,
    size,
    stacks,
    stores,
    top,
)

app = typer.Typer(
    name="warpmeter",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"warpmeter {__version__}")
        raise typer.Exit


@app.callback()
def main(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="TOML file.", show_default="./warpmeter.toml, /etc/warpmeter/warpmeter.toml"
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Fleet-wide GPU performance observability on Kafka and ClickHouse.

    Start with [bold]warpmeter up[/]: it measures this host and prints where to query. Every setting has a TOML key
    and a variable, WARPMETER_<TABLE>__<KEY>; `warpmeter config` shows those in force.
    """
    common.choose(config)


PANELS: Final[Mapping[str, Sequence[Callable[..., None]]]] = {
    "Run": (run.up, run.agent, run.ingest, run.schedule, run.web, run.engine),
    "Ask": (
        ask.sql,
        ask.queries,
        ask.tail,
        top.top,
        analyze.analyze,
        regressions.regressions,
        report.report,
        flame.flame,
    ),
    "Operate": (
        operate.status,
        operate.check,
        operate.replay,
        operate.doctor,
        operate.topics,
        operate.acls,
        operate.migrate,
        size.size,
        operate.config,
    ),
}
"""Every command but those that hand all their options on, as `warpmeter --help` groups them."""

for _panel, _commands in PANELS.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.command(
    rich_help_panel="Run",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(run.simulate)
app.command(
    rich_help_panel="Profile",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)(profile.run)
app.command(rich_help_panel="Profile")(profile.capture)
app.add_typer(alerts.app, name="alerts", rich_help_panel="Ask")
app.add_typer(reports.app, name="reports", rich_help_panel="Ask")
app.add_typer(captures.app, name="captures", rich_help_panel="Profile")
app.add_typer(stacks.app, name="stacks", rich_help_panel="Profile")
app.add_typer(letters.app, name="dead-letters", rich_help_panel="Operate")
app.add_typer(stores.app, name="store", rich_help_panel="Operate")
app.add_typer(counters.app, name="counters", rich_help_panel="Operate")
