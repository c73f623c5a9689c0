"""A watch over alerts whose time is the test's, on rules that a test gives or on those that ask a real store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from warpmeter.alerts import Alert, Rule
from warpmeter.consumers.sink.clickhouse import insert_settings
from warpmeter.scheduler.alerts.asking import Ask, ask
from warpmeter.scheduler.alerts.ports import Attached
from warpmeter.scheduler.alerts.recalling import InMemory
from warpmeter.scheduler.alerts.watch import Ports, Watch
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Alerts, Store
from warpmeter.simulate.fleet import Fleet
from warpmeter.simulate.simulation import Simulation
from warpmeter.store import Client
from warpmeter.wire import joined


@dataclass
class Listener:
    """Receivers and triggers that note what they hear."""

    recalled: list[list[Alert]] = field(default_factory=list)
    changed: list[Alert] = field(default_factory=list)
    firing: list[Alert] = field(default_factory=list)
    attached: list[Attached] = field(default_factory=list)

    def recall(self, firing: Sequence[Alert]) -> None:
        """Note it."""
        self.recalled.append(list(firing))

    def turn(self, now: float, changed: Sequence[Alert], firing: Sequence[Alert]) -> list[Attached]:  # noqa: ARG002
        """Note it; what is to be attached."""
        self.changed += changed
        self.firing = list(firing)
        found, self.attached = self.attached, []
        return found

    def drop(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class _Receivers(Listener):
    def turn(self, now: float, changed: Sequence[Alert], firing: Sequence[Alert]) -> None:  # type: ignore[override]
        super().turn(now, changed, firing)


@dataclass
class Watched:
    """A watch at `now`, which `at` moves; `restart` elects another, who knows what was published and said."""

    rules: Sequence[Rule]
    asked: Ask
    limits: Alerts = field(default_factory=Alerts)
    memory: InMemory = field(default_factory=InMemory)
    receivers: _Receivers = field(default_factory=_Receivers)
    triggers: Listener = field(default_factory=Listener)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Another is elected."""
        ports = Ports(
            self.asked, self.memory, self.receivers, self.triggers, lambda: self.now, lambda: self.now
        )  # fmt: skip
        self.watch = Watch(self.rules, self.limits, ports)
        self.watch.begin(lambda: True)

    def at(self, now: float) -> "Watched":
        """Time goes on to `now`, and a turn is made."""
        self.now = now
        self.watch.turn()
        return self

    def states(self) -> dict[str, str]:
        """What is open, by rule, where each has one subject."""
        return {alert.rule: alert.state for alert in self.watch.machine.open()}

    def history(self, rule: str) -> list[str]:
        """What was published of a rule, in order, without repetitions."""
        states = [alert.state for alert in self.memory.rows if alert.rule == rule]
        return [state for at, state in enumerate(states) if at == 0 or states[at - 1] != state]


def on_store(store: Store, rules: Sequence[Rule], limits: Alerts | None = None) -> Watched:
    """A watch that asks a store."""
    chosen = limits or Alerts()
    return Watched(rules, partial(ask, store, chosen), chosen)


def lived(client: Client, fleet: Fleet, start: float, days: float, look_s: float) -> Iterator[float]:
    """Land what a simulated fleet tells from `start` on; each `look_s` seconds of it the time, in seconds since the
    epoch, when all before has landed. Of its stacks, which no rule reads, nothing.
    """
    simulation = Simulation(fleet, start)
    while simulation.now < start + days * 86_400:
        until, batch = simulation.now + look_s, dict[str, list[bytes]]()
        while simulation.now < until:
            for envelope in simulation.tick().envelopes:
                batch.setdefault(envelope.topic, []).append(envelope.value)
        batch.pop("stack-samples", None)
        for name, values in batch.items():
            client.raw_insert(
                TOPICS[name].table, insert_block=joined(values), fmt="ProtobufList",
                settings=dict(insert_settings(TOPICS[name])),
            )  # fmt: skip
        yield simulation.now - fleet.interval_s + 1
