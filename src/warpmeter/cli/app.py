"""The commands, and nothing but: each reads its options and calls the part that does the work."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpmeter import __version__, launch
from warpmeter.cli import common, complete
from warpmeter.cli.common import explained

if TYPE_CHECKING:
    from warpmeter.up.run import Plan

app = typer.Typer(
    name="warpmeter",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="Data folder of `up`.", show_default="~/.local/share/warpmeter")
]
Bootstrap = Annotated[str | None, typer.Option("--bootstrap-servers", help="Kafka, as host:port[,host:port…].")]
Dsn = Annotated[
    str | None, typer.Option("--store", help="ClickHouse: http(s)://user:password@host:8123 or chdb:///path.")
]

Params = Annotated[list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE for {NAME:Type}; repeatable.")]


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


@app.command()
def up(
    demo: Annotated[bool, typer.Option("--demo", help="Add a simulated fleet of 64 hosts with 8 GPUs each.")] = False,
    data: Data = None,
    bootstrap_servers: Bootstrap = None,
    store: Dsn = None,
    broker_port: Annotated[int, typer.Option(help="Port of the embedded broker.")] = 9092,
    http_port: Annotated[
        int | None, typer.Option(help="Port of ClickHouse's HTTP protocol.", show_default="8123")
    ] = None,
    interval: Annotated[float | None, typer.Option(help="Seconds between samples.", show_default="1")] = None,
) -> None:
    """Measure this host: broker, agent, consumer and engine in one command. Ctrl-C stops.

    With --bootstrap-servers or --store an existing Kafka or ClickHouse takes the place of the embedded one.
    """
    from warpmeter import log
    from warpmeter.up import run

    settings = common.settings(engine={"port": http_port}, agent={"interval_s": interval})
    with explained():
        asked = run.plan(settings, data or settings.engine.data, bootstrap_servers, store, demo, broker_port)
        log.setup(settings.log, "up")
        run.run(asked, _welcome)


def _welcome(asked: "Plan") -> None:
    from warpmeter.cli.welcome import print_welcome

    print_welcome(asked)


@app.command()
def agent(
    interval: Annotated[float | None, typer.Option(help="Seconds between samples.", show_default="1")] = None,
    once: Annotated[bool, typer.Option("--once", help="One tick of every source, then end; needs no broker.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the rows as JSON lines (with --once or --dry-run).")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure on, but send nothing.")] = False,
    host: Annotated[str | None, typer.Option(help="Name of this host.", show_default="hostname")] = None,
    bootstrap_servers: Bootstrap = None,
) -> None:
    """Measure this host and publish to Kafka (what every host of a fleet runs)."""
    settings = common.settings(
        agent={"interval_s": interval, "host": host}, kafka={"bootstrap_servers": bootstrap_servers}
    )
    flags = {"--once": once, "--json": as_json, "--dry-run": dry_run}
    launch.become("warpmeter.producers", settings, [flag for flag, on in flags.items() if on])


@app.command()
def ingest(bootstrap_servers: Bootstrap = None, store: Dsn = None) -> None:
    """Land the topics in ClickHouse, every row once."""
    settings = common.settings(kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    launch.become("warpmeter.consumers", settings)


@app.command()
def engine(
    data: Data = None,
    port: Annotated[int | None, typer.Option(help="Port of ClickHouse's HTTP protocol.", show_default="8123")] = None,
) -> None:
    """Serve the embedded engine over ClickHouse's HTTP protocol on loopback, read-only unless a write token is set."""
    settings = common.settings(engine={"port": port, "data": data})
    launch.become("warpmeter.engine", settings)


