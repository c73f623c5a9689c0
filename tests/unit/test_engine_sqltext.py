"""What the endpoint reads out of a statement's text."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import growth
from warpmeter.engine.errors import EngineError
from warpmeter.engine.sqltext import Kind, Statement, lexemes, parse


def test_a_query_is_cut_before_its_format() -> None:
    assert parse(b"SELECT 1 FORMAT JSON;") == Statement(Kind.SELECT, b"SELECT 1", "JSON")


def test_settings_after_the_format_are_kept() -> None:
    found = parse(b"SELECT a FROM t FORMAT `TSV` SETTINGS max_threads = 1 -- why")
    assert found == Statement(Kind.SELECT, b"SELECT a FROM t", "TSV", b"SETTINGS max_threads = 1")


@pytest.mark.parametrize(
    "text",
    [
        b"SELECT format FROM t",
        b"SELECT 1 AS format",
        b"SELECT * FROM format(JSONEachRow, '{}')",
        b"SELECT 'x FORMAT JSON'",
        b"SELECT 1 SETTINGS max_threads = 1",
        b"SELECT 1 /* FORMAT JSON */",
        b"(SELECT 1)",
    ],
)
def test_no_format_is_seen_where_there_is_none(text: bytes) -> None:
    found = parse(text)
    assert (found.kind, found.format) == (Kind.SELECT, None)


@pytest.mark.parametrize(
    "text", [b"SHOW TABLES", b"CREATE TABLE t (a Int8) ENGINE = Null", b"WITH 1 AS x INSERT INTO t SELECT x"]
)
def test_all_else_is_run_whole(text: bytes) -> None:
    assert parse(text) == Statement(Kind.OTHER, text, None)


def test_the_format_of_all_else_is_known_and_left_in_place() -> None:
    assert parse(b"SHOW TABLES FORMAT JSON") == Statement(Kind.OTHER, b"SHOW TABLES FORMAT JSON", "JSON")


def test_the_data_of_an_insert_begins_after_one_line_end() -> None:
    assert parse(b"INSERT INTO t (a, b) FORMAT RowBinary \r\n\n\x00'`") == Statement(
        Kind.INSERT, b"INSERT INTO t (a, b)", "RowBinary", data=b"\n\x00'`"
    )


def test_values_are_data_too() -> None:
    found = parse(b"INSERT INTO t (values) SETTINGS async_insert = 0 VALUES (1), (2)")
    assert found == Statement(
        Kind.INSERT, b"INSERT INTO t (values)", "Values", b"SETTINGS async_insert = 0", b"(1), (2)"
    )


@pytest.mark.parametrize(
    "table", [b"settings", b"a.settings", b"a.format", b"format", b"values", b"t (format, settings)"]
)
def test_a_table_may_be_called_like_a_keyword(table: bytes) -> None:
    found = parse(b"INSERT INTO " + table + b" FORMAT TSV\n1")
    assert (found.head, found.tail, found.data) == (b"INSERT INTO " + table, b"", b"1")


def test_into_may_be_left_out() -> None:
    assert parse(b"INSERT t FORMAT TSV\n'") == Statement(Kind.INSERT, b"INSERT t", "TSV", data=b"'")


def test_an_insert_with_a_query_takes_no_data() -> None:
    assert parse(b"INSERT INTO t SELECT * FROM u FORMAT TSV").kind is Kind.OTHER


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", 62),
        (b"  -- nothing\n;", 62),
        (b"SELECT 1; DROP TABLE t", 62),
        (b"SELECT 'no end", 62),
        (b"SELECT 1 /* no end", 62),
        (b"SELECT 1 INTO OUTFILE '/tmp/x'", 358),
        (b"SELECT 1 into/**/-- x\n\xc2\xa0outfile '/tmp/x' FORMAT CSV", 358),
        (b"EXPLAIN SELECT 1 INTO OUTFILE '/tmp/x'", 358),
        (b"INSERT INTO t FROM INFILE '/tmp/x' FORMAT CSV", 358),
        (b"INSERT INTO t FROM INFILE '/tmp/x'", 358),
    ],
)
def test_refused_before_the_engine_sees_it(text: bytes, code: int) -> None:
    with pytest.raises(EngineError) as refused:
        parse(text)
    assert refused.value.code == code


def test_a_file_in_a_string_is_only_a_string() -> None:
    assert parse(b"SELECT 'INTO OUTFILE', \"INTO\" FROM t").kind is Kind.SELECT


def test_names_are_read_as_the_engine_reads_them() -> None:
    assert [each.text for each in lexemes(rb"""`fi\x6ce` "a\"b" $tag$ ' $tag$ word_1""")] == [
        "file",
        'a"b',
        "",
        "word_1",
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"SELECT /* /* */ ' */ evil() -- '",
        b"SELECT 1$$ ' $$, evil() -- '",
        b"SELECT 1.e1$$ ' $$, evil() -- '",
        b"SELECT $x y$ ' $x y$",
        b"SELECT $1$ a $1$",
        "SELECT \u2018 no end".encode(),
        b"SELECT $a$ no end",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text: bytes) -> None:
    with pytest.raises(EngineError, match="SYNTAX_ERROR"):
        list(lexemes(text))


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        lambda size: b" " * size,
        lambda size: "\u2018".encode() * (size // 4),
        lambda size: b"".join(b"$a%d$ " % each for each in range(size // 8)),
        lambda size: b"/*" * (size // 2),
        lambda size: b"'" + b"\\x" * (size // 2),
        lambda size: b"`a" * (size // 2),
        lambda size: b"-" * size,
        lambda size: b"SELECT " + b"1," * (size // 8),
    ],
)
def test_the_time_is_linear_in_the_text(text: Callable[[int], bytes]) -> None:
    def read(size: int) -> None:
        with suppress(EngineError):
            parse(text(size))

    assert growth(read, 1 << 19) < 5


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_statement_or_an_exception(text: bytes) -> None:
    with suppress(EngineError):
        assert parse(text).head in text


@given(st.binary(max_size=200))
def test_data_passes_byte_for_byte(data: bytes) -> None:
    assert parse(b"INSERT INTO t FORMAT Native\n" + data).data == data
