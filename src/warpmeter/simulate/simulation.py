"""One tick after the other of a whole fleet, as the Envelopes that its agents would publish."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.schemas.generated.device_samples_pb2 import Envelope as Device
from warpmeter.schemas.generated.gpu_samples_pb2 import Envelope as Gpu
from warpmeter.schemas.generated.host_samples_pb2 import Envelope as Host
from warpmeter.schemas.topics import TOPICS
from warpmeter.simulate import gpus, hosts
from warpmeter.simulate.encode import Columns, rows, time_field
from warpmeter.simulate.events import EVERY_S, Event, Events
from warpmeter.simulate.faults import LASTS_S, Fault, Faults
from warpmeter.simulate.fleet import MODEL, Fleet, slots
from warpmeter.simulate.jobs import Job, Queue
from warpmeter.simulate.stacks import EVERY_S as TURN_S
from warpmeter.simulate.stacks import Doing, Sampler
from warpmeter.wire import Envelope

AGENT: Final = "simulated"
KERNEL: Final = "6.8.0-60-generic"
ABORT_S: Final = 45.0  # how long the other ranks take to notice that a GPU is gone
UNREAD: Final = "power_deciwatts"


@dataclass(frozen=True)
class Tick:
    """All that the fleet tells at `ts` (seconds since the epoch): one Envelope a host and topic."""

    ts: float
    envelopes: list[Envelope]

    @property
    def rows(self) -> int:
        """Rows of all topics."""
        return sum(envelope.rows for envelope in self.envelopes)


class Simulation:
    """Yields ticks from `start` (seconds since the epoch) on, `fleet.interval_s` apart, without end.

    The same fleet and start give the same bytes. `in_flight`: its jobs have begun before.
    """

    def __init__(self, fleet: Fleet, start: float, in_flight: bool = True) -> None:
        self.fleet, self.now = fleet, start
        cut = slots(fleet)
        self._queue = Queue(fleet, cut, start, in_flight)
        self._faults = Faults(fleet, start)
        self._load, self._gpus, self._hosts = gpus.Load(fleet, cut), gpus.Gpus(fleet, cut), hosts.Hosts(fleet, cut)
        self._events = Events(fleet, self._hosts)
        self._slot_of = np.repeat(np.arange(len(cut)), [len(slot.gpus) for slot in cut])
        self._sampler = Sampler(fleet)
        self._every_s, self._turn_s = max(EVERY_S, fleet.interval_s), max(TURN_S, fleet.interval_s)
        self._stagger = np.arange(fleet.hosts) * 1.0
        self._running: list[dict[str, Job]] = [{} for _ in range(fleet.hosts)]
        self._gpu_columns = Columns(TOPICS["gpu-samples"], gpus.COLUMNS)
        self._host_columns = Columns(TOPICS["host-samples"], hosts.COLUMNS)
        self._device_columns = Columns(TOPICS["device-samples"], hosts.DEVICE_COLUMNS)
        self._gpu_names = [self._gpu_name(gpu, ()) for gpu in range(fleet.size)]
        self._host_names = [self._host_name(name) for name in fleet.host_names]
        self._device_names = [self._device_name(name, *device) for name in fleet.host_names for device in hosts.DEVICES]
        self._new: list[Job] = [job for job in self._queue.jobs if job is not None]

    def __iter__(self) -> Iterator[Tick]:
        while True:
            yield self.tick()

    def tick(self) -> Tick:
        """What the fleet tells at `now`; then `now` moves on."""
        ts = self.now
        begun, over = self._faults.step(ts)
        for fault in begun:
            self._strike(fault)
        ended, started = self._queue.advance(ts)
        self._load.step(ts, self._queue.profile, self._queue.started_at)
        events = list(self._job_events(ts, ended, self._new + started))  # of the interval before: they come first
        self._new = []
        envelopes = [*self._samples(ts), *events, *self._stacks(ts), *self._health(ts, begun, over)]
        silent = {name for name, quiet in zip(self.fleet.host_names, self._faults.silent, strict=True) if quiet}
        keys = {name.encode() for name in silent}
        self.now = round(ts + self.fleet.interval_s, 3)
        return Tick(ts, [each for each in envelopes if each.key not in keys] if keys else envelopes)

    def end(self) -> Tick:
        """What the fleet tells when it is shut down, with its last tick: all jobs end."""
        running = {job.job_id: job for jobs in self._running for job in jobs.values()}
        told: dict[int, list[bytes]] = defaultdict(list)
        ts = round(self.now - self.fleet.interval_s, 3)
        for job in running.values():
            self._change(job, "ended", ts, told)
        return Tick(ts, [self._envelope("job-events", host, pieces) for host, pieces in told.items()])

    def _strike(self, fault: Fault) -> None:
        if fault.kind == "lost":
            slot = int(self._slot_of[fault.gpu])
            self._queue.fail(slot, fault.since + ABORT_S, fault.until + LASTS_S["reboot"])

    def _samples(self, ts: float) -> Iterator[Envelope]:
        rebooted = np.flatnonzero(self._faults.rebooted.reshape(-1, self.fleet.gpus).any(axis=1))
        gpu_numbers = self._gpu_columns.encode(self._gpus.step(self._load, self._queue.profile, self._faults))
        gpu_rows = rows(self._gpu_names, time_field(TOPICS["gpu-samples"], ts), gpu_numbers)
        for gpu in np.flatnonzero(self._faults.lost):
            gpu_rows[gpu] = b""
        host_numbers = self._host_columns.encode(self._hosts.step(self._load, self._queue.profile, rebooted))
        host_rows = rows(self._host_names, time_field(TOPICS["host-samples"], ts), host_numbers)
        device_numbers = self._device_columns.encode(self._hosts.devices())
        device_rows = rows(self._device_names, time_field(TOPICS["device-samples"], ts), device_numbers)
        yield from self._envelopes("gpu-samples", gpu_rows, self.fleet.gpus)
        yield from self._envelopes("host-samples", host_rows, 1)
        yield from self._envelopes("device-samples", device_rows, len(hosts.DEVICES))

    def _envelopes(self, topic: str, pieces: list[bytes], each: int) -> Iterator[Envelope]:
        message = TOPICS[topic].message
        for host, name in enumerate(self.fleet.host_names):
            mine = pieces[host * each : (host + 1) * each]
            if count := len(mine) - mine.count(b""):
                yield Envelope(topic, name.encode(), b"".join(mine), message, count)

    def _job_events(self, ts: float, ended: list[Job], started: list[Job]) -> Iterator[Envelope]:
        told: dict[int, list[bytes]] = defaultdict(list)
        for event, jobs in (("ended", ended), ("started", started)):
            for job in jobs:
                self._change(job, "ended" if event == "ended" else "started", ts, told)
        fresh = {job.job_id for job in started}
        for host in self._due(ts):
            for job in self._running[host].values():
                if job.job_id not in fresh:
                    told[host].append(self._events.job(job, host, "running", ts, self._every_s))
        for host, pieces in told.items():
            yield self._envelope("job-events", host, pieces)

    def _change(self, job: Job, event: Event, ts: float, told: dict[int, list[bytes]]) -> None:
        held = range(job.slot.first, job.slot.last)
        for gpu in held:
            self._gpu_names[gpu] = self._gpu_name(gpu, () if event == "ended" else (job.job_id,))
        for host in self._events.hosts_of(job):
            if event == "ended":
                self._running[host].pop(job.job_id, None)
                self._sampler.forget(job, host)
            else:
                self._running[host][job.job_id] = job
            told[host].append(self._events.job(job, host, event, ts, self._every_s))

    def _health(self, ts: float, begun: list[Fault], over: list[Fault]) -> Iterator[Envelope]:
        told: dict[int, list[bytes]] = defaultdict(list)
        for fault in begun:
            if fault.kind in ("lost", "unread"):
                told[fault.gpu // self.fleet.gpus] += self._events.trouble(
                    fault.gpu // self.fleet.gpus, ts, self._faults
                )
        for fault in over:
            subject = {"unread": f"{self.fleet.uuids[fault.gpu]}/{UNREAD}", "reboot": self.fleet.uuids[fault.gpu]}
            if fault.kind in subject:
                host = fault.gpu // self.fleet.gpus
                told[host].append(self._events.recovered(host, ts, subject[fault.kind]))
        for host in self._due(ts):
            told[host] += self._events.health(host, ts, self._faults)
        for host, pieces in told.items():
            yield self._envelope("source-health", host, pieces)

    def _stacks(self, ts: float) -> Iterator[Envelope]:
        time = time_field(TOPICS["stack-samples"], ts)
        for host in self._due(ts, self._turn_s):
            jobs = list(self._running[host].values())
            pieces = [piece for job in jobs for piece in self._sampler.rows(job, host, self._doing(job, ts), ts, time)]
            if pieces:
                yield self._envelope("stack-samples", host, pieces)

    def _doing(self, job: Job, ts: float) -> Doing:
        at, load = job.slot.index, self._load
        return Doing(
            level=float(load.level[at]),
            saving=bool(load.saving[at]),
            evaluating=bool(load.evaluating[at]),
            hung=bool(load.hung[at]),
            starting=ts - job.started_at < job.profile.startup_s < 1e6,
            starve=job.profile.starve,
            wide=len(self._events.hosts_of(job)) > 1,
        )

    def _envelope(self, topic: str, host: int, pieces: list[bytes]) -> Envelope:
        name = self.fleet.host_names[host].encode()
        return Envelope(topic, name, b"".join(pieces), TOPICS[topic].message, len(pieces))

    def _due(self, ts: float, every_s: float | None = None) -> list[int]:
        """The hosts whose ten seconds (or `every_s`) are over; they are spread over the time."""
        every_s = every_s or self._every_s
        turn = np.floor((ts + self._stagger) / every_s)
        before = np.floor((ts - self.fleet.interval_s + self._stagger) / every_s)
        return [int(host) for host in np.flatnonzero(turn > before)]

    def _gpu_name(self, gpu: int, job_ids: tuple[str, ...]) -> bytes:
        return Gpu.GpuSample(
            host=self.fleet.host_names[gpu // self.fleet.gpus],
            period_ms=round(1000 * self.fleet.interval_s),
            gpu=gpu % self.fleet.gpus,
            uuid=self.fleet.uuids[gpu],
            model=MODEL,
            job_ids=job_ids,
        ).SerializeToString()

    def _host_name(self, host: str) -> bytes:
        period_ms = round(1000 * self.fleet.interval_s)
        return Host.HostSample(host=host, period_ms=period_ms, agent_version=AGENT, kernel=KERNEL).SerializeToString()

    def _device_name(self, host: str, kind: str, device: str) -> bytes:
        period_ms = round(1000 * self.fleet.interval_s)
        return Device.DeviceSample(host=host, period_ms=period_ms, kind=kind, device=device).SerializeToString()
