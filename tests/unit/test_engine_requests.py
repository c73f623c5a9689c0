"""Requests and exceptions of ClickHouse's HTTP interface, without an engine."""

import asyncio
import base64
import os
import threading
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from warpmeter.engine import lock, request
from warpmeter.engine.access import Access, check_anybody, check_reader, of, refused_to_readers
from warpmeter.engine.answer import Server, content_type
from warpmeter.engine.errors import EngineError, from_engine, refuse
from warpmeter.engine.hello import hello, is_hello
from warpmeter.engine.intake import unless_quick
from warpmeter.engine.sqltext import parse

TOKEN = "secret"
REFUSED = refused_to_readers(["s3", "numbers", "mergeTreeIndex", "Format"])


def scope(query: str = "", method: str = "POST", **headers: str) -> dict[str, Any]:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"method": method, "query_string": query.encode(), "headers": raw}


def test_settings_are_what_the_interface_does_not_take_for_itself() -> None:
    found = request.read(
        scope("query=SELECT+1&max_threads=2&session_id=x&param_a=%C3%A9&database=d&wait_end_of_query=1"), TOKEN
    )
    assert found.query == b"SELECT 1"
    assert found.settings == {"max_threads": "2"}
    assert found.parameters == {"a": "é"}
    assert (found.database, found.wait_end, found.default_format) == ("d", True, "TabSeparated")


@pytest.mark.parametrize(
    "asked",
    [
        scope("user=anyone&password=secret"),
        scope(authorization="Basic " + base64.b64encode(b"warpmeter_writer:secret").decode()),
        scope(x_clickhouse_user="warpmeter_writer", x_clickhouse_key="secret"),
    ],
)
def test_the_write_token_is_a_password(asked: dict[str, Any]) -> None:
    found = request.read(asked, TOKEN)
    assert (found.access, found.readonly) == (Access.WRITE, False)


def test_get_is_read_only_for_a_writer_too() -> None:
    assert request.read(scope("user=w&password=secret", method="GET"), TOKEN).readonly


@pytest.mark.parametrize(("user", "password"), [("", ""), ("default", ""), ("grafana", "whatever")])
def test_anybody_else_reads(user: str, password: str) -> None:
    assert of(user, password, TOKEN) is Access.READ


@pytest.mark.parametrize("token", [TOKEN, ""])
def test_the_writer_with_another_password_is_refused(token: str) -> None:
    with pytest.raises(EngineError) as refused:
        of("warpmeter_writer", "", token)
    assert refused.value.status is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "text",
    [
        b"SELECT file('/etc/passwd')",
        rb"SELECT `fi\x6ce`('/etc/passwd')",
        b"SELECT \"file\" /* */ ('/etc/passwd')",
        b"SELECT arrayMap(x -> file(x), ['/etc/passwd'])",
        b"SELECT * FROM Python(settings)",
        b"SELECT * FROM PYTHON  ('settings')",
        b"SELECT 1 FORMAT Protobuf SETTINGS format_schema = '/etc/passwd:x'",
        rb"SELECT 1 SETTINGS `format_sc\x68ema` = '/etc/passwd:x'",
        b"SELECT * FROM s3('a')",
        b"SELECT * FROM S3 -- why\n('a')",
        "SELECT * FROM sqlite\u180e('a', 't')".encode(),
        "SELECT * FROM \u201csqlite\u201d('a', 't')".encode(),
        rb"SELECT * FROM `sql\Nite`('a', 't')",
        b"EXPLAIN SELECT * FROM sqlite('a', 't')",
        b"SELECT * FROM view(SELECT * FROM sqlite('a', 't'))",
    ],
)
def test_a_reader_does_not_get_past_the_names(text: bytes) -> None:
    with pytest.raises(EngineError) as refused:
        check_reader(parse(text).tokens, (), REFUSED)
    assert refused.value.status is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "text", [b"KILL QUERY WHERE 1", b"/* */ system STOP MERGES", b"DROP TABLE a PARALLEL WITH KILL QUERY WHERE 1"]
)
def test_a_reader_only_reads(text: bytes) -> None:
    with pytest.raises(EngineError) as refused:
        check_reader(parse(text).tokens, (), REFUSED)
    assert refused.value.code == 164


