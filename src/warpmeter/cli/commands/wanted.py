"""Options of `capture`: whom to trace, over how long, what of it, how often, and what to do with the traces."""

from pathlib import Path
from typing import Annotated

import typer

Job = Annotated[
    str | None, typer.Argument(help="Job, on all its hosts: `warpmeter sql 'SELECT job_id, name FROM jobs'`.")
]
Hosts = Annotated[list[str] | None, typer.Option("--host", help="Only on this host; repeatable.")]
Pids = Annotated[
    list[int] | None,
    typer.Option("--pid", help="This process of this host (or of --host), and what runs below it; repeatable."),
]
Where = Annotated[str, typer.Option("--where", help="Jobs for which this SQL holds, on the view jobs: user = 'ann'.")]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Processes in all; 0: no limit.")]

Duration = Annotated[
    str | None, typer.Option("--duration", "-d", help="How long each traces: 500ms, 2s.", show_default="500ms")
]
Iterations = Annotated[int, typer.Option("--iterations", "-n", min=0, help="Trace so many optimizer steps instead.")]
Roundup = Annotated[
    int,
    typer.Option("--roundup", min=0, help="Begin at a step that is a multiple of it.", show_default="one that suits"),
]
Warmup = Annotated[
    str | None, typer.Option("--warmup", help="Profiler's warm-up before a duration.", show_default="5s")
]
WarmupIterations = Annotated[int, typer.Option(min=0, help="Profiler's warm-up before iterations.")]

Shapes = Annotated[bool, typer.Option("--shapes", help="Shapes of operators' inputs.")]
Memory = Annotated[bool, typer.Option("--memory", help="Allocations; over a duration only.")]
Stacks = Annotated[bool, typer.Option("--stacks", help="Python calls; costs the most.")]
Flops = Annotated[bool, typer.Option("--flops", help="Floating-point operations of operators.")]
Modules = Annotated[bool, typer.Option("--modules", help="nn.Module calls.")]
Activities = Annotated[
    list[str] | None, typer.Option("--activity", help="Only this kind of Kineto's events; repeatable.")
]

Count = Annotated[int, typer.Option("--count", min=1, help="Capture so many times.")]
Every = Annotated[
    str | None, typer.Option("--every", help="Continuous: capture every 10m until detached or at a ceiling.")
]
MaxCount = Annotated[int, typer.Option(min=0, help="Ceiling of a continuous one: captures.")]
MaxBytes = Annotated[str | None, typer.Option(help="Ceiling of a continuous one: 20GB in the store.")]
MaxTime = Annotated[str | None, typer.Option(help="Ceiling of a continuous one: 12h.")]
MaxSlowdown = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=0.999,
        help="Ceiling of a continuous one: this share of the job's steps a second lost to it: 0.1.",
    ),
]

Name = Annotated[str, typer.Option(help="What you call it.")]
Wait = Annotated[
    bool | None,
    typer.Option("--wait/--no-wait", help="Follow it to its end.", show_default="wait, unless continuous"),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Copy the traces into this folder at the end.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object for each event.")]
