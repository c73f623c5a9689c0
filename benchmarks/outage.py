"""What an outage of the broker costs: what agents keep of it, and how fast agents and ingest are level again.

Two parts, each on a broker of its own (Apache Kafka where Java and Maven are there, else the embedded one):

- one agent: the real process with all sources, 8 GPUs (the NVML stand-in through the real binding) and 16 jobs
  publishes for a while, then its broker is cut off and comes back. Shown: what its spool takes a second, so how long
  the default size lasts, and that nothing was dropped. Then a spool with the messages of a whole outage (its own, over
  and over) is sent by the same process; shown: messages a second, by messages a second that it publishes otherwise.
- the fleet: the simulator sends the outage's backlog of 1,000 hosts as recovering agents would (all hosts at once, each
  in its order) and then goes on live. One ingest process with default settings is started on that backlog and lands it,
  with all rollups, into the real engine over HTTP, beside the live load and on the same cores as simulator and broker.
  Shown: rows a second landed, from the moment that it has its partitions until it is level, by those of the live load;
  how old the newest landed sample of the partition farthest behind is, meanwhile and then; rows sent and rows landed in
  the end, which must be equal.

By default about six minutes on two quiet cores; `--hosts 50 --outage 60 --live 5 --away 15` is a quick look.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import mean
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from confluent_kafka import TopicPartition

from benchmarks.agent import processes
from tests.brokers import Broker, KafkaCluster, KafkaMissingError, Tansu
from tests.brokers.process import free_ports
from tests.engine import TOKEN, WRITER, EngineServer
from tests.ingest_process import IngestProcess, make_topics
from tests.nvml import NvmlStub, Process
from tests.real import agents
from tests.real.agents import Reader
from warpmeter import bus, launch, log, migrate, store, wire
from warpmeter.clock import SystemClock
from warpmeter.producers.spool import Bounds, Spool
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Agent, Ingest, Kafka, Log, Metrics, Settings, Store
from warpmeter.simulate.fleet import Fleet
from warpmeter.simulate.simulation import Simulation
from warpmeter.store import Client

WANTED: Final = 5.0
"""Times the live rate, at least."""
LEVEL_S: Final = 15.0
"""Ingest is level when the newest landed sample of every partition is younger; its batches are up to 5 s old."""
SETTLED_S: Final = 20.0
DROPPED: Final = "warpmeter_spool_dropped_messages_total"


@dataclass(frozen=True)
class Asked:
    """The command line. Times in seconds."""

    hosts: int
    outage: float
    live: float
    away: float
    limit: float
    partitions: int
    embedded: bool


@dataclass(frozen=True)
class AgentFound:
    """One agent. `spooled_bytes_per_s`: on disk, while its broker is away; `catch_up`: messages a second."""

    live_per_s: float
    spooled_bytes_per_s: float
    dropped: float
    backlog: int
    catch_up_per_s: float

    @property
    def ratio(self) -> float:
        """Of the catch-up to the live rate."""
        return self.catch_up_per_s / self.live_per_s

    @property
    def default_hours(self) -> float:
        """How long an outage the default spool holds, by bytes; its age bound is another."""
        return Agent().spool_max_bytes / self.spooled_bytes_per_s / 3600

    def share(self, outage_s: float) -> float:
        """Of the default spool's bytes that an outage of so many seconds takes."""
        return self.spooled_bytes_per_s * outage_s / Agent().spool_max_bytes


@dataclass(frozen=True)
class FleetFound:
    """The fleet and one ingest process. Rows a second; ages in seconds, at the start, half-way, when level, after."""

    live_per_s: float
    backlog_rows: float
    backlog_s: float
    level: bool
    took_s: float
    catch_up_per_s: float
    ages_s: Sequence[float]
    settled_s: float
    sent: int
    landed: int

    @property
    def ratio(self) -> float:
        """Of the catch-up to the live rate."""
        return self.catch_up_per_s / self.live_per_s


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def until(condition: Callable[[], object], limit_s: float, every_s: float = 0.05) -> bool:
    """Wait; False when it did not come true in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def expect(condition: Callable[[], object], what: str, limit_s: float = 90.0) -> None:
    """Wait for what must happen; SystemExit when it does not."""
    if not until(condition, limit_s):
        raise SystemExit(f"waited {limit_s:g} s for {what}")


def broker_for(asked: Asked, folder: Path) -> Broker:
    """Apache Kafka, one node, or the embedded broker."""
    if not asked.embedded:
        try:
            return KafkaCluster(folder)
        except KafkaMissingError as missing:
            say(f"{missing}; the embedded broker instead")
    return Tansu(folder)


@contextmanager
def cut_off(broker: Broker) -> Iterator[None]:
    """Kafka is killed and started again; the embedded broker, whose log would be gone, is frozen."""
    if isinstance(broker, KafkaCluster):
        broker.kill(0)
        yield
        broker.start(0)
    else:
        assert isinstance(broker, Tansu)
        with agents.frozen(broker):
            yield


# ---- one agent ----


@contextmanager
def agent(settings: Settings) -> Iterator[None]:
    """The agent's process."""
    process = launch.spawn("warpmeter.producers", settings)
    try:
        yield
    finally:
        process.terminate()
        process.wait(15)


