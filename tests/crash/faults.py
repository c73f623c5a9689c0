"""The faults: one function a kind, which draws its victims and times from the seed and says what to do when.

Nothing here touches a process: a fault is a list of steps on a `Stage`, so a plan can be made, printed and compared
without one.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tests.crash.feed import POISON

SLOTS: Final = 4
"""At most this many consumers at once."""
BROKERS: Final = 3
TOPICS: Final = 3
SESSION_S: Final = 4.0
"""The consumers' session timeout."""
BROKER_REST_S: Final = 14.0
"""A broker that was started needs about that long to be one again; meanwhile no other broker is touched."""

ENGINE_REST_S: Final = 9.0
"""So long the engine is left alone after a fault: it loads its tables, and consumers back off before they ask again."""
CONSUMER_REST_S: Final = 4.0
"""So long a consumer that came back is left alone: to join, and to land something."""

ENGINE: Final = "engine"
CLUSTER: Final = "brokers"


class Stage(Protocol):
    """What faults are done to. Each call is harmless when there is nothing to do it to."""

    def start_ingest(self, slot: int) -> None:
        """A consumer joins."""

    def kill_ingest(self, slot: int) -> None:
        """SIGKILL."""

    def end_ingest(self, slot: int, signals: int = 1) -> None:
        """SIGTERM, once or twice."""

    def pause_ingest(self, slot: int) -> None:
        """SIGSTOP."""

    def resume_ingest(self, slot: int) -> None:
        """SIGCONT."""

    def start_engine(self) -> None:
        """Start it on its folder and port."""

    def kill_engine(self) -> None:
        """SIGKILL."""

    def end_engine(self) -> None:
        """SIGTERM."""

    def pause_engine(self) -> None:
        """SIGSTOP."""

    def resume_engine(self) -> None:
        """SIGCONT."""

    def start_broker(self, node: int) -> None:
        """Start it on its ports and data."""

    def kill_broker(self, node: int) -> None:
        """SIGKILL."""

    def end_broker(self, node: int) -> None:
        """SIGTERM."""

    def pause_broker(self, node: int) -> None:
        """SIGSTOP."""

    def resume_broker(self, node: int) -> None:
        """SIGCONT."""

    def poison(self, kind: str, topic: int) -> None:
        """A message that cannot be stored."""


@dataclass(frozen=True)
class Step:
    """One thing to do, `after_s` behind the fault's begin."""

    after_s: float
    do: Callable[[Stage], None]


@dataclass(frozen=True)
class Injection:
    """A fault's steps, what they say of themselves, and until when (behind its begin) its victims are left alone."""

    says: str
    steps: Sequence[Step]
    busy: Mapping[str, float]
    joined: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset()


@dataclass
class Draw:
    """The state of a plan while it is drawn: who is to be up, and who is busy until when."""

    rng: random.Random
    now: float = 0.0
    up: set[int] = field(default_factory=lambda: {0, 1})
    busy: dict[str, float] = field(default_factory=dict)

    def free(self, *things: str) -> bool:
        """Whether nothing is being done to any of `things`."""
        return all(self.busy.get(thing, 0.0) <= self.now for thing in things)

    def slots(self, up: bool) -> list[int]:
        """The consumers' places that may be touched, those that are up or those that are not."""
        return [slot for slot in range(SLOTS) if (slot in self.up) is up and self.free(ingest(slot))]

    def between(self, least_s: float, most_s: float) -> float:
        """A time, in hundredths of a second."""
        return round(self.rng.uniform(least_s, most_s), 2)


def ingest(slot: int) -> str:
    """The name of a consumer's place."""
    return f"ingest-{slot}"


Drawn = Injection | None


def _to(number: int, do: Callable[[Stage, int], None]) -> Callable[[Stage], None]:
    """What to do, to the consumer or broker of that number."""
    return lambda on: do(on, number)


def _hold_ingest(draw: Draw, what: str, begin: Callable[[Stage, int], None], end: Callable[[Stage, int], None],
                 seconds: tuple[float, float]) -> Drawn:  # fmt: skip
    if not (slots := draw.slots(up=True)):
        return None
    slot, hold_s = draw.rng.choice(slots), draw.between(*seconds)
    steps = [Step(0, _to(slot, begin)), Step(hold_s, _to(slot, end))]
    return Injection(f"{ingest(slot)} {what} for {hold_s:g} s", steps, {ingest(slot): hold_s + CONSUMER_REST_S})


