"""Alerts beside captures: a thread that watches while this process is the active scheduler, and stands by else."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from warpmeter import log, selfmetrics
from warpmeter.alerts import Rule
from warpmeter.alerts.configured import rules
from warpmeter.scheduler.alerts.asking import ask
from warpmeter.scheduler.alerts.ports import NoReceivers, NoTriggers, Receivers, Triggers
from warpmeter.scheduler.alerts.recalling import Kept
from warpmeter.scheduler.alerts.watch import BUS, Ports, Watch
from warpmeter.settings import Alerts, Settings

TURN_S: Final = 2.0
"""Between two looks at what people say and at what triggers have found."""
AGAIN_S: Final = 5.0
"""After the bus failed."""
JOIN_S: Final = 2.0


class Alarms:
    """The thread. `elected` and `close` return at once, whatever the thread waits for."""

    def __init__(self, rules: Sequence[Rule], limits: Alerts, make: Callable[[], Ports]) -> None:
        self._rules, self._limits, self._make = rules, limits, make
        self._lock = threading.Condition()
        self._active, self._ended, self._term = False, False, 0
        self._log = log.get("alerts")
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self._thread.start()

    def elected(self, active: bool) -> None:
        """This process is the active scheduler, or no more."""
        with self._lock:
            self._active, self._term = active, self._term + 1
            self._lock.notify()

    def close(self) -> None:
        """No more: what is being asked of the store is left to end by itself."""
        with self._lock:
            self._active, self._ended = False, True
            self._lock.notify()
        self._thread.join(JOIN_S)

    # The thread's own.

    def _run(self) -> None:
        ports: Ports | None = None
        while (term := self._elected_term()) is not None:
            try:
                ports = self._make() if ports is None else ports
                self._watch(ports, term)
            except BUS as error:
                selfmetrics.counter("warpmeter_alerts_bus_errors_total").inc()
                self._log.warning("alerts cannot be read or published: tried again", why=str(error))
                self._rest(AGAIN_S, term)
            except Exception as error:  # noqa: BLE001 - a thread's edge: without it nobody would be told of anything
                selfmetrics.counter("warpmeter_alerts_bus_errors_total").inc()
                self._log.error("alerts met what nobody thought of: begun anew", error=repr(error), exc_info=error)
                self._rest(AGAIN_S, term)
            if ports is not None:
                ports.memory.stop()
                ports.receivers.drop()
                ports.triggers.drop()
        if ports is not None:
            ports.memory.close()
            ports.receivers.close()
            ports.triggers.close()

    def _elected_term(self) -> int | None:
        """Wait for an election; None at the end."""
        with self._lock:
            self._lock.wait_for(lambda: self._active or self._ended)
            return None if self._ended else self._term

    def _holds(self, term: int) -> bool:
        with self._lock:
            return self._active and self._term == term

    def _rest(self, seconds: float, term: int) -> None:
        with self._lock:
            self._lock.wait_for(lambda: not self._active or self._term != term, seconds)

    def _watch(self, ports: Ports, term: int) -> None:
        watch = Watch(self._rules, self._limits, ports)
        holds = partial(self._holds, term)
        watch.begin(holds)
        while holds():
            watch.turn(holds)
            self._rest(TURN_S, term)


def alarms(
    settings: Settings,
    receivers: Callable[[Settings], Receivers] | None = None,
    triggers: Callable[[Settings], Triggers] | None = None,
) -> Alarms | None:
    """Alerts on the real bus and store; None where they are switched off.

    `receivers` and `triggers` are made on the thread, at the first election. Raises RuleError.
    """
    if not settings.alerts.enabled:
        return None

    def made() -> Ports:
        return Ports(
            partial(ask, settings.store, settings.alerts),
            Kept(settings.kafka, settings.store),
            NoReceivers() if receivers is None else receivers(settings),
            NoTriggers() if triggers is None else triggers(settings),
        )

    return Alarms(rules(settings.alerts), settings.alerts, made)
