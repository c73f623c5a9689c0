"""Every built-in rule on rows that were planted for it: it fires within one evaluation of its time, about what was
planted and nothing else, and is resolved after that is over.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.alerted import Watched, on_store
from tests.tables import land, row
from warpmeter.alerts import Rule
from warpmeter.alerts.configured import rules
from warpmeter.alerts.rule import OWN, builtin
from warpmeter.config import load
from warpmeter.producers.gpu.xids import OF_APPLICATION
from warpmeter.scheduler.alerts.asking import READ
from warpmeter.settings import AlertRule, Alerts, Store
from warpmeter.store import Client

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
HOUR: Final = 3600.0
MINUTES: Final = 6
"""In which everything stands that was planted: the longest `for` of a rule, and some."""
OFF: Final = Alerts(rules=(AlertRule("store-disk", enabled=False),))
"""How full the disk of this machine is nobody knows."""


@pytest.fixture
def began() -> float:
    """A whole minute."""
    return float(int(time.time()) // 60 * 60)


@pytest.fixture
def store(embedded: Store) -> Store:
    """The one that `tables` is of."""
    return replace(embedded, database="shared")


def gpu(host: str, number: int, ts: float, **fields: Any) -> Any:
    """A minute of a GPU that works as it should."""
    usual: dict[str, Any] = {
        "gpu_util_permille": 950, "sm_active_permille": 800, "tensor_active_permille": 400, "dram_active_permille": 300,
        "temperature_celsius": 60, "throttle_reasons": 0, "power_deciwatts": 5000, "sm_clock_megahertz": 1900,
        "ecc_corrected_errors": 0, "ecc_uncorrected_errors": 0, "fb_used_mebibytes": 100, "fb_total_mebibytes": 1000,
    }  # fmt: skip
    return row(
        "gpu-samples", host=host, gpu=number, uuid=f"GPU-{host}-{number}", ts=ts, period_ms=60_000, model="H100",
        **{**usual, **fields},
    )  # fmt: skip


def host(name: str, ts: float, **fields: Any) -> Any:
    usual = {
        "uptime_s": 90_000,
        "mem_total_mebibytes": 1000,
        "mem_available_mebibytes": 500,
        "oom_kills": 2,
    }
    return row("host-samples", host=name, ts=ts, period_ms=10_000, **{**usual, **fields})


def health(name: str, ts: float, source: str, state: str, subject: str = "", why: str = "") -> Any:
    return row(
        "source-health", host=name, ts=ts, period_ms=10_000, source=source, subject=subject, state=state, why=why
    )


def event(job_id: str, name: str, ts: float, started_at: float) -> Any:
    return row(
        "job-events", job_id=job_id, host=name, ts=ts, period_ms=60_000, event="running", pid=7, name="train",
        command="python train.py", user="ann", started_at=started_at,
    )  # fmt: skip


def xid(name: str, ts: float, code: int, state: str) -> Any:
    return row(
        "gpu-events", host=name, gpu=0, uuid=f"GPU-{name}-0", ts=ts, kind="xid", code=code, what="it happened",
        state=state,
    )  # fmt: skip


def mount(name: str, ts: float, used: int) -> Any:
    return row(
        "device-samples", host=name, ts=ts, period_ms=10_000, kind="mount", device="/data", fs_total_mebibytes=1000,
        fs_used_mebibytes=used, fs_available_mebibytes=1000 - used, inodes_total=1000, inodes_used=10,
    )  # fmt: skip


def step(job_id: str, ts: float, seconds: float) -> Any:
    return row(
        "metric-samples", host="j4", ts=ts, period_ms=30_000, source="paces", name="job_step_seconds",
        labels={"job_id": job_id}, value=seconds,
    )  # fmt: skip


JOBS: Final = {"idle": "j0", "hung": "j1", "slow": "j2", "uneven": "j3", "counted": "j4", "well": "j5"}
"""Jobs, each on a host of its own with four GPUs."""


def busy(name: str, ts: float, now: float) -> Iterator[Any]:
    """A minute of the GPUs of a job; what is planted is over at `now`."""
    ill = ts <= now
    still = {"dram_active_permille": 0, "tensor_active_permille": 0}
    does: dict[str, dict[str, Any]] = {
        "idle": {"gpu_util_permille": 0, "sm_active_permille": 0, **still},
        "hung": {"gpu_util_permille": 1000, "sm_active_permille": 998, **still},
        "slow": {"sm_active_permille": 400},
    }  # fmt: skip
    since = {"idle": 2 * HOUR, "hung": HOUR, "slow": 0.3 * HOUR, "uneven": HOUR}
    for number in range(4):
        planted = dict(does.get(name, {}))
        if name == "uneven" and number == 2:
            planted = {"tensor_active_permille": 150, "sm_clock_megahertz": 1000}
        mine = planted if ill and ts > now - since.get(name, 0.0) else {}
        yield gpu(JOBS[name], number, ts, job_ids=[name], **mine)


def history(tables: Client, now: float) -> None:
    """Hours before `now`: jobs that run, errors that were there, letters."""
    minutes = [now - 60.0 * ago for ago in range(int(5.6 * 60), 0, -1)]
    land(tables, "gpu-samples", [each for name in JOBS for ts in minutes for each in busy(name, ts, now)])
    paces = [step("counted", ts, 0.5 if ts < now - 700 else 0.9) for ts in minutes]
    land(tables, "metric-samples", paces)
    land(tables, "host-samples", [host("gone", now - 700), host("well", now - 120)])
    hours = [now - HOUR * ago for ago in range(20, 0, -1)]
    land(tables, "gpu-samples", [gpu("e0", 0, ts, ecc_corrected_errors=100) for ts in hours])


def minute(tables: Client, ts: float) -> None:
    """A minute in which all is wrong that can be."""
    land(
        tables, "gpu-samples",
        [
            *(each for name in JOBS for each in busy(name, ts, ts)),
            gpu("hot", 0, ts, temperature_celsius=90), gpu("hot", 1, ts, throttle_reasons=0x40),
            gpu("hot", 2, ts, throttle_reasons=0x80),
            gpu("hot", 3, ts, throttle_reasons=0x4, temperature_celsius=84),
            gpu("e0", 0, ts, ecc_corrected_errors=140), gpu("e1", 0, ts, ecc_uncorrected_errors=1),
        ],
    )  # fmt: skip
    land(tables, "job-events", [event(job, name, ts, ts - 6 * HOUR) for job, name in JOBS.items()])
    land(
        tables, "host-samples",
        [
            *(host(name, ts) for name in ("well", "hot", "e0", "e1", "x0", "lost", "unread", *JOBS.values())),
            host("ahead", ts + 9.0), host("short", ts, mem_available_mebibytes=20), host("killed", ts, oom_kills=5),
        ],
    )  # fmt: skip
    land(
        tables, "source-health",
        [
            health("lost", ts, "gpu", "gone", "GPU-lost-0", "fell off the bus"),
            health("unread", ts, "devices", "failed", why="no answer"), health("unread", ts, "perf", "denied"),
            health("stepped", ts, "clock", "failed", why="the clock was stepped back by 3 s"),
        ],
    )  # fmt: skip
    land(tables, "device-samples", [mount("full", ts, 950), mount("well", ts, 500)])


def mended(tables: Client, ts: float) -> None:
    """A minute in which all is well."""
    names = ("well", "hot", "e0", "e1", "x0", "lost", "unread", "ahead", "short", "killed", "gone", *JOBS.values())
    numbers = {"hot": 4, "e0": 1, "e1": 1, "lost": 1}
    land(tables, "gpu-samples", [gpu(name, n, ts) for name, count in numbers.items() for n in range(count)])
    land(tables, "host-samples", [host(name, ts) for name in names])
    said = [health("unread", ts, "devices", "ok"), health("lost", ts, "gpu", "ok", "GPU-lost-0")]
    land(tables, "source-health", [*said, health("stepped", ts, "clock", "ok")])
    land(tables, "device-samples", [mount("full", ts, 500)])


EXPECTED: Final = {
    ("clock-skew", "ahead"), ("clock-skew", "stepped"), ("disk-full", "full"), ("ecc-growth", "e0"),
    ("ecc-uncorrected", "e1"), ("gpu-hot", "hot"), ("gpu-lost", "lost"), ("gpu-xid", "x0"), ("host-memory", "short"),
    ("host-oom", "killed"), ("host-silent", "gone"), ("job-hung", "hung"), ("job-idle", "idle"),
    ("job-slower", "counted"), ("job-slower", "slow"), ("job-xid", "x0"), ("power-throttling", "hot"),
    ("source-failing", "unread"), ("straggling-rank", "uneven"), ("thermal-throttling", "hot"),
    ("dead-letters", "gpu-samples"),
}  # fmt: skip
"""Rules, and the job, host or topic that each is about."""


def about(watched: Watched) -> set[tuple[str, str]]:
    """What fires."""
    firing = watched.watch.machine.firing()
    return {(a.rule, a.labels.get("job_id") or a.labels.get("host") or a.labels.get("topic", "")) for a in firing}


def letters(tables: Client, ts: float) -> None:
    tables.command(
        "INSERT INTO dead_letters (topic, topic_uuid, partition, offset, ts, reason, key, value)"
        f" VALUES ('gpu-samples', 'u', 0, 7, toDateTime64({ts}, 3, 'UTC'), 'no host', 'k', 'v')"
    )


def test_every_rule_fires_on_what_was_planted_for_it_alone_and_is_resolved_when_that_is_over(
    tables: Client, store: Store, began: float
) -> None:
    history(tables, began)
    letters(tables, began - 60)
    land(tables, "gpu-events", [xid("x0", began - 60, 79, "raised"), xid("x0", began - 60, 31, "raised")])
    watched = on_store(store, rules(OFF), OFF)
    for number in range(MINUTES):
        minute(tables, began + 60 * number)
        land(tables, "host-samples", [host("killed", began - 30 + 60 * number)])
        watched.at(began + 60 * number + 1)
    assert about(watched) == EXPECTED
    at_once = {rule.name for rule in rules(OFF) if rule.for_s == 0 and rule.sql} - {"ingest-lag"}
    assert at_once <= {a.rule for a in watched.memory.rows if a.fired_at == began + 1}, "within one evaluation"
    later = began + 25 * HOUR
    land(tables, "gpu-events", [xid("x0", later, 79, "cleared"), xid("x0", later, 31, "cleared")])
    for number in range(2):
        mended(tables, later + 400 * number)
        watched.at(later + 400 * number + 1)
    assert about(watched) == set()
    assert all(watched.history(rule)[-1] == "resolved" for rule, _ in EXPECTED)
    assert "{" not in "".join(a.summary for a in watched.memory.rows), "a summary names what its rule does not give"


def test_every_rule_has_its_place_in_these_tests() -> None:
    own = {*OWN, "ingest-lag", "store-disk"}
    assert {rule for rule, _ in EXPECTED} | own <= set(builtin())


def test_while_nothing_arrives_that_is_told_and_nothing_else(tables: Client, store: Store, began: float) -> None:
    """Of hosts and GPUs nothing new is known then: they are not silent, and what fires goes on."""
    land(tables, "gpu-samples", [gpu("e1", 0, began, ecc_uncorrected_errors=1)])
    land(tables, "host-samples", [host("e1", began), host("well", began)])
    watched = on_store(store, rules(OFF), OFF).at(began + 1)
    assert about(watched) == {("ecc-uncorrected", "e1")}
    watched.at(began + 100)
    assert about(watched) == {("ecc-uncorrected", "e1"), ("ingest-lag", "")}
    land(tables, "gpu-samples", [gpu("e1", 0, began + 150)])
    for ts, state in ((150, "firing"), (225, "resolved")):
        land(tables, "host-samples", [host("well", began + ts), host("e1", began + ts)])
        watched.at(began + ts + 5)
        assert watched.history("ingest-lag")[-1] == state
    assert about(watched) == set()


def test_a_sample_of_years_ahead_hides_no_host_that_went_silent_and_holds_no_rule_up(
    tables: Client, store: Store, began: float
) -> None:
    """Not the host's own silence, not that of all, and it is told while the host has no samples of now."""
    names, ahead = ("was", "is", "down"), began + 40 * 365 * 24 * HOUR
    land(tables, "host-samples", [host(name, ahead, mem_available_mebibytes=20) for name in names])
    land(tables, "host-samples", [host("down", began - 10)])
    watched = on_store(store, rules(OFF), OFF)
    for at in range(0, 300, 20):
        land(tables, "host-samples", [host("well", began + at), host("was", began + at)])
        watched.at(began + at + 1)
    assert about(watched) == {("clock-skew", "is"), ("clock-skew", "down"), ("host-silent", "down")}
    watched.at(began + 500)
    assert watched.history("ingest-lag")[-1] == "firing"


