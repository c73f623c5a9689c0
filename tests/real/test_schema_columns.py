"""Contract and tables agree: every field has its column by name and fitting type, every metric its SI form."""

import math
import re
from typing import Final

import pytest
from google.protobuf.descriptor import FieldDescriptor

from tests.tables import ask
from warpmeter import migrate
from warpmeter.producers.gpu.parse import most
from warpmeter.schemas.metrics import METRICS, Metric, of_topic
from warpmeter.schemas.topics import TOPICS, Topic, row_type
from warpmeter.settings import Store
from warpmeter.store import Client

FITS: Final = {
    FieldDescriptor.TYPE_STRING: r"(LowCardinality\()?String\)?",
    FieldDescriptor.TYPE_BYTES: r"String",
    FieldDescriptor.TYPE_DOUBLE: r"Float64|DateTime64\(3, 'UTC'\)",
    FieldDescriptor.TYPE_INT32: r"Int32",
    FieldDescriptor.TYPE_UINT32: r"UInt(8|16|32)",
    FieldDescriptor.TYPE_UINT64: r"UInt64",
    FieldDescriptor.TYPE_BOOL: r"Bool",
}


def columns(client: Client, table: str) -> dict[str, tuple[str, str, str]]:
    """Name to type, default kind and expression."""
    rows = ask(
        client,
        "SELECT name, type, default_kind, default_expression FROM system.columns "
        "WHERE database = currentDatabase() AND table = {table:String}",
        table=table,
    )
    return {name: (kind, default, expression) for name, kind, default, expression in rows}


