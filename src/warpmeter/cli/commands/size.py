"""`warpmeter size`: how large bus, ingest and store must be."""

from typing import Annotated, Final

import typer

from warpmeter.cli import common
from warpmeter.cli.options import Json

OF_SETTINGS: Final = "of the settings"


def size(
    hosts: Annotated[int, typer.Option(help="GPU hosts.")] = 1,
    gpus: Annotated[int, typer.Option(help="GPUs of a host, or MIG instances; 0: none.")] = 8,
    interval: Annotated[
        float | None, typer.Option(help="Seconds from sample to sample.", show_default=OF_SETTINGS)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Jobs that run on a host at once.")] = 2,
    processes: Annotated[int, typer.Option(help="Processes on the GPUs of a host.")] = 8,
    devices: Annotated[
        int, typer.Option(help="NICs, RDMA ports, disks, mounts, NUMA nodes and sockets of a host; 0: none.")
    ] = 12,
    stacks: Annotated[int, typer.Option(help="Processes of a host whose stacks are sampled each minute; 0: none.")] = 8,
    series: Annotated[int, typer.Option(help="Series that a host's agent scrapes of exporters.")] = 0,
    scrape_interval: Annotated[float, typer.Option(help="Seconds from scrape to scrape.")] = 10.0,
    retention_hours: Annotated[float, typer.Option(help="How long the topics keep samples.")] = 24.0,
    replication: Annotated[int, typer.Option(help="Copies that the brokers keep.")] = 3,
    partitions: Annotated[
        int | None, typer.Option(help="Of each topic, at least.", show_default=f"{OF_SETTINGS}, or 12")
    ] = None,
    replicas: Annotated[int, typer.Option(help="Replicas of each shard of the store.")] = 1,
    viewers: Annotated[int, typer.Option(help="Dashboards that are open at once.")] = 10,
    raw_days: Annotated[int | None, typer.Option(help="How long raw rows are kept.", show_default=OF_SETTINGS)] = None,
    minute_days: Annotated[
        int | None, typer.Option(help="How long minutes are kept.", show_default=OF_SETTINGS)
    ] = None,
    hour_days: Annotated[int | None, typer.Option(help="How long hours are kept.", show_default=OF_SETTINGS)] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also each formula, and each constant with where it was measured.")
    ] = False,
    as_json: Json = False,
) -> None:
    """How large a fleet's bus, ingest and store must be: bytes, rows, partitions, disk, processes, cores.

    It asks nobody; what it counts with was measured, or is marked as assumed (docs/deploy/capacity.md). Captured traces
    are not in it. --json has `fleet` (the arguments), `figures`, `topics` and `tables`, and with --explain `constants`,
    in bytes, seconds and rows. Exit status 2 for arguments that no fleet has.

    warpmeter size --hosts 1000 --gpus 8 --interval 1 --replicas 2
    """
    from warpmeter.cli import sizing
    from warpmeter.sizing import Fleet, SizeError

    settings = common.settings()
    store, kafka = settings.store, settings.kafka
    try:
        fleet = Fleet(
            hosts=hosts,
            gpus=gpus,
            interval_s=settings.agent.interval_s if interval is None else interval,
            jobs=jobs,
            processes=processes,
            devices=devices,
            stacks=stacks,
            series=series,
            scrape_s=scrape_interval,
            retention_h=retention_hours,
            replication=replication,
            partitions=(kafka.partitions or Fleet.partitions) if partitions is None else partitions,
            replicas=replicas,
            viewers=viewers,
            raw_days=store.raw_ttl_days if raw_days is None else raw_days,
            minute_days=store.minute_ttl_days if minute_days is None else minute_days,
            hour_days=store.hour_ttl_days if hour_days is None else hour_days,
        )
    except SizeError as error:
        common.fail(str(error), 2)
    sizing.show(fleet, explain, as_json)
