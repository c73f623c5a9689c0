"""XIDs from NVML's event set to rows: heard at once by a thread of its own, published even while NVML hangs."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from tests.gpu_host import Host, states
from tests.nvml import NvmlStub, Process
from tests.wait import until
from warpmeter.producers.gpu.event_source import GRACE_READS, EventsRaw, GpuEventSource, Shared
from warpmeter.producers.source import Attribution, Health, Sample, SourceError

BOOT = "6f3c2d1e-0000-4000-8000-00000000000a"


class Events:
    """The source of events beside a host's GPU source."""

    def __init__(self, host: Host, folder: Path) -> None:
        self.host, self.root = host, folder / "root"
        self.kmsg, self.boot = self.root / "dev/kmsg", self.root / "proc/sys/kernel/random/boot_id"
        for file, text in ((self.kmsg, ""), (self.boot, BOOT)):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.memory = folder / "xids.json"
        self.rows: list[Any] = []
        self.health: list[Health] = []
        self.start()

    def start(self) -> None:
        """A new source, as of an agent that was started again."""
        self.source = GpuEventSource("node1", self.host.shared, self.host.attribution, self.root, self.memory)

    def tick(self) -> list[Any]:
        """One read; the rows that it gave."""
        sample: Sample[EventsRaw] = Sample(1_790_000_000.0 + self.host.now, self.host.now, 1.0, self.source.read())
        reading = self.source.parse(sample, None)
        self.rows += reading.rows
        self.health = list(reading.health)
        return list(reading.rows)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Ticks until the condition holds of the rows so far."""
        until(lambda: self.tick() is not None and condition(), "an event", every_s=0.02)

    def told(self) -> list[tuple[int, int, str, str]]:
        """GPU, code, state and why of all rows so far."""
        return [(row.gpu, row.code, row.state, row.why) for row in self.rows]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Eight H100 by the clock of the machine, as events have its time."""
    with NvmlStub(tmp_path) as stub, stub.loaded():
        made = Host(stub)
        made.now = time.time() - 1_790_000_000.0
        yield made
        made.source.close()


@pytest.fixture
def events(host: Host, tmp_path: Path) -> Iterator[Events]:
    """Its events, being listened to."""
    made = Events(host, tmp_path)
    host.tick()
    made.tick()
    yield made
    made.source.close()


def test_an_xid_has_its_time_its_words_and_its_jobs(host: Host, events: Events) -> None:
    host.attribution.set_jobs({10_002: "train"})
    before = time.time()
    host.stub.xid(2, 48)
    events.wait(lambda: len(events.rows) == 1)
    (row,) = events.rows
    assert before - 0.001 <= row.ts <= time.time() + 0.001  # it is rounded to a millisecond
    assert (row.host, row.gpu, row.uuid, row.kind) == ("node1", 2, host.stub.gpus[2].uuid, "xid")
    assert (row.code, row.what, row.state) == (48, "double-bit ECC error", "raised")
    assert (list(row.job_ids), row.HasField("pid"), row.why) == (["train"], False, "")
    assert events.health == []


def test_a_code_beyond_all_codes_stops_no_other(host: Host, events: Events) -> None:
    host.stub.xid(2, 2**40)
    host.stub.xid(3, 79)
    events.wait(lambda: len(events.rows) == 2)
    assert sorted((row.gpu, row.code) for row in events.rows) == [(2, 2**32 - 1), (3, 79)]


def test_the_kernels_log_names_the_process_at_fault(host: Host, events: Events) -> None:
    host.attribution.set_jobs({51: "a", 52: "b"})
    host.stub.gpus[1].set_processes(Process(51), Process(52))
    host.tick()
    with events.kmsg.open("a") as log:
        log.write("6,9,1,-;NVRM: Xid (PCI:0000:19:00): 31, pid=52, name=train, Ch 00000008\n")
    host.stub.xid(1, 31)
    events.wait(lambda: len(events.rows) == 1)
    assert (events.rows[0].pid, list(events.rows[0].job_ids)) == (52, ["a", "b"])
    host.stub.gpus[1].set_processes(Process(51))
    host.tick()
    assert [(row.state, row.why) for row in events.tick()] == [("cleared", "its processes have left the GPU")]


