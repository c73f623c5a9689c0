"""Groups of events, opened on every CPU that they are counted on: all of a group, or nothing of it."""

import contextlib
import errno
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.producers.perf.kernel import Counted, Perf
from warpmeter.producers.perf.plan import Group
from warpmeter.producers.source import Health, SourceError

DENIED: Final = frozenset({errno.EACCES, errno.EPERM})
SPARE_FILES: Final = 512
"""Descriptors that the rest of the agent may want."""


@dataclass(frozen=True)
class Opened:
    """One group that counts: the descriptor of its first event on each CPU, and all its descriptors."""

    group: Group
    leaders: Mapping[int, int]
    descriptors: Sequence[int]


class Counters:
    """Everything that is counted on this host."""

    def __init__(self, perf: Perf, groups: Sequence[Group], cpus: Sequence[int], paranoid: int | None) -> None:
        """Open what this CPU has; raises SourceError when that is nothing, or may not be."""
        self._perf, self._paranoid = perf, paranoid
        self.opened: list[Opened] = []
        self.missing: list[Health] = []
        _allow_descriptors(sum(len(group.events) * len(group.cpus or cpus) for group in groups))
        try:
            for group in groups:
                self._open(group, group.cpus or cpus)
        except SourceError:
            self.close()
            raise
        if not self.opened:
            raise SourceError("unsupported", self._nothing())

    def read(self) -> dict[str, list[tuple[Group, Mapping[int, Counted]]]]:
        """The groups' counts by CPU; raises OSError when a CPU went away."""
        found: dict[str, list[tuple[Group, Mapping[int, Counted]]]] = {}
        for opened in self.opened:
            events = len(opened.group.events)
            counted = {cpu: self._perf.read(leader, events) for cpu, leader in opened.leaders.items()}
            found.setdefault(opened.group.subject, []).append((opened.group, counted))
        return found

    def close(self) -> None:
        """Stop counting."""
        for opened in self.opened:
            self._perf.close(opened.descriptors)
        self.opened = []

    def _open(self, group: Group, cpus: Sequence[int]) -> None:
        leaders: dict[int, int] = {}
        descriptors: list[int] = []
        try:
            for cpu in cpus:
                for event in group.events:
                    descriptors.append(self._perf.open(event, cpu, leaders.get(cpu, -1)))
                    leaders.setdefault(cpu, descriptors[-1])
                self._perf.start(leaders[cpu])
        except OSError as error:
            self._perf.close(descriptors)
            self._refused(group, error)
        else:
            self.opened.append(Opened(group, leaders, descriptors))

    def _refused(self, group: Group, error: OSError) -> None:
        if error.errno in DENIED:
            raise SourceError("denied", self._denied(error)) from error
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise SourceError(
                "failed", f"{error}: raise the limit of open files (LimitNOFILE= of the service)"
            ) from error
        names = ", ".join(event.counter for event in group.events)
        self.missing.append(
            Health(group.subject, "unsupported", f"this CPU, or its hypervisor, has no {names}: {error}")
        )

    def _denied(self, error: OSError) -> str:
        level = "" if self._paranoid is None else f" (kernel.perf_event_paranoid is {self._paranoid})"
        return (
            f"counters of the CPU may not be read{level}: {error}; give the agent CAP_PERFMON, or set "
            "kernel.perf_event_paranoid to 0; in a container, let its seccomp profile pass perf_event_open"
        )

    def _nothing(self) -> str:
        reasons = "; ".join(f"{health.subject}: {health.why}" for health in self.missing[:1])
        return (
            "no hardware counter can be opened: a virtual machine without a virtual PMU? Turn it on for the guest, use "
            f"a bare-metal host, or scrape a PCM exporter. {reasons}"
        )


def _allow_descriptors(wanted: int) -> None:
    """Raise this process's soft limit of open files as far as the hard one lets; 256 CPUs take 2,000."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < enough:
        most = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
