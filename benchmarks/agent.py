"""CPU and resident memory of the agent at 1 s, beside prometheus-node-exporter scraped at 1 s.

Both on this host with 300 more processes, 16 of them jobs; the agent also watches 8 GPUs (the NVML stand-in through
the real binding) and publishes to a real broker, which node-exporter does neither. Runs of the two take turns; CPU is
the kernel's run time of all threads (`/proc/<pid>/task/*/schedstat`). Printed: the median of the runs, and the
interval that holds the median with 95 % confidence (from ranks, so without a guess at the distribution).
"""

import argparse
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from tests.brokers import Tansu
from tests.brokers.process import free_ports
from tests.nvml import NvmlStub, Process
from warpmeter import launch, topics
from warpmeter.settings import Agent, Kafka, Log, Metrics, Settings

JOBS: Final = 16
WARM_UP_S: Final = 4.0
MIB: Final = 1 << 20


@dataclass(frozen=True)
class Used:
    """One run. `cpu`: milliseconds of CPU per second."""

    cpu: float
    resident_mib: float


def cpu_ns(pid: int) -> int:
    """Run time of all threads of a process so far."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def resident_mib(pid: int) -> float:
    """Resident memory now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


@contextmanager
def processes(count: int, folder: Path) -> Iterator[list[int]]:
    """`count` processes that sleep; the pids of those JOBS of them that look like `python3` started from a shell."""
    python = folder / "python3"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", python)
    script = f"""
        echo $$
        for i in $(seq {count - JOBS}); do sleep 100000 & done
        for i in $(seq {JOBS}); do {python} 100000 & echo $!; done
        echo end; wait"""
    # Not below this script, which is Python from a shell and so a job itself: they would all be part of it.
    apart = subprocess.Popen(["setsid", "--fork", "bash", "-c", script], stdout=subprocess.PIPE, text=True)
    assert apart.stdout is not None
    shell, *pids = [int(line) for line in iter(apart.stdout.readline, "end\n")]
    apart.wait()
    try:
        yield pids
    finally:
        os.killpg(shell, signal.SIGKILL)


def measured(pid: int, seconds: float, each_second: str = "") -> Used:
    """Watch a process for a while; `each_second`: a URL to fetch meanwhile."""
    deadline, before = time.monotonic(), cpu_ns(pid)
    began = deadline
    for _ in range(round(seconds)):
        if each_second:
            urllib.request.urlopen(each_second, timeout=5).read()
        deadline += 1
        time.sleep(max(0.0, deadline - time.monotonic()))
    return Used((cpu_ns(pid) - before) / 1e6 / (time.monotonic() - began), resident_mib(pid))


def agent_run(settings: Settings, environment: dict[str, str], seconds: float) -> Used:
    """One run of the agent."""
    os.environ.update(environment)
    agent = launch.spawn("warpmeter.producers", settings)
    try:
        time.sleep(WARM_UP_S)
        used = measured(agent.pid, seconds)
        check_published(settings.metrics.agent_port, seconds)
        return used
    finally:
        agent.terminate()
        agent.wait(10)


def check_published(port: int, seconds: float) -> None:
    """An agent that measured nothing would be cheap: the broker must have a message of each source for each second."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    counts = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    for topic in ("host-samples", "device-samples", "gpu-samples"):
        count = float(counts.get(f'warpmeter_shipper_messages_total{{topic="{topic}"}}', 0))
        if count < seconds:
            raise SystemExit(f"only {count:g} messages of {topic} reached the broker in over {seconds:g} s")


def exporter_run(binary: str, seconds: float) -> Used:
    """One run of node-exporter with its default collectors."""
    port = free_ports(1)[0]
    line = [binary, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    exporter = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    try:
        time.sleep(WARM_UP_S)
        return measured(exporter.pid, seconds, f"http://127.0.0.1:{port}/metrics")
    finally:
        exporter.terminate()
        exporter.wait(10)


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The ranks around the median that hold the true one with at least this confidence; all, when they are few."""
    ordered, n = sorted(values), len(values)
    below = 0.0
    for rank in range(n // 2):
        below += math.comb(n, rank) / 2**n
        if 2 * below > 1 - confidence:
            return ordered[max(0, rank - 1)], ordered[min(n - 1, n - rank)]
    return ordered[0], ordered[-1]


def line(name: str, runs: Sequence[Used]) -> str:
    """One row of the table."""
    cpu, memory = [run.cpu for run in runs], [run.resident_mib for run in runs]
    low, high = interval(cpu)
    first, last = interval(memory)
    return (
        f"{name:26} {statistics.median(cpu):6.2f} ({low:.2f} to {high:.2f}) "
        f"{statistics.median(memory):8.1f} ({first:.1f} to {last:.1f})"
    )


def main() -> int:
    """Run and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--processes", type=int, default=300)
    parser.add_argument("--gpus", type=int, default=8)
    asked = parser.parse_args()
    exporter = shutil.which("prometheus-node-exporter")
    agents: list[Used] = []
    exporters: list[Used] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = Tansu(folder / "tansu")
        stack.callback(broker.close)
        pids = stack.enter_context(processes(asked.processes, folder))
        stub = stack.enter_context(NvmlStub(folder, gpus=asked.gpus))
        for i, gpu in enumerate(stub.gpus):
            gpu.set_processes(*(Process(pid, 1024 * MIB) for pid in pids[i :: asked.gpus]))
        kafka = Kafka(bootstrap_servers=broker.bootstrap_servers)
        topics.ensure(kafka)
        agent = Agent(host="bench", spool_dir=folder / "spool")
        settings = Settings(
            kafka=kafka, agent=agent, log=Log(level="error"), metrics=Metrics(agent_port=free_ports(1)[0])
        )
        for run in range(asked.runs):
            agents.append(agent_run(settings, stub.environment(), asked.seconds))
            if exporter is not None:
                exporters.append(exporter_run(exporter, asked.seconds))
            print(f"run {run + 1} of {asked.runs}", file=sys.stderr)
    print(
        f"{asked.gpus} GPUs, {asked.processes} more processes, {asked.runs} runs of {asked.seconds:g} s, median (95 %)"
    )
    print(f"{'':26} CPU ms per s (95 %)         resident MiB (95 %)")
    print(line("warpmeter agent", agents))
    print(line("prometheus-node-exporter", exporters) if exporters else "prometheus-node-exporter: not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
