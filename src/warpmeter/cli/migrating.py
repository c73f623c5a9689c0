"""`warpmeter migrate`: the plan for a person or a program, and its steps as they run."""

from collections.abc import Sequence
from functools import partial

from warpmeter import migrate, store
from warpmeter.cli.common import err, out, print_json
from warpmeter.settings import Settings


def show(settings: Settings, with_sql: bool, as_json: bool = False) -> int:
    """Print the plan, with its SQL when asked; returns how many steps it has."""
    with store.connect(settings.store, database="default") as client:
        steps = migrate.plan(client, settings.store)
    if as_json:
        _print(steps, False, with_sql)
        return len(steps)
    for step in steps:
        out.print(f"-- {step.kind}: {step.name}", markup=False, highlight=False, soft_wrap=True)
        for statement in step.statements if with_sql else ():
            out.print(f"{statement};\n", markup=False, highlight=False, soft_wrap=True)
    if not steps:
        err.print("up to date", highlight=False)
    return len(steps)


def run(settings: Settings, as_json: bool = False) -> None:
    """Run the plan; refuses while a consumer runs, or has left spans that are declared and not stored."""
    from warpmeter.consumers import status

    with store.connect(settings.store, database="default") as client:
        busy = partial(status.busy, settings)
        done = migrate.apply(client, settings.store, partial(status.pending, settings), _say, busy=busy)
    if as_json:
        _print(done, True, False)
    err.print("done" if done else "up to date", highlight=False)


def _print(steps: Sequence[migrate.Step], done: bool, with_sql: bool) -> None:
    """One JSON document: the steps, and whether they were run."""
    rows = [
        {"kind": step.kind, "name": step.name, **({"statements": step.statements} if with_sql else {})}
        for step in steps
    ]
    print_json({"done": done, "steps": rows})


def _say(step: migrate.Step) -> None:
    err.print(f"{step.kind}: {step.name}", markup=False, highlight=False)
