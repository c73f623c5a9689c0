"""warpmeter: fleet-wide GPU performance observability on Kafka and ClickHouse."""

__version__ = "0.1.0"