def test_a_full_disk_of_the_store_is_told(tables: Client, store: Store, began: float) -> None:  # noqa: ARG001
    chosen = Alerts(rules=(AlertRule("store-disk", parameters={"full": 0.000001}, for_s=0),))
    watched = on_store(store, [rule for rule in rules(chosen) if rule.name == "store-disk"], chosen)
    assert watched.at(began).states() == {"store-disk": "firing"}


def test_what_an_xid_calls_for_is_as_the_agent_has_it() -> None:
    told = [_codes(builtin()[name]) for name in ("gpu-xid", "job-xid")]
    assert told == [OF_APPLICATION, OF_APPLICATION]


def _codes(rule: Rule) -> frozenset[int]:
    inside = rule.sql.partition("code NOT IN (" if rule.name == "gpu-xid" else "code IN (")[2].partition(")")[0]
    return frozenset(int(code) for code in inside.split(","))


OWN_RULE: Final = """
SELECT host, count() AS value FROM host_last WHERE last_at > {now:DateTime64(3, 'UTC')} - INTERVAL {back:UInt32} MINUTE
GROUP BY host"""


@pytest.mark.parametrize(
    ("sql", "why", "rule_s"),
    [
        ("SELECT 1 AS host, 'x' AS value", "no number", 60), ("SELECT host FROM host_last", "no column value", 60),
        ("SELECT nothing AS value FROM host_last", "Code: 47", 60),
        ("SELECT host, sleepEachRow(3) AS value FROM host_last", "Code: 159", 1),
    ],
)  # fmt: skip
def test_a_broken_rule_stops_itself_alone_and_is_told(
    tables: Client, store: Store, began: float, sql: str, why: str, rule_s: float
) -> None:
    land(tables, "host-samples", [host("well", began)])
    mine = AlertRule("mine", sql=OWN_RULE, summary="{host} {value}", parameters={"back": 5}, labels={"team": "ops"})
    like = AlertRule("like", sql="SELECT host, 1 AS value FROM host_last WHERE host LIKE '%ell%'", summary="{host}")
    chosen = Alerts(rule_s=rule_s, rules=(mine, like, AlertRule("broken", sql=sql, summary="s")))
    names = {"broken", "rule-broken"} | ({"mine", "like"} if rule_s > 1 else set())
    watched = on_store(store, [rule for rule in rules(chosen) if rule.name in names], chosen)
    watched.at(began + 1).at(began + 61)
    assert watched.states() == dict.fromkeys(names - {"broken"}, "firing")
    (broken,) = (alert for alert in watched.watch.machine.open() if alert.rule == "rule-broken")
    assert broken.labels == {"broken": "broken"}
    assert why in broken.summary
    if "mine" in names:
        (alert,) = (alert for alert in watched.watch.machine.open() if alert.rule == "mine")
        assert (alert.labels, alert.summary) == ({"team": "ops", "host": "well"}, "well 1")