def equip(stack: ExitStack, folder: Path) -> None:
    """Give this host 8 GPUs and 300 more processes, 16 of them jobs on those GPUs."""
    pids = stack.enter_context(processes(300, folder))
    stub = stack.enter_context(NvmlStub(folder, gpus=8))
    for i, gpu in enumerate(stub.gpus):
        gpu.set_processes(*(Process(pid, 1 << 30) for pid in pids[i::8]))
    os.environ.update(stub.environment())


def total(port: int, name: str) -> float:
    """A metric of the agent, over all its labels."""
    lines = (line for line in agents.metrics_page(port).splitlines() if line.startswith(name))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def rate(read: Callable[[], float], seconds: float) -> float:
    """By how much a number grows in a second."""
    began, before = time.monotonic(), read()
    time.sleep(seconds)
    return (read() - before) / (time.monotonic() - began)


def refill(settings: Settings, count: int) -> None:
    """Put `count` messages into the agent's spool: those that it has published, over and over."""
    with closing(Reader(settings.kafka)) as reader:
        before = -1
        while len(reader.messages) > before or not reader.messages:
            before = len(reader.messages)
            reader.poll()
        found = [wire.pack(TOPICS[each.topic], each.key.decode(), each.rows) for each in reader.messages]
    spool = Spool(
        settings.agent.spool_dir, Bounds(settings.agent.spool_max_bytes, settings.agent.spool_max_age_s), SystemClock()
    )
    for envelope in islice(cycle(found), count):
        spool.append(envelope)
    spool.close()


def recovered(settings: Settings, backlog: int) -> float:
    """Messages a second at which the agent sends a backlog, from the start of its process to the acknowledgement."""
    port = settings.metrics.agent_port
    began = time.monotonic()
    with agent(settings):
        expect(lambda: total(port, "warpmeter_shipper_messages_total") >= backlog, "the backlog to be sent")
        return backlog / (time.monotonic() - began)


def measure_agent(asked: Asked, broker: Broker, folder: Path) -> AgentFound:
    """The first part."""
    port = free_ports(1)[0]
    kafka = agents.with_topics(broker.bootstrap_servers, "agent")
    settings = Settings(
        kafka=kafka,
        agent=Agent(host="bench", spool_dir=folder / "spool"),
        log=Log(level="error"),
        metrics=Metrics(agent_port=port),
    )
    sent = partial(total, port, "warpmeter_shipper_messages_total")
    with agent(settings):
        expect(lambda: sent() > 20, "the agent to publish")
        live = rate(sent, asked.live)
        say(f"agent: {live:.2f} messages/s live; now its broker is away")
        with cut_off(broker):
            expect(lambda: agents.metric(port, "warpmeter_spool_bytes") > 0, "the spool to be used")
            spooled = rate(partial(agents.metric, port, "warpmeter_spool_bytes"), asked.away)
        expect(lambda: agents.metric(port, "warpmeter_spool_bytes") == 0, "the spool to be sent")
        dropped = total(port, f"{DROPPED}{{")
    backlog = round(live * asked.outage)
    refill(settings, backlog)
    say(f"agent: {spooled:,.0f} bytes/s spooled; now {backlog} messages wait")
    return AgentFound(live, spooled, dropped, backlog, recovered(settings, backlog))


# ---- the fleet ----


def live_rate(fleet: Fleet) -> float:
    """Rows a second of the fleet, over all topics."""
    ticks = islice(Simulation(fleet, float(int(time.time()))), 1, 21)  # the first tells more than usual
    return mean(tick.rows for tick in ticks) / fleet.interval_s


