"""What is said of processes that gave no stacks, or fewer than asked for. Pure."""

from collections.abc import Sequence
from typing import Final

from warpmeter.producers.source import Health, State
from warpmeter.producers.stacks import perf
from warpmeter.producers.stacks.pyspy import Trouble
from warpmeter.producers.stacks.rotation import Target

TOLD: Final = 5
"""So many pids, and reasons, are named."""


def about_perf(trouble: Trouble, asked: str) -> Health:
    """Where it was not asked for, that it may not is a fact and no fault."""
    lacking = asked == "auto" and trouble.state == "denied"
    return Health(perf.NAME, "unsupported" if lacking else standing(trouble.state), trouble.why)


def standing(state: State) -> State:
    """What it is in the host's health: a sampler that is late waits for CPU time, and nothing fails."""
    return "paused" if state == "timeout" else state


def told(troubles: Sequence[tuple[Target, Trouble]]) -> list[Health]:
    """One row for each state, however many processes there are."""
    states: dict[State, list[tuple[Target, Trouble]]] = {}
    for target, trouble in troubles:
        states.setdefault(trouble.state, []).append((target, trouble))
    return [
        Health(f"processes/{state}", standing(state), _of_many(each), len(each))
        for state, each in sorted(states.items())
    ]


def held_back(paces: Sequence[tuple[int, str]], rate: int) -> list[Health]:
    """One row for all that are sampled less than the settings ask for."""
    if not paces:
        return []
    pids = "; ".join(f"pid {pid}: {said}" for pid, said in paces[:TOLD])
    more = "; …" if len(paces) > TOLD else ""
    return [
        Health(
            "rate", "paused", f"{_many(len(paces))} sampled less than {rate} times a second: {pids}{more}", len(paces)
        )
    ]


def without_c(targets: Sequence[Target]) -> list[Health]:
    """One row for all whose C frames are left out."""
    if not targets:
        return []
    why = f"{_pids([target.pid for target in targets])}: no C frames for an hour, for py-spy held it still too long"
    return [Health("native", "paused", why, len(targets))]


def _of_many(troubles: Sequence[tuple[Target, Trouble]]) -> str:
    whys: dict[str, list[int]] = {}
    for target, trouble in troubles:
        whys.setdefault(trouble.why, []).append(target.pid)
    return "; ".join(f"{_pids(pids)}: {why}" for why, pids in list(whys.items())[:TOLD])


def _pids(pids: Sequence[int]) -> str:
    named = ", ".join(map(str, sorted(pids)[:TOLD]))
    return (
        f"pid {named}" if len(pids) == 1 else f"{len(pids)} processes (pids {named}{', …' if len(pids) > TOLD else ''})"
    )


def _many(count: int) -> str:
    return "1 process is" if count == 1 else f"{count} processes are"
