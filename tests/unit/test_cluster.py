"""What is said to a cluster: which server an insert goes to, where rows move, what waits for whom."""

from typing import Any, NoReturn

import pytest

from warpmeter import cluster, migrate
from warpmeter.config import ConfigError, load
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.sink import Away
from warpmeter.consumers.sink.clickhouse import ClickHouse
from warpmeter.consumers.span import Span
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Store

FLEET = Store(cluster="fleet", shards=("http://one:8123", "http://two:8123"), insert_quorum=True)
HAS = " TTL toDateTime(ts) + toIntervalDay(14) SETTINGS index_granularity = 8192"


def test_a_partition_always_goes_to_the_same_shard() -> None:
    assert [cluster.shard(FLEET, partition).dsn[7:10] for partition in range(4)] == ["one", "two", "one", "two"]
    assert cluster.shard(Store(), 7) == Store()


def test_an_insert_goes_to_the_shard_of_its_partition() -> None:
    def away(partition: int) -> NoReturn:
        raise OSError(f"shard of {partition}")

    topic = TOPICS["gpu-samples"]
    sink = ClickHouse(lambda: away(-1), {"t": topic}, {"t": "gpu_samples_local"}, shard=away)
    found = sink.insert(Batch(Span("t", "u", 3, 7, 7), [], [b""], [0]))
    assert isinstance(found, Away)
    assert "gpu_samples_local: shard of 3" in found.why


def test_a_single_server_is_told_nothing_of_replicas() -> None:
    assert cluster.ddl(Store()) == cluster.quorum(Store()) == {}
    assert cluster.ddl(FLEET)["alter_sync"] == 2
    assert cluster.engine(Store(), "MergeTree", "x") == "MergeTree"
    patience_s = 300  # of clickhouse-connect for an answer
    assert cluster.ddl(FLEET)["distributed_ddl_task_timeout"] < patience_s
    assert int(cluster.quorum(FLEET)["insert_quorum_timeout"]) / 1000 < patience_s


def test_tables_that_are_renamed_and_made_again_have_paths_of_each_making() -> None:
    assert cluster.passing(FLEET, "MergeTree") == (
        "ReplicatedMergeTree('/clickhouse/fleet/tables/{shard}/{uuid}', '{replica}')"
    )


def of(store: Store, table: str, engine: str, policy: str | None) -> tuple[str, ...]:
    step = migrate.stale_ttl(store, table, engine, policy)
    return () if step is None else step.statements


def test_old_rows_move_when_they_live_longer_than_until_then() -> None:
    tiered = Store(storage_policy="tiered", cold_after_days=3)
    policy, ttl = of(tiered, "gpu_samples", HAS, "default")
    assert policy == "ALTER TABLE `warpmeter`.`gpu_samples` MODIFY SETTING storage_policy = 'tiered'"
    assert ttl.endswith("toIntervalDay(14), toDateTime(ts) + toIntervalDay(3) TO VOLUME 'cold'")
    moved = HAS.replace("(14)", "(14), toDateTime(ts) + toIntervalDay(3) TO VOLUME 'cold'")
    assert of(tiered, "gpu_samples", moved, "tiered") == ()
    (back,) = of(Store(), "gpu_samples", moved, "tiered")
    assert back.endswith("MODIFY TTL toDateTime(ts) + toIntervalDay(14)")


@pytest.mark.parametrize(
    ("store", "policy"),
    [
        (Store(), "default"),
        (Store(storage_policy="tiered", cold_after_days=3), None),
        (Store(storage_policy="tiered", cold_after_days=14), "default"),
    ],
)
def test_nothing_moves_that_is_not_to(store: Store, policy: str | None) -> None:
    assert of(store, "gpu_samples", HAS, policy) == ()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"SHARDS": '["http://a:8123"]'}, "store.shards needs store.cluster"),
        ({"CLUSTER": "fleet", "SHARDS": '["a:8123"]'}, "each must start with http://"),
        ({"COLD_AFTER_DAYS": "3"}, "store.cold_after_days needs store.storage_policy"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"WARPMETER_STORE__{name}", value)
    with pytest.raises(ConfigError, match=why):
        load()
