"""All that befalls eight GPUs, played by the NVML stand-in to a real agent, and told by SQL.

Agent, broker, ingest and engine are real processes. GPU 0 has two jobs, one process is on GPUs 1 to 3, GPU 4 is
throttled and its memory fails more and more, GPU 5 falls off the bus and comes back, GPUs 6 and 7 are cut by MIG, a
job in a MIG instance faults and is killed, and in the end the driver is loaded anew.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Tansu
from tests.brokers.process import tail
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import IngestProcess, make_topics, settings_for
from tests.nvml import NvmlStub, Process, ramp
from tests.python import PYTHON
from tests.real import agents
from tests.real.up import warpmeter
from tests.wait import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
MIB = 1 << 20
HOST = "gpu01"
PERIOD_S = 0.25
WAIT = "import time; time.sleep(600)"


@contextmanager
def jobs(count: int) -> Iterator[Sequence[int]]:
    """Pids of Python processes that do nothing, each from a shell of its own, so each a job."""
    shells = [
        subprocess.Popen(["bash", "-c", f"{PYTHON} -c '{WAIT}' --job {i}; true"], process_group=0) for i in range(count)
    ]
    try:
        yield [_child(shell.pid) for shell in shells]
    finally:
        for shell in shells:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()


def _child(pid: int) -> int:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    until(lambda: file.read_text().split(), "the child of a shell")
    return int(file.read_text().split()[0])


class Story:
    """The stub on one end, SQL on the other."""

    def __init__(self, stub: NvmlStub, engine: EngineServer, pids: Sequence[int], logs: Sequence[Path]) -> None:
        self.stub, self.pids, self._engine, self._logs = stub, pids, engine, logs
        self.job: dict[int, str] = {}

    def ask(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        with closing(self._engine.client()) as client:
            return [tuple(row) for row in client.query(sql, parameters).result_rows]

    def wait(self, sql: str, expected: object, **parameters: Any) -> None:
        """Until a query gives these rows."""
        found: list[object] = []

        def holds() -> bool:
            found[:] = [self.ask(sql, **parameters)]
            return found[0] == expected

        try:
            until(holds, sql, within_s=90, every_s=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}: {found}; {[tail(log) for log in self._logs]}") from error

    # ---- what is played ----

    def begin(self) -> None:
        """Eight busy GPUs, two of them cut, and the jobs on them."""
        first, second, wide, inside = self.pids
        gpus = self.stub.gpus
        gpus[0].set_processes(Process(first, 100 * MIB, sm_util=60), Process(second, 700 * MIB, sm_util=20))
        for gpu in gpus[1:4]:
            gpu.set_processes(Process(wide, 2000 * MIB, sm_util=90))
        gpus[4].set(event_reasons=0x4 | 0x40, ecc_corrected_volatile=ramp(10, 2), ecc_corrected_dram=ramp(5, 1))
        gpus[4].set_processes()
        gpus[5].set_processes()
        for index, instances in ((6, 2), (7, 1)):
            for slot in range(instances):
                gpus[index].add_mig(slot, gpu_instance=slot + 1).set_memory(9856 * MIB, (slot + 1) * 100 * MIB)
            gpus[index].set_processes()
        gpus[6].set_processes(Process(inside, 90 * MIB, gpu_instance=1, compute_instance=0))

    def off_the_bus(self) -> None:
        """GPU 5."""
        self.stub.xid(5, 79)
        self.stub.gpus[5].lost = True

    def back(self) -> None:
        """It is found again."""
        self.stub.gpus[5].lost = False

    def fault(self) -> None:
        """The job in the MIG instance reads beyond its memory."""
        self.stub.xid(6, 31, gpu_instance=1, compute_instance=0)

    def kill(self) -> None:
        """It ends, and leaves the GPU."""
        os.kill(self.pids[3], signal.SIGKILL)
        self.stub.gpus[6].set_processes()

    def counters(self, *arguments: str) -> None:
        """`warpmeter counters`, for this agent."""
        environment = {**os.environ, "WARPMETER_AGENT__SPOOL_DIR": str(self._logs[0].with_name("spool"))}
        subprocess.run(warpmeter("counters", *arguments), env=environment, check=True, timeout=60)

    def reload(self) -> None:
        """A new driver."""
        self.stub.reload_driver("590.10.01")


@pytest.fixture
def story(tansu: Tansu, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    """The whole way, running."""
    logs = (tmp_path / "agent.log", tmp_path / "ingest.log")
    with (
        closing(with_tables(tmp_path / "data")) as server,
        NvmlStub(tmp_path) as stub,
        jobs(4) as pids,
    ):
        settings = settings_for(tansu, server, topic_prefix, tmp_path)
        make_topics(settings)
        told = Story(stub, server, pids, logs)
        told.begin()
        for name, value in stub.environment().items():
            monkeypatch.setenv(name, value)
        agent = agents.settings(tmp_path, settings.kafka, gpu=True, host=HOST, interval_s=PERIOD_S)
        with closing(IngestProcess(settings, logs[1])), agents.running(agent, log=logs[0]):
            yield told


def test_sql_tells_what_befell_the_gpus(story: Story) -> None:
    _busy(story)
    _jobs_are_on_their_gpus(story)
    _throttled(story)
    _off_the_bus_and_back(story)
    _fault_of_an_application(story)
    _lent_to_a_profiler(story)
    _driver_reload(story)
    _shares_sum_to_the_gpu(story)
    _memory_fails_more_and_more(story)


def _busy(story: Story) -> None:
    story.wait("SELECT countIf(gpu_instance IS NULL), countIf(gpu_instance IS NOT NULL) FROM "
               "(SELECT DISTINCT gpu, uuid, gpu_instance FROM gpu_samples)", [(8, 3)])  # fmt: skip
    story.wait(
        "SELECT groupArray(gpu) FROM (SELECT gpu FROM gpus WHERE gpu_util >= 0.9 ORDER BY gpu)", [([*range(8)],)]
    )
    story.wait("SELECT column, groupUniqArray(source), uniq(uuid) FROM gpu_sources "
               "WHERE column IN ('sm_active_permille', 'power_deciwatts') AND uuid LIKE 'GPU-%' "
               "GROUP BY column ORDER BY column",
               [("power_deciwatts", ["nvml"], 8), ("sm_active_permille", ["gpm"], 8)])  # fmt: skip
    assert story.ask("SELECT DISTINCT driver_version FROM gpu_sources") == [("580.95.05",)]
    for gpu, links in story.ask(
        "SELECT gpu, max(nvlink_links_up) FROM gpu_samples WHERE uuid LIKE 'GPU-%' GROUP BY gpu"
    ):
        assert links == 18 - gpu


def _jobs_are_on_their_gpus(story: Story) -> None:
    by_pid = "SELECT pids[1], job_id FROM jobs WHERE has({pids:Array(UInt32)}, pids[1])"
    until(lambda: len(story.ask(by_pid, pids=list(story.pids))) == 4, "four jobs", within_s=90, every_s=0.3)
    story.job = dict(story.ask(by_pid, pids=list(story.pids)))
    first, second, wide, inside = (story.job[pid] for pid in story.pids)
    shares = (
        "SELECT DISTINCT arraySort(arrayZip(arrayMap(j -> toString(j), job_ids), job_share)) FROM gpu_samples "
        "WHERE gpu = 0 AND length(job_ids) = 2"
    )
    story.wait(shares, [(sorted([(first, 0.75), (second, 0.25)]),)])
    story.wait("SELECT gpus, gpu_memory_bytes FROM jobs WHERE job_id = {job:String}", [(3, 6000 * MIB)], job=wide)
    story.wait("SELECT DISTINCT gpu, job_id, mem_bytes, sm_util FROM gpu_processes WHERE pid = {pid:UInt32} "
               "AND job_id != '' ORDER BY gpu", [(gpu, wide, 2000 * MIB, 0.9) for gpu in (1, 2, 3)],
               pid=story.pids[2])  # fmt: skip
    story.wait(
        "SELECT gpu, startsWith(uuid, 'MIG-') FROM gpus WHERE has(job_ids, {job:String})", [(6, True)], job=inside
    )


def _throttled(story: Story) -> None:
    story.wait(
        "SELECT gpu, throttled_by FROM gpus WHERE hasAny(throttled_by, ['hw_thermal_slowdown'])",
        [(4, ["sw_power_cap", "hw_thermal_slowdown"])],
    )


XIDS = "SELECT gpu, code, cleared_at IS NOT NULL, why FROM gpu_xids ORDER BY raised_at"


def _off_the_bus_and_back(story: Story) -> None:
    story.off_the_bus()
    story.wait("SELECT gpu, state FROM gpus WHERE state != 'ok'", [(5, "gone")])
    story.wait(XIDS, [(5, 79, False, "")])
    story.wait("SELECT host, gpus_ok, gpus_gone FROM hosts", [(HOST, 10, 1)])
    story.back()
    story.wait(XIDS, [(5, 79, True, "the GPU was gone and answers again")])
    story.wait("SELECT count() FROM gpus WHERE state = 'ok'", [(11,)])
    told = "SELECT what, cleared_at > raised_at FROM gpu_xids WHERE code = 79"
    assert story.ask(told) == [("GPU has fallen off the bus", True)]
    silence = (
        "SELECT max(toFloat64(ts) - toFloat64(before)) FROM (SELECT ts, lagInFrame(ts, 1, ts) OVER (ORDER BY ts "
        "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before FROM gpu_samples WHERE gpu = 5)"
    )
    assert story.ask(silence)[0][0] > 0.9  # nothing stale was published while it was away


def _fault_of_an_application(story: Story) -> None:
    inside = story.job[story.pids[3]]
    story.fault()
    story.wait(f"SELECT * FROM ({XIDS}) WHERE gpu = 6", [(6, 31, False, "")])
    assert story.ask("SELECT job_ids, startsWith(uuid, 'MIG-') FROM gpu_xids WHERE gpu = 6") == [([inside], True)]
    story.kill()
    story.wait(f"SELECT * FROM ({XIDS}) WHERE gpu = 6", [(6, 31, True, "its processes have left the GPU")])
    story.wait("SELECT state FROM jobs WHERE job_id = {job:String}", [("ended",)], job=inside)


PAUSED = "SELECT state FROM source_health_now WHERE source = 'gpu' AND subject = 'performance counters'"
MEASURED = "SELECT countIf(isNotNull(sm_active)), countIf(isNotNull(gpu_util)) FROM gpus WHERE uuid LIKE 'GPU-%'"


def _lent_to_a_profiler(story: Story) -> None:
    story.counters("pause", "--for", "5m")
    story.wait(PAUSED, [("paused",)])
    story.wait(MEASURED, [(0, 8)])
    assert story.ask("SELECT arrayFilter(each -> each LIKE 'gpu %', problems) FROM hosts") == [
        ([],)
    ]  # it is no failure
    story.counters("resume")
    story.wait(PAUSED, [("ok",)])
    story.wait(MEASURED, [(8, 8)])


def _driver_reload(story: Story) -> None:
    story.stub.xid(2, 119)
    story.wait(f"SELECT * FROM ({XIDS}) WHERE gpu = 2", [(2, 119, False, "")])
    story.reload()
    story.wait(f"SELECT * FROM ({XIDS}) WHERE gpu = 2", [(2, 119, True, "the driver was loaded anew")])
    story.wait("SELECT DISTINCT driver_version FROM gpu_sources", [("590.10.01",)])
    story.wait("SELECT count() FROM gpus WHERE state = 'ok'", [(11,)])


def _shares_sum_to_the_gpu(story: Story) -> None:
    """An insert's rows are seen a moment before what is made of them, so it may take another look."""
    until(lambda: _sums(story), "the shares to sum to the GPU", every_s=0.3)


