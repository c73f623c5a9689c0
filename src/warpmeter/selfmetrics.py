"""warpmeter's own metrics: one typed table of all of them, served at `/metrics` of each process."""

from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from warpmeter import log
from warpmeter.settings import Metrics

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class Own:
    """One metric of warpmeter itself; the unit is in the name, as Prometheus asks."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


_TABLE: Final = (
    Own("warpmeter_source_up", "gauge", "1 while the last read of a source of the agent was good", ("source",)),
    Own("warpmeter_source_read_seconds", "gauge", "time the last read of a source took", ("source",)),
    Own(
        "warpmeter_source_late_ticks_total",
        "counter",
        "ticks of a source that were skipped, being late",
        ("source",),
    ),
    Own("warpmeter_scrape_series", "gauge", "series published of the last page of an endpoint", ("endpoint",)),
    Own(
        "warpmeter_scrape_dropped_series_total",
        "counter",
        "series of a page that were not published: over the limit, twice on it, or stale",
        ("endpoint", "why"),
    ),
    Own("warpmeter_shipper_messages_total", "counter", "messages the broker has acknowledged", ("topic",)),
    Own("warpmeter_shipper_queue_bytes", "gauge", "bytes waiting in the producer's queue"),
    Own(
        "warpmeter_shipper_lost_messages_total",
        "counter",
        "messages that the broker refused for good",
        ("topic", "why"),
    ),
    Own("warpmeter_spool_bytes", "gauge", "bytes waiting in the spool on disk"),
    Own(
        "warpmeter_spool_dropped_messages_total",
        "counter",
        "messages lost in the spool: it was full, they were too old, the disk refused them, or they were corrupt",
        ("why",),
    ),
    Own(
        "warpmeter_output_dropped_total",
        "counter",
        "rows (OTLP: values) that an output of the agent dropped, or its receiver",
        ("output", "why"),
    ),
    Own("warpmeter_output_queue_bytes", "gauge", "bytes waiting for an output's receiver", ("output",)),
    Own("warpmeter_output_values_total", "counter", "values that an output's receiver has taken", ("output",)),
    Own("warpmeter_kineto_datagrams_total", "counter", "datagrams of PyTorch processes, by outcome", ("outcome",)),
    Own("warpmeter_kineto_processes", "gauge", "PyTorch processes that can be traced"),
    Own("warpmeter_kineto_rpc_total", "counter", "requests to dynolog's port, by outcome", ("outcome",)),
    Own("warpmeter_captures_total", "counter", "captures of processes that ended, by how", ("state", "reason")),
    Own("warpmeter_ingest_group", "gauge", "1, labelled with the consumer group that it is in", ("group",)),
    Own("warpmeter_ingest_rows_total", "counter", "rows inserted", ("table",)),
    Own("warpmeter_ingest_bytes_total", "counter", "bytes inserted, as they came", ("table",)),
    Own("warpmeter_ingest_spans_total", "counter", "spans inserted", ("table",)),
    Own("warpmeter_ingest_insert_seconds", "histogram", "time of an insert", ("table",)),
    Own("warpmeter_ingest_rejects_total", "counter", "messages sent to the dead letters", ("topic",)),
    Own("warpmeter_ingest_open_bytes", "gauge", "bytes in open batches"),
    Own(
        "warpmeter_ingest_lag_messages",
        "gauge",
        "messages behind the end of the partition",
        ("topic", "partition"),
    ),
    Own(
        "warpmeter_ingest_lost_messages_total",
        "counter",
        "messages that the broker's retention took before they were read",
        ("topic",),
    ),
    Own(
        "warpmeter_ingest_store_errors_total",
        "counter",
        "inserts that failed and were tried again",
        ("table",),
    ),
    Own(
        "warpmeter_ingest_failing_since_timestamp_seconds",
        "gauge",
        "when inserts began to fail, as Unix time; 0 while they go through",
    ),
    Own(
        "warpmeter_ingest_busy_since_timestamp_seconds",
        "gauge",
        "when the step that now waits for the store began, as Unix time; 0 when none does",
    ),
    Own("warpmeter_scheduler_active", "gauge", "1 while this is the active one of several schedulers"),
    Own("warpmeter_scheduler_captures", "gauge", "captures that go on"),
    Own("warpmeter_reports_rendered_total", "counter", "reports that were made, or failed to be", ("outcome",)),
    Own(
        "warpmeter_report_deliveries_total",
        "counter",
        "attempts to send a report, by what came of it: delivered, failed (tried again), gave_up",
        ("target", "outcome"),
    ),
    Own("warpmeter_alerts_evaluation_seconds", "gauge", "time that the last evaluation of all rules of alerts took"),
    Own(
        "warpmeter_alerts_evaluated_timestamp_seconds",
        "gauge",
        "when rules were evaluated last, as Unix time; old where no scheduler is active",
    ),
    Own("warpmeter_alerts_rule_seconds", "histogram", "time that the evaluation of a rule took", ("rule",)),
    Own(
        "warpmeter_alerts_rule_errors_total",
        "counter",
        "evaluations of a rule that failed: its alerts stood as they were",
        ("rule",),
    ),
    Own("warpmeter_alerts_store_away_total", "counter", "evaluations that did not happen: the store was away"),
    Own("warpmeter_alerts_late_evaluations_total", "counter", "evaluations that were left out, being late"),
    Own("warpmeter_alerts_skipped_total", "counter", "evaluations that ended before all rules had their turn"),
    Own("warpmeter_alerts_bus_errors_total", "counter", "times that alerts could not be read, worked out or published"),
    Own("warpmeter_alerts_firing", "gauge", "alerts that fire, silenced ones too", ("severity",)),
    Own("warpmeter_alerts_changes_total", "counter", "alerts that fired, and that were resolved", ("rule", "state")),
    Own("warpmeter_alerts_captures_total", "counter", "captures that triggers asked for"),
    Own("warpmeter_alerts_captures_refused_total", "counter", "captures that no budget was left for"),
    Own(
        "warpmeter_alert_notices_total",
        "counter",
        "alerts that receivers were to be told of, by what came of it: sent, failed (tried again), refused, dropped",
        ("receiver", "outcome"),
    ),
    Own("warpmeter_alert_notices_owed", "gauge", "alerts that a receiver is to be told of", ("receiver",)),
    Own(
        "warpmeter_alert_receiver_failing_since_timestamp_seconds",
        "gauge",
        "when a receiver of alerts began to fail, as Unix time; 0 while it takes them",
        ("receiver",),
    ),
    Own(
        "warpmeter_engine_requests_total",
        "counter",
        "requests to the embedded engine's endpoint",
        ("method", "status"),
    ),
    Own(
        "warpmeter_engine_request_seconds",
        "histogram",
        "time of a request to the embedded engine's endpoint",
        ("method",),
    ),
    Own("warpmeter_web_requests_total", "counter", "requests to API and pages", ("route", "status")),
    Own("warpmeter_web_request_seconds", "histogram", "time of a request to API and pages", ("route",)),
    Own("warpmeter_web_websockets", "gauge", "pages that are open"),
)

TABLE: Final = {own.name: own for own in _TABLE}
REGISTRY: Final = CollectorRegistry()
SLOWEST_S: Final = 10.0
"""Whoever asks for the page and does not read it for so long is cut off."""
BACKLOG: Final = 128
_made: dict[str, Counter | Gauge | Histogram] = {}
_TYPES: Final = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


def _metric(name: str, kind: Kind) -> Counter | Gauge | Histogram:
    own = TABLE[name]
    if own.kind != kind:
        raise TypeError(f"{name} is a {own.kind}, not a {kind}")
    if name not in _made:
        _made[name] = _TYPES[kind](name, own.meaning, own.labels, registry=REGISTRY)
    return _made[name]


def counter(name: str) -> Counter:
    """The counter `name` of the table; KeyError when the table does not have it."""
    metric = _metric(name, "counter")
    assert isinstance(metric, Counter)
    return metric


def gauge(name: str) -> Gauge:
    """The gauge `name` of the table; KeyError when the table does not have it."""
    metric = _metric(name, "gauge")
    assert isinstance(metric, Gauge)
    return metric


def histogram(name: str) -> Histogram:
    """The histogram `name` of the table; KeyError when the table does not have it."""
    metric = _metric(name, "histogram")
    assert isinstance(metric, Histogram)
    return metric


def serve(metrics: Metrics, part: str) -> str:
    """Serve `/metrics` of `part` from threads of this process; port 0 serves none. Returns why not, '' when it does.

    A port that is taken is a warning: a second part of a kind on one host works on without its own metrics.
    """
    port = int(getattr(metrics, f"{part}_port"))
    try:
        if port:
            server, _ = start_http_server(port, metrics.listen, registry=REGISTRY)
            server.socket.listen(BACKLOG)  # its own five are full in a burst; who then comes waits a second
            setattr(server.RequestHandlerClass, "timeout", SLOWEST_S)  # noqa: B010 - the type hides that it is a class
    except OSError as error:
        address, remedy = f"{metrics.listen}:{port}", f"set metrics.{part}_port to a free port, or to 0"
        log.get(part).warning("own metrics are not served", address=address, why=error.strerror, next=remedy)
        return f"{address} is not served: {error.strerror}; {remedy.removesuffix(', or to 0')}"
    return ""