def killed(draw: Draw) -> Drawn:
    return _hold_ingest(
        draw, "killed", lambda on, slot: on.kill_ingest(slot), lambda on, slot: on.start_ingest(slot), (0.2, 3)
    )


def asleep(draw: Draw) -> Drawn:
    return _hold_ingest(
        draw, "stopped", lambda on, slot: on.pause_ingest(slot), lambda on, slot: on.resume_ingest(slot), (0.2, 2)
    )


def asleep_past_session(draw: Draw) -> Drawn:
    return _hold_ingest(
        draw,
        "stopped",
        lambda on, slot: on.pause_ingest(slot),
        lambda on, slot: on.resume_ingest(slot),
        (1.3 * SESSION_S, 2.5 * SESSION_S),
    )


def all_killed(draw: Draw) -> Drawn:
    slots = sorted(draw.up)
    if draw.slots(up=True) != slots:
        return None
    hold_s = draw.between(0.2, 3)
    kills = [Step(0, _to(slot, lambda on, slot: on.kill_ingest(slot))) for slot in slots]
    starts = [Step(hold_s, _to(slot, lambda on, slot: on.start_ingest(slot))) for slot in slots]
    return Injection(
        f"all {len(slots)} consumers killed for {hold_s:g} s",
        [*kills, *starts],
        {ingest(slot): hold_s + CONSUMER_REST_S for slot in slots},
    )


def joins(draw: Draw) -> Drawn:
    if not (slots := draw.slots(up=False)):
        return None
    slot = draw.rng.choice(slots)
    return Injection(
        f"{ingest(slot)} joins",
        [Step(0, _to(slot, lambda on, slot: on.start_ingest(slot)))],
        {ingest(slot): CONSUMER_REST_S},
        joined=frozenset({slot}),
    )


def _leaves(draw: Draw, how: str, do: Callable[[Stage, int], None]) -> Drawn:
    slots = draw.slots(up=True)
    if not slots or len(draw.up) == 1:
        return None
    slot = draw.rng.choice(slots)
    return Injection(f"{ingest(slot)} {how}", [Step(0, _to(slot, do))], {ingest(slot): 7}, left=frozenset({slot}))


def leaves(draw: Draw) -> Drawn:
    return _leaves(draw, "leaves on SIGTERM", lambda on, slot: on.end_ingest(slot))


def leaves_at_once(draw: Draw) -> Drawn:
    return _leaves(draw, "leaves on two SIGTERMs", lambda on, slot: on.end_ingest(slot, 2))


def leaves_killed(draw: Draw) -> Drawn:
    return _leaves(draw, "leaves by SIGKILL", lambda on, slot: on.kill_ingest(slot))


def _hold_engine(draw: Draw, what: str, begin: Callable[[Stage], None], end: Callable[[Stage], None],
                 seconds: tuple[float, float]) -> Drawn:  # fmt: skip
    if not draw.free(ENGINE):
        return None
    hold_s = draw.between(*seconds)
    return Injection(
        f"engine {what} for {hold_s:g} s", [Step(0, begin), Step(hold_s, end)], {ENGINE: hold_s + ENGINE_REST_S}
    )


def engine_killed(draw: Draw) -> Drawn:
    return _hold_engine(draw, "killed", lambda on: on.kill_engine(), lambda on: on.start_engine(), (0.1, 3))


def engine_restarted(draw: Draw) -> Drawn:
    return _hold_engine(draw, "stopped (SIGTERM)", lambda on: on.end_engine(), lambda on: on.start_engine(), (1, 4))


def engine_asleep(draw: Draw) -> Drawn:
    return _hold_engine(draw, "stopped", lambda on: on.pause_engine(), lambda on: on.resume_engine(), (0.2, 2))


def engine_asleep_long(draw: Draw) -> Drawn:
    """Longer than half a session, after which a declare is written again, and for some longer than all of it."""
    seconds = (0.6 * SESSION_S, 2 * SESSION_S)
    return _hold_engine(draw, "stopped", lambda on: on.pause_engine(), lambda on: on.resume_engine(), seconds)


