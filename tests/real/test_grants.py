"""What analysts may do, held by the real engine.

chDB makes no users in SQL ("there is no writeable access storage"), so the statements themselves are parsed by it, and
the rights and bounds that they give are those of its one user, from its users file.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from warpmeter import grants
from warpmeter.settings import Store

LIMITS: Final = grants.Limits(result_rows=10, rows_to_read=1_000)
BEFORE: Final = (
    "CREATE DATABASE warpmeter",
    "CREATE DATABASE other",
    "CREATE TABLE other.kept (a UInt8) ENGINE = MergeTree ORDER BY a",
    "CREATE TABLE warpmeter.kept (a UInt8) ENGINE = MergeTree ORDER BY a",
    "INSERT INTO warpmeter.kept VALUES (1), (2)",
    "CREATE TABLE warpmeter.dead_letters (a UInt8) ENGINE = MergeTree ORDER BY a",
    "CREATE VIEW warpmeter.seen AS SELECT a FROM warpmeter.kept",
)
ALLOWED: Final = {
    "SELECT sum(a) FROM warpmeter.seen": "3\n",
    "SELECT count() FROM warpmeter.kept": "2\n",
    "SELECT name FROM system.columns WHERE table = 'seen'": "a\n",
    "SELECT count() FROM (SELECT number FROM numbers(11)) SETTINGS max_result_rows = 20, max_threads = 1": "11\n",
    "SELECT getSetting('max_execution_time') = 60": "1\n",
}
REFUSED: Final = {
    "INSERT INTO warpmeter.kept SELECT 3": "ACCESS_DENIED",
    "ALTER TABLE warpmeter.kept DELETE WHERE 1": "ACCESS_DENIED",
    "TRUNCATE TABLE warpmeter.kept": "ACCESS_DENIED",
    "DROP TABLE warpmeter.kept": "ACCESS_DENIED",
    "CREATE TABLE warpmeter.made (a UInt8) ENGINE = Memory": "ACCESS_DENIED",
    "CREATE USER somebody": "ACCESS_DENIED",
    "GRANT INSERT ON warpmeter.* TO default": "ACCESS_DENIED",
    "SELECT * FROM warpmeter.dead_letters": "ACCESS_DENIED",
    "SELECT * FROM other.kept": "ACCESS_DENIED",
    "SELECT * FROM file('/etc/passwd', LineAsString)": "ACCESS_DENIED",
    "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)": "ACCESS_DENIED",
    "SELECT number FROM numbers(11)": "TOO_MANY_ROWS_OR_BYTES",
    "SELECT sum(number) FROM numbers(1001)": "TOO_MANY_ROWS",
    "SELECT 1 SETTINGS readonly = 0": "READONLY",
    "SELECT 1 SETTINGS max_execution_time = 601": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_execution_time = 0": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_rows_to_read = 0": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_result_rows = 101": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS max_memory_usage = 0": "SETTING_CONSTRAINT_VIOLATION",
    "SELECT 1 SETTINGS allow_ddl = 1": "QUERY_IS_PROHIBITED",
}


def written() -> list[str]:
    """Every statement that is ever printed or run: on a server, on a cluster, and of each part."""
    who = grants.user("ada", "correct horse", "salt")
    stores = (Store(), Store(database="metrics", cluster="main"))
    parts = [right for store in stores for each in grants.PARTS for right in grants.of_part(store, each, who)]
    return [*(each for store in stores for each in grants.statements(store, LIMITS, who)), *parts]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the engine said, in a process of its own."""
    asked: dict[str, Any] = {
        "before": BEFORE,
        "parsed": written(),
        "rights": grants.rights(Store()),
        "settings": grants.profile(LIMITS),
        "asked": [*ALLOWED, *REFUSED],
    }
    child = [sys.executable, "-m", "tests.real.grants_child", str(tmp_path_factory.mktemp("analyst"))]
    root = Path(__file__).parents[2]
    found = subprocess.run(child, input=json.dumps(asked), capture_output=True, text=True, check=True, cwd=root)
    answered: dict[str, list[str]] = json.loads(found.stdout)
    return answered


def test_the_engine_takes_every_statement(said: dict[str, list[str]]) -> None:
    assert [each for each in said["before"] if each] == []
    assert [
        one for one, answer in zip(written(), said["parsed"], strict=True) if "Query" not in answer or "error" in answer
    ] == []


def test_an_analyst_reads_and_does_nothing_else(said: dict[str, list[str]]) -> None:
    answers = dict(zip([*ALLOWED, *REFUSED], said["asked"], strict=True))
    assert {sql: answers[sql] for sql in ALLOWED} == ALLOWED
    assert {sql: f"({why})" in answers[sql] for sql, why in REFUSED.items()} == dict.fromkeys(REFUSED, True)


# --- the parts of warpmeter ---------------------------------------------------------------------------------------

MADE: Final = (
    "CREATE DATABASE warpmeter",
    "CREATE TABLE warpmeter.gpu_samples_judge (a UInt8) ENGINE = Null",
    *(
        f"CREATE TABLE warpmeter.{table} (a UInt8, capture_id String) ENGINE = MergeTree ORDER BY a"
        for table in ("gpu_samples", "ingest_batches", "trace_ranks_loads", "dead_letters")
    ),
    "INSERT INTO warpmeter.trace_ranks_loads VALUES (1, 'c')",
)
DELETE: Final = "DELETE FROM warpmeter.trace_ranks_loads WHERE capture_id = 'c' SETTINGS lightweight_deletes_sync = 1"
SENT: Final = {
    "SELECT count() FROM warpmeter.ingest_batches": {"ingest", "scheduler", "web", "migrate"},
    "SELECT count() FROM warpmeter.gpu_samples": {"scheduler", "web", "migrate"},
    "SELECT count() FROM warpmeter.dead_letters": {"scheduler", "web", "migrate"},
    "SELECT name FROM system.tables LIMIT 1": {"ingest", "scheduler", "web", "migrate"},
    "INSERT INTO warpmeter.gpu_samples SELECT 1, ''": {"ingest", "migrate"},
    "INSERT INTO warpmeter.gpu_samples_judge SELECT 1": {"ingest", "migrate"},
    "INSERT INTO warpmeter.trace_ranks_loads SELECT 2, 'd'": {"scheduler", "migrate"},
    DELETE: {"scheduler", "migrate"},
    "ALTER TABLE warpmeter.gpu_samples DELETE WHERE 1": {"migrate"},
    "TRUNCATE TABLE warpmeter.ingest_batches": {"migrate"},
    "CREATE TABLE warpmeter.made (a UInt8) ENGINE = MergeTree ORDER BY a": {"migrate"},
    "CREATE USER somebody": set(),
    "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)": set(),
}


@pytest.mark.parametrize("part", grants.PARTS)
def test_a_part_does_what_it_sends_and_nothing_else(part: str, tmp_path: Path) -> None:
    bounds = {"max_threads": "1 MIN 1 MAX 64", **grants.PARTS[part].settings}
    settings = {name: bound for name, bound in bounds.items() if name != "readonly"}
    asked = {"before": MADE, "parsed": [], "rights": grants.part_rights(Store(), part), "settings": settings}
    child = [sys.executable, "-m", "tests.real.grants_child", str(tmp_path), "0"]
    told = json.dumps(asked | {"asked": list(SENT)})
    found = subprocess.run(child, input=told, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    said = dict(zip(SENT, json.loads(found.stdout)["asked"], strict=True))
    assert {sql for sql, answer in said.items() if not answer.startswith("error: ")} == {
        sql for sql, parts in SENT.items() if part in parts
    }, said
