"""What a read-only client cannot do, and what nobody can, on the real engine."""

import http.client
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.engine import TOKEN, WRITER, EngineServer
from warpmeter.engine import sandbox


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("secret") / "secret.csv"
    found.write_text("SECRET\n")
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(EngineServer(tmp_path_factory.mktemp("engine"))) as found:
        found.make_database()
        ask(found, "CREATE TABLE kept (a UInt8) ENGINE = MergeTree ORDER BY a", write=True)
        ask(found, "INSERT INTO kept VALUES (1)", write=True)
        yield found


def ask(
    server: EngineServer, sql: str, write: bool = False, method: str = "POST", settings: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Status and body."""
    given = {**(settings or {})} | ({"user": WRITER, "password": TOKEN} if write else {})
    if method == "GET":
        given["query"] = sql
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request(method, "/?" + urlencode(given, quote_via=quote), sql.encode() if method == "POST" else None)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(errors="replace")


WRITES = (
    "INSERT INTO kept VALUES (2)",
    "INSERT INTO kept SELECT 2",
    "INSERT INTO kept SETTINGS readonly = 0 VALUES (2)",
    "CREATE TABLE t (a Int8) ENGINE = Memory",
    "CREATE DATABASE d",
    "CREATE VIEW v AS SELECT 1",
    "CREATE FUNCTION f AS x -> x",
    "CREATE USER u",
    "GRANT ALL ON *.* TO default",
    "DROP TABLE kept",
    "TRUNCATE TABLE kept",
    "ALTER TABLE kept DELETE WHERE 1",
    "ALTER TABLE kept ADD COLUMN b Int8",
    "OPTIMIZE TABLE kept",
    "RENAME TABLE kept TO lost",
    "DETACH TABLE kept",
    "SYSTEM SHUTDOWN",
    "SYSTEM STOP MERGES",
    "KILL QUERY WHERE 1",
    "BACKUP TABLE kept TO File('x')",
    "SET readonly = 0",
    "SELECT 1 SETTINGS readonly = 0",
    "EXECUTE AS default INSERT INTO kept VALUES (2)",
    "SELECT 1; INSERT INTO kept VALUES (2)",
    "SET max_threads = 1; DROP TABLE kept",
)


@pytest.mark.parametrize("sql", WRITES)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_reader_changes_nothing(server: EngineServer, sql: str, method: str) -> None:
    status, said = ask(server, sql, method=method)
    assert status >= 400, said
    assert ask(server, "SELECT count(), sum(a) FROM kept")[1] == "1\t1\n"


def test_a_reader_does_not_leave_read_only_by_a_setting(server: EngineServer) -> None:
    assert ask(server, "INSERT INTO kept VALUES (2)", settings={"readonly": "0"})[0] >= 400


def test_a_writer_reads_only_by_get(server: EngineServer) -> None:
    assert "READONLY" in ask(server, "INSERT INTO kept VALUES (2)", write=True, method="GET")[1]


def test_a_writer_with_a_wrong_token_is_refused(server: EngineServer) -> None:
    assert ask(server, "SELECT 1", settings={"user": WRITER, "password": "wrong"})[0] == 403


OUTSIDE = (
    "SELECT * FROM file('{file}')",
    "SELECT * FROM file('{file}', LineAsString)",
    "SELECT file('{file}')",
    "SELECT `file`('{file}')",
    "SELECT `f\\x69le`('{file}')",
    "SELECT arrayMap(x -> file(x), ['{file}'])",
    "SELECT * FROM default.`{file}`",
    "SELECT * FROM `{file}`",
    "SELECT * FROM '{file}'",
    "DESCRIBE TABLE file('{file}')",
    "SELECT * FROM loop(file('{file}'))",
    "SELECT * FROM view(SELECT * FROM file('{file}'))",
    "SELECT * FROM filesystem('/etc')",
    "SELECT * FROM url('http://127.0.0.1:{port}/ping', LineAsString)",
    "SELECT * FROM remote('127.0.0.1', system.one)",
    "SELECT * FROM s3('http://127.0.0.1:{port}/bucket/x.csv', NOSIGN, CSV, 'a String')",
    "SELECT * FROM mysql('127.0.0.1:{port}', 'a', 'b', 'c', 'd')",
    "SELECT * FROM postgresql('127.0.0.1:{port}', 'a', 'b', 'c', 'd')",
    "SELECT * FROM sqlite('{file}', 't')",
    "SELECT * FROM executable('id', TSV, 'a String')",
    "SELECT * FROM Python(settings)",
    "SELECT * FROM `Python`('headers')",
    "SELECT 1 INTO OUTFILE '{file}.out'",
    "SELECT 1 INTO/**/OUTFILE '{file}.out' TRUNCATE FORMAT CSV",
    "SHOW TABLES INTO OUTFILE '{file}.out'",
    "SELECT 1 FORMAT Template SETTINGS format_template_resultset = '{file}'",
    "SELECT 1 AS a FORMAT Protobuf SETTINGS format_schema = '{file}:X'",
    "SELECT * FROM system.one SETTINGS additional_table_filters = {{'system.one': 'file(\\'{file}\\') = 1'}}",
    "SELECT * FROM icebergLocal('{file}')",
    "SELECT * FROM deltaLakeLocal('{file}')",
)


@pytest.mark.parametrize("sql", OUTSIDE)
def test_a_reader_reaches_neither_files_nor_network(server: EngineServer, secret: Path, sql: str) -> None:
    status, said = ask(server, sql.format(file=secret, port=server.port))
    assert status >= 400, said
    assert "SECRET" not in said
    assert [each.name for each in secret.parent.iterdir()] == [secret.name]


@pytest.mark.parametrize("name", ["format_schema", "format_template_row", "additional_result_filter"])
def test_nor_by_a_setting_in_the_address(server: EngineServer, name: str) -> None:
    assert ask(server, "SELECT 1", settings={name: "x"})[0] >= 400


@pytest.mark.parametrize("sql", [sql for sql in OUTSIDE if "file(" in sql or "url(" in sql or "OUTFILE" in sql])
def test_a_writer_is_held_inside_too(server: EngineServer, secret: Path, sql: str) -> None:
    status, said = ask(server, sql.format(file=secret, port=server.port), write=True)
    assert status >= 400 or not sandbox.version(), said


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE outside (a String) ENGINE = File(CSV, '{file}')",
        "CREATE TEMPORARY TABLE outside (a String) ENGINE = File(CSV, '{file}')",
        "CREATE TABLE outside (a String) ENGINE = URL('http://127.0.0.1:{port}/ping', CSV)",
        "CREATE TABLE outside (a String) ENGINE = SQLite('{file}', 't')",
        "CREATE DATABASE outside ENGINE = Filesystem('/etc')",
        "CREATE TABLE outside (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '/tmp')",
        "BACKUP TABLE kept TO File('{file}')",
        "CREATE USER u",
    ],
)
def test_a_writer_makes_nothing_that_reaches_outside(server: EngineServer, secret: Path, sql: str) -> None:
    status, said = ask(server, sql.format(file=secret, port=server.port), write=True)
    assert status >= 400, said


@pytest.mark.parametrize(
    "engine", ["Memory", "Null", "Log", "ReplacingMergeTree ORDER BY a", "Merge('warpmeter', 'kept')"]
)
def test_a_writer_makes_what_it_needs(server: EngineServer, engine: str) -> None:
    assert ask(server, f"CREATE TABLE made (a UInt8) ENGINE = {engine}", write=True)[0] == 200
    assert ask(server, "DROP TABLE made SYNC", write=True)[0] == 200


def files(folder: Path) -> set[str]:
    """What lies in the engine's folder, but for what it makes and drops with every query and merge: a folder may be
    gone when it is looked into."""
    found = (Path(at) / name for at, folders, names in os.walk(folder) for name in (*folders, *names))
    return {str(each.relative_to(folder)) for each in found if "store" not in each.parts[-4:]}


def test_no_table_function_makes_a_file(server: EngineServer) -> None:
    names = ask(server, "SELECT name FROM system.table_functions")[1].split()
    evil, before = server.data / "metadata" / "evil.sql", files(server.data)
    for name in names:
        for arguments in (f"'{evil}', 't'", f"'{evil}'"):
            ask(server, f"SELECT * FROM {name}({arguments})")
    assert len(names) > 50
    assert {each for each in files(server.data) - before if "evil" in each} == set()
    assert not evil.exists()


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM sqlite('{file}', 't')",
        "SELECT * FROM `sql\\Nite`('{file}', 't')",
        "SELECT * FROM sqlite\u180e('{file}', 't')",
        "INSERT INTO FUNCTION sqlite('{file}', 't') VALUES (1)",
        "CREATE TABLE evil AS sqlite('{file}', 't')",
        "CREATE TABLE evil (a String) ENGINE = SQLite('{file}', 't')",
        "CREATE DATABASE evil ENGINE = SQLite('{file}')",
    ],
)
def test_sqlite_is_nobodys(server: EngineServer, sql: str, write: bool) -> None:
    evil = server.data / "metadata" / "evil.sql"
    status, said = ask(server, sql.format(file=evil), write=write)
    assert status >= 400, said
    assert not evil.exists()


def test_a_view_with_parameters_is_called_like_a_function(server: EngineServer) -> None:
    ask(server, "CREATE VIEW above AS SELECT a FROM kept WHERE a > {least:UInt8}", write=True)
    assert ask(server, "SELECT * FROM above(least = 0)") == (200, "1\n")


LIMITS = "SELECT getSetting('max_memory_usage'), getSetting('max_execution_time')"


def test_a_readers_memory_and_time_have_limits(server: EngineServer) -> None:
    memory, seconds = map(int, ask(server, LIMITS)[1].split())
    assert 0 < memory <= 4 << 30
    assert seconds == 300
    assert ask(server, LIMITS, write=True)[1] == "0\t0\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_memory_usage", "0"),
        ("max_memory_usage", str(5 << 30)),
        ("max_execution_time", "0"),
        ("max_execution_time", "301"),
        ("max_untracked_memory", str(1 << 30)),
        ("max_threads", "1000"),
        ("profile", "'default'"),
    ],
)
def test_a_reader_does_not_raise_its_limits(server: EngineServer, name: str, value: str) -> None:
    assert "CONSTRAINT" in ask(server, f"SELECT 1 SETTINGS {name} = {value}")[1]
    assert "CONSTRAINT" in ask(server, "SELECT 1", settings={name: value.strip("'")})[1]
    inside = ask(server, f"SELECT * FROM (SELECT getSetting('{name}') SETTINGS {name} = {value})")[1]
    assert "Code:" in inside or inside != f"{value}\n"  # the engine clamps it


def test_a_reader_may_lower_its_limits(server: EngineServer) -> None:
    lower = {"max_memory_usage": str(32 << 20), "max_execution_time": "1"}
    assert ask(server, LIMITS, settings=lower)[1] == f"{32 << 20}\t1\n"
    large, memory = "SELECT groupArray(number) FROM numbers(100000000)", {"max_memory_usage": str(32 << 20)}
    assert "MEMORY_LIMIT_EXCEEDED" in ask(server, large, settings=memory)[1]  # a second may be over before
    endless = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"
    assert "TIMEOUT_EXCEEDED" in ask(server, endless, settings=lower)[1]


def test_the_engine_leaves_half_of_the_memory(server: EngineServer) -> None:
    sql = "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage_to_ram_ratio'"
    assert ask(server, sql) == (200, "0.5\n")


def test_the_environment_is_not_shown(server: EngineServer) -> None:
    raw = Path(f"/proc/{server.process.pid}/environ").read_bytes()
    assert not raw.strip(b"\0") or not sandbox.version()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM numbers(3)",
        "WITH 1 AS x SELECT x",
        "EXPLAIN SELECT 1",
        "SHOW DATABASES",
        "EXISTS TABLE kept",
        "DESCRIBE TABLE kept",
        "SELECT a FROM kept SETTINGS max_threads = 1, optimize_aggregation_in_order = 1",
        "SELECT readonly FROM system.settings LIMIT 1",
        "SELECT * FROM format(JSONEachRow, '{\"a\": 1}')",
        "SELECT * FROM merge('warpmeter', 'kept')",
        "SELECT format('{}', 'a'), * FROM view(SELECT 1)",
        "SELECT 'into outfile', 'python (x)' = 'file('",
    ],
)
def test_what_a_reader_may(server: EngineServer, sql: str) -> None:
    if "python (" in sql:
        sql = sql.replace("python (x)", "python")
    status, said = ask(server, sql)
    assert status == 200, said
