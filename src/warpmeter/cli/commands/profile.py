"""Commands of profiling: run a job so that it can be captured, and capture it."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common
from warpmeter.cli.common import explained
from warpmeter.cli.options import Bootstrap, Data


def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="The command and its arguments.")],
    traces: Annotated[
        Path | None,
        typer.Option(
            "--traces",
            help="Folder that PyTorch writes traces to before the agent fetches them; on a disk with room.",
            show_default="$TMPDIR or /tmp",
        ),
    ] = None,
    steps: Annotated[
        bool,
        typer.Option("--steps/--no-steps", help="Count optimizer steps: captures tell then how much they slow down."),
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of our own.")] = False,
    data: Data = None,
) -> None:
    """Run a command so that its PyTorch processes can be captured while they run.

    warpmeter run -- torchrun --nproc-per-node 8 train.py

    Sets KINETO_USE_DAEMON, KINETO_IPC_SOCKET_DIR and KINETO_ONDEMAND_TRACE_DIR, hands signals on, and says on stderr
    whether the processes registered with this host's agent. Puts a folder before PYTHONPATH, whose sitecustomize counts
    optimizer steps and then runs your own. Ends with the command's exit status, 128 + n when signal n ended it. An
    agent that is away never keeps the command from running.
    """
    from warpmeter.cli import launching

    if traces is not None and not (traces.is_dir() and os.access(traces, os.W_OK)):
        common.fail(f"--traces {traces} is no folder that may be written", 2)
    made = launching.setup(common.socket_folder(common.settings(data)), traces, os.environ, steps)
    try:
        raise typer.Exit(launching.run(command, made, _nothing if quiet else _say))
    except OSError as error:
        found = launching.NOT_FOUND if isinstance(error, FileNotFoundError) else launching.NOT_EXECUTABLE
        common.fail(f"cannot run {command[0]}: {error.strerror}", found)


def capture(
    job: Annotated[
        str | None, typer.Argument(help="Job, on all its hosts: `warpmeter sql 'SELECT job_id, name FROM jobs'`.")
    ] = None,
    host: Annotated[list[str] | None, typer.Option("--host", help="Only on this host; repeatable.")] = None,
    pid: Annotated[
        list[int] | None,
        typer.Option("--pid", help="This process of this host (or of --host), and what runs below it; repeatable."),
    ] = None,
    where: Annotated[
        str, typer.Option("--where", help="Jobs for which this SQL holds, on the view jobs: user = 'ann'.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=0, help="Processes in all; 0: no limit.")] = 0,
    duration: Annotated[
        str | None, typer.Option("--duration", "-d", help="How long each traces: 500ms, 2s.", show_default="500ms")
    ] = None,
    iterations: Annotated[
        int, typer.Option("--iterations", "-n", min=0, help="Trace so many optimizer steps instead.")
    ] = 0,
    roundup: Annotated[
        int,
        typer.Option(
            "--roundup", min=0, help="Begin at a step that is a multiple of it.", show_default="one that suits"
        ),
    ] = 0,
    warmup: Annotated[
        str | None, typer.Option("--warmup", help="Profiler's warm-up before a duration.", show_default="5s")
    ] = None,
    warmup_iterations: Annotated[int, typer.Option(min=0, help="Profiler's warm-up before iterations.")] = 0,
    shapes: Annotated[bool, typer.Option("--shapes", help="Shapes of operators' inputs.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Allocations; over a duration only.")] = False,
    stacks: Annotated[bool, typer.Option("--stacks", help="Python calls; costs the most.")] = False,
    flops: Annotated[bool, typer.Option("--flops", help="Floating-point operations of operators.")] = False,
    modules: Annotated[bool, typer.Option("--modules", help="nn.Module calls.")] = False,
    activity: Annotated[
        list[str] | None, typer.Option("--activity", help="Only this kind of Kineto's events; repeatable.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Capture so many times.")] = 1,
    every: Annotated[
        str | None, typer.Option("--every", help="Continuous: capture every 10m until detached or at a ceiling.")
    ] = None,
    max_count: Annotated[int, typer.Option(min=0, help="Ceiling of a continuous one: captures.")] = 0,
    max_bytes: Annotated[str | None, typer.Option(help="Ceiling of a continuous one: 20GB in the store.")] = None,
    max_time: Annotated[str | None, typer.Option(help="Ceiling of a continuous one: 12h.")] = None,
    max_slowdown: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=0.999,
            help="Ceiling of a continuous one: this share of the job's steps a second lost to it: 0.1.",
        ),
    ] = 0.0,
    name: Annotated[str, typer.Option(help="What you call it.")] = "",
    wait: Annotated[
        bool | None,
        typer.Option("--wait/--no-wait", help="Follow it to its end.", show_default="wait, unless continuous"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Copy the traces into this folder at the end.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each event.")] = False,
    bootstrap_servers: Bootstrap = None,
    data: Data = None,
) -> None:
    """Trace the PyTorch processes of a running job, all over the same seconds.

    warpmeter capture 4711 --duration 2s --shapes, or --pid 31337 --iterations 5, or 4711 --every 10m --max-count 20

    Shows each process until its trace is in the trace store (traces.url), or why it is not. Ctrl-C leaves it to go on;
    `warpmeter captures` lists, shows and ends captures. Exit status 1 when a process that was meant has no trace.
    """
    from confluent_kafka import KafkaException

    from warpmeter.captures import amounts, wishes
    from warpmeter.captures.asking import request
    from warpmeter.cli import capturing

    settings = common.settings(data, kafka={"bootstrap_servers": bootstrap_servers})
    hosts = list(host or ([settings.agent.host] if pid else []))
    try:
        asked = request(
            "start", capturing.me(), name=name, job_id=job or "", hosts=hosts, pids=pid or [], where=where,
            process_limit=limit,
            duration_ms=amounts.milliseconds(duration) if duration else 0 if iterations else 500,
            iterations=iterations, iteration_roundup=roundup, warmup_s=_read(warmup, amounts.seconds),
            warmup_iterations=warmup_iterations, shapes=shapes, memory=memory, stacks=stacks, flops=flops,
            modules=modules, activities=activity or [], mode="continuous" if every else "trace", count=count,
            interval_s=_read(every, amounts.seconds), max_count=max_count,
            max_bytes=_read(max_bytes, amounts.size), max_seconds=_read(max_time, amounts.seconds),
            max_slowdown_permille=math.ceil(1000 * max_slowdown),
        )  # fmt: skip
    except ValueError as error:
        common.fail(str(error), 2)
    if why := wishes.objection(asked):
        common.fail(why, 2)
    waits = not every if wait is None else wait
    if output is not None and not waits:
        common.fail("--output copies traces at the end, which is not waited for; `captures show ID --output` does", 2)
    with explained(*capturing.EXPECTED, KafkaException):
        raise typer.Exit(capturing.capture(settings, asked, waits, as_json, output))


def _read(text: str | None, how: Callable[[str], int]) -> int:
    """What an option says, 0 when it is not given. Raises ValueError."""
    return how(text) if text else 0


def _say(text: str) -> None:
    common.err.print("[bold]warpmeter:[/] ", end="")
    common.err.print(text, markup=False, highlight=False, soft_wrap=True)


def _nothing(_: str) -> None:
    pass
