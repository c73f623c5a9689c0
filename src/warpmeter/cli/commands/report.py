"""`warpmeter report`: what a week, a job, the hosts or the captures came to."""

from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.common import explained
from warpmeter.cli.options import Data, Dsn, Json

PRICE = "Prices"


def report(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", autocompletion=complete.reports, help="fleet-weekly, job, host-health or captures."
        ),
    ],
    week: Annotated[
        str | None,
        typer.Option(help="Of which week: last, current (up to now), 2026-W48, or a day in it (2026-11-23); Monday to "
                          "Monday in UTC.",
                     show_default="last"),
    ] = None,
    since: Annotated[str | None, typer.Option(help="From a time (2026-01-31T12:00) or so long ago (30d).")] = None,
    until: Annotated[str | None, typer.Option(help="Until a time.", show_default="now")] = None,
    job: Annotated[
        str, typer.Option("--job", "-j", help="The job of report job: over its life unless --since is given.")
    ] = "",
    price_per_kwh: Annotated[
        float | None,
        typer.Option(min=0, help="What a kWh costs.", show_default="setting", rich_help_panel=PRICE)
    ] = None,
    price_per_gpu_hour: Annotated[
        float | None,
        typer.Option(min=0, help="What an hour of a GPU costs.", show_default="setting", rich_help_panel=PRICE)
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option(help="Of these prices.", show_default="setting", rich_help_panel=PRICE),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", file_okay=False,
                     help="Write it into a folder of its own there; without, it is printed."),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", "-F", help="What --out writes.", autocompletion=complete.report_formats)
    ] = "html,csv,parquet,png",
    open_it: Annotated[bool, typer.Option("--open", help="Open the page that --out wrote.")] = False,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:  # fmt: skip
    """A report: who had the GPUs and what became of them, one job's story, what fails, what captures showed.

    warpmeter report fleet-weekly --week 2026-W48 --price-per-kwh 0.25 --out reports

    warpmeter report job --job 4711

    docs/reports.md says how every figure is worked out; `warpmeter reports` shows and sends those that schedules make.
    """
    from warpmeter.cli import reportage
    from warpmeter.scheduler.reports import Asked, Price, ReportError
    from warpmeter.store import ClickHouseError

    settings = common.settings(data, store={"dsn": store})
    usual = settings.reports
    try:
        price = Price(
            usual.price_per_kwh or None if price_per_kwh is None else price_per_kwh,
            usual.price_per_gpu_hour or None if price_per_gpu_hour is None else price_per_gpu_hour,
            usual.currency if currency is None else currency,
        )
        asked = Asked(name, reportage.period(week, since, until), job, price, reportage.formats(formats))
        if open_it and (out is None or "html" not in asked.formats):
            raise ReportError("--open needs --out DIR, and html in --format")
    except ReportError as error:
        common.fail(str(error), 2)
    with explained(ReportError, ClickHouseError, OSError):
        reportage.make(settings.store, asked, reportage.Wanted(out, as_json, open_it))