def test_a_rule_of_more_subjects_than_can_be_read_goes_on(tables: Client, store: Store, began: float) -> None:  # noqa: ARG001
    sql = "SELECT number AS gpu, 1 AS value FROM numbers(200000) ORDER BY gpu"
    watched = on_store(store, rules(Alerts(rules=(AlertRule("mine", sql=sql, summary="{gpu}"),))))
    answer = watched.asked(next(rule for rule in watched.rules if rule.name == "mine"), began)
    assert ([each.labels["gpu"] for each in answer.subjects], answer.whole) == ([str(n) for n in range(READ)], False)


def test_the_rule_of_the_documentation_is_one(tables: Client, store: Store, tmp_path: Path) -> None:
    """It asks the view `gpus`, which tells of now."""
    text = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
    (tmp_path / "given.toml").write_text(
        re.findall(r"```toml\n(\[\[alerts.rules\]\]\nname = .*?)```", text, re.DOTALL)[1]
    )
    alerts = load(tmp_path / "given.toml").alerts
    (rule,) = (rule for rule in rules(alerts) if not rule.builtin)
    idle = {"gpu_util_permille": 0, "sm_active_permille": 0}
    now = time.time()
    land(tables, "gpu-samples", [gpu("a", n, now - ago, **idle) for n in range(3) for ago in (120, 60, 0)])
    watched = on_store(store, [replace(rule, for_s=0.0)], alerts).at(now)
    assert [alert.summary for alert in watched.watch.machine.firing()] == [
        "100% of the 3 GPUs H100 are idle, more than 0.5"
    ]
