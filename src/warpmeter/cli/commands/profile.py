"""Commands of profiling: run a job so that it can be captured, and capture it."""

import os
from pathlib import Path
from typing import Annotated

import typer

from warpmeter.cli import common
from warpmeter.cli.options import Data


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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing of our own.")] = False,
    data: Data = None,
) -> None:
    """Run a command so that its PyTorch processes can be captured while they run.

    warpmeter run -- torchrun --nproc-per-node 8 train.py

    Sets KINETO_USE_DAEMON, KINETO_IPC_SOCKET_DIR and KINETO_ONDEMAND_TRACE_DIR, hands signals on, and says on stderr
    whether the processes registered with this host's agent. Ends with the command's exit status, 128 + n when signal n
    ended it. An agent that is away never keeps the command from running.
    """
    from warpmeter.cli import launching

    if traces is not None and not (traces.is_dir() and os.access(traces, os.W_OK)):
        common.fail(f"--traces {traces} is no folder that may be written", 2)
    made = launching.setup(common.socket_folder(common.settings(data)), traces, os.environ)
    try:
        raise typer.Exit(launching.run(command, made, _nothing if quiet else _say))
    except OSError as error:
        found = launching.NOT_FOUND if isinstance(error, FileNotFoundError) else launching.NOT_EXECUTABLE
        common.fail(f"cannot run {command[0]}: {error.strerror}", found)


def _say(text: str) -> None:
    common.err.print("[bold]warpmeter:[/] ", end="")
    common.err.print(text, markup=False, highlight=False, soft_wrap=True)


def _nothing(_: str) -> None:
    pass
