"""The same migrations for a cluster: what their SQL makes, and what its views say over two shards.

No ClickHouse server is to be had, but the engine takes a cluster whose two shards are both itself: Distributed tables
of database `w` read the local ones twice, and refuse what those of two servers refuse. What they say must be what one
server says that has every row twice. Replication and `ON CLUSTER` it has none of: these are read here as text.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from typing import Final

import pytest

from tests.real.configured_child import Asked, answers
from warpmeter import migrate, queries
from warpmeter.settings import Store

pytestmark = pytest.mark.long

CLUSTER: Final = Store(cluster="fleet", database="w")
SERVER: Final = """<tcp_port>9000</tcp_port><remote_servers><fleet>
<shard><replica><host>localhost</host><port>9000</port></replica></shard>
<shard><replica><host>localhost</host><port>9000</port></replica></shard>
</fleet></remote_servers>"""
TABLE: Final = re.compile(r"CREATE (?:OR REPLACE )?(?:TABLE|VIEW|MATERIALIZED VIEW) (?:IF NOT EXISTS )?`w`\.`?(\w+)`?")


def rendered(store: Store) -> list[str]:
    scripts = (*migrate.migrations(), *migrate.views())
    return [*migrate.bootstrap(store), *(each for script in scripts for each in migrate.render(script, store))]


STATEMENTS: Final = rendered(CLUSTER)


def made(pattern: str) -> dict[str, str]:
    """Statements with a pattern, by what they make."""
    found = {}
    for each in STATEMENTS:
        if re.search(pattern, each) and (name := TABLE.match(each)):
            found[name[1]] = each
    return found


# --- as text ------------------------------------------------------------------------------------------------------


def test_every_statement_runs_on_all_servers_and_can_run_again() -> None:
    again = r"CREATE (TABLE|MATERIALIZED VIEW|DATABASE) IF NOT EXISTS|CREATE OR REPLACE|ALTER TABLE \S+ ON CLUSTER"
    assert [each for each in STATEMENTS if "ON CLUSTER `fleet`" not in each or not re.match(again, each)] == []
    altered = [each for each in STATEMENTS if each.startswith("ALTER")]
    clauses = re.findall(r"\bADD (?:COLUMN|CONSTRAINT|INDEX) (?!IF NOT EXISTS).*", "\n".join(altered))
    assert clauses == []


def test_every_table_of_a_shard_is_replicated_under_a_path_of_its_own() -> None:
    kept = made(r"ENGINE = \w*MergeTree")
    paths = Counter(re.findall(r"ENGINE = Replicated\w*MergeTree\('([^']+)', '([^']+)'\)", "\n".join(kept.values())))
    assert set(paths.values()) == {1}
    assert len(paths) == len(kept) > 40
    shared = {("/clickhouse/fleet/everywhere/w/schema_migrations", "{shard}-{replica}")}
    of_shards = {(f"/clickhouse/fleet/tables/{{shard}}/w/{name}", "{replica}") for name in kept}
    assert set(paths) - of_shards == shared
    plain = re.compile(r"ENGINE = (\w*MergeTree\b(?!\()|(?!Replicated)\w*MergeTree)")
    assert [each for each in STATEMENTS if plain.search(each)] == []


def test_all_shards_are_read_through_a_table_over_each_and_views_of_people_read_nothing_less() -> None:
    local, spanning = made(r"ENGINE = Replicated"), made(r"ENGINE = Distributed")
    assert {f"{name}_local" for name in spanning} == set(local) - {"schema_migrations"}
    for name, each in spanning.items():
        assert f"AS `w`.`{name}_local`" in each
        assert f"Distributed(`fleet`, `w`, `{name}_local`, " in each
    people = made(r"^CREATE OR REPLACE VIEW")
    assert len(people) > 30
    assert [name for name, each in people.items() if "_local`" in each] == []


def test_rollups_are_made_where_their_rows_are() -> None:
    """Of an insert a view sees the block alone: from a Distributed table none, and to one it would not be awaited."""
    for each in made(r"^CREATE MATERIALIZED VIEW").values():
        _, target, source = re.findall(r"`w`\.`(\w+)`", each)
        assert (target[-6:], source[-6:]) == ("_local", "_local"), each


def test_a_column_is_added_to_both_the_local_before_the_spanning_table() -> None:
    adds = re.compile(r"ALTER TABLE `w`\.`(\w+)`.*ADD COLUMN", re.S)
    added = [found[1] for each in STATEMENTS if (found := adds.match(each))]
    assert len(added) > 10
    for name in (each.removesuffix("_local") for each in added if each.endswith("_local")):
        assert added.index(f"{name}_local") < added.index(name)
    assert {each for each in added if not each.endswith("_local")} == {
        each.removesuffix("_local") for each in added if each.endswith("_local")
    }


# --- two shards ---------------------------------------------------------------------------------------------------


def as_shards(statement: str) -> str:
    """A statement of the cluster for an engine that is all of it."""
    statement = statement.replace("ON CLUSTER `fleet`", "")
    return re.sub(r"ENGINE = Replicated(\w*MergeTree)\([^)]*\)", r"ENGINE = \1", statement)


NOW: Final = f"toDateTime({int(time.time()) // 60 * 60 - 900}, 'UTC')"
ROWS: Final = {
    "gpu_samples": f"""SELECT host, {NOW} - n AS ts, 1000 AS period_ms, gpu AS gpu,
        concat('GPU-', host, toString(gpu)) AS uuid,
        ['big'] AS job_ids, [1000] AS job_share_permille, 100 * gpu + n AS gpu_util_permille, 3000 AS power_deciwatts
        FROM HOSTS AS h CROSS JOIN (SELECT number AS `n` FROM numbers(90)) AS a
        CROSS JOIN (SELECT number AS `gpu` FROM numbers(2)) AS b""",
    "host_samples": f"""SELECT host, {NOW} - n AS ts, 1000 AS period_ms, 10 * n AS cpu_util_permille, 8 AS cores
        FROM HOSTS ARRAY JOIN range(90) AS n""",
    "device_samples": f"""SELECT host, {NOW} - n AS ts, 1000 AS period_ms, 'nic' AS kind, 'eth0' AS device,
        n AS rx_kilobytes_per_s FROM HOSTS ARRAY JOIN range(90) AS n""",
    "job_events": f"""SELECT host, {NOW} - 10 * n AS ts, 10000 AS period_ms, 'big' AS job_id, 'running' AS event,
        7 AS pid, 'train' AS name, 'ann' AS user, 2000 AS cpu_cores_milli FROM HOSTS ARRAY JOIN range(9) AS n""",
    "source_health": f"""SELECT host, {NOW} - 10 * n AS ts, 10000 AS period_ms, 'gpu' AS source, 'ok' AS state
        FROM HOSTS ARRAY JOIN range(9) AS n""",
    "trace_ranks_loads": f"""SELECT host AS capture_id, 'big' AS job_id, host, 0 AS rank, '0' AS process, 'l' AS load,
        {NOW} AS loaded_at, 1000 AS span_ns, 700 AS busy_ns FROM HOSTS""",
    "trace_kernels_loads": f"""SELECT host AS capture_id, 'big' AS job_id, host, 0 AS rank, '0' AS process, 'l' AS load,
        {NOW} AS loaded_at, 'k' AS name, 5 AS count, 100 AS total_ns FROM HOSTS""",
}
NEEDED: Final = {"since": "-6h", "until": "now"}
TIMES: Final = {"w": 1, "one": 2}
SAME: Final = (
    "hosts", "gpus", "gpu_statuses", "jobs", "job_processes", "job_efficiency", "source_health_now",
    "trace_ranks", "trace_kernels",
    f"gpu_heatmap(metric = 'gpu_util', since = {NOW} - 600, until = {NOW} + 60, step_s = 60)",
    "(SELECT host, gpu, window, sum(samples), sum(power_deciwatts_sum) FROM gpu_heatmap_1h GROUP BY ALL)",
    "(SELECT table, sum(rows) FROM ingest_batches GROUP BY ALL)",
    "(SELECT window, sum(samples) FROM fleet_windows_1m GROUP BY ALL)",
)  # fmt: skip


def inserts() -> Iterator[Asked]:
    some = "(SELECT arrayJoin(['ant', 'bee', 'cow']) AS host)"
    for database, times in TIMES.items():
        for table, rows in ROWS.items():
            into = table if database == "one" else f"{table}_local"
            columns = ", ".join(dict.fromkeys(("host", *re.findall(r"AS (\w+)(?=,|\s+FROM)", rows))))
            for turn in range(times):
                token = f"SETTINGS insert_deduplication_token = 'u/0/{turn}-{turn}'"
                picked = f"SELECT {columns} FROM ({rows.replace('HOSTS', some)})"
                yield f"INSERT INTO {database}.{into} ({columns}) {token} {picked}", {}


def asked_by_name() -> Iterator[Asked]:
    """All SQL that is sent by its name: queries, rules of alerts, questions of reports; analysed, not read."""
    for query in queries.every():
        needed = {each.name: _of_type(each.name, each.type) for each in query.parameters if not each.default}
        statement = query.statement({name: NEEDED.get(name, value) for name, value in needed.items()})
        # Of "'' or any" the engine would leave the other half out.
        some = {name: "big" for name in ("job_id", "host", "gpus") if statement.values.get(name) == ""}
        yield f"EXPLAIN PLAN {statement.sql}", dict(statement.values) | some
    for folder in ("alerts", "reports"):
        for file in (resources.files("warpmeter") / "sql" / folder).iterdir():
            text = file.read_text()
            sql = re.sub(r"^--.*\n", "", text, flags=re.M).strip().removesuffix(";")
            given = {name: _of_type(name, kind) for name, kind in re.findall(r"\{(\w+):([^{}]+)\}", sql)}
            told = dict(re.findall(r"^-- @(\w+) ([^ '-]\S*)", text, flags=re.M))
            yield f"EXPLAIN PLAN {sql}", given | {name: value for name, value in told.items() if value != "now"}


def _of_type(name: str, kind: str) -> str:
    bare = re.sub(r"^(Nullable|LowCardinality)\(", "", kind.strip())
    if bare.startswith("DateTime"):
        return "2026-11-29 00:00:00"
    if bare.startswith("Array"):
        return "[]"
    if bare.startswith("Identifier"):
        return "host" if name != "windows" else "gpu_heatmap_1m"
    return "1" if re.match("U?Int|Float|Bool", bare) else ""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    """By part, statements and what two shards said."""
    making, one = map(as_shards, STATEMENTS), rendered(Store(database="one"))
    parts: dict[str, list[Asked]] = {
        "made": [(each, {}) for each in (*making, *one)],
        "filled": list(inserts()),
        "w": [("USE w", {}), *((f"SELECT * FROM {each} ORDER BY ALL", {}) for each in SAME)],
        "named": list(asked_by_name()),
        "one": [("USE one", {}), *((f"SELECT * FROM {each} ORDER BY ALL", {}) for each in SAME)],
    }
    found = answers(tmp_path_factory.mktemp("cluster"), SERVER, [each for part in parts.values() for each in part])
    answered = iter(found)
    return {name: [(sql, next(answered)) for sql, _ in part] for name, part in parts.items()}


def failed(part: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(sql[:200], answer[:300]) for sql, answer in part if answer.startswith("error: ")]


def test_two_shards_take_every_statement(said: dict[str, list[tuple[str, str]]]) -> None:
    assert failed(said["made"]) == []
    assert failed(said["filled"]) == []


def test_views_say_over_two_shards_what_they_say_of_one_server(said: dict[str, list[tuple[str, str]]]) -> None:
    assert failed(said["w"]) == []
    for (sql, over), (_, alone) in zip(said["w"][1:], said["one"][1:], strict=True):
        assert alone.count("\n") > 1, sql
        assert over == alone, sql


def test_no_query_joins_what_spans_the_shards_on_each_of_them(said: dict[str, list[tuple[str, str]]]) -> None:
    """DISTRIBUTED_IN_JOIN_SUBQUERY_DENIED: such a join would be run by every shard with every other."""
    assert len(said["named"]) > 150
    assert failed(said["named"]) == []
