"""The embedded engine: ClickHouse in-process (chDB) on a data folder, served over ClickHouse's HTTP protocol.

`python -m warpmeter.engine` is one process: it holds the folder (`lock`), opens the engine with its own users file
(`access`), shuts itself in (`sandbox`), and answers HTTP on loopback (`server`, `app`).

**Why chdb's own API and not clickhouse-connect**, which is how everything else reaches the store. A proxy must pass
what it does not understand: any setting, any `param_*`, any format's bytes. clickhouse-connect's chDB backend puts
settings in a `SETTINGS` clause (which fails after a `FORMAT`), streams five formats only and reads all others into
memory, and keeps a setting that it could not restore. Here a request has a chDB connection of its own (0.15 ms), so
its settings, database and parameters end with it, as in a ClickHouse server without a session; results come out of
the engine through a pipe, so every format streams in bounded memory; inserts go in as clickhouse-connect's do, from a
file that the engine itself parses. Clients of this endpoint, the tests among them, use clickhouse-connect.
"""
