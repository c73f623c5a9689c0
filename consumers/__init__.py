"""From Kafka to ClickHouse, every row once: loop, spans, ledger, sink, judge, dead letters."""