@app.command()
def sql(
    statement: Annotated[str | None, typer.Argument(help='SQL, or "-" for standard input.')] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the SQL from a file.")] = None,
    output: Annotated[
        str | None,
        typer.Option("--format", "-F", help="Any of ClickHouse's output formats.", autocompletion=complete.formats),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE for {NAME:Type}; repeatable.")
    ] = None,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Ask the store in SQL.

    warpmeter sql "SELECT host, gpu, sm_active FROM gpus ORDER BY sm_active" --format JSONEachRow
    """
    from warpmeter.cli import asking
    from warpmeter.store import ClickHouseError

    settings = common.settings(data, store={"dsn": store})
    with explained(ClickHouseError, ValueError, OSError):
        asking.run(settings, asking.statement(statement, file), output, asking.parameters(param or []))


@app.command()
def doctor(as_json: Json = False, bootstrap_servers: Bootstrap = None, store: Dsn = None, data: Data = None) -> None:
    """Check this host, the bus and the store; each finding says what to do. Exit status 1 when something failed."""
    from warpmeter.cli.doctor import examine

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    findings = list(examine(settings))
    if as_json:
        common.print_json(findings)
    else:
        rows = [(each.check, common.coloured(each.verdict), each.seen, each.remedy) for each in findings]
        common.print_table("", ("check", "verdict", "seen", "what to do"), rows)
    raise typer.Exit(int(any(each.verdict == "failed" for each in findings)))


@app.command("topics")
def topics_command(
    create: Annotated[bool, typer.Option("--create", help="Create what is missing and mend what differs.")] = False,
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Check the topics and their configuration, or create them. Exit status 1 when something differs."""
    from warpmeter import topics

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    with explained(topics.TopicsError):
        work = topics.ensure if create else topics.check
        differences = work(settings.kafka)
        wanted = topics.plan(settings.kafka)
    if as_json:
        common.print_json({"topics": wanted, "differences": [str(each) for each in differences]})
    else:
        said = [str(each).partition(": ") for each in differences]
        rows = [(t.name, t.partitions, "; ".join(what for name, _, what in said if name == t.name)) for t in wanted]
        common.print_table("", ("topic", "partitions", "created or mended" if create else "differs"), rows)
    raise typer.Exit(int(bool(differences) and not create))


@app.command("config")
def config_command(as_json: Json = False) -> None:
    """Show the settings in force, secrets masked, or say what is wrong with them."""
    from warpmeter import config

    shown = config.shown(common.settings())
    if as_json:
        common.print_json(shown)
        return
    rows = [(f"{table}.{key}", value) for table, keys in shown.items() for key, value in keys.items()]
    common.print_table("", ("setting", "value"), rows)


@app.command()
def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit status 1 when something is to be done.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; print the SQL.")] = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """Bring the store's tables, rollups and views to this version. Safe to run again; refuses to run twice at once."""
    from warpmeter.cli import migrating
    from warpmeter.consumers.ledger import LedgerError
    from warpmeter.migrate import MigrationError
    from warpmeter.store import ClickHouseError

    settings = common.writable(common.settings(data, store={"dsn": store}), data)
    with explained(MigrationError, ClickHouseError, LedgerError):
        if check or dry_run:
            steps = migrating.show(settings, with_sql=dry_run)
            raise typer.Exit(int(check and bool(steps)))
        migrating.run(settings)


@app.command("queries")
def queries_command(
    name: Annotated[
        str | None, typer.Argument(help="Query to run; none lists them.", autocompletion=complete.queries)
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--format", "-F", help="Any of ClickHouse's output formats.", autocompletion=complete.formats),
    ] = None,
    param: Params = None,
    show: Annotated[bool, typer.Option("--show", help="Print the SQL instead of running it.")] = False,
    as_json: Json = False,
    store: Dsn = None,
    data: Data = None,
) -> None:
    """List the named queries, or run one.

    warpmeter queries gpu_hours_by_user --param since="2026-01-01 00:00:00"
    """
    from warpmeter.cli import asking
    from warpmeter.queries import QueryError
    from warpmeter.store import ClickHouseError

    with explained(ClickHouseError, QueryError, ValueError):
        if name is None:
            asking.list_queries(as_json)
            return
        settings = common.settings(data, store={"dsn": store})
        asking.run_query(settings, name, "JSONEachRow" if as_json and not output else output, param or [], show)


@app.command()
def status(as_json: Json = False, bootstrap_servers: Bootstrap = None, store: Dsn = None, data: Data = None) -> None:
    """What runs, lag per partition, freshness of the tables, sick sources, last errors. Exit status 1 when something
    does not answer or has stopped."""
    from warpmeter.cli import status as reporting

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    found = reporting.report(settings, data or settings.engine.data)
    reporting.show(found, as_json)
    raise typer.Exit(int(bool(found.problems) or any(part.state != "running" for part in found.parts)))


@app.command()
def tail(
    topic: Annotated[str, typer.Argument(help="Topic, without the prefix.", autocompletion=complete.topic_names)],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a row.")] = False,
    si: Annotated[bool, typer.Option("--si", help="SI names and values, as in SQL (power_watts).")] = False,
    host: Annotated[str | None, typer.Option(help="Only rows of this host.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Start at a time (2026-01-31T12:00:00Z) or so long ago (15m).")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more, or end with what is there.")
    ] = True,
    number: Annotated[int | None, typer.Option("-n", help="End after so many rows.")] = None,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Decoded messages of a topic, as they pass or from a time on."""
    from warpmeter import tail as tailing

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    with explained(tailing.TailError):
        tailing.tail(settings.kafka, tailing.Wanted(topic, host, since, follow, number), tailing.Shape(as_json, si))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def simulate(context: typer.Context, bootstrap_servers: Bootstrap = None, data: Data = None) -> None:
    """Publish a simulated fleet of N hosts with G GPUs each: jobs, phases, idle GPUs, failures. See --help."""
    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    launch.become("warpmeter.simulate", settings, context.args)
