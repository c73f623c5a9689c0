"""The parts as commands: each reads its options and becomes the part, or supervises them."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from warpmeter import launch
from warpmeter.cli import common
from warpmeter.cli.common import explained
from warpmeter.cli.options import Bootstrap, Data, Dsn

if TYPE_CHECKING:
    from warpmeter.up.run import Plan


def up(
    demo: Annotated[bool, typer.Option("--demo", help="Add a simulated fleet of 64 hosts with 8 GPUs each.")] = False,
    data: Data = None,
    bootstrap_servers: Bootstrap = None,
    store: Dsn = None,
    broker_port: Annotated[int, typer.Option(help="Port of the embedded broker.")] = 9092,
    http_port: Annotated[
        int | None, typer.Option(help="Port of ClickHouse's HTTP protocol.", show_default="8123")
    ] = None,
    web_port: Annotated[int | None, typer.Option(help="Port of the page and the API.", show_default="8080")] = None,
    no_web: Annotated[bool, typer.Option("--no-web", help="Serve no page and no API.")] = False,
    interval: Annotated[float | None, typer.Option(help="Seconds between samples.", show_default="1")] = None,
) -> None:
    """Measure this host: broker, agent, consumer, engine and page in one command. Ctrl-C stops.

    With --bootstrap-servers or --store an existing Kafka or ClickHouse takes the place of the embedded one.
    """
    from warpmeter import log
    from warpmeter.up import run

    settings = common.settings(engine={"port": http_port}, agent={"interval_s": interval}, web={"port": web_port})
    with explained():
        asked = run.plan(settings, data or settings.engine.data, bootstrap_servers, store, demo, broker_port)
        asked = replace(asked, web=not no_web)
        log.setup(settings.log, "up")
        run.run(asked, _welcome)


def _welcome(asked: "Plan") -> None:
    from warpmeter.cli.welcome import print_welcome

    print_welcome(asked)


def agent(
    interval: Annotated[float | None, typer.Option(help="Seconds between samples.", show_default="1")] = None,
    once: Annotated[bool, typer.Option("--once", help="One tick of every source, then end; needs no broker.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the rows as JSON lines (with --once or --dry-run).")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure on, but send nothing.")] = False,
    host: Annotated[str | None, typer.Option(help="Name of this host.", show_default="hostname")] = None,
    bootstrap_servers: Bootstrap = None,
    out: Annotated[
        list[str] | None,
        typer.Option("--out", help="Way out: kafka, stdout, prometheus, otlp; repeatable.", show_default="kafka"),
    ] = None,
) -> None:
    """Measure this host and publish to Kafka (what every host of a fleet runs).

    --out stdout prints JSON lines and needs no broker; prometheus serves the latest values at /metrics; otlp pushes.
    """
    outputs = [name for each in out for name in each.split(",")] if out else None
    settings = common.settings(
        agent={"interval_s": interval, "host": host, "outputs": outputs}, kafka={"bootstrap_servers": bootstrap_servers}
    )
    flags = {"--once": once, "--json": as_json, "--dry-run": dry_run}
    launch.become("warpmeter.producers", settings, [flag for flag, on in flags.items() if on])


def ingest(bootstrap_servers: Bootstrap = None, store: Dsn = None) -> None:
    """Land the topics in ClickHouse, every row once."""
    settings = common.settings(kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    launch.become("warpmeter.consumers", settings)


def schedule(bootstrap_servers: Bootstrap = None, store: Dsn = None) -> None:
    """Carry captures out, and begin those of the schedules. One of several is active; the others stand by."""
    settings = common.settings(kafka={"bootstrap_servers": bootstrap_servers}, store={"dsn": store})
    launch.become("warpmeter.scheduler", settings)


def web(
    listen: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8080")] = None,
    store: Dsn = None,
    bootstrap_servers: Bootstrap = None,
) -> None:
    """Serve the page and the API. Beyond loopback it must know who may look: web.tokens, or web.proxies."""
    settings = common.settings(
        web={"listen": listen, "port": port}, store={"dsn": store}, kafka={"bootstrap_servers": bootstrap_servers}
    )
    launch.become("warpmeter.web", settings)


def engine(
    data: Data = None,
    port: Annotated[int | None, typer.Option(help="Port of ClickHouse's HTTP protocol.", show_default="8123")] = None,
) -> None:
    """Serve the embedded engine over ClickHouse's HTTP protocol on loopback, read-only unless a write token is set."""
    settings = common.settings(engine={"port": port, "data": data})
    launch.become("warpmeter.engine", settings)


def simulate(context: typer.Context, bootstrap_servers: Bootstrap = None, data: Data = None) -> None:
    """Publish a simulated fleet of N hosts with G GPUs each: jobs, phases, idle GPUs, failures. See --help."""
    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    launch.become("warpmeter.simulate", settings, context.args)
