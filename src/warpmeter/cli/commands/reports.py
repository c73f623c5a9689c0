"""`warpmeter reports`: those that schedules make, what became of each, and to send one now."""

from typing import Annotated

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.common import explained
from warpmeter.cli.options import Bootstrap, Data, Dsn, Json

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback()
def main() -> None:
    """Reports by themselves: their schedules, what was sent to whom, one sent now, and a target tried before it is
    needed. docs/reports.md says how to set them; `warpmeter report` makes one here."""


@app.command("list")
def list_(as_json: Json = False, data: Data = None) -> None:
    """The schedules of the settings: which report, when each makes its next one and of which period, and to whom."""
    from warpmeter.cli import publishing

    publishing.show_schedules(common.settings(data), as_json)


@app.command()
def history(
    schedule: Annotated[
        str, typer.Option(help="Of this schedule alone.", autocompletion=complete.report_schedules)
    ] = "",
    since: Annotated[str, typer.Option(help="Said since a time (2026-01-31T12:00Z) or so long ago (24h).")] = "30d",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="So many rows at most.")] = 200,
    as_json: Json = False,
    dsn: Dsn = None,
    data: Data = None,
) -> None:
    """What was made and sent, and what was not and why; the newest first."""
    from warpmeter.cli import publishing

    settings = common.settings(data, store={"dsn": dsn})
    begin = common.said(common.moment(since)).removesuffix("Z")
    with explained(*publishing.EXPECTED):
        publishing.show_history(settings, begin, schedule, limit, as_json)


@app.command()
def send(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", autocompletion=complete.report_schedules,
            help="A schedule, as `reports list` shows it; or a report: fleet-weekly, job, host-health, captures.",
        ),
    ],
    period: Annotated[
        str,
        typer.Option(help="2026-W48, 2026-11-23, 2026-11, or current: the one that goes on.",
                     show_default="the last whole one of the schedule"),
    ] = "",
    job: Annotated[str, typer.Option("--job", "-j", metavar="ID", help="Of report job: which one.")] = "",
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="TARGET", help="Repeatable.", show_default="those of the schedule",
                     autocompletion=complete.report_targets),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make it and say what would go where; keep and send nothing.")
    ] = False,
    as_json: Json = False,
    dsn: Dsn = None,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:  # fmt: skip
    """Send a report now, even if it was sent before. What is kept of that period is sent as it is; else it is made, and
    kept. Exit status 1 when a target did not take it.

    warpmeter reports send monday --dry-run

    warpmeter reports send monday --period 2026-W48 --to team

    warpmeter reports send monday --period current --dry-run
    """
    from confluent_kafka import KafkaException

    from warpmeter.cli import publishing

    settings = common.settings(data, store={"dsn": dsn}, kafka={"bootstrap_servers": bootstrap_servers})
    with explained(*publishing.EXPECTED, KafkaException):
        sending = publishing.wanted(settings, publishing.Asked(name, period, job, tuple(to or ())))
        sent = (
            publishing.dry_run(settings, sending, as_json) if dry_run else publishing.send(settings, sending, as_json)
        )
    raise typer.Exit(int(not sent))


@app.command()
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="Of [[reports.targets]].", autocompletion=complete.report_targets
        ),
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:  # fmt: skip
    """Send a few words to a target, to see that it takes them. Exit status 1 when it does not, with what to do."""
    from warpmeter.cli import publishing

    settings = common.settings(data)
    with explained(*publishing.EXPECTED):
        taken = publishing.check(settings, target, as_json)
    raise typer.Exit(int(not taken))