@pytest.mark.parametrize(
    "text",
    [
        b"SELECT file FROM t",
        b"SELECT 'file(x)' AS a",
        b"SELECT * FROM jobs WHERE command = 'python' AND (1)",
        b"SELECT format('{}', 'x'), s3 FROM numbers(3)",
        b"SELECT * FROM mergeTreeIndex(currentDatabase(), 't')",
        b"SELECT * FROM gpu_heatmap(metric = 'sm_active', since = now() - 60, until = now(), step_s = 300)",
    ],
)
def test_a_reader_may_name_what_is_harmless(text: bytes) -> None:
    check_reader(parse(text).tokens, ("max_threads",), REFUSED)


@pytest.mark.parametrize(
    "text",
    [
        b"INSERT INTO FUNCTION sqlite('a', 't') FORMAT TSV\n1",
        b"CREATE TABLE t AS sqlite('a', 't')",
        b"CREATE DATABASE d ENGINE = SQLite('a')",
    ],
)
def test_nobody_makes_sqlite_files(text: bytes) -> None:
    with pytest.raises(EngineError, match="ACCESS_DENIED"):
        check_anybody(parse(text).tokens)


def test_nested_exceptions_are_told_once() -> None:
    raised = RuntimeError(
        "Streaming insert finish failed: Code: 164. DB::Exception: Code: 164. DB::Exception: No. (READONLY)"
        " (version 26.9.2.1). (READONLY)"
    )
    assert str(from_engine(raised)) == "Code: 164. DB::Exception: No. (READONLY)"


def test_the_mark_of_a_statement_is_not_shown() -> None:
    assert "tag" not in str(
        from_engine(RuntimeError("Code: 62. DB::Exception: near x /* tag */ (SYNTAX_ERROR)"), " /* tag */")
    )


@pytest.mark.parametrize(
    ("code", "status"),
    [(60, 404), (62, 400), (81, 404), (497, 403), (516, 403), (164, 500), (241, 500), (159, 408), (48, 501)],
)
def test_statuses_are_clickhouses(code: int, status: int) -> None:
    assert EngineError(code, "").status == status


def test_our_own_exceptions_read_like_the_engines() -> None:
    assert str(refuse(62, "Empty.")) == "Code: 62. DB::Exception: Empty. (SYNTAX_ERROR)"


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("JSONCompact", "application/json; charset=UTF-8"),
        ("JSONEachRow", "application/x-ndjson; charset=UTF-8"),
        ("TSVWithNames", "text/tab-separated-values; charset=UTF-8"),
        ("Native", "application/octet-stream"),
        ("Pretty", "text/plain; charset=UTF-8"),
    ],
)
def test_media_types(name: str, media: str) -> None:
    assert content_type(name) == media


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"SELECT displayName(), version(), revision(), timezone()", True),
        (b"SELECT  displayName ( ),version(),revision(),timezone() -- x", True),
        (b"SELECT displayName(), version(), revision()", False),
        (b"SELECT 1", False),
    ],
)
def test_the_hello_is_known_by_its_words(text: bytes, expected: bool) -> None:
    assert is_hello(text) is expected


def test_the_hello_has_a_header_and_flags_for_a_client_that_says_its_version() -> None:
    server = Server("26.9", "UTC", "host")
    old, new = hello(server, 0), hello(server, 54460)
    assert old.startswith(b"\x04\x01\rdisplayName()\x06String\x04host")
    assert new.startswith(b"\x01\x00\x02\xff\xff\xff\xff\x00\x04\x01\rdisplayName()\x06String\x00\x04host")


def test_a_second_engine_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    held = lock.hold(tmp_path)
    with pytest.raises(lock.StartError, match=rf"\(pid {os.getpid()}\)"):
        lock.hold(tmp_path)
    os.close(held)
    os.close(lock.hold(tmp_path))


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(lock.StartError, match="cannot use the data folder"):
        lock.prepare(tmp_path / "file" / "data")


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "LOW_DISK_BYTES", 1 << 62)
    with pytest.raises(lock.StartError, match=r"MiB left and needs \d+: make room"):
        lock.prepare(tmp_path)


def test_long_texts_are_read_in_another_thread() -> None:
    here = threading.get_ident()
    assert asyncio.run(unless_quick(100, threading.get_ident)) == here
    assert asyncio.run(unless_quick(1 << 20, threading.get_ident)) != here
