"""What goes wrong in the fleet: lost GPUs, hot ones, memory errors, calls that fail, hosts that fall silent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from warpmeter.simulate.encode import Numbers
from warpmeter.simulate.fleet import Flags, Fleet

Kind = Literal["hot", "lost", "silent", "unread", "memory", "reboot"]
KINDS: Final[tuple[Kind, ...]] = ("hot", "lost", "silent", "unread", "memory")
MINUTE: Final = 60.0
LASTS_S: Final[Mapping[Kind, float]] = {
    "hot": 15 * MINUTE,
    "lost": 12 * MINUTE,
    "silent": 4 * MINUTE,
    "unread": 5 * MINUTE,
    "memory": 0.0,
    "reboot": 3 * MINUTE,
}


@dataclass(frozen=True)
class Fault:
    """One fault of one GPU (`silent`: of its host), from `since` to `until`, seconds since the epoch."""

    kind: Kind
    gpu: int
    since: float
    until: float


class Faults:
    """Which GPUs and hosts are in trouble. Each kind comes in turn, `faults_per_hour` in all."""

    def __init__(self, fleet: Fleet, start: float) -> None:
        self._fleet, self._rng = fleet, fleet.random(6)
        self._open: list[Fault] = []
        self._turn = 0
        self.hot: Flags = np.zeros(fleet.size, bool)
        self.lost: Flags = np.zeros(fleet.size, bool)
        self.unread: Flags = np.zeros(fleet.size, bool)
        self.rebooted: Flags = np.zeros(fleet.size, bool)
        self.silent: Flags = np.zeros(fleet.hosts, bool)
        self.corrected: Numbers = self._rng.poisson(0.02, fleet.size).astype(np.int64)
        self.uncorrected: Numbers = np.zeros(fleet.size, np.int64)
        self._next = start + self._gap_s()

    def step(self, now: float) -> tuple[list[Fault], list[Fault]]:
        """Move on to `now`; returns the faults that began and those that ended."""
        self.rebooted[:] = False
        over = [each for each in self._open if each.until <= now]
        for fault in over:
            self._open.remove(fault)
            self._end(fault, now)
        self.corrected += self._rng.random(self._fleet.size) < 1e-6 * self._fleet.interval_s
        begun = []
        while self._next <= now:
            begun.append(self._begin(now))
            self._next += self._gap_s()
        return begun, over

    def lost_on(self, host: int) -> list[int]:
        """Lost GPUs of a host, as indices over the fleet."""
        first = host * self._fleet.gpus
        return [first + int(gpu) for gpu in np.flatnonzero(self.lost[first : first + self._fleet.gpus])]

    def unread_on(self, host: int) -> list[int]:
        """GPUs of a host whose power cannot be read, as indices over the fleet."""
        first = host * self._fleet.gpus
        return [first + int(gpu) for gpu in np.flatnonzero(self.unread[first : first + self._fleet.gpus])]

    def _gap_s(self) -> float:
        rate = 0.0 if self._fleet.healthy else self._fleet.faults_per_hour
        return float(3600 / rate * self._rng.uniform(0.7, 1.3)) if rate else float("inf")

    def _begin(self, now: float) -> Fault:
        kind = KINDS[self._turn % len(KINDS)]
        self._turn += 1
        gpu = int(self._rng.integers(self._fleet.size))
        fault = Fault(kind, gpu, now, now + LASTS_S[kind] * float(self._rng.uniform(0.7, 1.4)))
        self._set(fault, True)
        self._open.append(fault)
        return fault

    def _set(self, fault: Fault, on: bool) -> None:
        match fault.kind:
            case "hot":
                self.hot[fault.gpu] = on
            case "lost":
                self.lost[fault.gpu] = on
            case "unread":
                self.unread[fault.gpu] = on
            case "silent" | "reboot":
                self.silent[fault.gpu // self._fleet.gpus] = on
            case "memory":
                self.uncorrected[fault.gpu] += on
                self.corrected[fault.gpu] += 40 * on

    def _end(self, fault: Fault, now: float) -> None:
        self._set(fault, False)
        if fault.kind == "lost":  # only a restart of its host brings a GPU back
            first = fault.gpu // self._fleet.gpus * self._fleet.gpus
            self.rebooted[first : first + self._fleet.gpus] = True
            reboot = Fault("reboot", fault.gpu, now, now + LASTS_S["reboot"])
            self._set(reboot, True)
            self._open.append(reboot)
