"""ClickHouse's HTTP interface over the real engine: clickhouse-connect, plain HTTP and curl."""

import gzip
import http.client
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import lz4.frame
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.engine import TOKEN, WRITER, EngineServer
from tests.signals import SLACK_S
from tests.wait import until
from warpmeter.consumers.sink.clickhouse import ONE_BLOCK
from warpmeter.engine.compression import decoder, zstd_library
from warpmeter.engine.frames import FrameDecoder, FrameEncoder

SCHEMA = """syntax = "proto3";
message Envelope {
  message S { string host = 1; optional uint32 value = 2; }
  repeated S rows = 1;
}
"""
AS_ONE_BLOCK: dict[str, Any] = dict(ONE_BLOCK)
PROTOBUF = {
    "format_schema_source": "string",
    "format_schema": SCHEMA + "// padding\n" * 1500,
    "format_schema_message_name": "S",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(EngineServer(tmp_path_factory.mktemp("engine"))) as found:
        found.make_database()
        yield found


@pytest.fixture
def reader(server: EngineServer) -> Iterator[Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def writer(server: EngineServer) -> Iterator[Client]:
    with server.client(write=True) as client:
        yield client


@pytest.fixture
def table(writer: Client) -> Iterator[str]:
    writer.command(
        "CREATE TABLE landed (host String, value Nullable(UInt32)) ENGINE = MergeTree ORDER BY host"
        " SETTINGS non_replicated_deduplication_window = 1000"
    )
    yield "landed"
    writer.command("DROP TABLE landed SYNC")


def post(
    server: EngineServer,
    body: bytes = b"",
    write: bool = False,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    **parameters: object,
) -> tuple[http.client.HTTPResponse, bytes]:
    """One request by hand."""
    given = parameters | ({"user": WRITER, "password": TOKEN} if write else {})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, "/?" + urlencode(given), body or None, headers or {})
    answer = connection.getresponse()
    try:
        return answer, answer.read()
    except http.client.IncompleteRead as cut:
        return answer, cut.partial


@pytest.mark.parametrize("path", ["/ping", "/", "/replicas_status"])
def test_health(server: EngineServer, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"Ok.\n")


def test_an_unknown_path_says_what_there_is(server: EngineServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/play")
    answer = connection.getresponse()
    assert answer.status == 404
    assert b"/ping" in answer.read()


def test_a_query_in_the_address_or_in_the_body_or_in_both(server: EngineServer) -> None:
    assert post(server, method="GET", query="SELECT 1")[1] == b"1\n"
    assert post(server, b"SELECT 2")[1] == b"2\n"
    assert post(server, b"+ 2", query="SELECT 1")[1] == b"3\n"


def test_the_headers_that_clients_read(server: EngineServer) -> None:
    answer, body = post(server, b"SELECT number FROM numbers(3) FORMAT JSONCompact", query_id="mine")
    assert json.loads(body)["data"] == [[0], [1], [2]]
    assert answer.headers["X-ClickHouse-Query-Id"] == "mine"
    assert answer.headers["X-ClickHouse-Format"] == "JSONCompact"
    assert answer.headers["X-ClickHouse-Timezone"]
    assert answer.headers["X-ClickHouse-Server-Display-Name"]
    assert json.loads(answer.headers["X-ClickHouse-Summary"])["result_rows"] == "3"


def test_default_format_and_database_and_settings(server: EngineServer) -> None:
    body = post(
        server, b"SELECT currentDatabase() AS d, getSetting('max_threads') AS t",
        default_format="JSONEachRow", database="system", max_threads=3,
    )[1]  # fmt: skip
    assert json.loads(body) == {"d": "system", "t": 3}


def test_the_database_is_warpmeters_when_none_is_named(server: EngineServer) -> None:
    assert post(server, b"SELECT currentDatabase()")[1] == b"warpmeter\n"


def test_settings_end_with_their_request(server: EngineServer) -> None:
    post(server, b"SELECT 1", session_id="s", max_threads=3)
    assert post(server, b"SELECT getSetting('max_threads') != 3", session_id="s")[1] == b"1\n"


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELECT * FROM nope", 404, "60"),
        ("SELECT * FROM nope.nope", 404, "81"),
        ("SELEC 1", 400, "62"),
        ("", 400, "62"),
        ("SELECT 1; SELECT 2", 400, "62"),
        ("SELECT nope", 404, "47"),
        ("SELECT 1 FORMAT Nope", 404, "73"),
        ("SELECT toUInt8('x')", 400, "6"),
        ("CREATE TABLE t (a Int8) ENGINE = Memory", 500, "164"),
    ],
)
def test_exceptions_as_clickhouse_sends_them(server: EngineServer, sql: str, status: int, code: str) -> None:
    answer, body = post(server, sql.encode())
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (status, code)
    assert body.startswith(f"Code: {code}. DB::Exception: ".encode())
    assert b"(version 26." in body


