"""Ingest health: what lands, how fresh it is, what is missing, doubled, refused or lost; all from the store itself."""

from typing import Final

from deploy.grafana.source.ask import named
from deploy.grafana.source.model import Column, Dashboard, Panel, Row
from deploy.grafana.source.overview import TO_HOST

LANDED: Final = "$__timeFilter(inserted_at)"
SPAN: Final = "match(topic_uuid, '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')"
"""Rows of an insert by hand are no span of a topic."""


def by_table(title: str, value: str, unit: str, help: str = "") -> Panel:
    """A line a table, over what was inserted in each interval."""
    sql = f"""
SELECT $__timeInterval(inserted_at) AS time, table AS name, {value} AS value
FROM ingest_batches AS b
WHERE {LANDED}
GROUP BY time, table
ORDER BY time, table"""
    return Panel("timeseries", title, sql, unit, help)


_LATE: Final = "dateDiff('millisecond', max_ts, inserted_at) / 1000"
_GAPS: Final = named("ingest_gaps", since="$__fromTime")

INGEST: Final = Dashboard(
    "ingest",
    "Ingest health",
    (
        Row(
            "Now",
            (
                Panel(
                    "stat",
                    "Age of the newest sample",
                    "SELECT dateDiff('millisecond', max(last_seen_at), now64(3)) / 1000 AS age FROM hosts",
                    "s",
                    "Of any host; the alert ingest_lag goes by it.",
                    (6, 5),
                ),
                Panel(
                    "stat",
                    "Hosts that are heard of",
                    "SELECT countIf(state != 'silent') AS heard, countIf(state = 'silent') AS silent FROM hosts",
                    size=(6, 5),
                ),
                Panel(
                    "stat",
                    "In the range",
                    f"SELECT sum(b.rows) AS rows, count() AS inserts FROM ingest_batches AS b WHERE {LANDED}",
                    "short",
                    size=(6, 5),
                ),
                Panel(
                    "stat",
                    "Refused in the range",
                    "SELECT uniqExact(topic_uuid, partition, offset) AS messages "
                    "FROM dead_letters WHERE $__timeFilter(ts)",
                    "short",
                    size=(6, 5),
                ),
            ),
        ),
        Row(
            "What lands",
            (
                by_table("Rows a second", "sum(b.rows) / $__interval_s", "rowsps"),
                by_table("Rows an insert", "sum(b.rows) / count()", "short", "Few and large inserts are the rule."),
                by_table(
                    "From sample to store, 95th percentile",
                    f"quantileExact(0.95)({_LATE})",
                    "s",
                    "The newest sample of a span, until the span was inserted.",
                ),
            ),
        ),
        Row(
            "Freshness",
            (
                Panel(
                    "table",
                    "By table",
                    f"""
SELECT table, max(max_ts) AS newest, dateDiff('millisecond', newest, now64(3)) / 1000 AS age,
    quantileExact(0.95)({_LATE}) AS landed_after_p95, sum(b.rows) AS rows, count() AS inserts,
    max(b.inserted_at) AS last_insert
FROM ingest_batches AS b
WHERE {LANDED}
GROUP BY table
ORDER BY age DESC""",
                    size=(12, 9),
                    columns={"age": Column("s"), "landed_after_p95": Column("s")},
                ),
                Panel(
                    "table",
                    "Behind: partitions whose newest row is oldest",
                    f"""
SELECT table, partition, max(last) AS offset, max(max_ts) AS newest,
    dateDiff('millisecond', newest, now64(3)) / 1000 AS age
FROM ingest_batches
WHERE {LANDED} AND {SPAN}
GROUP BY table, topic_uuid, partition
ORDER BY age DESC, table, partition
LIMIT 100""",
                    size=(12, 9),
                    columns={"age": Column("s")},
                    help="One partition far behind its table's others: its consumer hangs. What waits in Kafka is "
                    "on the dashboard Processes.",
                ),
            ),
        ),
        Row(
            "Missing, doubled, refused, lost",
            (
                Panel(
                    "table",
                    "Offsets that no span holds, or two",
                    f"""
SELECT table, partition, spans, rows, first, last, missing, doubled, topic_uuid
FROM
(
{_GAPS}
)
ORDER BY missing + doubled DESC, table, partition
LIMIT 200""",
                    size=(12, 9),
                    help="A hole may be known: all refused, or taken by retention. `warpmeter check` says which.",
                ),
                Panel(
                    "table",
                    "Dead letters, by reason",
                    """
SELECT topic, reason, uniqExact(topic_uuid, partition, offset) AS messages, min(ts) AS first_at, max(ts) AS last_at
FROM dead_letters
WHERE $__timeFilter(ts)
GROUP BY topic, reason
ORDER BY messages DESC, topic, reason
LIMIT 200""",
                    size=(12, 9),
                    help="`warpmeter dead-letters list` shows them; `… replay` lands them after mending.",
                    columns={"reason": Column(width=300)},
                ),
                Panel(
                    "timeseries",
                    "Refused",
                    """
SELECT $__timeInterval(ts) AS time, topic AS name, toFloat64(uniqExact(topic_uuid, partition, offset)) AS value
FROM dead_letters
WHERE $__timeFilter(ts)
GROUP BY time, topic
ORDER BY time, topic""",
                    "short",
                    size=(12, 7),
                ),
                Panel(
                    "timeseries",
                    "Lost by agents and ingest, published",
                    """
SELECT $__timeInterval(ts) AS time, concat(source, ' ', state) AS name, toFloat64(sum(count)) AS value
FROM source_health
WHERE source IN ('shipper', 'ingest') AND count > 0 AND $__timeFilter(ts)
GROUP BY time, name
ORDER BY time, name""",
                    "short",
                    size=(12, 7),
                ),
            ),
        ),
        Row(
            "Where it comes from",
            (
                Panel(
                    "table",
                    "Hosts that are silent",
                    """
SELECT host, last_seen_at, agent_version, arrayStringConcat(problems, ', ') AS problems
FROM hosts
WHERE state = 'silent'
ORDER BY last_seen_at DESC
LIMIT 500""",
                    size=(12, 9),
                    columns={"host": TO_HOST},
                ),
                Panel(
                    "table",
                    "Sources of agents that are not well",
                    """
SELECT source, state, uniqExact(s.host) AS hosts, any(s.host) AS host, any(s.subject) AS subject, any(s.why) AS why,
    max(s.last_seen_at) AS last_at
FROM source_health_now AS s
WHERE state NOT IN ('ok', 'unsupported', 'paused') AND NOT silent
GROUP BY source, state
ORDER BY hosts DESC, source
LIMIT 200""",
                    size=(12, 9),
                    columns={"host": TO_HOST, "why": Column(width=300)},
                ),
                Panel(
                    "table",
                    "Versions of agents",
                    """
SELECT agent_version, count() AS hosts, max(last_seen_at) AS last_at
FROM hosts
GROUP BY agent_version
ORDER BY hosts DESC, agent_version""",
                    size=(12, 7),
                ),
                Panel(
                    "table",
                    "Alerts about ingest",
                    """
SELECT fired_at, state, severity, rule, summary, resolved_at
FROM alerts_now
WHERE rule IN ('ingest_lag', 'dead_letters', 'store_disk', 'source_failing', 'clock_skew', 'host_silent')
    AND state IN ('firing', 'resolved') AND $__timeFilter(fired_at)
ORDER BY fired_at DESC
LIMIT 200""",
                    size=(12, 7),
                ),
            ),
        ),
    ),
)
