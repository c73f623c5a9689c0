"""A fleet through real Kafka: what a steady load costs broker, ingest and store, and whether they keep up.

One Apache Kafka broker of Maven Central (KRaft, on loopback, with the Java options of Kafka's own start script), topics
as the product makes them, the real simulator, two real ingest processes with default settings, and the real engine over
HTTP, all on this machine. For each fleet everything is begun anew; after `--warm` seconds it is measured for
`--seconds`. A fleet is HOSTS@INTERVAL of 8 GPUs a host. The simulator is one producer, whose batches hold messages of
many hosts and so are smaller than those of as many agents; `--alone` makes each message a batch, as an agent does, but
over one connection, which then bounds the rate.

CPU is that of each process, from the kernel, so that other work on the machine disturbs the figures little; what that
other work took is told too. Bytes are those of the broker's log. Lag is messages that are on the bus and not in the
store; a row's delay is from the time in the sample until it was seen in the store, at a look each second. In the end
all rows must be there once: rows that the simulator counted, the book of inserts, the tables, and the rollup agree.

By default about seven minutes: `1000@1` and `10000@10`, each 8,000 GPU rows/s, against the design's 80,000. `--fleet
1000@0.5` doubles the rate; `--fleet 20@1 --warm 5 --seconds 10` is a quick look.
"""

import argparse
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from benchmarks.kafka_found import Found, Load, report
from benchmarks.kafka_looks import MERGES, Eyes, Look, Parts, Usage, bus_bytes, delays
from tests.brokers import KafkaCluster, KafkaMissingError
from tests.brokers.process import free_ports
from tests.engine import EngineServer
from tests.ingest_process import IngestProcess, make_topics, migrated, store_settings
from warpmeter import launch, log, store
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Ingest, Kafka, Log, Metrics, Settings
from warpmeter.simulate.run import PUBLISHED
from warpmeter.store import Client

ALONE: Final = {"batch.num.messages": "1"}
"""librdkafka then makes a batch of each message."""
LEVEL_S: Final = 900.0
LOOK_S: Final = 1.0
MACHINE: Final = "machine"
TIMES: Final = re.compile(r'^warpmeter_ingest_insert_seconds_(sum|count){table="(\w+)"} (\S+)', re.MULTILINE)
LOST: Final = re.compile(r"([\d,]+) messages were not acknowledged")
TOTALS: Final = re.compile(r"([\d,]+) rows \(([\d,]+) of GPUs.* ([\d,]+) s behind")