def expected(field: FieldDescriptor) -> str:
    """What the type of a field's column must match."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return r"Map\(LowCardinality\(String\), String\)"
    fits = f"({FITS[field.type]})"
    if field.is_repeated:
        return rf"Array\({fits}\)"
    return rf"Nullable\({fits}\)" if field.has_presence else fits


@pytest.mark.parametrize("topic", TOPICS.values(), ids=lambda topic: topic.name)
def test_every_field_has_its_column_and_every_column_its_field(shared_tables: Client, topic: Topic) -> None:
    have = {name: kind for name, (kind, default, _) in columns(shared_tables, topic.table).items() if not default}
    fields = row_type(topic.envelope).fields
    assert list(have) == [] or set(have) == {field.name for field in fields}
    for field in fields:
        assert re.fullmatch(expected(field), have[field.name]), f"{field.name}: {have[field.name]}"
    assert columns(shared_tables, f"{topic.table}_judge").keys() >= have.keys()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: f"{metric.topic}/{metric.column}")
def test_every_metric_reads_in_si(shared_tables: Client, metric: Metric) -> None:
    kind, default, _ = columns(shared_tables, TOPICS[metric.topic].table)[metric.name]
    assert kind.startswith("Nullable(")
    if metric.name == metric.column:
        assert default == ""
        return
    assert default == "ALIAS"  # its value is checked below


@pytest.mark.parametrize("metric", of_topic("gpu-samples"), ids=lambda metric: metric.column)
def test_the_agent_knows_how_much_a_column_of_a_gpu_holds(shared_tables: Client, metric: Metric) -> None:
    kind, _, _ = columns(shared_tables, "gpu_samples")[metric.column]
    bits = re.search(r"UInt(\d+)", kind)
    largest = 2 ** int(bits[1]) - 1 if bits else math.inf
    small = largest < 2**63 and not metric.column.endswith("_permille")
    assert most(metric.column) == largest if small else most(metric.column) <= largest


@pytest.mark.parametrize("topic", ["gpu-samples", "gpu-processes", "host-samples", "device-samples", "job-events"])
def test_si_values_are_the_stored_ones_times_the_factor(tables: Client, topic: str) -> None:
    table, metrics = TOPICS[topic].table, [metric for metric in of_topic(topic) if metric.name != metric.column]
    key = ", job_id" if topic == "job-events" else ""
    value = ", 'j'" if key else ""
    names = ", ".join(metric.column for metric in metrics)
    tables.command(f"INSERT INTO {table} (host, ts{key}, {names}) SELECT 'h', now(){value}{', 123' * len(metrics)}")
    (found,) = ask(tables, f"SELECT {', '.join(metric.name for metric in metrics)} FROM {table}")
    assert list(found) == [pytest.approx(123 * metric.factor) for metric in metrics]


ROLLUPS: Final = (
    *(("gpu-samples", "gpu_heatmap_1m"), ("gpu-samples", "gpu_heatmap_1h")),
    *(("host-samples", "host_windows_1m"), ("host-samples", "host_windows_1h")),
    ("device-samples", "device_windows_1h"),
)


@pytest.mark.parametrize(("topic", "rollup"), ROLLUPS)
def test_what_is_rolled_up_is_in_its_rollup(shared_tables: Client, topic: str, rollup: str) -> None:
    have, raw = columns(shared_tables, rollup), columns(shared_tables, TOPICS[topic].table)
    rolled_up = [metric for metric in of_topic(topic) if metric.rolled_up]
    assert {name.removesuffix("_sum") for name in have if name.endswith("_sum")} == {m.column for m in rolled_up}
    for metric in rolled_up:
        for of in ("count", "sum"):
            assert have[f"{metric.column}_{of}"][0] == "SimpleAggregateFunction(sum, UInt64)"
        for of in ("min", "max"):
            stored = raw[metric.column][0]
            assert have[f"{metric.column}_{of}"][0] == f"SimpleAggregateFunction({of}, {stored})"


def test_the_heatmap_knows_every_metric_of_a_gpu_that_is_rolled_up(shared_tables: Client) -> None:
    script = next(script for script in migrate.views() if "gpu_heatmap" in script.name)
    told = {
        (name, column, float(factor))
        for name, column, factor in re.findall(r'\("(\w+)", "(\w+)", ([\d.]+)\)', script.text)
    }
    rolled_up = [metric for metric in of_topic("gpu-samples") if metric.rolled_up]
    assert told == {(metric.name, metric.column, metric.factor) for metric in rolled_up}
    window = "since = '2026-01-01 00:00:00', until = '2026-01-01 01:00:00'"
    for metric in rolled_up:
        sql = f"SELECT * FROM gpu_heatmap(metric = '{metric.name}', {window}, step_s = 60)"
        assert ask(shared_tables, sql) == []


def test_every_table_and_rollup_recognises_a_replay_for_a_week(shared_tables: Client) -> None:
    rows = ask(
        shared_tables,
        "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' "
        "AND name NOT LIKE 'schema_%'",
    )
    assert len(rows) >= 20
    for name, engine in rows:
        assert "non_replicated_deduplication_window = 100000" in engine, name
        assert "replicated_deduplication_window_seconds = 604800" in engine, name


def test_every_raw_table_has_days_codecs_and_a_time_to_live(shared_tables: Client) -> None:
    kept_long = (
        "dead_letters", "gpu_events", "capture_requests", "capture_schedules", "capture_commands", "capture_events",
        "alerts", "alert_words", "report_events",
    )  # fmt: skip
    raw = [topic.table for topic in TOPICS.values() if topic.table not in kept_long]
    for table in raw:
        (found,) = ask(
            shared_tables,
            "SELECT partition_key, engine_full FROM system.tables "
            "WHERE database = currentDatabase() AND name = {t:String}",
            t=table,
        )
        assert found[0] == "toDate(ts)"
        assert f"TTL toDateTime(ts) + toIntervalDay({Store().raw_ttl_days})" in found[1]
    bare = ask(
        shared_tables,
        "SELECT table, name FROM system.columns WHERE database = currentDatabase() AND table IN {raw:Array(String)} "
        "AND default_kind IN ('', 'MATERIALIZED') AND compression_codec = ''",
        raw=raw,
    )
    assert bare == []
