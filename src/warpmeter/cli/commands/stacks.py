"""`warpmeter stacks`: profiles that other profilers took, beside what agents sample."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from warpmeter.cli import common
from warpmeter.cli.common import explained
from warpmeter.cli.options import Bootstrap, Data, Json

app = typer.Typer(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})


@app.callback()
def main() -> None:
    """Profiles that other profilers took; what agents sample is shown by `warpmeter flame`."""


@app.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Folded stacks (py-spy's raw), pprof, speedscope JSON, output of perf script; also in gzip.",
            show_default=False,
        ),
    ],
    host: Annotated[str, typer.Option("--host", help="The host they were taken on.", show_default=False)],
    job: Annotated[str, typer.Option("--job", metavar="ID", help="The job, as in the view jobs.")] = "",
    rank: Annotated[int | None, typer.Option("--rank", min=0, max=2**32 - 1, help="The rank in the job.")] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="When it began: 2026-01-31T12:00Z, 15m ago.", show_default="as the file tells"),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="NAME", help="Shown as import:NAME.", show_default="the file's name"),
    ] = None,
    unit: Annotated[
        Literal["microseconds", "bytes", "count"] | None,
        typer.Option(
            "--unit",
            help="What folded stacks are weighed by; of a file with several: which is meant.",
            show_default="count of folded stacks, else as the file tells",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="HZ", help="Samples a second that were taken: makes time of their number."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; show what would be sent.")] = False,
    as_json: Json = False,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Import profiles, so that they are shown, compared and queried as what agents sample.

    The format is told by what is in a file. Nothing is sent unless all files can be read. They go over Kafka as every
    other row, and are stored once each.

    [bold]What is imported twice counts twice[/]: an import remembers nothing. Look with --dry-run first, and give each
    import a --source of its own, so that one that went wrong can be left out by asking for another.

    [dim]Examples:[/]
      py-spy record -r 100 -f raw -o stacks.txt --pid 4242
      warpmeter stacks import stacks.txt --rate 100 --host gpu-0001 --job 4711
      warpmeter stacks import cpu.pb.gz --host gpu-0001 --source go-cpu
      perf script | gzip > perf.gz; warpmeter stacks import perf.gz --host gpu-0001 --at 10m
    """
    from confluent_kafka import KafkaException

    from warpmeter.cli import importing
    from warpmeter.stacks.profile import StacksError
    from warpmeter.topics import TopicsError

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    for name, value, most in (("host", host.strip(), 400), ("job", job or "-", 400), ("source", source or "-", 100)):
        if not value or len(value) > most or not value.isprintable():
            common.fail(f"--{name} is a name of 1 to {most} characters that can be printed", 2)
    if unit and rate is not None:
        common.fail("--rate makes microseconds of samples, so --unit says nothing: give one of them", 2)
    whose = importing.Whose(host.strip(), job, rank, None if at is None else common.moment(at), source)
    with explained(StacksError, OSError, importing.NotTakenError, TopicsError, KafkaException):
        found = importing.all_of(files, whose, importing.Weights(unit, rate))
        importing.warn_of_old(found, settings.store.raw_ttl_days)
        if not dry_run:
            importing.send(settings.kafka, found, whose)
        if as_json:
            common.print_json([importing.document(each) for each in found])
        else:
            importing.show(found, whose, dry_run)
