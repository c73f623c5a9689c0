"""What hosts tell besides samples: the life of their jobs, and how the agent's sources fare."""

from collections.abc import Iterator
from typing import Final, Literal

from warpmeter.schemas.generated.job_events_pb2 import Envelope as Jobs
from warpmeter.schemas.generated.source_health_pb2 import Envelope as Health
from warpmeter.simulate.encode import row
from warpmeter.simulate.faults import Faults
from warpmeter.simulate.fleet import Fleet
from warpmeter.simulate.gpus import MEMORY_MIB
from warpmeter.simulate.hosts import Hosts
from warpmeter.simulate.jobs import Job

Event = Literal["started", "running", "ended"]

EVERY_S: Final = 10.0  # running jobs and health, as the agent does by default
LACKING_EVERY_S: Final = 600.0  # what a GPU does not have
SOURCES: Final = (
    ("host", 0.0007),
    ("devices", 0.0006),
    ("gpu", 0.011),
    ("jobs", 0.0014),
    ("shipper", 0.0),
    ("clock", 0.0),
)
FAN: Final = "NVML nvmlDeviceGetFanSpeed: Not Supported"
LOST: Final = "NVML: GPU is lost; it fell off the bus, restart the host (see Xid 79 in the kernel's log)"
UNREAD: Final = "NVML nvmlDeviceGetPowerUsage: Unknown Error"


class Events:
    """Writes the rows of `job-events` and `source-health`, serialised, each as a field of an Envelope."""

    def __init__(self, fleet: Fleet, hosts: Hosts) -> None:
        self._fleet, self._hosts = fleet, hosts
        self._jobs: dict[tuple[str, int], bytes] = {}
        self._healthy = [self._usual_health(host) for host in range(fleet.hosts)]
        self._lacking = [self._what_lacks(host) for host in range(fleet.hosts)]
        self._told: set[int] = set()

    def hosts_of(self, job: Job) -> range:
        """The hosts that a job runs on."""
        return range(job.slot.first // self._fleet.gpus, -(-job.slot.last // self._fleet.gpus))

    def job(self, job: Job, host: int, event: Event, ts: float, interval_s: float) -> bytes:
        """One event of a job on one host; `interval_s` is what its rates stand for."""
        stable = self._jobs.get((job.job_id, host)) or self._job_on_host(job, host)
        if event == "ended":
            self._jobs.pop((job.job_id, host), None)
        else:
            self._jobs[job.job_id, host] = stable
        return row(stable + self._measured(job, host, event, ts, interval_s).SerializeToString())

    def _measured(self, job: Job, host: int, event: Event, ts: float, interval_s: float) -> Jobs.JobEvent:
        if event == "started":
            return Jobs.JobEvent(ts=ts, event=event)
        gpus = self._held(job, host)
        part, hosts = slice(gpus.start, gpus.stop), self._hosts
        return Jobs.JobEvent(
            ts=ts,
            period_ms=round(1000 * interval_s),
            event=event,
            processes=1 + 8 * len(gpus),
            cpu_cores_milli=round(1000 * float(hosts.cores_used[part].sum())),
            rss_mebibytes=round(float(hosts.rss_mebibytes[part].sum())),
            read_bytes=round(interval_s * float(hosts.read[part].sum())),
            written_bytes=round(interval_s * float(hosts.written[part].sum())),
            gpu_memory_mebibytes=round(MEMORY_MIB * job.profile.memory) * len(gpus),
        )

    def health(self, host: int, ts: float, faults: Faults) -> list[bytes]:
        """All that a host says about its sources every 10 s."""
        now = Health.SourceHealth(ts=ts).SerializeToString()
        usual = self._healthy[host]
        if host not in self._told or ts // LACKING_EVERY_S > (ts - EVERY_S) // LACKING_EVERY_S:
            self._told.add(host)
            usual = usual + self._lacking[host]
        return [row(each + now) for each in usual] + self.trouble(host, ts, faults)

    def recovered(self, host: int, ts: float, subject: str) -> bytes:
        """A subject that was in trouble is well again."""
        return row(self._health(host, "gpu", subject, "ok") + Health.SourceHealth(ts=ts).SerializeToString())

    def trouble(self, host: int, ts: float, faults: Faults) -> list[bytes]:
        """The GPUs of a host that are gone or cannot be read."""
        return list(self._trouble(host, ts, faults))

    def _held(self, job: Job, host: int) -> range:
        first = host * self._fleet.gpus
        return range(max(job.slot.first, first), min(job.slot.last, first + self._fleet.gpus))

    def _job_on_host(self, job: Job, host: int) -> bytes:
        gpus = self._held(job, host)
        hosts = self.hosts_of(job)
        return Jobs.JobEvent(
            host=self._fleet.host_names[host],
            job_id=job.job_id,
            name=job.name,
            command=job.command,
            user=job.user,
            scheduler=job.scheduler,
            pid=job.pid(host),
            started_at=job.started_at,
            rank=host - hosts.start,
            world_size=len(hosts),
            tree_id=job.tree_id,
            labels=job.labels,
            gpus=[gpu % self._fleet.gpus for gpu in gpus],
            gpu_uuids=[self._fleet.uuids[gpu] for gpu in gpus],
        ).SerializeToString()

    def _usual_health(self, host: int) -> list[bytes]:
        return [self._health(host, source, "", "ok", seconds=seconds) for source, seconds in SOURCES]

    def _what_lacks(self, host: int) -> list[bytes]:
        first, period = host * self._fleet.gpus, round(1000 * LACKING_EVERY_S)
        fans = [f"{self._fleet.uuids[gpu]}/fan_permille" for gpu in range(first, first + self._fleet.gpus)]
        rarely = Health.SourceHealth(
            period_ms=period
        ).SerializeToString()  # of a field that comes twice the last counts
        return [self._health(host, "gpu", fan, "unsupported", why=FAN) + rarely for fan in fans]

    def _trouble(self, host: int, ts: float, faults: Faults) -> Iterator[bytes]:
        now = Health.SourceHealth(ts=ts).SerializeToString()
        for gpu in faults.lost_on(host):
            yield row(self._health(host, "gpu", self._fleet.uuids[gpu], "gone", why=LOST) + now)
        for gpu in faults.unread_on(host):
            subject = f"{self._fleet.uuids[gpu]}/power_deciwatts"
            yield row(self._health(host, "gpu", subject, "failed", why=UNREAD) + now)

    def _health(
        self, host: int, source: str, subject: str, state: str, *, why: str = "", seconds: float | None = None
    ) -> bytes:
        return Health.SourceHealth(
            host=self._fleet.host_names[host],
            period_ms=round(1000 * EVERY_S),
            source=source,
            subject=subject,
            state=state,
            why=why,
            seconds=seconds,
        ).SerializeToString()