def test_an_unknown_setting_is_refused(server: EngineServer) -> None:
    answer, _ = post(server, b"SELECT 1", no_such_setting=1)
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (404, "115")


def test_an_exception_in_the_middle_of_a_result_is_marked_and_cut(server: EngineServer) -> None:
    answer, body = post(server, b"SELECT throwIf(number = 3000000) FROM numbers(10000000)", max_threads=1)
    tag = answer.headers["X-ClickHouse-Exception-Tag"]
    assert answer.status == 200
    block = body[body.index(b"\r\n__exception__") :].decode()
    assert block.startswith(f"\r\n__exception__\r\n{tag}\r\nCode: 395. DB::Exception: ")
    assert block.endswith(f" {tag}\r\n__exception__\r\n")


def test_wait_end_of_query_gives_a_failure_its_status(server: EngineServer) -> None:
    answer, body = post(
        server, b"SELECT throwIf(number = 3000000) FROM numbers(10000000)", max_threads=1, wait_end_of_query=1
    )
    assert (answer.status, body[:10]) == (500, b"Code: 395.")


def test_parameters_pass_byte_for_byte(reader: Client) -> None:
    asked = {"text": "it's \\ \t\n é 日本", "list": [1, 2], "name": "one"}
    found = reader.query("SELECT {text:String}, {list:Array(UInt8)} FROM system.{name:Identifier}", parameters=asked)
    assert found.result_rows == [(asked["text"], [1, 2])]


def memory_mib(server: EngineServer, which: str = "VmRSS") -> int:
    """The engine's resident memory now, or the most of it (`VmHWM`)."""
    status = map(str.split, Path(f"/proc/{server.process.pid}/status").read_text().splitlines())
    return next(int(words[1]) >> 10 for words in status if words[0] == f"{which}:")


def test_five_million_rows_stream_in_bounded_memory(server: EngineServer) -> None:
    before, rows, peak = memory_mib(server), 0, 0
    with (
        server.client() as client,
        client.query_row_block_stream("SELECT number, repeat(toString(number), 5) FROM numbers(5000000)") as blocks,
    ):
        for block in blocks:
            rows += len(block)
            peak = max(peak, memory_mib(server))
    assert rows == 5_000_000
    assert peak - before < 150  # the result is 210 MiB


@pytest.mark.parametrize(
    "form", ["JSON", "Parquet", "ArrowStream", "CSVWithNames", "RowBinaryWithNamesAndTypes", "Pretty"]
)
def test_every_format_is_one_document(server: EngineServer, form: str) -> None:
    whole = post(server, f"SELECT number FROM numbers(200000) FORMAT {form}".encode(), max_block_size=1000)[1]
    twice = post(server, b"SELECT number FROM numbers(200000)", default_format=form, max_block_size=1000)[1]
    if form == "JSON":
        assert json.loads(whole)["rows"] == 200_000
        return
    assert whole == twice
    assert whole.count(b"number") <= 3


def test_pandas_and_arrow(reader: Client) -> None:
    assert list(reader.query_df("SELECT number AS n FROM numbers(3)")["n"]) == [0, 1, 2]
    assert reader.query_arrow("SELECT number AS n FROM numbers(3)")["n"].to_pylist() == [0, 1, 2]


def test_show_and_describe(reader: Client, table: str) -> None:
    assert reader.command("SHOW TABLES") == table
    assert reader.query(f"DESCRIBE TABLE {table}").result_rows[0][:2] == ("host", "String")
    assert "MergeTree" in str(reader.command(f"SHOW CREATE TABLE {table}"))
    assert reader.command(f"EXISTS TABLE {table}") == 1


def test_an_insert_by_clickhouse_connect(writer: Client, reader: Client, table: str) -> None:
    summary = writer.insert(table, [["a", 1], ["b", None]], column_names=["host", "value"])
    assert summary.written_rows == 2
    assert reader.query(f"SELECT * FROM {table} ORDER BY host").result_rows == [("a", 1), ("b", None)]


