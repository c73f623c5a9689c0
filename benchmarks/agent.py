"""CPU and resident memory of the agent at 1 s, beside prometheus-node-exporter scraped at 1 s and a scan of processes.

All on this host with 1,000 more processes, 16 of them jobs, and 16 more NICs; the agent also watches 8 GPUs (the NVML
stand-in through the real binding), 8 RDMA ports and 8 NUMA nodes (made-up files), scrapes an exporter of 2,000 series
every 10 s, and publishes to a real broker. `--plain`: 300 processes, no exporter, no NICs, ports or nodes.

The scan is psutil's over all processes every 2 s, as often as the agent looks at them. Runs take turns; CPU is the
kernel's run time of all threads (`/proc/<pid>/task/*/schedstat`). Printed: the median of the runs, and the interval
that holds the median with 95 % confidence (from ranks, so without a guess at the distribution); then the CPU of the
agent's threads, of which each source has one (`rdk:` are librdkafka's).
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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from benchmarks import crowd
from tests.brokers import Tansu
from tests.brokers.process import free_ports
from tests.nvml import NvmlStub, Process
from warpmeter import launch, topics
from warpmeter.settings import Agent, Kafka, Log, Metrics, Scrape, Settings

JOBS: Final = 16
WARM_UP_S: Final = 12.0
"""Over a period of the exporter: its first page goes through the parser, which is dear, and later ones do not."""
MIB: Final = 1 << 20


@dataclass(frozen=True)
class Used:
    """One run. `cpu`: milliseconds of CPU per second; `threads`: the same by the name of the thread."""

    cpu: float
    resident_mib: float
    threads: Mapping[str, float] = field(default_factory=dict)


def cpu_ns(pid: int) -> Counter[str]:
    """Run time of the threads of a process so far, by name."""
    found: Counter[str] = Counter()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that just ended
            found[(task / "comm").read_text().strip()] += int((task / "schedstat").read_text().split()[0])
    return found


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
    used, took = cpu_ns(pid), time.monotonic() - began
    used.subtract(before)
    threads = {name: ns / 1e6 / took for name, ns in used.items()}
    return Used(sum(threads.values()), resident_mib(pid), threads)


def agent_run(settings: Settings, environment: dict[str, str], seconds: float) -> Used:
    """One run of the agent."""
    os.environ.update(environment)
    agent = launch.spawn("warpmeter.producers", settings)
    try:
        time.sleep(WARM_UP_S)
        used = measured(agent.pid, seconds)
        check_published(settings.metrics.agent_port, seconds, bool(settings.agent.scrape))
        return used
    finally:
        agent.terminate()
        agent.wait(10)


def check_published(port: int, seconds: float, scraping: bool) -> None:
    """An agent that measured nothing would be cheap: the broker must have a message of each a second, and a page."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    counts = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    wanted = dict.fromkeys(("host-samples", "device-samples", "gpu-samples"), seconds)
    for topic, least in (wanted | {"metric-samples": 1 if scraping else 0}).items():
        count = float(counts.get(f'warpmeter_shipper_messages_total{{topic="{topic}"}}', 0))
        if count < least:
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


def scan_run(seconds: float) -> Used:
    """One run of the scan of processes."""
    with crowd.scanner() as pid:
        time.sleep(WARM_UP_S)
        return measured(pid, seconds)


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


def by_thread(runs: Sequence[Used]) -> str:
    """A line for each thread's name, dearest first."""
    names = {name for run in runs for name in run.threads}
    medians = {name: statistics.median(run.threads.get(name, 0.0) for run in runs) for name in names}
    ordered = sorted(medians.items(), key=lambda item: -item[1])
    return "\n".join(f"  {name:24} {ms:6.2f}" for name, ms in ordered)


def agent_of(asked: argparse.Namespace, folder: Path, stack: ExitStack) -> Agent:
    """Its settings, and around it all that they name."""
    plain = Agent(host="bench", spool_dir=folder / "spool")
    if asked.plain:
        return plain
    nics = stack.enter_context(crowd.nics(asked.nics))
    if nics != asked.nics:
        raise SystemExit(
            f"{asked.nics} NICs wanted, {nics} could be made with `ip link`: run as root, or with --nics 0"
        )
    url = stack.enter_context(crowd.exporter(asked.series))
    scrape = (Scrape(name="bench", url=url, period_s=10.0),)
    return replace(plain, root=crowd.root(folder / "root", ports=8, nodes=8), scrape=scrape)


def options() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--processes", type=int, default=0, help="1000, or 300 with --plain")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--nics", type=int, default=16)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--plain", action="store_true", help="fewer processes and sources")
    asked = parser.parse_args()
    asked.processes = asked.processes or (300 if asked.plain else 1000)
    return asked


def main() -> int:
    """Run and print one table."""
    asked = options()
    exporter = shutil.which("prometheus-node-exporter")
    agents: list[Used] = []
    exporters: list[Used] = []
    scans: list[Used] = []
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
        agent = agent_of(asked, folder, stack)
        settings = Settings(
            kafka=kafka, agent=agent, log=Log(level="error"), metrics=Metrics(agent_port=free_ports(1)[0])
        )
        for run in range(asked.runs):
            agents.append(agent_run(settings, stub.environment(), asked.seconds))
            if exporter is not None:
                exporters.append(exporter_run(exporter, asked.seconds))
            scans.append(scan_run(asked.seconds))
            print(f"run {run + 1} of {asked.runs}", file=sys.stderr)
    print(
        f"{asked.gpus} GPUs, {asked.processes} more processes, {asked.runs} runs of {asked.seconds:g} s, median (95 %)"
    )
    print(f"{'':26} CPU ms per s (95 %)         resident MiB (95 %)")
    print(line("warpmeter agent", agents))
    print(line("prometheus-node-exporter", exporters) if exporters else "prometheus-node-exporter: not installed")
    print(line("scan of processes, psutil", scans))
    print("\nthreads of the agent, CPU ms per s")
    print(by_thread(agents))
    return 0


if __name__ == "__main__":
    sys.exit(main())
