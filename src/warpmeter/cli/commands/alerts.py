"""`warpmeter alerts`: what is the matter, and what people say of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from warpmeter.cli import common, complete
from warpmeter.cli.common import explained
from warpmeter.cli.options import Bootstrap, Data, Dsn, Json
from warpmeter.settings import Settings

app = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
Name = Annotated[
    str, typer.Argument(metavar="ALERT", help="Its id, as `alerts list` shows it.", autocompletion=complete.alerts)
]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Why, for those who look.")]


@app.callback()
def main(context: typer.Context) -> None:
    """Alerts: what is the matter with hosts, GPUs and jobs; to silence them, and to take care of one.

    Without a command it lists those that are open, as `warpmeter alerts list` does.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_)


@app.command("list")
def list_(
    state: Annotated[
        Literal["open", "firing", "pending", "resolved", "dropped", "all"],
        typer.Option(help="open: what is pending or fires now; dropped: it was pending, and never fired."),
    ] = "open",
    severity: Annotated[Literal["info", "warning", "critical"] | None, typer.Option(help="Of this one alone.")] = None,
    rule: Annotated[str, typer.Option(help="Of this rule alone.", autocompletion=complete.rules)] = "",
    host: Annotated[str, typer.Option(help="About this host alone.")] = "",
    job: Annotated[str, typer.Option("--job", metavar="ID", help="About this job alone.")] = "",
    since: Annotated[str, typer.Option(help="Open after a time (2026-01-31T12:00Z) or so long ago (24h).")] = "7d",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="So many at most.")] = 200,
    as_json: Json = False,
    dsn: Dsn = None,
    data: Data = None,
) -> None:
    """Alerts, what needs somebody first.

    [dim]Examples:[/]
      warpmeter alerts list --severity critical
      warpmeter alerts list --state all --since 24h --host gpu-0001
    """
    from warpmeter.cli import alerting

    settings = common.settings(data, store={"dsn": dsn})
    asked = {"state": "" if state == "all" else state, "severity": severity or "", "rule": rule}
    about = {"host": host, "job_id": job}
    begin = common.said(common.moment(since)).removesuffix("Z")
    with explained(*alerting.EXPECTED):
        found = alerting.rows(settings, "alerts_listed", since=begin, limit=limit + 1, **asked, **about)
        alerting.show_list(found, limit, as_json)


@app.command()
def show(alert: Name, as_json: Json = False, dsn: Dsn = None, data: Data = None) -> None:
    """One alert: what to do, what it is about, and what became of it."""
    from warpmeter.cli import alerting

    settings = common.settings(data, store={"dsn": dsn})
    with explained(*alerting.EXPECTED):
        alerting.show(settings, alert, as_json)


@app.command()
def rules(as_json: Json = False, data: Data = None) -> None:
    """The rules in force, as the settings have them; docs/alerts.md says how to change one."""
    from warpmeter.alerts import RuleError
    from warpmeter.cli import alerting

    with explained(RuleError):
        alerting.show_rules(common.settings(data), as_json)


@app.command()
def silences(as_json: Json = False, dsn: Dsn = None, data: Data = None) -> None:
    """Silences that hold, or will."""
    from warpmeter.cli import alerting

    settings = common.settings(data, store={"dsn": dsn})
    with explained(*alerting.EXPECTED):
        alerting.show_silences(settings, as_json)


@app.command()
def silence(
    matchers: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE…",
            help="rule, severity or a label, and its value; ~ before an expression. All must fit.",
            autocompletion=complete.matchers,
        ),
    ],
    length: Annotated[str, typer.Option("--for", help="How long: 30m, 2h, 3d.", show_default=False)],
    starts: Annotated[str | None, typer.Option("--starts", help="When it begins.", show_default="now")] = None,
    comment: Comment = "",
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Tell receivers of no such alerts for a while. They are evaluated, stored and shown all the same.

    [dim]Examples:[/]
      warpmeter alerts silence rule=gpu-hot host=gpu-0001 --for 2h -m "the fan is changed"
      warpmeter alerts silence host=~rack7-.* --for 8h --starts 2026-12-01T06:00Z
    """
    from warpmeter.cli import alerting

    settings = _bus(bootstrap_servers, data)
    with _told():
        word = alerting.new_silence(matchers, length, starts, comment)
        alerting.tell(settings, word)
        if why := alerting.unheard(settings, word):
            common.err.print(f"warpmeter: {why}", markup=False, highlight=False, soft_wrap=True)
        if as_json:
            common.print_json({"silence_id": word.subject, "ends_at": common.said(word.ends_at)})
        else:
            common.out.print(alerting.told_until(word), markup=False, highlight=False, soft_wrap=True)


@app.command()
def unsilence(
    silence: Annotated[
        str,
        typer.Argument(
            metavar="SILENCE", help="Its id, as `alerts silences` shows it.", autocompletion=complete.silences
        ),
    ],
    dsn: Dsn = None,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """End a silence now."""
    from warpmeter.cli import alerting

    settings = _bus(bootstrap_servers, data, dsn)
    with _told():
        alerting.tell(settings, alerting.end_silence(settings, silence))
        common.out.print(f"ended: {silence}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def ack(
    alert: Name, comment: Comment = "", dsn: Dsn = None, bootstrap_servers: Bootstrap = None, data: Data = None
) -> None:
    """Take care of an alert: receivers are not told of it again, but of its end."""
    _care("acknowledge", alert, comment, _bus(bootstrap_servers, data, dsn))


@app.command()
def unack(
    alert: Name, comment: Comment = "", dsn: Dsn = None, bootstrap_servers: Bootstrap = None, data: Data = None
) -> None:
    """Take care of it no more."""
    _care("unacknowledge", alert, comment, _bus(bootstrap_servers, data, dsn))


@app.command()
def receivers(as_json: Json = False, data: Data = None) -> None:
    """Who is told of which alerts."""
    from warpmeter.cli import alerting

    alerting.show_receivers(common.settings(data), as_json)


@app.command("test")
def try_(
    receiver: Annotated[
        str,
        typer.Argument(metavar="RECEIVER", help="Its name in [[alerts.receivers]].", autocompletion=complete.receivers),
    ],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Tell a receiver of an alert that is none, and say what came of it. Exit status 1 when it did not take it."""
    from warpmeter.cli import alerting

    settings = common.settings(data)
    with explained(*alerting.EXPECTED):
        code = alerting.test(settings, receiver, as_json)
    raise typer.Exit(code)


def _bus(bootstrap_servers: str | None, data: Data, dsn: str | None = None) -> Settings:
    return common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": dsn})


@contextmanager
def _told() -> Iterator[None]:
    """With what can go wrong on the way onto the bus."""
    from confluent_kafka import KafkaException

    from warpmeter.cli import alerting

    with explained(*alerting.EXPECTED, KafkaException):
        yield


def _care(action: str, alert: str, comment: str, settings: Settings) -> None:
    from warpmeter.alerts.words import say
    from warpmeter.cli import alerting
    from warpmeter.cli.capturing import me

    with _told():
        alerting.one(settings, alert)
        alerting.tell(settings, say(action, alert, me(), comment))
        who = "nobody takes" if action == "unacknowledge" else f"{me()} takes"
        common.out.print(f"{who} care of {alert}", markup=False, highlight=False, soft_wrap=True)
