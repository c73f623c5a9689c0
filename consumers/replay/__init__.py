"""Land again what Kafka still holds: a time range of a topic (`run`), or messages that were refused (`letters`).

Both load the bytes as they came into a staging table made as the raw table is, through the engine's own format and
constraints, and move them from there in inserts under tokens of their own, each one block. How far a replay has come is
in the name of its staging table, which one atomic rename changes: killed anywhere, the next one goes on.

    loading   rows come from Kafka; nothing was touched yet, and a new replay begins anew
    staged    all rows are there, and what they replace is being deleted; nothing was inserted yet
    landing   the range is empty, and the rows are being inserted under this replay's tokens
"""
