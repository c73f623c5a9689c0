"""What keeps a topic from being as wanted, decided without a broker."""

import pytest

from warpmeter import topics
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka
from warpmeter.topics import ConfigDiffers, FewerPartitions, FewerReplicas, Found, Missing, Option

REPLICATED = Kafka(replication_factor=3)


def wanted(kafka: Kafka = REPLICATED) -> topics.Wanted:
    return topics.plan(kafka, [TOPICS["gpu-samples"]])[0]


def found(partitions: int = 12, replicas: int = 3, **changed: str | None) -> Found:
    """A topic as wanted, but for what is named (`_` for `.`)."""
    config: dict[str, str | None] = {option.key: option.value for option in wanted().options}
    return Found(partitions, replicas, config | {key.replace("_", "."): value for key, value in changed.items()})


def test_a_topic_as_wanted_has_no_difference() -> None:
    assert topics.compare(wanted(), found()) == []


def test_a_topic_that_is_not_there_is_missing() -> None:
    assert topics.compare(wanted(), None) == [Missing(wanted())]


def test_less_of_anything_differs() -> None:
    name = "warpmeter.gpu-samples"
    assert topics.compare(wanted(), found(partitions=3, replicas=2, retention_ms="1000", min_insync_replicas="1")) == [
        FewerPartitions(name, 3, 12),
        FewerReplicas(name, 2, 3),
        ConfigDiffers(name, "retention.ms", "1000", "86400000"),
        ConfigDiffers(name, "min.insync.replicas", "1", "2"),
    ]


@pytest.mark.parametrize("kafka", [REPLICATED, Kafka(min_insync_replicas=2)])
def test_no_more_copies_in_sync_are_asked_for_than_there_are(kafka: Kafka) -> None:
    (differs,) = topics.compare(wanted(kafka), found(replicas=1, min_insync_replicas="1"))
    assert differs == FewerReplicas("warpmeter.gpu-samples", 1, max(2, kafka.replication_factor), held_back=2)
    assert "then min.insync.replicas = 2 can be set, and not before" in topics.done(differs)


def test_what_an_operator_raised_is_left_alone() -> None:
    raised = found(partitions=48, replicas=5, retention_ms="-1", max_message_bytes="99999999", compression_type="zstd")
    assert topics.compare(wanted(), raised) == []


def test_a_compacted_topic_differs_for_it_would_keep_one_sample_a_host() -> None:
    differs = topics.compare(wanted(), found(cleanup_policy="compact"))
    assert [str(each) for each in differs] == ["warpmeter.gpu-samples: cleanup.policy is compact, wants delete"]


@pytest.mark.parametrize(("has", "fits"), [(None, False), ("10", True), ("11", True), ("9", False), ("-1", True)])
def test_at_least(has: str | None, fits: bool) -> None:
    assert Option("retention.ms", "10", "at_least").satisfied_by(has) is fits


def test_partitions_can_be_set_but_not_of_topics_that_have_one() -> None:
    planned = {each.name: each.partitions for each in topics.plan(Kafka(partitions=48, topic_prefix="p"))}
    assert planned["p.gpu-samples"] == 48
    assert planned["p.dead-letters"] == 1
    assert {each.partitions for each in topics.plan(Kafka(partitions=1))} == {1}


def test_min_isr_asks_for_three_replicas() -> None:
    assert "min.insync.replicas" in [option.key for option in wanted().options]
    assert "min.insync.replicas" not in [option.key for option in wanted(Kafka(replication_factor=1)).options]


def test_what_was_done_about_a_difference_is_said_as_done() -> None:
    name = "warpmeter.gpu-samples"
    differences: list[topics.Difference] = [
        Missing(wanted()),
        FewerPartitions(name, 3, 12),
        ConfigDiffers(name, "retention.ms", None, "5"),
    ]
    assert [topics.done(each) for each in differences] == [
        f"{name}: created",
        f"{name}: 3 partitions made 12",
        f"{name}: retention.ms was not set, set to 5",
    ]


def test_one_copy_is_a_risk_where_there_are_brokers_for_more_and_said_once_where_there_are_not() -> None:
    names = ("p.a", "p.b", "p.c", "p.d")
    assert not str(topics.Copies(3, ()))
    assert "4 topic(s) have a copy that is not in sync" in str(topics.Copies(3, (), names))
    assert not topics.Copies(3, (), names).risky
    assert not topics.Copies(1, names).risky
    assert str(topics.Copies(1, names)) == "1 broker(s), one copy of every message: what a broker loses is lost"
    assert topics.Copies(3, names).risky
    assert "4 topic(s) have one copy of every message on a cluster of 3 brokers" in str(topics.Copies(3, names))


def test_dead_letters_take_what_the_others_carried() -> None:
    sizes = {name: topic.max_message_bytes for name, topic in TOPICS.items()}
    largest = sizes.pop("dead-letters")
    assert all(largest > size for size in sizes.values())


def test_what_the_settings_say_of_a_topic_is_held_to_exactly() -> None:
    kafka = Kafka(compression="zstd", min_insync_replicas=1, retention_hours={"gpu-samples": 6})
    found = Found(12, 1, {"cleanup.policy": "delete", "retention.ms": "86400000", "max.message.bytes": "1048576",
                          "compression.type": "producer", "min.insync.replicas": "2"})  # fmt: skip
    name = "warpmeter.gpu-samples"
    assert topics.compare(wanted(kafka), found) == [
        ConfigDiffers(name, "retention.ms", "86400000", "21600000"),
        ConfigDiffers(name, "compression.type", "producer", "zstd"),
        ConfigDiffers(name, "min.insync.replicas", "2", "1"),
    ]


@pytest.mark.parametrize(
    ("kafka", "why"),
    [
        (Kafka(retention_hours={"gpu": 6}), "'gpu', which is none of gpu-samples"),
        (Kafka(retention_hours={"gpu-samples": 0.5}), "must be 1 or more, or inf"),
        (Kafka(retention_hours={"alerts": 24}), "must be 360 or more: whoever is elected"),
        (Kafka(replication_factor=3, min_insync_replicas=4), "between 1 and kafka.replication_factor"),
        (Kafka(min_insync_replicas=0), "between 1"),
        (Kafka(retention_hours={"gpu-samples": float("inf"), "alerts": 361}, min_insync_replicas=2), ""),
    ],
)
def test_what_topics_cannot_be_is_refused(kafka: Kafka, why: str) -> None:
    assert why in topics.objection(kafka)
    assert bool(why) is bool(topics.objection(kafka))