class Simulated:
    """The simulator's process: `outage_s` of history at full speed, then live."""

    def __init__(self, settings: Settings, hosts: int, outage_s: float, folder: Path) -> None:
        self._last, self._log = folder / "last", folder / "simulate.log"
        arguments = ["--hosts", str(hosts), "--backfill", f"{outage_s:g}s", "--resume", str(self._last)]
        with self._log.open("wb") as file:
            self._process = launch.spawn("warpmeter.simulate", settings, arguments, file)

    def behind_s(self) -> float:
        """How old the last tick is that was sent."""
        text = self._last.read_text() if self._last.exists() else ""
        return time.time() - float(text or 0)

    def stop(self) -> int:
        """End it; how many rows it sent, all acknowledged."""
        self._process.terminate()
        if self._process.wait(30) != 0:
            raise SystemExit(f"the simulator lost messages: {self._log.read_text()[-500:]}")
        last = re.findall(r"([\d,]+) rows \(", self._log.read_text())[-1]
        return int(last.replace(",", ""))

    def close(self) -> None:
        """For `closing`."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Landed:
    """What is in the store."""

    def __init__(self, client: Client, partitions: int) -> None:
        self._client, self._partitions = client, partitions

    def rows(self) -> int:
        """Of all topics."""
        return int(self._client.query("SELECT sum(rows) FROM ingest_batches").result_rows[0][0])

    def age_s(self) -> float:
        """Of the newest GPU sample in the partition that is farthest behind."""
        newest = self._client.query(
            "SELECT max(max_ts) FROM ingest_batches WHERE table = 'gpu_samples' GROUP BY partition"
        ).result_rows
        if len(newest) < self._partitions:
            return float("inf")
        return time.time() - float(min(ts.timestamp() for (ts,) in newest))


def fleet_settings(broker: Broker, engine: EngineServer, folder: Path, partitions: int) -> Settings:
    """Defaults, but for addresses, partitions, and the ledger that the embedded broker needs."""
    return Settings(
        kafka=Kafka(bootstrap_servers=broker.bootstrap_servers, topic_prefix="fleet", partitions=partitions),
        store=replace(Store(), dsn=f"http://{WRITER}:{TOKEN}@127.0.0.1:{engine.port}"),
        log=Log(level="info", format="json"),
        metrics=Metrics(ingest_port=0),
        ingest=Ingest(ledger_dir=None if broker.keeps_commit_metadata else folder / "ledger"),
    )


def held(settings: Settings) -> list[int]:
    """Messages in each partition of the GPU topic that has any; with few hosts some have none."""
    name = TOPICS["gpu-samples"].full_name(settings.kafka.topic_prefix)
    with closing(bus.consumer(settings.kafka, "none")) as consumer:
        partitions = [TopicPartition(name, each) for each in consumer.list_topics(name, 10).topics[name].partitions]
        ends = [consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions]
    return [end for end in ends if end > 0]


def caught_up(asked: Asked, landed: Landed) -> tuple[bool, float, float, list[float]]:
    """Whether ingest got level, seconds until it was, rows a second in them, and ages on the way."""
    began = time.monotonic()
    ages: list[float] = []

    def level() -> bool:
        ages.append(landed.age_s())
        return ages[-1] < LEVEL_S

    ended = until(level, asked.limit, 0.5)
    took = time.monotonic() - began
    known = [age for age in ages if age != float("inf")]
    return ended, took, landed.rows() / took, known


def measure_fleet(asked: Asked, broker: Broker, folder: Path) -> FleetFound:
    """The second part."""
    live = live_rate(Fleet(hosts=asked.hosts))
    with ExitStack() as stack:
        engine = stack.enter_context(closing(EngineServer(folder / "engine")))
        settings = fleet_settings(broker, engine, folder, asked.partitions)
        with store.connect(settings.store, database="default") as admin:
            migrate.apply(admin, settings.store)
        make_topics(settings)
        began = time.time() - asked.outage
        simulated = stack.enter_context(closing(Simulated(settings, asked.hosts, asked.outage, folder)))
        say(f"fleet: {live:,.0f} rows/s live; the backlog is made")
        expect(lambda: simulated.behind_s() < 3, "the simulator to be level with the clock", asked.outage + 300)
        made = 0.9 * asked.hosts * asked.outage  # some are silent
        expect(lambda: sum(held(settings)) > made or asked.embedded, "the backlog to be acknowledged")
        backlog_s = time.time() - began
        landed = Landed(stack.enter_context(store.connect(settings.store)), len(held(settings)))
        say(f"fleet: {live * backlog_s:,.0f} rows of {backlog_s:.0f} s wait; ingest starts")
        ingest = stack.enter_context(closing(IngestProcess(settings, folder / "ingest.log")))
        expect(lambda: "partitions taken" in ingest.said(), "ingest to get its partitions")
        level, took, speed, ages = caught_up(asked, landed)
        time.sleep(SETTLED_S if level else 0)
        settled = landed.age_s()
        sent = simulated.stop()
        until(lambda: landed.rows() >= sent, asked.limit if level else 0)
        ingest.stop(60)
        return FleetFound(
            live, live * backlog_s, backlog_s, level, took, speed, _some(ages), settled, sent, landed.rows()
        )


def _some(ages: Sequence[float]) -> list[float]:
    """The first, the middle and the last."""
    return [ages[0], ages[len(ages) // 2], ages[-1]] if ages else []


# ---- the table ----


def line(label: str, value: str) -> str:
    """One row."""
    return f"{label:42}{value}"


def agent_table(found: AgentFound, outage_s: float) -> Iterator[str]:
    """The first part for people."""
    hours, age = f"{found.default_hours:.1f} h by bytes", f"{Agent().spool_max_age_s / 3600:g} h by age"
    yield line("one agent, 8 GPUs, all sources: live", f"{found.live_per_s:.2f} messages/s")
    yield line("  spooled while the broker is away", f"{found.spooled_bytes_per_s:,.0f} bytes/s")
    yield line(f"  of the default spool, in {outage_s:g} s", f"{100 * found.share(outage_s):.2f} %")
    yield line("  the default spool holds", f"{hours}, {age}")
    yield line("  dropped", f"{found.dropped:.0f} messages")
    yield line(f"  catch-up of {found.backlog:,} messages", f"{found.catch_up_per_s:,.0f} messages/s")
    yield line("  catch-up / live", f"{found.ratio:.1f} (wanted: over {WANTED:g})")


def fleet_table(found: FleetFound, hosts: int) -> Iterator[str]:
    """The second part for people."""
    late = "" if found.level else ", and not level then: raise --limit"
    ages = " -> ".join(f"{age:.0f}" for age in found.ages_s)
    yield line(f"{hosts:,} hosts, one ingest process: live", f"{found.live_per_s:,.0f} rows/s")
    yield line("  backlog", f"{found.backlog_rows:,.0f} rows of {found.backlog_s:.0f} s")
    yield line("  landed until level, the live load's too", f"{found.catch_up_per_s:,.0f} rows/s")
    yield line("  took", f"{found.took_s:.1f} s{late}")
    yield line("  catch-up / live", f"{found.ratio:.1f} (wanted: over {WANTED:g})")
    yield line("  age of the newest landed sample", f"{ages} s; {SETTLED_S:g} s later {found.settled_s:.1f} s")
    yield line("  rows sent, rows landed", f"{found.sent:,}, {found.landed:,}")


def asked_for(arguments: Sequence[str] | None = None) -> tuple[Asked, str, bool]:
    """The command line: sizes, which part, and whether JSON is wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--part", choices=("both", "agent", "fleet"), default="both")
    add("--hosts", type=int, default=1000, help="of the simulated fleet, default 1000")
    add("--outage", type=float, default=600, metavar="S", help="seconds of the outage, default 600")
    add("--live", type=float, default=20, metavar="S", help="seconds to watch the agent's live rate, default 20")
    add("--away", type=float, default=40, metavar="S", help="seconds to watch its spool grow, default 40")
    add("--limit", type=float, default=180, metavar="S", help="seconds that ingest gets to be level, default 180")
    add("--partitions", type=int, default=12, metavar="N", help="of each topic, default 12, which is the product's")
    add("--embedded", action="store_true", help="on the embedded broker, though Apache Kafka be there")
    add("--json", action="store_true", help="the figures as JSON")
    given = parser.parse_args(arguments)
    asked = Asked(given.hosts, given.outage, given.live, given.away, given.limit, given.partitions, given.embedded)
    return asked, given.part, given.json