def _hold_broker(draw: Draw, what: str, begin: Callable[[Stage, int], None], end: Callable[[Stage, int], None],
                 seconds: tuple[float, float]) -> Drawn:  # fmt: skip
    if not draw.free(CLUSTER):
        return None
    node, hold_s = draw.rng.randrange(BROKERS), draw.between(*seconds)
    return Injection(
        f"broker {node + 1} {what} for {hold_s:g} s",
        [Step(0, _to(node, begin)), Step(hold_s, _to(node, end))],
        {CLUSTER: hold_s + BROKER_REST_S},
    )


def broker_killed(draw: Draw) -> Drawn:
    return _hold_broker(
        draw, "killed", lambda on, node: on.kill_broker(node), lambda on, node: on.start_broker(node), (0.5, 8)
    )


def broker_restarted(draw: Draw) -> Drawn:
    return _hold_broker(
        draw, "stopped (SIGTERM)", lambda on, node: on.end_broker(node), lambda on, node: on.start_broker(node), (3, 8)
    )


def broker_asleep(draw: Draw) -> Drawn:
    return _hold_broker(
        draw, "stopped", lambda on, node: on.pause_broker(node), lambda on, node: on.resume_broker(node), (1, 8)
    )


def broker_slow(draw: Draw) -> Drawn:
    """Stopped for most of each half second, so that it answers, late."""
    if not draw.free(CLUSTER):
        return None
    node, turns, off_s = draw.rng.randrange(BROKERS), draw.rng.randrange(8, 21), draw.between(0.2, 0.45)
    pauses = [Step(turn * 0.5, _to(node, lambda on, node: on.pause_broker(node))) for turn in range(turns)]
    resumes = [Step(turn * 0.5 + off_s, _to(node, lambda on, node: on.resume_broker(node))) for turn in range(turns)]
    steps = sorted([*pauses, *resumes], key=lambda step: step.after_s)
    says = f"broker {node + 1} slow, stopped for {off_s:g} s of each 0.5 s, for {turns / 2:g} s"
    return Injection(says, steps, {CLUSTER: turns / 2 + 3})


def all_brokers_killed(draw: Draw) -> Drawn:
    if not draw.free(CLUSTER):
        return None
    order = draw.rng.sample(range(BROKERS), BROKERS)
    hold_s = draw.between(0.5, 4)
    kills = [Step(0.05 * place, _to(node, lambda on, node: on.kill_broker(node))) for place, node in enumerate(order)]
    starts = [
        Step(hold_s + 0.3 * place, _to(node, lambda on, node: on.start_broker(node)))
        for place, node in enumerate(order)
    ]
    return Injection(f"all brokers killed for {hold_s:g} s", [*kills, *starts], {CLUSTER: hold_s + 2 * BROKER_REST_S})


def _poisoning(kind: str, topic: int) -> Callable[[Stage], None]:
    return lambda on: on.poison(kind, topic)


def poison(draw: Draw) -> Drawn:
    """Three bad messages: far below the share that halts."""
    chosen = [(draw.rng.choice(list(POISON)), draw.rng.randrange(TOPICS)) for _ in range(3)]
    steps = [Step(0, _poisoning(kind, topic)) for kind, topic in chosen]
    return Injection("poison: " + ", ".join(kind for kind, _ in chosen), steps, {})


@dataclass(frozen=True)
class Kind:
    """A kind of fault, and how often it is drawn beside the others."""

    name: str
    weight: int
    draw: Callable[[Draw], Drawn]


KINDS: Final = (
    Kind("consumer killed and started", 14, killed),
    Kind("consumer asleep", 9, asleep),
    Kind("consumer asleep past its session", 8, asleep_past_session),
    Kind("all consumers killed", 2, all_killed),
    Kind("consumer joins", 8, joins),
    Kind("consumer leaves", 4, leaves),
    Kind("consumer leaves at the second signal", 3, leaves_at_once),
    Kind("consumer leaves killed", 4, leaves_killed),
    Kind("engine killed", 10, engine_killed),
    Kind("engine restarted", 4, engine_restarted),
    Kind("engine asleep", 6, engine_asleep),
    Kind("engine asleep past half a session", 5, engine_asleep_long),
    Kind("broker killed", 9, broker_killed),
    Kind("broker restarted", 5, broker_restarted),
    Kind("broker asleep", 6, broker_asleep),
    Kind("broker slow", 6, broker_slow),
    Kind("all brokers killed", 3, all_brokers_killed),
    Kind("poison", 5, poison),
)
