"""Runs of jobs as the store has them, and in what two sets of them differ."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from warpmeter.regressions.said import Differs

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One run. `asked`: it was there in the window. `figures`: by metric; `kernels`: by GPU model and name."""

    job_id: str
    user: str
    name: str
    started_at: datetime
    last_seen_at: datetime
    asked: bool
    figures: Mapping[str, float] = field(default_factory=dict)
    kernels: Mapping[tuple[str, str], "Kernel"] = field(default_factory=dict)


@dataclass(frozen=True)
class About:
    """Where a run ran, with what and as what, by what that is; and the command that began it."""

    values: Mapping[str, tuple[str, ...]]
    command: str = ""


@dataclass(frozen=True)
class Kernel:
    """A kernel in the captures of a run: the mean of one of its runs, and its share of all GPU time."""

    short_name: str
    mean_seconds: float
    share: float


def read(runs: Sequence[Row], figures: Sequence[Row], kernels: Sequence[Row]) -> dict[tuple[str, str], list[Run]]:
    """Runs by user and name, the earliest first, out of the rows of the named queries."""
    figured: dict[str, dict[str, float]] = {}
    for row in figures:
        figured.setdefault(row["job_id"], {})[row["metric"]] = row["figure"]
    ran: dict[str, dict[tuple[str, str], Kernel]] = {}
    for row in kernels:
        kernel = Kernel(row["short_name"] or row["name"], row["mean_seconds"], row["share"])
        ran.setdefault(row["job_id"], {})[row["gpu_model"], row["name"]] = kernel
    found: dict[tuple[str, str], list[Run]] = {}
    for row in runs:
        made = _run(row, figured.get(row["job_id"], {}), ran.get(row["job_id"], {}))
        found.setdefault((made.user, made.name), []).append(made)
    return found


def _run(row: Row, figures: Mapping[str, float], kernels: Mapping[tuple[str, str], Kernel]) -> Run:
    return Run(
        row["job_id"], row["user"], row["name"], when(row["started_at"]), when(row["last_seen_at"]), bool(row["asked"]),
        figures, kernels,
    )  # fmt: skip


def about(row: Row) -> About:
    """What a row of the named query says of a run."""
    world = row["world_size"]
    told = {
        "GPU model": tuple(row["models"]),
        "driver": tuple(row["drivers"]),
        "GPUs": (str(row["gpus"]),) if row["gpus"] else (),
        "ranks": () if world is None else (str(world),),
        "image": (row["image"],) if row["image"] else (),
        "hosts": tuple(row["hosts"]),
    }
    return About(told, row["command"])


def when(text: str) -> datetime:
    """A time as the store's JSON has it, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


def differs(now: About, past: Sequence[About]) -> tuple[Differs, ...]:
    """In what a run is none of the runs before it: nothing that one of them had as well is told."""
    return tuple(_differences(now, past)) if past else ()


def _differences(now: About, past: Sequence[About]) -> Iterator[Differs]:
    for what, values in now.values.items():
        known = [run.values[what] for run in past if run.values[what]]
        if not values or not known or values in known:
            continue
        if what == "hosts":
            yield from _hosts(values, known)
        else:
            yield Differs(what, ", ".join(known[-1]), ", ".join(values))
    commands = [run.command for run in past if run.command]
    if now.command and commands and now.command not in commands:
        yield _command(commands[-1], now.command)


def _hosts(values: Sequence[str], known: Sequence[Sequence[str]]) -> Iterator[Differs]:
    before = {host for hosts in known for host in hosts}
    if new := sorted(set(values) - before):
        yield Differs("hosts", f"{len(before)} in the runs before", f"{', '.join(new[:5])}{_more(new)} not among them")


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 5} more" if len(names) > 5 else ""


def _command(before: str, now: str) -> Differs:
    """What two commands do not share: the whole of them may be thousands of characters."""
    old, new = _words(before), _words(now)
    gone, came = [word for word in old if word not in new], [word for word in new if word not in old]
    return Differs("command", " ".join(gone)[:200], " ".join(came)[:200])


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    found: list[str] = []
    for word in words:  # an option and its value are one
        if found and found[-1].startswith("-") and "=" not in found[-1] and " " not in found[-1] and word[:1] != "-":
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found
