"""What each way out costs the agent, beside Kafka's: milliseconds of CPU per second at 1 s, in this process.

A host with 8 GPUs, 16 processes on each, 16 NICs, 8 disks and 16 jobs; every measured field is set. `publish` is what
the sources' threads spend, the rest is what its own thread, the scrape or the export spends. Kafka's is packing alone:
librdkafka's own threads are not in it.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from prometheus_client import CollectorRegistry, generate_latest

from tests.full_rows import full_row
from tests.otlp import Receiver
from warpmeter import wire
from warpmeter.clock import SystemClock
from warpmeter.producers.out.exporter import Exporter
from warpmeter.producers.out.latest import Latest
from warpmeter.producers.out.lines import Lines
from warpmeter.producers.out.page import Collected
from warpmeter.producers.output import json_line
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Agent

Tick = Mapping[str, Sequence[Any]]
SCRAPE_S: Final = 15.0
EXPORT_S: Final = 10.0


def tick() -> Tick:
    """A second of the host; its jobs and processes are read each 10 s, which counts them tenfold here."""
    gpus = [full_row("gpu-samples", gpu=number, uuid=f"GPU-{number}") for number in range(8)]
    devices = [full_row("device-samples", device=f"eth{number}") for number in range(16)]
    disks = [full_row("device-samples", kind="disk", device=f"nvme{number}n1") for number in range(8)]
    pids = [full_row("gpu-processes", uuid=f"GPU-{gpu}", pid=pid) for gpu in range(8) for pid in range(16)]
    jobs = [full_row("job-events", job_id=str(pid), pid=pid) for pid in range(16)]
    rows = {"gpu-samples": gpus, "host-samples": [full_row("host-samples")], "device-samples": devices + disks}
    return {**rows, "gpu-processes": pids, "job-events": jobs}


def cpu_ms(work: Callable[[], object], times: int) -> float:
    """Milliseconds of this process for one `work()`, all threads together, the best of `times`."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        work()
        best = min(best, 1000 * (time.process_time() - began))
    return best


def publish(to: Callable[[str, Sequence[Any]], object], rows: Tick) -> None:
    """One tick."""
    for topic, some in rows.items():
        to(topic, some)


def kafka(rows: Tick, times: int) -> tuple[float, float]:
    """Packing alone."""
    return cpu_ms(lambda: publish(lambda topic, some: wire.pack(TOPICS[topic], "h", some), rows), times), 0.0


def stdout(rows: Tick, times: int) -> tuple[float, float]:
    """JSON lines into /dev/null."""
    null = os.open("/dev/null", os.O_WRONLY)
    written = Event()

    def line(topic: str, row: Any) -> str:
        if topic == "gpu-events":
            written.set()
        return json_line(topic, row)

    out = Lines(line, SystemClock(), null)

    def both() -> None:
        publish(out.publish, rows)
        out.publish("gpu-events", [full_row("gpu-events")])  # the last of the tick
        written.wait()
        written.clear()

    total = cpu_ms(both, times)
    out.close(5)
    os.close(null)
    return 0.0, total


def prometheus(rows: Tick, times: int) -> tuple[float, float]:
    """A scrape every 15 s."""
    latest, registry = Latest(Agent(), SystemClock()), CollectorRegistry()
    taking = cpu_ms(partial(publish, latest.publish, rows), times)
    registry.register(Collected(latest.rows, False))
    return taking, cpu_ms(lambda: generate_latest(registry), times) / SCRAPE_S


def otlp(rows: Tick, times: int) -> tuple[float, float]:
    """An export every 10 s: encoded and gzipped; sending it is measured with the receiver's part, so left out."""
    receiver = Receiver()
    out = Exporter(Agent(otlp_url=receiver.url, otlp_queue_max_bytes=1 << 16), SystemClock())
    exporting = []
    for _ in range(times):
        taking = cpu_ms(partial(publish, out.publish, rows), 1)
        began = time.thread_time()
        out._export()
        exporting.append(1000 * (time.thread_time() - began))
    out.close(1)
    receiver.close()
    return taking, min(exporting) / EXPORT_S


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    times = parser.parse_args().times
    rows = tick()
    fields = sum(len(row.ListFields()) for some in rows.values() for row in some)
    print(f"{fields} fields in {sum(map(len, rows.values()))} rows a tick; ms of CPU per second, best of {times}")
    print(f"{'output':12} {'publish':>8} {'besides':>8}   of a core")
    for name, cost in {"kafka": kafka, "stdout": stdout, "prometheus": prometheus, "otlp": otlp}.items():
        taking, besides = cost(rows, times)
        print(f"{name:12} {taking:8.2f} {besides:8.2f}   {(taking + besides) / 10:.2f} %")


if __name__ == "__main__":
    main()