class Broker(KafkaCluster):
    """With the heap, compiler and collector of bin/kafka-server-start.sh in place of the tests' small ones."""

    jvm = (
        *("-Xms1g", "-Xmx1g", "-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC"),
        *("-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    )


@dataclass(frozen=True)
class Asked:
    """The command line. `alone`: each message is a batch by itself."""

    loads: Sequence[Load]
    warm_s: float
    seconds: float
    ingests: int
    alone: bool
    prefix: str = "warpmeter"


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Sent:
    """What the simulator counted, how far it was behind the clock in the end, messages that the broker did not take."""

    rows: int
    gpu_rows: int
    behind_s: float
    lost: int


class Simulated:
    """The simulator's process."""

    def __init__(self, settings: Settings, load: Load, folder: Path) -> None:
        self._log = folder / "simulate.log"
        given = ("--hosts", f"{load.hosts}", "--interval", f"{load.interval_s}")
        with self._log.open("wb") as file:
            self.process = launch.spawn("warpmeter.simulate", settings, given, file)

    def stop(self) -> Sent:
        """Its end: it waits some seconds for acknowledgements."""
        self.process.terminate()
        self.process.wait(LEVEL_S)
        said = self._log.read_text()
        if not (totals := TOTALS.findall(said)):
            raise SystemExit(f"the simulator sent nothing: {said[-500:]}")
        rows, gpu_rows, behind = map(_number, totals[-1])
        return Sent(rows, gpu_rows, behind, sum(map(_number, LOST.findall(said))))

    def close(self) -> None:
        """For `closing`."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@dataclass(frozen=True)
class Site:
    """All that runs but the simulator."""

    settings: Settings
    broker: KafkaCluster
    engine: EngineServer
    ingests: Sequence[IngestProcess]
    ports: Sequence[int]

    def parts(self, simulator: int) -> Parts:
        """What is measured."""
        ingests = [each.process.pid for each in self.ingests]
        pids = {"broker": [self.broker.pid(0)], "ingest": ingests, "engine": [self.engine.process.pid]}
        return Parts({**pids, "simulator": [simulator]})

    def log_bytes(self) -> Mapping[str, int]:
        """By topic."""
        return bus_bytes(self.broker.nodes[0].folder / "data", self.settings.kafka.topic_prefix)

    def insert_times(self) -> Mapping[str, tuple[float, float]]:
        """Seconds and number of the inserts so far, by topic, of all ingest processes."""
        found = {name: {"sum": 0.0, "count": 0.0} for name in PUBLISHED}
        for port in self.ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as reply:
                page = reply.read().decode()
            for kind, table, value in TIMES.findall(page):
                if (topic := table.replace("_", "-")) in found:
                    found[topic][kind] += float(value)
        return {topic: (each["sum"], each["count"]) for topic, each in found.items()}


def build(stack: ExitStack, broker: KafkaCluster, engine: EngineServer, asked: Asked, folder: Path) -> Site:
    """Topics, and ingest that holds its partitions, on an engine with all tables."""
    settings = Settings(
        kafka=Kafka(bootstrap_servers=broker.bootstrap_servers, topic_prefix=asked.prefix),
        store=store_settings(engine),
        log=Log(level="info", format="json"),
        ingest=Ingest(group=asked.prefix),
    )
    make_topics(settings)
    ports = free_ports(asked.ingests)
    each = [replace(settings, metrics=Metrics(ingest_port=port)) for port in ports]
    ingests = [stack.enter_context(closing(IngestProcess(mine, _log(folder, mine)))) for mine in each]
    for ingest in ingests:
        ingest.ready()
    return Site(settings, broker, engine, ingests, ports)


def _log(folder: Path, settings: Settings) -> Path:
    return folder / f"ingest-{settings.metrics.ingest_port}.log"


@dataclass(frozen=True)
class Instant:
    """All counters, at once."""

    look: Look
    usage: Usage
    log_bytes: Mapping[str, int]
    insert_times: Mapping[str, tuple[float, float]]
    load: float


@dataclass
class Watch:
    """Looks at one site; `looks` has all so far."""

    site: Site
    eyes: Eyes
    parts: Parts
    looks: list[Look]

    def look(self) -> Look:
        """One more."""
        self.looks.append(self.eyes.look())
        return self.looks[-1]

    def until(self, at: float) -> None:
        """Look each second."""
        while (now := time.time()) < at:
            self.look()
            time.sleep(max(0.0, min(at, now + LOOK_S) - time.time()))

    def landing(self, rows: int) -> None:
        """Look until the store has more rows of GPUs: where all is slow, nothing may have landed for a while."""
        deadline = time.time() + LEVEL_S
        while self.look().rows["gpu-samples"] <= rows:
            if time.time() > deadline:
                raise SystemExit(f"no row of a GPU landed for {LEVEL_S:g} s")
            time.sleep(0.2)

    def level(self) -> float:
        """Look until the store has all that is on the bus, for so long; seconds that it took."""
        began = time.time()
        while self.look().lag and time.time() < began + LEVEL_S:
            time.sleep(0.2)
        return time.time() - began

    def instant(self) -> Instant:
        """Now."""
        usage, site = self.parts.usage(), self.site
        return Instant(self.look(), usage, site.log_bytes(), site.insert_times(), os.getloadavg()[0])


@dataclass(frozen=True)
class Between:
    """Two instants, and what grew a second from one to the other."""

    first: Instant
    last: Instant

    @property
    def seconds(self) -> float:
        """Between them."""
        return self.last.usage.at - self.first.usage.at

    def rate(self, read: Callable[[Instant], Mapping[str, float]]) -> Mapping[str, float]:
        """A second."""
        before = read(self.first)
        return {name: (value - before.get(name, 0)) / self.seconds for name, value in read(self.last).items()}

    def insert_s(self) -> Mapping[str, float]:
        """How long an insert took, by topic; of topics that had none there is nothing."""
        grown = {
            topic: (seconds - self.first.insert_times[topic][0], count - self.first.insert_times[topic][1])
            for topic, (seconds, count) in self.last.insert_times.items()
        }
        return {topic: seconds / count for topic, (seconds, count) in grown.items() if count}


def _messages(instant: Instant) -> Mapping[str, float]:
    found = dict.fromkeys(PUBLISHED, 0.0)
    for (topic, _), end in instant.look.ends.items():
        found[topic] += end
    return found


def _cpu_s(instant: Instant) -> Mapping[str, float]:
    return {**instant.usage.cpu_s, MERGES: instant.usage.merges_s, MACHINE: instant.usage.busy_s}


def counted(client: Client, sent: Sent) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Rows of all topics and of GPUs, by who counts them."""

    def number(sql: str) -> int:
        return int(client.query(sql).result_rows[0][0])

    fleet = "WHERE startsWith(host, 'gpu-')"
    tables = [TOPICS[name].table for name in PUBLISHED]
    rows = sum(number(f"SELECT count() FROM {table} {fleet}") for table in tables)
    # Rows of ingest's own health are in the book too, and not of the fleet.
    ours = number("SELECT count() FROM source_health WHERE NOT startsWith(host, 'gpu-')")
    book = number(f"SELECT sum(rows) FROM ingest_batches WHERE table IN {tuple(tables)}") - ours
    gpus = {
        "sent": sent.gpu_rows,
        "table": number(f"SELECT count() FROM gpu_samples {fleet}"),
        "different": number(f"SELECT uniqExact(host, gpu, ts) FROM gpu_samples {fleet}"),
        "rollup": number(f"SELECT sum(samples) FROM gpu_heatmap_1m {fleet}"),
    }
    return {"sent": sent.rows, "tables": rows, "book": book}, gpus


def begun_anew(asked: Asked, load: Load) -> Found:
    """One fleet, with a broker and an engine that it has for itself."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(closing(Broker(folder / "broker")))
        engine = migrated(stack.enter_context(closing(EngineServer(folder / "engine"))))
        return measure(asked, load, build(stack, broker, engine, asked, folder), folder)


def measure(asked: Asked, load: Load, site: Site, folder: Path) -> Found:
    """From its start to its last row."""
    settings = site.settings
    with ExitStack() as stack:
        client = stack.enter_context(store.connect(settings.store))
        options = ALONE if asked.alone else {}
        sending = replace(settings, kafka=replace(settings.kafka, options=options))
        simulated = stack.enter_context(closing(Simulated(sending, load, folder)))
        watch = Watch(site, Eyes(settings.kafka, client), site.parts(simulated.process.pid), [])
        say(f"{load}: begun")
        began = time.time()
        watch.until(began + asked.warm_s)
        watch.landing(0)
        first = watch.instant()
        watch.until(first.look.at + asked.seconds)
        watch.landing(first.look.rows["gpu-samples"])
        between, parts = Between(first, watch.instant()), watch.eyes.parts()
        say(f"{load}: measured; load average {between.last.load:.1f}")
        sent = simulated.stop()
        level_s = watch.level()
        return found(load, between, watch, parts, End(sent, level_s, site.log_bytes(), *counted(client, sent)))


@dataclass(frozen=True)
class End:
    """What there was in the end."""

    sent: Sent
    level_s: float
    log_bytes: Mapping[str, int]
    sums: Mapping[str, int]
    gpu_sums: Mapping[str, int]


def found(load: Load, between: Between, watch: Watch, parts: Mapping[str, int], end: End) -> Found:
    """All figures."""
    first, last = between.first, between.last
    cores = dict(between.rate(_cpu_s))
    busy, merges = cores.pop(MACHINE), cores.pop(MERGES)
    return Found(
        load=load,
        seconds=between.seconds,
        messages=between.rate(_messages),
        rows=between.rate(lambda each: each.look.rows),
        bus_bytes=between.rate(lambda each: each.log_bytes),
        inserts=between.rate(lambda each: each.look.inserts),
        cores=cores,
        merge_cores=merges,
        peak_bytes=last.usage.peak_bytes,
        ingests=len(watch.site.ingests),
        lags=[look.lag for look in watch.looks if first.look.at <= look.at <= last.look.at],
        delays=delays(watch.site.settings.kafka, watch.looks, first.look.at, last.look.at),
        insert_s=between.insert_s(),
        parts=parts,
        others=busy - sum(cores.values()),
        load_average=(first.load, last.load),
        behind_s=end.sent.behind_s,
        lost=end.sent.lost,
        level_s=end.level_s,
        gpu_row_bytes=end.log_bytes["gpu-samples"] / end.sent.gpu_rows,
        sums=end.sums,
        gpu_sums=end.gpu_sums,
    )


def load_of(text: str) -> Load:
    """`1000@1`; raises ArgumentTypeError for anything else."""
    hosts, _, interval = text.partition("@")
    try:
        load = Load(int(hosts), float(interval))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no fleet; write 1000@1 or 10000@10") from error
    if load.hosts < 1 or not 0.1 <= load.interval_s <= 60:
        raise argparse.ArgumentTypeError(f"{text!r}: a fleet has one host or more, and an interval of 0.1 to 60 s")
    return load


def asked_for(arguments: Sequence[str] | None = None) -> tuple[Asked, bool]:
    """The command line, and whether JSON is wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--fleet", type=load_of, action="append", metavar="HOSTS@S", help="several may be given; default as below")
    add("--warm", type=float, default=30, metavar="S", help="seconds before it is measured, default 30")
    add("--seconds", type=float, default=150, metavar="S", help="seconds that are measured, default 150")
    add("--ingests", type=int, default=2, metavar="N", help="ingest processes, default 2")
    add("--alone", action="store_true", help="each message a batch by itself, as an agent's are, over one connection")
    add("--json", action="store_true", help="the figures as JSON")
    given = parser.parse_args(arguments)
    loads = given.fleet or [Load(1000, 1.0), Load(10_000, 10.0)]
    return Asked(loads, given.warm, given.seconds, given.ingests, given.alone), given.json


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; 1 when a row is not there once."""
    asked, as_json = asked_for(arguments)
    log.setup(Log(level="error"), "bench")
    results = []
    for load in asked.loads:
        try:
            results.append(begun_anew(asked, load))
        except KafkaMissingError as missing:
            raise SystemExit(str(missing)) from missing
    report(results, as_json)
    return 0 if all(each.exact for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
