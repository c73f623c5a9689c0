"""Processes: warpmeter's own metrics, from Prometheus: agents, ingest, scheduler and alerts, engine, page."""

from typing import Final

from deploy.grafana.source.model import Dashboard, Panel, Row, Series, Variable

SOURCE: Final = Variable("prometheus", "Prometheus", datasource="prometheus")
RATE: Final = "[$__rate_interval]"


def _rate(metric: str, *by: str, where: str = "") -> str:
    return f"sum by ({', '.join(by)}) (rate({metric}{{{where}}}{RATE}))"


def _quantile(metric: str, *by: str, quantile: float = 0.95) -> str:
    return f"histogram_quantile({quantile}, sum by ({', '.join(('le', *by))}) (rate({metric}_bucket{RATE})))"


def _lines(title: str, unit: str, *series: tuple[str, str], help: str = "", ratio: bool = False) -> Panel:
    asked = tuple(Series(expr, legend) for expr, legend in series)
    return Panel("timeseries", title, asked, unit, help, (8, 7), ratio=ratio)


PROCESSES: Final = Dashboard(
    "processes",
    "Processes",
    (
        Row(
            "All",
            (
                _lines(
                    "Processes that are up",
                    "short",
                    ('sum by (job) (up{job=~"(.*[/-])?warpmeter-.+"})', "{{job}}"),
                    ('sum by (job) (1 - up{job=~"(.*[/-])?warpmeter-.+"})', "{{job}} down"),
                ),
                _lines(
                    "Active schedulers",
                    "short",
                    ("sum(warpmeter_scheduler_active)", "active"),
                    help="One, whatever the number of schedulers.",
                ),
                _lines("Alerts that fire", "short", ("sum by (severity) (warpmeter_alerts_firing)", "{{severity}}")),
            ),
        ),
        Row(
            "Agents",
            (
                _lines(
                    "Sources that fail, and the agents that have them",
                    "short",
                    ("count by (source) (warpmeter_source_up == 0)", "{{source}}"),
                ),
                _lines(
                    "Longest read of a source", "s", ("max by (source) (warpmeter_source_read_seconds)", "{{source}}")
                ),
                _lines(
                    "Ticks that came too late",
                    "cps",
                    (_rate("warpmeter_source_late_ticks_total", "source"), "{{source}}"),
                ),
                _lines(
                    "Messages that the bus acknowledged",
                    "cps",
                    (_rate("warpmeter_shipper_messages_total", "topic"), "{{topic}}"),
                ),
                _lines(
                    "Waiting in agents",
                    "bytes",
                    ("sum(warpmeter_spool_bytes)", "spools"),
                    ("max(warpmeter_spool_bytes)", "largest spool"),
                    ("sum(warpmeter_shipper_queue_bytes)", "queues"),
                    ("sum by (output) (warpmeter_output_queue_bytes)", "output {{output}}"),
                ),
                _lines(
                    "Lost by agents",
                    "cps",
                    (_rate("warpmeter_spool_dropped_messages_total", "why"), "spool: {{why}}"),
                    (_rate("warpmeter_shipper_lost_messages_total", "topic", "why"), "{{topic}}: {{why}}"),
                    (_rate("warpmeter_output_dropped_total", "output", "why"), "{{output}}: {{why}}"),
                ),
                _lines(
                    "Scraped series",
                    "short",
                    ("sum by (endpoint) (warpmeter_scrape_series)", "{{endpoint}}"),
                    (
                        "sum by (endpoint, why) (increase(warpmeter_scrape_dropped_series_total[$__rate_interval]))",
                        "{{endpoint}} dropped: {{why}}",
                    ),
                ),
                _lines(
                    "PyTorch processes that can be traced", "short", ("sum(warpmeter_kineto_processes)", "processes")
                ),
                _lines(
                    "Captures of processes that ended",
                    "short",
                    (
                        "sum by (state, reason) (increase(warpmeter_captures_total[$__rate_interval]))",
                        "{{state}} {{reason}}",
                    ),
                ),
            ),
        ),
        Row(
            "Ingest",
            (
                _lines("Messages behind", "short", ("sum by (topic) (warpmeter_ingest_lag_messages)", "{{topic}}")),
                _lines(
                    "Furthest partition behind",
                    "short",
                    ("max by (topic) (warpmeter_ingest_lag_messages)", "{{topic}}"),
                ),
                _lines("Rows a second", "rowsps", (_rate("warpmeter_ingest_rows_total", "table"), "{{table}}")),
                _lines(
                    "Bytes a second",
                    "Bps",
                    (_rate("warpmeter_ingest_bytes_total", "table"), "{{table}}"),
                    ("sum(warpmeter_ingest_open_bytes)", "open batches (bytes)"),
                ),
                _lines(
                    "Inserts a second",
                    "cps",
                    (_rate("warpmeter_ingest_spans_total", "table"), "{{table}}"),
                    (_rate("warpmeter_ingest_store_errors_total", "table"), "{{table}}, tried again"),
                ),
                _lines(
                    "Time of an insert", "s", (_quantile("warpmeter_ingest_insert_seconds", "table"), "{{table}} p95")
                ),
                _lines(
                    "Inserts fail, or one waits, for",
                    "s",
                    (
                        "max by (instance) (time() - (warpmeter_ingest_failing_since_timestamp_seconds > 0))",
                        "{{instance}} fails",
                    ),
                    (
                        "max by (instance) (time() - (warpmeter_ingest_busy_since_timestamp_seconds > 0))",
                        "{{instance}} waits",
                    ),
                ),
                _lines(
                    "Refused messages",
                    "short",
                    ("sum by (topic) (increase(warpmeter_ingest_rejects_total[$__rate_interval]))", "{{topic}}"),
                ),
                _lines(
                    "Messages that retention took",
                    "short",
                    ("sum by (topic) (increase(warpmeter_ingest_lost_messages_total[$__rate_interval]))", "{{topic}}"),
                ),
            ),
        ),
        Row(
            "Scheduler: captures, alerts, reports",
            (
                _lines(
                    "Captures that go on",
                    "short",
                    ("sum(warpmeter_scheduler_captures)", "captures"),
                    ("sum(increase(warpmeter_alerts_captures_total[$__rate_interval]))", "asked for by triggers"),
                    ("sum(increase(warpmeter_alerts_captures_refused_total[$__rate_interval]))", "without budget"),
                ),
                _lines(
                    "Evaluation of the rules of alerts",
                    "s",
                    ("max(warpmeter_alerts_evaluation_seconds)", "the last"),
                    ("time() - max(warpmeter_alerts_evaluated_timestamp_seconds > 0)", "since the last"),
                ),
                _lines(
                    "Slowest rules",
                    "s",
                    (f"topk(5, {_quantile('warpmeter_alerts_rule_seconds', 'rule')})", "{{rule}} p95"),
                ),
                _lines(
                    "Evaluations that failed or were left out",
                    "short",
                    ("sum by (rule) (increase(warpmeter_alerts_rule_errors_total[$__rate_interval]))", "{{rule}}"),
                    ("sum(increase(warpmeter_alerts_store_away_total[$__rate_interval]))", "store away"),
                    ("sum(increase(warpmeter_alerts_late_evaluations_total[$__rate_interval]))", "late"),
                    ("sum(increase(warpmeter_alerts_skipped_total[$__rate_interval]))", "cut short"),
                    ("sum(increase(warpmeter_alerts_bus_errors_total[$__rate_interval]))", "bus"),
                ),
                _lines(
                    "Alerts that fired and were resolved",
                    "short",
                    (
                        "sum by (rule, state) (increase(warpmeter_alerts_changes_total[$__rate_interval]))",
                        "{{rule}} {{state}}",
                    ),
                ),
                _lines(
                    "What receivers were told",
                    "short",
                    (
                        "sum by (receiver, outcome) (increase(warpmeter_alert_notices_total[$__rate_interval]))",
                        "{{receiver}} {{outcome}}",
                    ),
                    ("sum by (receiver) (warpmeter_alert_notices_owed)", "{{receiver}} owed"),
                ),
                _lines(
                    "A receiver fails for",
                    "s",
                    (
                        "max by (receiver) (time() - (warpmeter_alert_receiver_failing_since_timestamp_seconds > 0))",
                        "{{receiver}}",
                    ),
                ),
                _lines(
                    "Reports",
                    "short",
                    (
                        "sum by (outcome) (increase(warpmeter_reports_rendered_total[$__rate_interval]))",
                        "rendered: {{outcome}}",
                    ),
                    (
                        "sum by (target, outcome) (increase(warpmeter_report_deliveries_total[$__rate_interval]))",
                        "{{target}}: {{outcome}}",
                    ),
                ),
            ),
        ),
        Row(
            "Embedded engine and page",
            (
                _lines(
                    "Requests to the engine",
                    "reqps",
                    (_rate("warpmeter_engine_requests_total", "method", "status"), "{{method}} {{status}}"),
                ),
                _lines(
                    "Time of a request to the engine",
                    "s",
                    (_quantile("warpmeter_engine_request_seconds", "method"), "{{method}} p95"),
                ),
                _lines("Open pages", "short", ("sum(warpmeter_web_websockets)", "pages")),
                _lines(
                    "Requests to API and page that failed",
                    "reqps",
                    (
                        _rate("warpmeter_web_requests_total", "route", "status", where='status=~"5.."'),
                        "{{route}} {{status}}",
                    ),
                ),
                _lines(
                    "Slowest routes",
                    "s",
                    (f"topk(5, {_quantile('warpmeter_web_request_seconds', 'route')})", "{{route}} p95"),
                ),
                _lines(
                    "Requests to API and page", "reqps", (_rate("warpmeter_web_requests_total", "status"), "{{status}}")
                ),
            ),
        ),
    ),
    (SOURCE,),
    description="Scraped as deploy/prometheus/prometheus.yml says; its alerts are warpmeter.rules.yml.",
)
