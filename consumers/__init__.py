"""Kafka to ClickHouse, exactly once: spans, ledger, sink, judge, dead letters and the loop that joins them."""
