"""Commands of profiling: run a job so that it can be captured, and capture it."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common
from warpmeter.cli.commands import wanted
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
    job: wanted.Job = None,
    host: wanted.Hosts = None,
    pid: wanted.Pids = None,
    where: wanted.Where = "",
    limit: wanted.Limit = 0,
    duration: wanted.Duration = None,
    iterations: wanted.Iterations = 0,
    roundup: wanted.Roundup = 0,
    warmup: wanted.Warmup = None,
    warmup_iterations: wanted.WarmupIterations = 0,
    shapes: wanted.Shapes = False,
    memory: wanted.Memory = False,
    stacks: wanted.Stacks = False,
    flops: wanted.Flops = False,
    modules: wanted.Modules = False,
    activity: wanted.Activities = None,
    count: wanted.Count = 1,
    every: wanted.Every = None,
    max_count: wanted.MaxCount = 0,
    max_bytes: wanted.MaxBytes = None,
    max_time: wanted.MaxTime = None,
    max_slowdown: wanted.MaxSlowdown = 0.0,
    name: wanted.Name = "",
    wait: wanted.Wait = None,
    output: wanted.Output = None,
    as_json: wanted.Json = False,
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
            process_limit=limit, duration_ms=amounts.traced_ms(duration, iterations),
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
    waits = _waits(wait, every, output)
    with explained(*capturing.EXPECTED, KafkaException):
        raise typer.Exit(capturing.capture(settings, asked, waits, as_json, output))


def _waits(wait: bool | None, every: str | None, output: Path | None) -> bool:
    """Whether it is followed to its end; unless it is said, one that is not continuous is."""
    waits = not every if wait is None else wait
    if output is not None and not waits:
        common.fail("--output copies traces at the end, which is not waited for; `captures show ID --output` does", 2)
    return waits


def _read(text: str | None, how: Callable[[str], int]) -> int:
    """What an option says, 0 when it is not given. Raises ValueError."""
    return how(text) if text else 0


def _say(text: str) -> None:
    common.err.print("[bold]warpmeter:[/] ", end="")
    common.err.print(text, markup=False, highlight=False, soft_wrap=True)


def _nothing(_: str) -> None:
    pass