def test_a_token_lands_once(writer: Client, reader: Client, table: str) -> None:
    batch = b"\x0c\x0a\x05\x0a\x01a\x10\x01\x0a\x03\x0a\x01b"
    for token in ("1", "1", "2"):
        writer.raw_insert(
            table, ["host", "value"], batch, fmt="ProtobufList",
            settings=PROTOBUF | AS_ONE_BLOCK | {"insert_deduplication_token": token},
        )  # fmt: skip
    assert reader.query(f"SELECT host, count(), any(value) FROM {table} GROUP BY host ORDER BY host").result_rows == [
        ("a", 2, 1),
        ("b", 2, None),
    ]


def test_a_batch_of_64_mib_is_one_block(server: EngineServer, table: str) -> None:
    row = b"host-1\t12345\n"
    body = row * ((64 << 20) // len(row))
    for _ in range(2):
        answer, said = post(
            server,
            body,
            write=True,
            query=f"INSERT INTO {table} FORMAT TSV",
            insert_deduplication_token="big",
            **AS_ONE_BLOCK,
        )
        assert answer.status == 200, said
    assert post(server, f"SELECT count() FROM {table}".encode())[1] == b"%d\n" % (len(body) // len(row))
    assert post(server, b"SELECT count() FROM system.parts WHERE active AND table = 'landed'")[1] == b"1\n"


def test_statement_and_data_in_one_body(server: EngineServer, table: str) -> None:
    post(server, f'INSERT INTO {table} FORMAT CSV\nx;\',1\n"y\n",2\n'.encode(), write=True)
    post(server, f"INSERT INTO {table} VALUES ('z', 1 + 2)".encode(), write=True)
    post(server, b"('w', 4)", write=True, query=f"INSERT INTO {table} VALUES")
    post(server, f"INSERT INTO {table} SELECT 'v', 5".encode(), write=True)
    post(server, f"INSERT INTO {table} (host, value) SETTINGS async_insert = 0 FORMAT TSV\nu\t6".encode(), write=True)
    found = post(server, f"SELECT * FROM {table} ORDER BY value FORMAT JSONCompactEachRow".encode())[1]
    assert [json.loads(line) for line in found.splitlines()] == [
        ["x;'", 1],
        ["y\n", 2],
        ["z", 3],
        ["w", 4],
        ["v", 5],
        ["u", 6],
    ]


@pytest.mark.parametrize("form", ["Native", "RowBinary", "Parquet", "Arrow", "JSONEachRow"])
def test_what_comes_out_goes_in(server: EngineServer, table: str, form: str) -> None:
    rows = f"SELECT toString(number) AS host, toNullable(toUInt32(number)) AS value FROM numbers(1000) FORMAT {form}"
    data = post(server, rows.encode())[1]
    answer, said = post(server, data, write=True, query=f"INSERT INTO {table} FORMAT {form}")
    assert answer.status == 200, said
    assert post(server, f"SELECT count(), sum(value) FROM {table}".encode())[1] == b"1000\t499500\n"


def test_a_bad_row_leaves_nothing(server: EngineServer, table: str) -> None:
    answer, said = post(server, b"a\t1\nb\tx\n", write=True, query=f"INSERT INTO {table} FORMAT TSV")
    assert answer.status == 400, said
    assert post(server, f"SELECT count() FROM {table}".encode())[1] == b"0\n"


def test_a_violated_constraint_is_an_exception(server: EngineServer, table: str) -> None:
    post(server, f"ALTER TABLE {table} ADD CONSTRAINT small CHECK ifNull(value < 10, 1)".encode(), write=True)
    answer, said = post(server, b"a\t1\nb\t10\n", write=True, query=f"INSERT INTO {table} FORMAT TSV")
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (500, "469"), said
    assert post(server, f"SELECT count() FROM {table}".encode())[1] == b"0\n"


def test_a_view_that_throws_is_an_exception_and_the_same_token_completes(server: EngineServer, table: str) -> None:
    post(server, b"CREATE TABLE seen (host String) ENGINE = MergeTree ORDER BY host"
         b" SETTINGS non_replicated_deduplication_window = 100", write=True)  # fmt: skip
    view = (
        f"CREATE MATERIALIZED VIEW throwing TO seen AS SELECT host FROM {table} WHERE NOT throwIf(ifNull(value, 0) = 7)"
    )
    post(server, view.encode(), write=True)
    query = f"INSERT INTO {table} FORMAT TSV"
    answer, said = post(server, b"a\t7\n", write=True, query=query, insert_deduplication_token="x")
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (500, "395"), said
    post(server, b"DROP VIEW throwing SYNC", write=True)
    assert post(server, b"a\t7\n", write=True, query=query, insert_deduplication_token="x")[0].status == 200
    assert post(server, f"SELECT count() FROM {table}".encode())[1] == b"1\n"
    post(server, b"DROP TABLE seen SYNC", write=True)


def test_an_upload_that_breaks_off_leaves_nothing(server: EngineServer, table: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    query = urlencode({"user": WRITER, "password": TOKEN, "query": f"INSERT INTO {table} FORMAT TSV"})
    connection.putrequest("POST", f"/?{query}")
    connection.putheader("Content-Length", str(10 << 20))
    connection.endheaders(b"a\t1\n" * (1 << 20))
    connection.close()
    until(
        lambda: post(server, b"SELECT count() FROM system.processes WHERE query LIKE 'INSERT%'")[1] == b"0\n", "the end"
    )
    assert post(server, f"SELECT count() FROM {table}".encode())[1] == b"0\n"


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "lz4": lz4.frame.compress,
    "zstd": lambda data: bytes(zstd_library().compress(data)),
}


@pytest.mark.parametrize("encoding", PACKERS)
def test_compressed_both_ways(server: EngineServer, table: str, encoding: str) -> None:
    body = PACKERS[encoding](b"a\t1\n" * 1000)
    query = f"INSERT INTO {table} FORMAT TSV"
    answer, said = post(server, body, write=True, headers={"Content-Encoding": encoding}, query=query)
    assert answer.status == 200, said
    answer, body = post(
        server,
        f"SELECT * FROM {table}".encode(),
        headers={"Accept-Encoding": f"br, {encoding}"},
        enable_http_compression=1,
    )
    assert answer.headers["Content-Encoding"] == encoding
    assert b"".join(decoder(encoding).pieces(body)) == b"a\t1\n" * 1000


@pytest.mark.parametrize("encoding", ["gzip", "lz4", "zstd"])
def test_clickhouse_connect_compressed(server: EngineServer, table: str, encoding: str) -> None:
    with server.client(write=True, compress=encoding) as client:
        client.insert(table, [["a", n] for n in range(1000)], column_names=["host", "value"])
        assert client.query(f"SELECT sum(value) FROM {table}").result_rows == [(499500,)]


@pytest.mark.parametrize("method", ["LZ4", "ZSTD"])
def test_clickhouses_own_blocks(server: EngineServer, table: str, method: str) -> None:
    body = FrameEncoder(method).add(b"a\t1\n" * 1000)
    post(server, body, write=True, query=f"INSERT INTO {table} FORMAT TSV", decompress=1)
    packed = post(server, f"SELECT * FROM {table}".encode(), compress=1, network_compression_method=method)[1]
    assert b"".join(FrameDecoder().pieces(packed)) == b"a\t1\n" * 1000


def test_an_exception_is_packed_as_the_result_would_be(server: EngineServer) -> None:
    answer, packed = post(server, b"SELECT * FROM nope", compress=1)
    assert answer.status == 404
    assert b"".join(FrameDecoder().pieces(packed)).startswith(b"Code: 60. DB::Exception: ")


def test_the_go_client_is_greeted_in_its_protocol(server: EngineServer) -> None:
    text = b"SELECT displayName(), version(), revision(), timezone()"
    body = post(server, text, default_format="Native", client_protocol_version=54479)[1]
    assert body.startswith(b"\x01\x00\x02\xff\xff\xff\xff\x00\x04\x01")
    assert b"revision()\x06UInt32\x00\x00\x00\x00\x00" in body


def test_a_long_query_holds_up_neither_a_query_nor_an_insert(server: EngineServer, table: str) -> None:
    sql = b"SELECT sleepEachRow(0.5) FROM numbers(40) SETTINGS max_block_size = 1"
    slow = http.client.HTTPConnection("127.0.0.1", server.port)
    slow.request("POST", "/", sql)
    until(lambda: b"sleepEachRow" in post(server, b"SELECT query FROM system.processes")[1], "the query to run")
    assert post(server, b"SELECT 1")[1] == b"1\n"
    assert post(server, b"a\t1\n", write=True, query=f"INSERT INTO {table} FORMAT TSV")[0].status == 200
    assert b"sleepEachRow(0.5)" in post(server, b"SELECT query FROM system.processes")[1], "it goes on for 20 s"
    slow.close()


def test_many_at_once(server: EngineServer) -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(post(server, f"SELECT {n}".encode())[1])) for n in range(24)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(map(int, found)) == list(range(24))


@pytest.mark.parametrize(
    "sql", ["SELECT sum(sipHash64(toString(number))) FROM numbers(100000000000)", "SELECT * FROM numbers(100000000000)"]
)
def test_a_query_ends_when_its_client_leaves(server: EngineServer, sql: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/", sql)
    running = b"SELECT count() FROM system.processes WHERE query LIKE '%100000000000%' AND query NOT LIKE '%processes%'"
    until(lambda: post(server, running)[1] == b"1\n", "the query to run")
    connection.close()
    until(lambda: post(server, running)[1] == b"0\n", "the query to end")


@pytest.mark.parametrize("fill", [b" ", b"1,", b"INSERT INTO t VALUES ('"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd", ""])
def test_a_statement_that_unpacks_to_too_much_is_refused(server: EngineServer, encoding: str, fill: bytes) -> None:
    plain = b"SELECT " + fill * ((64 << 20) // len(fill) if encoding else 300_000)
    pack: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd_library().compress}
    body = pack.get(encoding, bytes)(plain)
    before = memory_mib(server, "VmHWM")
    answer, said = post(server, body, headers={"Content-Encoding": encoding} if encoding else None)
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (413, "229"), said
    assert memory_mib(server, "VmHWM") - before < 60


def test_a_reader_with_data_to_insert_is_refused_before_it_is_unpacked(server: EngineServer) -> None:
    body = gzip.compress(b"INSERT INTO t FORMAT TSV\n" + b"a\t1\n" * (16 << 20))
    began = time.monotonic()
    answer, said = post(server, body, headers={"Content-Encoding": "gzip"})
    assert answer.headers["X-ClickHouse-Exception-Code"] == "164", said
    assert time.monotonic() - began < SLACK_S


def test_a_long_statement_goes_through(server: EngineServer) -> None:
    numbers = ",".join(map(str, range(30_000)))
    assert post(server, f"SELECT length([{numbers}])".encode())[1] == b"30000\n"


def test_an_insert_whose_head_is_long_takes_its_data(server: EngineServer, table: str) -> None:
    head = b"/*" + b" " * 100_000 + b"*/ INSERT INTO " + table.encode() + b" FORMAT TSV\n"
    answer, said = post(server, head + b"a\t1\n" * 500_000, write=True)
    assert answer.status == 200, said
    assert post(server, f"SELECT count() FROM {table}".encode())[1] == b"500000\n"


def curl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["curl", "-sS", *arguments], capture_output=True, text=True, timeout=90, check=False)


def test_curl(server: EngineServer, table: str) -> None:
    assert curl(server.url, "-d", "SELECT 1 AS a FORMAT JSONEachRow").stdout == '{"a":1}\n'
    insert = curl(
        f"{server.url}/?query=INSERT%20INTO%20{table}%20FORMAT%20CSV", "-u", f"{WRITER}:{TOKEN}", "--data-binary", "a,1"
    )
    assert (insert.returncode, insert.stdout) == (0, "")
    rows = curl(
        "-G",
        server.url,
        "--compressed",
        "-d",
        "enable_http_compression=1",
        "--data-urlencode",
        f"query=SELECT * FROM {table}",
    )
    assert rows.stdout == "a\t1\n"
    assert "UNKNOWN_TABLE" in curl(server.url, "-d", "SELECT * FROM nope").stdout


def test_curl_notices_a_result_that_is_cut(server: EngineServer) -> None:
    sql = "SELECT throwIf(number = 3000000) FROM numbers(10000000) SETTINGS max_threads = 1"
    found = curl(server.url, "-d", sql, "-o", "/dev/null")
    assert found.returncode == 18


def test_clickhouse_connect_hears_a_failure_in_the_middle(reader: Client) -> None:
    with pytest.raises(DatabaseError, match="395"):
        _ = reader.query("SELECT throwIf(number = 3000000) FROM numbers(10000000) SETTINGS max_threads = 1").result_rows


def test_more_than_can_wait_is_refused_and_nothing_is_stuck(server: EngineServer) -> None:
    # So many that they come faster than they are answered, also where this process has little of the machine.
    asked = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=60) for _ in range(300)]
    for each in asked:
        each.request("POST", "/", "SELECT sleep(0.5)")
    found = [each.getresponse() for each in asked]
    bodies = [each.read() for each in found]
    assert {each.status for each in found} == {200, 500}
    assert all(body == b"0\n" or b"TOO_MANY_SIMULTANEOUS_QUERIES" in body for body in bodies)
    assert post(server, b"SELECT 1")[1] == b"1\n"
