"""What `kafka_fleet.py` looks at while a fleet runs: processes, the bus, the store; and what follows from the looks."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import psutil
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from warpmeter import bus
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka
from warpmeter.simulate.run import PUBLISHED
from warpmeter.store import Client

Where = tuple[str, int]
"""A topic without its prefix, and a partition."""
MERGES: Final = "MergeMutate"
"""What the engine calls its threads that merge parts."""
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
LANDED: Final = (
    "SELECT table, partition, max(last) + 1, sum(rows), count() FROM ingest_batches GROUP BY table, partition"
)


@dataclass(frozen=True)
class Usage:
    """So far: CPU seconds of each part, of the engine's merges, of the whole machine; bytes that each had at most."""

    at: float
    cpu_s: Mapping[str, float]
    merges_s: float
    peak_bytes: Mapping[str, int]
    busy_s: float


class Parts:
    """The processes that are measured, by what they are; one that has ended keeps the last that was seen of it."""

    def __init__(self, pids: Mapping[str, Sequence[int]]) -> None:
        self._of = {name: [psutil.Process(pid) for pid in mine] for name, mine in pids.items()}

    def usage(self) -> Usage:
        """Now. Raises psutil.NoSuchProcess for one that has ended."""
        machine = psutil.cpu_times()
        return Usage(
            time.time(),
            {name: sum(map(_cpu_s, mine)) for name, mine in self._of.items()},
            sum(_threads_s(each, MERGES) for each in self._of["engine"]),
            {name: sum(map(_peak_bytes, mine)) for name, mine in self._of.items()},
            machine.user + machine.nice + machine.system + machine.irq + machine.softirq,
        )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _threads_s(process: psutil.Process, name: str) -> float:
    """CPU seconds of the threads of that name."""
    found = 0.0
    for thread in process.threads():
        with suppress(FileNotFoundError):
            if Path(f"/proc/{process.pid}/task/{thread.id}/comm").read_text().strip() == name:
                found += thread.user_time + thread.system_time
    return found


def _peak_bytes(process: psutil.Process) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


@dataclass(frozen=True)
class Look:
    """One instant. `ends` of the partitions; `landed`: up to where each is in the store; `inserts`, `rows` by topic."""

    at: float
    ends: Mapping[Where, int]
    landed: Mapping[Where, int]
    inserts: Mapping[str, int]
    rows: Mapping[str, int]

    @property
    def messages(self) -> int:
        """On the bus so far."""
        return sum(self.ends.values())

    @property
    def lag(self) -> int:
        """Messages on the bus that are not in the store."""
        return sum(max(0, end - self.landed.get(where, 0)) for where, end in self.ends.items())


class Eyes:
    """Looks at bus and store."""

    def __init__(self, kafka: Kafka, client: Client) -> None:
        self._client, self._admin, self._prefix = client, bus.admin(kafka), kafka.topic_prefix
        described = self._admin.list_topics(timeout=30).topics
        self._names = {TOPICS[name].full_name(kafka.topic_prefix): name for name in PUBLISHED}
        self._partitions = [TopicPartition(full, each) for full in self._names for each in described[full].partitions]

    def look(self) -> Look:
        """Now; the store first, so that lag is never less than it is."""
        landed: dict[Where, int] = {}
        inserts, rows = (Counter[str](dict.fromkeys(PUBLISHED, 0)) for _ in range(2))
        for table, partition, upto, count, spans in self._client.query(LANDED).result_rows:
            topic = str(table).replace("_", "-")
            if topic in PUBLISHED:
                landed[topic, int(partition)] = int(upto)
                inserts[topic] += int(spans)
                rows[topic] += int(count)
        return Look(time.time(), self._ends(), landed, inserts, rows)

    def _ends(self) -> dict[Where, int]:
        asked = self._admin.list_offsets(dict.fromkeys(self._partitions, _LATEST), request_timeout=30)
        return {(self._names[at.topic], at.partition): found.result().offset for at, found in asked.items()}

    def parts(self) -> Mapping[str, int]:
        """Active parts by table."""
        found = self._client.query(
            "SELECT table, count() FROM system.parts WHERE active AND database = currentDatabase() GROUP BY table"
        ).result_rows
        return {str(table): int(count) for table, count in found}


def bus_bytes(data: Path, prefix: str) -> Mapping[str, int]:
    """What the log of each topic has on a broker's disk, which is what travelled: batches are stored as they come."""
    return {
        name: sum(file.stat().st_size for file in data.glob(f"{TOPICS[name].full_name(prefix)}-*/*.log"))
        for name in PUBLISHED
    }


def delays(kafka: Kafka, looks: Sequence[Look], since: float, until: float) -> Mapping[str, float]:
    """Seconds from a GPU's sample until its message was on the bus, and until its row was seen in the store.

    Quantiles over all messages with a time from `since` on and before `until`; at most a look's interval too many.
    """
    at = np.array([*(look.at for look in looks), np.inf])
    found: dict[str, list[npt.NDArray[np.float64]]] = {"to the bus": [], "to the row": []}
    for partition, stamps in _stamps(kafka, looks[-1]).items():
        inside = np.flatnonzero((stamps >= since) & (stamps < until))
        where = ("gpu-samples", partition)
        reached = {
            "to the bus": [look.ends.get(where, 0) for look in looks],
            "to the row": [look.landed.get(where, 0) for look in looks],
        }
        for kind, upto in reached.items():
            first = np.searchsorted(np.maximum.accumulate(upto), inside, side="right")
            found[kind].append(at[first] - stamps[inside])
    return {
        f"{kind}, p{round(100 * share)}": float(np.quantile(np.concatenate(each), share))
        for kind, each in found.items()
        for share in (0.5, 0.99)
    }


def _stamps(kafka: Kafka, last: Look) -> Mapping[int, npt.NDArray[np.float64]]:
    """The time of each GPU message, by partition and offset."""
    ends = {number: end for (topic, number), end in last.ends.items() if topic == "gpu-samples" and end}
    found: dict[int, list[float]] = {number: [] for number in ends}
    full, left = TOPICS["gpu-samples"].full_name(kafka.topic_prefix), sum(ends.values())
    consumer = bus.consumer(kafka, "looks")
    try:
        consumer.assign([TopicPartition(full, number, 0) for number in ends])
        while left > 0:
            for message in consumer.consume(10_000, 1.0):
                number, offset = message.partition(), message.offset()
                if number is not None and offset is not None and offset < ends[number]:
                    found[number].append(message.timestamp()[1] / 1000)
                    left -= 1
    finally:
        consumer.close()
    return {number: np.array(stamps) for number, stamps in found.items()}