def _sums(story: Story) -> bool:
    first, second, wide, inside = (story.job[pid] for pid in story.pids)
    used = {
        job: float(seconds)
        for job, seconds in story.ask("SELECT job_id, sum(gpu_seconds) FROM job_windows_1m GROUP BY job_id")
    }
    covered = {
        (gpu, mig): float(seconds)
        for gpu, mig, seconds in story.ask(
            "SELECT gpu, gpu_instance IS NOT NULL AS mig, sum(period_ms) / 1000 FROM gpu_samples "
            "WHERE notEmpty(job_ids) GROUP BY gpu, mig"
        )
    }
    now = {
        job: float(seconds)
        for job, seconds in story.ask("SELECT job_id, sum(gpu_seconds) FROM job_windows_1m GROUP BY job_id")
    }
    slack = sum(now.values()) - sum(used.values()) + 0.01  # what landed between the queries
    assert (6, False) not in covered  # what is in a MIG instance is not counted on its GPU too
    pairs = (
        (used[first] + used[second], covered[0, False]),
        (used[wide], sum(covered[gpu, False] for gpu in (1, 2, 3))),
        (used[inside], covered[6, True]),
    )
    return all(of_jobs == pytest.approx(of_gpus, abs=slack) for of_jobs, of_gpus in pairs)


GROWN = """
SELECT gpu, groupArray(errors) = arraySort(groupArray(errors))
FROM (SELECT gpu, COLUMN AS errors FROM gpu_samples WHERE isNotNull(errors) ORDER BY gpu, ts)
GROUP BY gpu HAVING max(errors) > min(errors)
"""


def _memory_fails_more_and_more(story: Story) -> None:
    for column in ("ecc_corrected_errors", "ecc_corrected_dram_errors"):
        story.wait(GROWN.replace("COLUMN", column), [(4, True)])
