"""docs/deploy/fleet.md as it stands: nine machines, a host that is cut off, a restart of everything under load."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import clickhouse_connect
import pytest

from tests.brokers import KafkaMissingError
from tests.crash.feeding import base
from tests.crash.samples import all_series
from tests.documentation import ROOT
from tests.fleet import Fleet, fleet, named, rolling, section, steps
from tests.wait import until
from warpmeter.schemas.topics import TOPICS

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.timeout(1800)]

FED: Final = "server-2"
"""Where the numbered samples come from."""
ENVIRONMENT: Final = {
    "WARPMETER_AGENT__INTERVAL_S": "0.2",
    "WARPMETER_AGENT__OUTPUTS": '["kafka", "stdout"]',  # each row is in a file, too, as the agent gave it out
    "WARPMETER_AGENT__STACKS": "false",  # of what else runs on this machine
    "PYTHONPATH": str(ROOT),
}
KEYS: Final[Mapping[str, Sequence[str]]] = {
    "device-samples": ("kind", "device"),
    "job-events": ("job_id", "pid", "event"),
    "source-health": ("source", "subject"),
}
"""What tells the rows of a host and an instant apart."""

Rows = Counter[tuple[Any, ...]]


@dataclass
class Told:
    """What an agent gave out until now, over its restarts: its instants, and by topic what it said of each."""

    log: Path
    host: str
    latest: float = 0.0
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    _read: int = 0

    def look(self) -> "Told":
        """Read on to the end of the last whole line."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            found = file.read()
        whole = found[: found.rfind(b"\n") + 1]
        self._read += len(whole)
        for row in map(json.loads, whole.splitlines()):
            self.latest = max(self.latest, row["ts"])
            keys = (row.get(name, "") for name in KEYS.get(row["topic"], ()))
            self.rows.setdefault(row["topic"], []).append((round(row["ts"] * 100), *keys))
        return self

    def before(self, topic: str, instant: float) -> Rows:
        """Those of earlier instants."""
        return Counter(row for row in self.rows[topic] if row[0] < round(instant * 100))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The fleet, set up by the numbered sections of the page alone."""
    try:
        with fleet(tmp_path_factory.mktemp("fleet"), ENVIRONMENT) as found:
            for each in steps(section(r"\d")):
                found.do(each)
            yield found
    except KafkaMissingError as missing:
        pytest.skip(str(missing))


def query(found: Fleet, sql: str) -> Sequence[Sequence[Any]]:
    """Rows of the store, as anybody reads it."""
    where = found.address(*named("clickhouse"))
    with closing(clickhouse_connect.get_client(host=where, port=8123, database="warpmeter")) as client:
        return client.query(sql).result_rows


def stored(found: Fleet, host: str, topic: str, before: float) -> Rows:
    """The same of the store."""
    keys = "".join(f", {name}" for name in KEYS.get(topic, ()))
    sql = f"SELECT toInt64(round(toUnixTimestamp64Milli(ts) / 10)){keys}, count() FROM {TOPICS[topic].table} "
    sql += f"WHERE host = '{host}' AND ts < {before:.2f} GROUP BY ALL"
    return Counter({tuple(row[:-1]): row[-1] for row in query(found, sql)})


def differences(found: Fleet, told: Told, before: float) -> list[str]:
    """Rows that an agent gave out and the store has not, or not once; or has, and it did not give out."""
    wrong = []
    for topic in told.look().rows:
        wanted, has = told.before(topic, before), stored(found, told.host, topic, before)
        if lost := wanted - has:
            wrong.append(f"{told.host} {topic}: {lost.total()} of {wanted.total()} lost: {lost.most_common(5)}")
        if more := has - wanted:
            wrong.append(f"{told.host} {topic}: {more.total()} too many: {more.most_common(5)}")
    return wrong


def each_once(found: Fleet, agents: Sequence[Told]) -> None:
    """All that the agents gave out until now is stored, once."""
    before = round(min(told.look().latest for told in agents), 2)
    for told in agents:
        wrong = [""]

        def same(told: Told = told, wrong: list[str] = wrong) -> bool:
            wrong[:] = differences(found, told, before)
            return not wrong

        try:
            until(same, "all rows to be there once", 600, 2.0)
        except AssertionError:
            raise AssertionError("\n".join([*wrong, str(found)])) from None
        assert told.before("host-samples", before), f"{told.host} samples"


@pytest.fixture(scope="module")
def agents(running: Fleet) -> list[Told]:
    """What the three say."""
    return [Told(each.log, each.machine) for each in running.parts if each.command == "warpmeter agent"]


def test_a_host_that_was_cut_off_has_every_row_once_when_it_is_back(running: Fleet, agents: list[Told]) -> None:
    (asked,) = steps(section("A host that is cut off"))
    (cut,) = asked.machines
    each_once(running, agents)
    running.net.cut(running.number(cut))
    (away,) = (told.look() for told in agents if told.host == cut)
    since = away.latest
    running.do(asked)  # it keeps what it measures on its disk
    ((reached,),) = query(running, f"SELECT toFloat64(max(ts)) FROM host_samples WHERE host = '{cut}'")
    running.net.mend(running.number(cut))
    until_then = away.look().latest
    assert until_then - since > 5, "what counts as away takes ten seconds"
    each_once(running, agents)
    sql = f"SELECT count() FROM host_samples WHERE host = '{cut}' AND ts > {reached:.2f} AND ts < {until_then:.2f}"
    assert query(running, sql)[0][0] > 5, "rows of the time in which it was away came later"


def test_a_rolling_restart_of_everything_under_load_loses_nothing_and_doubles_nothing(
    running: Fleet, agents: list[Told], tmp_path: Path
) -> None:
    truth = tmp_path / "truth.json"
    servers = ",".join(f"{name}:9092" for name in named("kafka-1, kafka-2, kafka-3"))
    feeding = running.start(FED, f"{sys.executable} -m tests.crash.feeding {servers} {truth}")
    until(
        lambda: query(running, "SELECT count() FROM host_samples WHERE host LIKE 'crash-%'")[0][0], "the load to land"
    )
    before = {part.process.pid for part in running.parts}
    for program, machines, asked in rolling():
        for machine in machines:
            part = running.running(program, machine)
            running.stop(part)
            if machine == machines[0]:
                assert all(running.ask(each.machines[0], each.text).returncode for each in asked), (
                    "it is seen to be away"
                )
            running.start(machine, part.command)
            for each in asked:
                running.do(each)
    pids = {part.process.pid for part in running.parts}
    assert pids & before == {feeding.process.pid}, "everything else is another process"
    running.stop(feeding)
    each_once(running, agents)
    told = json.loads(truth.read_text())
    assert told["failures"] == []
    for each in steps(section("After every change")):
        assert "everything adds up" in running.do(each)
    for series in all_series(base()):
        numbers = told["good"][series.topic.name]
        sql = f"SELECT {series.number}, count() FROM {series.topic.table} WHERE host LIKE 'crash-%' GROUP BY 1"
        assert {row[0]: row[1] for row in query(running, sql)} == dict.fromkeys(numbers, 1)
        assert len(numbers) > 1000
