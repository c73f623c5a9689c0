"""All GPUs of a host over time: NVML's session, which GPUs there are, and reading them once a tick.

Nothing that happens to a GPU or the driver needs a restart of the agent. A GPU that is lost or no longer listed is
`gone` and looked for with back-off; a driver that went away is waited for; the others are read on.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from warpmeter.producers.gpu import nvml
from warpmeter.producers.gpu.calls import COMPLETE_READS
from warpmeter.producers.gpu.device import Device, GpuRaw, Identity, mig_identities, mig_instance, whole_gpu
from warpmeter.producers.gpu.events import Listener
from warpmeter.producers.gpu.nvml import Handle, Problem
from warpmeter.producers.gpu.pause import Pause
from warpmeter.producers.gpu.people import Who, who
from warpmeter.producers.gpu.throughput import Throughput
from warpmeter.producers.source import SourceError

SLOW_PERIOD_S = 10.0
LONGEST_WAIT_S = 60.0
NEW_SESSION_EVERY = 10
"""Searches for a GPU in NVML's session before a new session is tried: after a reset only that finds it."""


@dataclass(frozen=True)
class Snapshot:
    """One read of a host: what each GPU gave, and why the others gave nothing.

    `absent`: by uuid, or `gpu <index>` for a GPU that was never reached. `driver`: its version; `loads`: how often it
    was loaded since the first read. `people`: who the processes are, at the reads that ask (`full`), else None.
    `paused_s`: seconds for which a profiler still has the performance counters.
    """

    gpus: tuple[GpuRaw, ...]
    absent: tuple[tuple[str, Problem], ...]
    driver: str = ""
    loads: int = 0
    people: Mapping[int, Who] | None = None
    paused_s: float = 0.0


