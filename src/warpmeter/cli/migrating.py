"""`warpmeter migrate`: the plan for a person, and its steps as they run."""

from functools import partial

from warpmeter import migrate, store
from warpmeter.cli.common import err, out
from warpmeter.settings import Settings


def show(settings: Settings, with_sql: bool) -> int:
    """Print the plan, with its SQL when asked; returns how many steps it has."""
    with store.connect(settings.store, database="default") as client:
        steps = migrate.plan(client, settings.store)
    for step in steps:
        out.print(f"-- {step.kind}: {step.name}", markup=False, highlight=False, soft_wrap=True)
        for statement in step.statements if with_sql else ():
            out.print(f"{statement};\n", markup=False, highlight=False, soft_wrap=True)
    if not steps:
        err.print("up to date", highlight=False)
    return len(steps)


def run(settings: Settings) -> None:
    """Run the plan; refuses while a consumer runs, or has left spans that are declared and not stored."""
    from warpmeter.consumers import status

    with store.connect(settings.store, database="default") as client:
        busy = partial(status.busy, settings)
        done = migrate.apply(client, settings.store, partial(status.pending, settings), _say, busy=busy)
    err.print("done" if done else "up to date", highlight=False)


def _say(step: migrate.Step) -> None:
    err.print(f"{step.kind}: {step.name}", markup=False, highlight=False)