def test_a_gpu_falls_off_the_bus_and_comes_back(host: Host, events: Events) -> None:
    host.stub.xid(5, 79)
    host.stub.gpus[5].lost = True
    events.wait(lambda: len(events.rows) == 1)
    for _ in range(5):
        host.tick()
        assert events.tick() == []
    sessions = host.stub.calls("nvmlInitWithFlags")
    host.stub.xid(2, 48)  # NVML gives nothing but the error of a set that has a lost GPU
    events.wait(lambda: bool(host.tick()) and len(events.rows) == 2)
    assert (events.rows[1].gpu, events.rows[1].code) == (2, 48)
    assert host.stub.calls("nvmlInitWithFlags") == sessions  # heard before NVML is begun anew in search of the lost one
    host.stub.gpus[5].lost = False
    host.ticks(120)  # it is searched for each minute, where the event above took long
    assert [(row.gpu, row.code, row.state, row.why) for row in events.tick()] == [
        (5, 79, "cleared", "the GPU was gone and answers again")
    ]
    assert events.rows[2].ts > events.rows[0].ts
    host.stub.xid(5, 13)  # it is listened to again
    events.wait(lambda: len(events.rows) == 4)


def test_a_driver_reload_clears_and_is_listened_to(host: Host, events: Events) -> None:
    host.stub.xid(0, 119)
    events.wait(lambda: len(events.rows) == 1)
    host.stub.reload_driver()
    host.ticks(2)
    assert [(row.code, row.state, row.why) for row in events.tick()] == [(119, "cleared", "the driver was loaded anew")]
    host.stub.xid(3, 74)
    events.wait(lambda: events.told()[2:] == [(3, 74, "raised", "")])


def test_an_xid_in_a_mig_instance_is_its_own(host: Host, events: Events) -> None:
    mig = host.stub.gpus[4].add_mig(0, gpu_instance=3)
    host.stub.gpus[4].set_processes(Process(51, gpu_instance=3, compute_instance=0), Process(52))
    host.attribution.set_jobs({51: "a", 52: "b"})
    host.ticks(12)
    host.stub.xid(4, 13, gpu_instance=3, compute_instance=0)
    events.wait(lambda: len(events.rows) == 1)
    assert (events.rows[0].uuid, list(events.rows[0].job_ids)) == (mig.uuid, ["a"])


def test_events_are_published_while_nvml_hangs(host: Host, events: Events) -> None:
    host.stub.hang("nvmlDeviceGetPowerUsage", 100.0, gpu=0)
    reading = threading.Thread(target=host.tick)
    reading.start()
    host.stub.xid(0, 79)
    events.wait(lambda: len(events.rows) == 1)
    assert reading.is_alive()
    host.stub.mend()
    reading.join()


def test_a_gpu_without_events_is_unsupported_and_only_it(host: Host, tmp_path: Path) -> None:
    host.stub.fail("nvmlDeviceGetSupportedEventTypes", nvml.NVML_ERROR_NOT_SUPPORTED, gpu=1)
    events = Events(host, tmp_path)
    host.tick()
    events.tick()
    assert events.health == [Health(f"{host.stub.gpus[1].uuid}/xids", "unsupported", "NVML_ERROR_NOT_SUPPORTED")]
    host.stub.xid(2, 13)
    events.wait(lambda: len(events.rows) == 1)
    assert set(states(host.tick()).values()) == {"unsupported"}  # and nothing of it troubles the samples


def test_what_stands_is_known_to_the_agent_that_is_started_next(host: Host, events: Events) -> None:
    host.stub.xid(6, 95)
    host.stub.xid(6, 13)
    events.wait(lambda: len(events.rows) == 2)
    events.start()
    assert events.tick() == []
    host.stub.gpus[6].lost = True
    host.tick()
    events.tick()
    host.stub.gpus[6].lost = False
    host.ticks(60)
    assert sorted((row.code, row.state) for row in events.tick()) == [(13, "cleared"), (95, "cleared")]
    events.start()
    assert events.tick() == []


def test_a_restarted_host_has_no_standing_xids(host: Host, events: Events) -> None:
    host.stub.xid(6, 79)
    events.wait(lambda: len(events.rows) == 1)
    events.boot.write_text("another")
    events.start()
    assert [(row.code, row.state, row.why) for row in events.tick()] == [(79, "cleared", "the host was started anew")]
    events.start()
    assert events.tick() == []


def test_a_memory_that_cannot_be_read_or_kept_is_told(host: Host, events: Events) -> None:
    events.memory.write_text("{broken")
    events.start()
    events.tick()
    assert [(health.subject, health.state) for health in events.health] == [("memory", "failed")]
    events.memory.unlink()
    events.memory.mkdir()
    host.stub.xid(6, 79)
    events.wait(lambda: len(events.rows) == 1)
    assert [health.subject for health in events.health] == ["memory"]


def test_a_host_without_gpus_has_no_events_and_says_so(tmp_path: Path) -> None:
    source = GpuEventSource("node1", Shared(), Attribution(), tmp_path, None)
    for _ in range(GRACE_READS):
        assert source.read().raised == []
    with pytest.raises(SourceError, match="no GPU is read on this host") as caught:
        source.read()
    assert caught.value.state == "unsupported"
    source.close()
