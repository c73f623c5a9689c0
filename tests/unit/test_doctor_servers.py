"""What `warpmeter doctor` says of a cluster's servers, by what they say of themselves."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warpmeter.cli import doctor, servers
from warpmeter.cli.servers import Cluster, Disk, Replica
from warpmeter.settings import Settings, Store

WELL = Cluster(
    "fleet", [2, 2], [("ch-1", "25.8.1.1"), ("ch-2", "25.8.1.1")],
    [Replica(host, "gpu_samples_local", 0, 2, 2, 0, "") for host in ("ch-1", "ch-2")], quorum=True,
)  # fmt: skip


def with_one(**changed: Any) -> Cluster:
    """The same, one replica other."""
    first, *others = WELL.replicas
    return replace(WELL, replicas=[first._replace(**changed), *others])


def test_a_cluster_that_is_well_is_said_to_be() -> None:
    found = servers.judged(WELL)
    assert (found.verdict, found.remedy) == ("ok", "")
    assert (
        found.seen
        == "fleet: 2 shard(s) of 2 replica(s) or more, version 25.8.1.1; inserts wait for most of a shard's replicas"
    )


@pytest.mark.parametrize(
    ("ill", "verdict", "seen", "remedy"),
    [
        (
            with_one(readonly=1, why="Session expired\nmore"),
            "failed",
            "are read-only: gpu_samples_local on ch-1 (2 of 2): Session expired",
            "Keeper",
        ),
        (
            with_one(active=1),
            "failed",
            "no quorum, so inserts wait: gpu_samples_local on ch-1 (1 of 2)",
            "start the replicas",
        ),
        (
            with_one(active=2, total=3),
            "warning",
            "a replica that is away: gpu_samples_local on ch-1 (2 of 3)",
            "start it",
        ),
        (replace(with_one(active=1), quorum=False), "warning", "a replica that is away", "start it"),
        (with_one(delay_s=61), "warning", "more than 60 s behind", "replication_queue"),
        (replace(WELL, versions=[("ch-1", "25.8.1.1"), ("ch-2", "26.3.1.1")]), "warning", "ch-2: 26.3.1.1", "upgrade"),
        (replace(WELL, shards=[1, 2]), "warning", "a shard has one copy", "second replica"),
        (replace(WELL, quorum=False), "warning", "inserts wait for one replica", "store.insert_quorum"),
    ],
)
def test_what_ails_it_is_said_with_what_to_do(ill: Cluster, verdict: str, seen: str, remedy: str) -> None:
    found = servers.judged(ill)
    assert found.verdict == verdict
    assert seen in found.seen
    assert remedy in found.remedy


def test_of_many_tables_some_are_named_and_the_others_counted() -> None:
    many = replace(WELL, replicas=[Replica("ch-1", f"t{n}", 1, 1, 2, 0, "") for n in range(40)])
    assert (
        servers.judged(many).seen
        == "40 table(s) are read-only: t0 on ch-1 (1 of 2), t1 on ch-1 (1 of 2), t2 on ch-1 (1 of 2), and 37 more"
    )


def test_each_part_is_told_what_matters_to_it_and_every_check_matters_to_one() -> None:
    assert set().union(*doctor.PARTS.values()) == set(doctor.CHECKS)
    assert doctor.PARTS["agent"].isdisjoint({"clickhouse", "cluster", "store disk", "tables", "ingest"}), (
        "agents see no store"
    )


@pytest.mark.parametrize(
    ("free", "verdict"), [(150, "ok"), (149, "warning"), (50, "warning"), (49, "failed"), (0, "failed")]
)
def test_the_fullest_disk_of_the_store_decides(free: int, verdict: str) -> None:
    found = servers.room(
        [Disk("ch-1", "default", 900 << 20, 1000 << 20), Disk("ch-2", "default", free << 20, 1000 << 20)]
    )
    assert found.verdict == verdict
    assert found.seen.startswith(f"ch-2 default: {free} MiB of 1000 free")
    assert bool(found.remedy) == (verdict != "ok")


def test_a_part_is_told_of_the_folders_that_it_uses_and_of_no_other(tmp_path: Path) -> None:
    of_agent = doctor.disk(replace(Settings(), agent=replace(Settings().agent, spool_dir=tmp_path)), ("agent",))
    assert f"free at {tmp_path}" in of_agent.seen
    assert doctor.disk(Settings(), ("ingest",)).seen.startswith("not asked")
    ledger = replace(Settings(), ingest=replace(Settings().ingest, ledger_dir=tmp_path / "ledger"))
    assert f"free at {tmp_path}" in doctor.disk(ledger, ("ingest",)).seen


def test_without_a_cluster_there_is_nothing_to_ask() -> None:
    assert servers.cluster(Settings(store=Store(dsn="http://127.0.0.1:1"))).verdict == "ok"
