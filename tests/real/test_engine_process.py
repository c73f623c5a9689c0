"""The engine as a process: it ends well, holds its folder alone, and keeps what it acknowledged."""

import http.client
import socket
import threading
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.brokers.process import free_ports
from tests.engine import TOKEN, WRITER, EngineServer, spawn
from tests.signals import SLACK_S
from tests.wait import until


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def refused(data: Path, port: int, log: Path) -> str:
    """The one line of an engine that does not start."""
    process = spawn(data, port, log)
    assert process.wait(timeout=120) == 1
    lines = log.read_text().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_a_second_engine_says_who_holds_the_folder(data: Path, tmp_path: Path) -> None:
    with closing(EngineServer(data)) as server:
        said = refused(data, free_ports(1)[0], tmp_path / "second.log")
        assert f"another engine (pid {server.process.pid}) has the data folder" in said


def test_a_port_in_use_is_one_line(data: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refused(data, port, tmp_path / "log")


def test_a_folder_that_is_a_file_is_one_line(data: Path, tmp_path: Path) -> None:
    data.touch()
    assert "cannot use the data folder" in refused(data, free_ports(1)[0], tmp_path / "log")


def test_sigterm_lets_a_running_query_finish(data: Path) -> None:
    server = EngineServer(data)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    found: list[bytes] = []
    reading = threading.Thread(target=lambda: found.append(connection.getresponse().read()))
    with server.client(database="system") as client:  # made first: a client asks several things before it is there
        connection.request("POST", "/", "SELECT sleepEachRow(0.5) FROM numbers(5) SETTINGS max_block_size = 1")
        reading.start()
        running = "SELECT groupArray(query) FROM processes"
        until(lambda: "sleepEachRow" in str(client.command(running)), "the query", every_s=0.01)
    assert server.close() == 0
    reading.join()
    assert found == [b"0\n" * 5]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port))


def test_sigterm_ends_a_query_without_end_within_five_seconds(data: Path) -> None:
    server = EngineServer(data)
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request(
        "POST", "/", "SELECT sum(sipHash64(number)) FROM numbers(10000000000000) SETTINGS max_threads = 1"
    )
    with server.client(database="system") as client:
        until(lambda: "10000000000000" in str(client.command("SELECT groupArray(query) FROM processes")), "the query")
    began = time.monotonic()
    assert server.close() == 0
    assert time.monotonic() - began < 5 + SLACK_S


def test_what_was_acknowledged_survives_a_crash(data: Path) -> None:
    server = EngineServer(data)
    server.make_database()
    acknowledged = 0
    with server.client(write=True) as writer:
        writer.command("CREATE TABLE kept (n UInt64) ENGINE = MergeTree ORDER BY n")
        for n in range(20):
            writer.raw_insert("kept", ["n"], f"{n}\n", fmt="TSV", settings={"insert_deduplication_token": str(n)})
            acknowledged += 1
    server.kill()
    with closing(EngineServer(data)) as again, again.client() as reader:
        assert reader.query("SELECT count(), uniqExact(n) FROM kept").result_rows == [(acknowledged, acknowledged)]


def test_it_opens_again_after_it_ended(data: Path) -> None:
    for _ in range(2):
        server = EngineServer(data)
        server.make_database()
        assert server.close() == 0


def test_sigterm_does_not_wait_for_an_upload_that_stands_still(data: Path) -> None:
    server = EngineServer(data)
    server.make_database()
    with server.client(write=True) as writer:
        writer.command("CREATE TABLE kept (n UInt64) ENGINE = MergeTree ORDER BY n")
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    query = urlencode({"user": WRITER, "password": TOKEN, "query": "INSERT INTO kept FORMAT TSV"})
    connection.putrequest("POST", f"/?{query}")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"1\n")
    began = time.monotonic()
    assert server.close() == 0
    assert time.monotonic() - began < 5 + SLACK_S