class Backoff:
    """Waits of 1, 2, 4, … 60 s between attempts."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.attempts, self._due = 0, float("-inf")

    def due(self) -> bool:
        """Whether it is time for the next attempt."""
        return self._monotonic() >= self._due

    def failed(self, wait_s: float | None = None) -> None:
        """Waits longer than the last time, or `wait_s`."""
        self._due = self._monotonic() + (wait_s or min(2.0**self.attempts, LONGEST_WAIT_S))
        self.attempts += 1

    def reset(self) -> None:
        """The next attempt is due at once, and waits start small again."""
        self.attempts, self._due = 0, float("-inf")


class Reader:
    """Reads all GPUs; made without touching NVML, used from one thread."""

    def __init__(
        self,
        period_s: float,
        monotonic: Callable[[], float],
        listener: Listener | None = None,
        pause: Pause | None = None,
        proc: str = "/proc",
    ) -> None:
        """`listener`: is told which GPUs to listen to. `proc`: where the processes on GPUs are looked up."""
        self._slow_every = max(1, round(SLOW_PERIOD_S / period_s))
        self._slow_s = self._slow_every * period_s
        self._listener, self._pause, self._proc = listener or Listener(), pause or Pause(monotonic), proc
        self._driver, self._loads = "", 0
        self._down: Problem | None = nvml.UNINITIALIZED
        self._session, self._search = Backoff(monotonic), Backoff(monotonic)
        self._throughput = Throughput()
        self._devices: dict[str, Device] = {}
        self._known: set[str] = set()
        self._absent: dict[str, Problem] = {}
        self._count = -1
        self._reads = 0

    def read(self) -> Snapshot:
        """All GPUs now; raises SourceError when there is no NVML to ask."""
        count = self._ensure_gpus()
        if isinstance(count, Problem):
            self._end_session(count)
            count = self._ensure_gpus()
        if isinstance(count, Problem):
            raise self._lost_session(count)
        full = self._reads < COMPLETE_READS or self._reads % self._slow_every == 0
        paused_s = self._pause.left_s
        gpus = tuple(self._read_devices(self._slow_s if full else None, not paused_s))
        if self._down is not None and not gpus:
            raise self._lost_session(self._down)
        self._throughput.tick()
        self._reads += 1
        people = who(self._proc, (each.pid for gpu in gpus for each in gpu.processes or ())) if full else None
        return Snapshot(gpus, tuple(self._absent.items()), self._driver, self._loads, people, paused_s)

    def close(self) -> None:
        """Ends the session."""
        if self._down is None:
            self._end_session(nvml.UNINITIALIZED)

    # ---- the session ----

    def _ensure_session(self) -> None:
        if self._down is None:
            return
        if self._session.due():
            self._begin_session()
        if self._down is not None:
            raise SourceError(self._down.state, self._down.why)

    def _begin_session(self) -> None:
        self._down = nvml.start()
        if self._down is None:
            self._session.reset()
            self._count, self._reads, self._driver = -1, 0, nvml.driver_version()
            return
        self._session.failed(LONGEST_WAIT_S if self._down == nvml.NO_LIBRARY else None)
        if self._down == nvml.VERSION_MISMATCH and not (self._throughput.stuck or self._listener.stuck):
            nvml.unload()

    def _end_session(self, why: Problem, reloaded: bool = True) -> None:
        """NVML must be initialised anew, which the next read does. `reloaded`: for the driver went away."""
        for device in self._devices.values():
            device.close()
        self._devices, self._down = {}, why
        self._loads += reloaded and why.library_down
        self._throughput.close()
        self._listener.close()
        nvml.stop()

    def _lost_session(self, why: Problem) -> SourceError:
        if self._down is None:
            self._end_session(why)
        return SourceError(why.state, why.why)

    # ---- which GPUs there are ----

    def _ensure_gpus(self) -> int | Problem:
        """GPUs that NVML counts, after finding them anew when that is due; a Problem when it must start again."""
        self._ensure_session()
        count = nvml.count()
        if isinstance(count, Problem):
            return count
        searching = bool(self._absent) and self._search.due()
        if searching and self._needs_new_session():
            self._search.failed()
            self._end_session(nvml.UNINITIALIZED, reloaded=False)
            return self._ensure_gpus()
        if searching or count != self._count or self._mig_changed():
            self._scan(count)
        return count

    def _needs_new_session(self) -> bool:
        gone = any(why.state == "gone" for why in self._absent.values())
        return gone and self._search.attempts % NEW_SESSION_EVERY == NEW_SESSION_EVERY - 1

    def _mig_changed(self) -> bool:
        """MIG instances are made and destroyed while the host runs; asked as often as slow values are read."""
        if self._reads == 0 or self._reads % self._slow_every:
            return False
        able = [device for device in self._devices.values() if device.has_mig]
        now = {mig.uuid for device in able for mig, _ in mig_identities(device.identity, device.handle)}
        return now != {uuid for uuid in self._devices if _is_mig(uuid)}

    def _scan(self, count: int) -> None:
        """Finds all GPUs and keeps those that are as they were; who was known and is not found is `gone`."""
        found: dict[str, Device] = {}
        unreached: dict[str, Problem] = {}
        for index in range(count):
            got = _identify(index)
            if isinstance(got, Problem):
                unreached[f"gpu {index}"] = got
            else:
                found.update((device.identity.uuid, device) for device in self._devices_of(*got))
        for uuid, device in self._devices.items():
            if found.get(uuid) is not device:
                device.close()
        self._count, self._devices = count, found
        self._known.update(uuid for uuid in found if not _is_mig(uuid))
        self._absent = absentees(sorted(self._known - found.keys()), self._absent, unreached)
        if self._absent:
            self._search.failed()
        whole = {uuid: (each.identity.index, each.handle) for uuid, each in found.items() if not _is_mig(uuid)}
        self._listener.listen(whole)

    def _devices_of(self, identity: Identity, handle: Handle) -> Iterator[Device]:
        migs = mig_identities(identity, handle)
        kept = self._kept(identity, handle)
        if kept is not None and kept.is_cut == (nvml.mig_enabled(handle) is True):
            yield kept
        else:
            yield whole_gpu(identity, handle, self._slow_every, self._throughput)
        for mig, mig_handle in migs:
            yield self._kept(mig, mig_handle) or mig_instance(mig, mig_handle, handle)

    def _kept(self, identity: Identity, handle: Handle) -> Device | None:
        device = self._devices.get(identity.uuid)
        same = device is not None and device.identity == identity and nvml.same(device.handle, handle)
        return device if same else None

    # ---- reading ----

    def _read_devices(self, uses_over_s: float | None, profiling: bool) -> Iterator[GpuRaw]:
        for uuid, device in tuple(self._devices.items()):
            got = device.read(uses_over_s, profiling)
            if not isinstance(got, Problem):
                yield got
            elif got.library_down:
                return self._end_session(got)
            else:
                self._drop(uuid, got)
        if not self._absent:
            self._search.reset()
        return None

    def _drop(self, uuid: str, why: Problem) -> None:
        """No reading of this GPU before it is found anew."""
        self._devices.pop(uuid).close()
        if _is_mig(uuid):
            self._count = -1
        else:
            self._absent[uuid] = why
            self._listener.leave(uuid)


def _is_mig(uuid: str) -> bool:
    return uuid.startswith("MIG-")


def _identify(index: int) -> tuple[Identity, Handle] | Problem:
    handle = nvml.handle(index)
    if isinstance(handle, Problem):
        return handle
    uuid, model = nvml.uuid(handle), nvml.model(handle)
    if isinstance(uuid, Problem):
        return uuid
    minor = nvml.minor_number(handle)
    name = "" if isinstance(model, Problem) else model
    return Identity(index, uuid, name, minor_number=None if isinstance(minor, Problem) else minor), handle


def absentees(missing: list[str], before: dict[str, Problem], unreached: dict[str, Problem]) -> dict[str, Problem]:
    """GPUs that give nothing: `missing` known ones, and indices that were not reached.

    An index that newly cannot be reached is most likely that of a missing GPU, and is told once, by its uuid.
    """
    reasons = [subject for subject in unreached if subject not in before]
    strangers = dict(unreached)
    absent: dict[str, Problem] = {}
    for uuid in missing:
        earlier = before.get(uuid, nvml.NOT_LISTED)
        if reasons:
            absent[uuid] = strangers.pop(reasons.pop(0))
        else:
            absent[uuid] = earlier if earlier.state == "gone" else nvml.NOT_LISTED
    return absent | strangers
