-- Judges: twins of the raw tables that keep nothing. An insert into one enforces the format, the types and the
-- constraints of its table, so ingest asks the engine itself whether a message is acceptable.
{% for table in ["gpu_samples", "gpu_processes", "gpu_events", "host_samples", "device_samples", "metric_samples", "job_events", "source_health", "stack_samples", "capture_requests", "capture_schedules", "capture_commands", "capture_events", "alerts", "alert_words", "report_events", "dead_letters"] %}
CREATE OR REPLACE TABLE {{ name(table ~ "_judge") }} {{ on_cluster }} AS {{ local(table) }} ENGINE = Null;
{% endfor %}
