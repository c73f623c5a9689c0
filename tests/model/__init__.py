"""A model of ingest's world for hypothesis: a store, a consumer group and processes that stop at every call."""