def main() -> int:
    """Run and print one table; 1 when rows were lost or doubled, messages dropped, or a ratio is not as wanted."""
    asked, part, as_json = asked_for()
    log.setup(Log(level="error"), "bench")
    found: dict[str, AgentFound | FleetFound] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if part != "fleet":
            equip(stack, folder)
            with closing(broker_for(asked, folder / "agent-broker")) as broker:
                found["agent"] = measure_agent(asked, broker, folder)
        if part != "agent":
            with closing(broker_for(asked, folder / "fleet-broker")) as broker:
                found["fleet"] = measure_fleet(asked, broker, folder)
    if as_json:
        print(json.dumps({name: {**asdict(each), "ratio": each.ratio} for name, each in found.items()}, indent=2))
    else:
        print("\n".join(_tables(found, asked)))
    return 0 if all(map(_good, found.values())) else 1


def _tables(found: dict[str, AgentFound | FleetFound], asked: Asked) -> Iterator[str]:
    for each in found.values():
        if isinstance(each, AgentFound):
            yield from agent_table(each, asked.outage)
        else:
            yield from fleet_table(each, asked.hosts)


def _good(found: AgentFound | FleetFound) -> bool:
    kept = found.dropped == 0 if isinstance(found, AgentFound) else found.level and found.sent == found.landed
    return kept and found.ratio > WANTED


if __name__ == "__main__":
    sys.exit(main())
