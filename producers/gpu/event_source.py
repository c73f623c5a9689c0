"""The source of `gpu-events`: XIDs as they are raised and cleared.

It asks NVML nothing itself: the listener's thread hears the events, and the GPU source says how the GPUs fare. So a
driver that hangs in the GPU source, which is when XIDs matter, does not keep them from being published.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.gpu.events import Listener, Raised
from warpmeter.producers.gpu.kernel_log import KernelLog
from warpmeter.producers.gpu.nvml import Problem
from warpmeter.producers.gpu.standing import RESTARTED, Book, Cleared, Look, Standing, kept, recalled
from warpmeter.producers.gpu.xids import what
from warpmeter.producers.source import Attribution, Health, Reading, Sample, SourceError
from warpmeter.schemas.generated.gpu_events_pb2 import Envelope

TICK_S: Final = 1.0
"""An event has its own time; this is how long it waits at most to be published."""
GRACE_READS: Final = 10
"""At the start the GPU source is given the time to load the driver's library."""
NOTHING: Final = Look()
DROPPED: Final = "a storm: {count} XIDs were dropped, being more than can be published"


@dataclass
class Shared:
    """Where the GPU source and this one meet; `look` is swapped whole by the former.

    `proc`: where processes are. `paused`: the file by which another process asks for a pause.
    """

    listener: Listener = field(default_factory=Listener)
    look: Look = field(default_factory=Look)
    proc: str = "/proc"
    paused: Path | None = None


@dataclass(frozen=True)
class EventsRaw:
    """What came since the last read, with the pid at fault where it is known."""

    raised: Sequence[tuple[Raised, int | None]]
    look: Look
    deaf: Sequence[tuple[str, Problem]]
    dropped: int
    boot: str
    log_why: str


class GpuEventSource:
    """Source of `gpu-events`. What stands is kept in a file, for the agent that is started next."""

    name: Final = "gpu-events"
    topic: Final = "gpu-events"
    timeout_s: Final = 5.0

    def __init__(self, host: str, shared: Shared, attribution: Attribution, root: Path, memory: Path | None) -> None:
        """`root`: holds proc and dev. `memory`: the file of what stands; None keeps nothing."""
        self._host, self._shared, self._attribution = host, shared, attribution
        self.period_s = TICK_S
        self._log = KernelLog(files.below(root, "dev", "kmsg"))
        self._boot = files.below(root, "proc", "sys", "kernel", "random", "boot_id")
        self._memory, self._memory_why = memory, ""
        self._book: Book | None = None
        self._reads = 0

    def read(self) -> EventsRaw:
        """Takes what was heard; touches the kernel's log alone. Raises SourceError where no GPU was ever read."""
        listener, self._reads = self._shared.listener, self._reads + 1
        if self._shared.look == NOTHING and self._reads > GRACE_READS:
            raise SourceError("unsupported", "no GPU is read on this host: see how source gpu fares")
        self._log.look()
        raised = [(event, self._log.pid(event.bus_id, event.code)) for event in listener.take()]
        boot = (files.optional(self._boot) or b"").decode().strip()
        heard = bool(self._shared.look.pids)
        why = self._log.why if heard else ""
        return EventsRaw(raised, self._shared.look, tuple(listener.deaf.items()), listener.dropped, boot, why)

    def parse(self, sample: Sample[EventsRaw], before: Sample[EventsRaw] | None) -> Reading:  # noqa: ARG002 - it remembers
        """Rows of what was raised and of what is over."""
        raw = sample.raw
        rows: list[Envelope.GpuEvent] = []
        if self._book is None:
            self._book, over = self._recall(raw.boot, sample.ts)
            rows += [self._cleared(each) for each in over]
        for event, pid in raw.raised:
            rows.append(self._raised(self._book.raised(event, raw.look, pid), raw.look, pid))
        rows += [self._cleared(each) for each in self._book.looked(raw.look)]
        if self._book.changed:
            self._keep(self._book, raw.boot)
        return Reading(rows, [*self._health(raw)])

    def _raised(self, what_stands: Standing, look: Look, pid: int | None) -> Envelope.GpuEvent:
        there = look.pids.get(what_stands.uuid) or frozenset()
        jobs = self._attribution.job_ids(sorted(there if pid is None else there | {pid}))
        return self._row(what_stands.ts, what_stands, "raised", pid=pid, job_ids=jobs)

    def _cleared(self, over: Cleared) -> Envelope.GpuEvent:
        return self._row(over.ts, over.of, "cleared", why=over.why)

    def _row(
        self, ts: float, of: Standing, state: str, pid: int | None = None, job_ids: Sequence[str] = (), why: str = ""
    ) -> Envelope.GpuEvent:
        return Envelope.GpuEvent(
            host=self._host, ts=round(ts, 3), gpu=of.gpu, uuid=of.uuid, kind="xid", code=of.code,
            what=what(of.code), state=state, pid=pid, job_ids=job_ids, why=why,
        )  # fmt: skip

    def _health(self, raw: EventsRaw) -> Sequence[Health]:
        found = [Health(f"{uuid}/xids", why.state, why.why) for uuid, why in raw.deaf]
        if raw.log_why:
            found.append(Health("pids", "unsupported", raw.log_why))
        if raw.dropped:
            found.append(Health("storm", "failed", DROPPED.format(count=raw.dropped), raw.dropped))
        if self._memory_why:
            found.append(Health("memory", "failed", self._memory_why))
        return found

    # ---- what stands, over the life of one agent ----

    def _recall(self, boot: str, ts: float) -> tuple[Book, list[Cleared]]:
        try:
            known = json.loads(self._memory.read_bytes()) if self._memory and self._memory.exists() else {}
            standing = recalled(known.get("standing", ()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._memory_why = (
                f"{self._memory} could not be read ({error!r}): XIDs of before are not cleared by this agent"
            )
            return Book(), []
        if standing and known.get("boot") != boot:
            book = Book()
            book.changed = True
            return book, [Cleared(ts, each, RESTARTED) for each in standing]
        return Book(standing), []

    def _keep(self, book: Book, boot: str) -> None:
        book.changed = False
        if self._memory is None:
            return
        try:
            fresh = self._memory.with_name(f"{self._memory.name}.new")
            fresh.write_text(json.dumps({"boot": boot, "standing": kept(book.standing)}))
            fresh.replace(self._memory)
            self._memory_why = ""
        except OSError as error:
            self._memory_why = f"{error}: an agent that is started next will not know which XIDs stand"

    def close(self) -> None:
        """Lets go of the kernel's log."""
        self._log.close()
