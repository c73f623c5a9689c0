"""The store away, slow or refusing, as ingest and an operator see it: what passes pauses it, what stays ends it."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.gateway import Fault, Gateway
from tests.ingest_bench import HALTED, Bench, bench_behind
from tests.ingest_process import GPUS, IngestProcess, store_settings
from tests.real.up import warpmeter
from tests.wait import until
from warpmeter import store, wire
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.sink import Away, Broken, Landed, Result, codes
from warpmeter.consumers.sink.clickhouse import ClickHouse
from warpmeter.consumers.span import Span
from warpmeter.schemas.generated import gpu_samples_pb2
from warpmeter.settings import Settings, Store

pytestmark = pytest.mark.timeout(600)
NAME: Final = "warpmeter.gpu-samples"
LIFE: Final = "3f0c9f0e-4c1c-4d7a-9d65-0b5a0f3c2f11"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture
def gateway(engine: EngineServer) -> Iterator[Gateway]:
    with closing(Gateway(engine.port)) as found:
        yield found


def do(engine: EngineServer, *statements: str) -> None:
    """As somebody with rights does it."""
    with closing(engine.client(write=True)) as client:
        for statement in statements:
            client.command(statement)


def status(at: Bench) -> tuple[dict[str, Any], float]:
    """What `warpmeter status --json` prints, and how long it took, seconds."""
    begun = time.monotonic()
    line = warpmeter("status", "--json", "--data", str(at.log.parent / "no-up"))
    done = subprocess.run(
        line, env={**os.environ, **_environment(at.settings)}, capture_output=True, text=True, timeout=180
    )
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    return dict(json.loads(done.stdout)), time.monotonic() - begun


def _environment(settings: Settings) -> dict[str, str]:
    ledger = settings.ingest.ledger_dir
    named = {
        "STORE__DSN": settings.store.dsn,
        "KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "KAFKA__TOPIC_PREFIX": settings.kafka.topic_prefix,
        "INGEST__GROUP": settings.ingest.group,
        "METRICS__INGEST_PORT": str(settings.metrics.ingest_port),
        **({} if ledger is None else {"INGEST__LEDGER_DIR": str(ledger)}),
    }
    return {f"WARPMETER_{name}": value for name, value in named.items()}


@pytest.fixture
def embedded_at(tansu: Broker, engine: EngineServer, gateway: Gateway, topic_prefix: str, tmp_path: Path) -> Bench:
    return bench_behind(tansu, engine, topic_prefix, tmp_path, gateway.port)


@pytest.fixture
def at(broker: Broker, engine: EngineServer, gateway: Gateway, topic_prefix: str, tmp_path: Path) -> Bench:
    return bench_behind(broker, engine, topic_prefix, tmp_path, gateway.port)


PARTS: Final = "parts_to_throw_insert = 1, parts_to_delay_insert = 1"


@pytest.mark.long
def test_what_passes_pauses_ingest_and_all_lands_once_after_it(
    at: Bench, engine: EngineServer, gateway: Gateway
) -> None:
    causes = {
        Fault.CUT: "Connection",
        Fault.REPLY_LOST: "Connection",
        Fault.BAD_GATEWAY: "HTTP 502 by something before ClickHouse: BAD_GATEWAY",
        Fault.NO_MEMORY: "MEMORY_LIMIT_EXCEEDED",
    }
    with closing(at.start(session_timeout_s=20.0)) as process:  # a busy machine alone must not end it
        at.feed.good(20)
        at.table.reaches(at.feed.sent, process.ready())
        for fault, cause in causes.items():
            gateway.fault = fault
            _fed_while_refused(at, process, cause)
            gateway.fault = Fault.NONE
            at.table.reaches(at.feed.sent, process)
            _insert_again(process)
        do(engine, "SYSTEM STOP MERGES gpu_samples", f"ALTER TABLE gpu_samples MODIFY SETTING {PARTS}")
        try:
            _fed_while_refused(at, process, "Too many parts")
            report, _ = status(at)
        finally:
            do(engine, "ALTER TABLE gpu_samples RESET SETTING parts_to_throw_insert, parts_to_delay_insert")
            do(engine, "SYSTEM START MERGES gpu_samples")
        at.table.reaches(at.feed.sent, process)
        said = process.said()
        assert said.count("partitions taken") == 1
        assert "partitions given up" not in said
        assert said.count("cannot insert now") == len(causes) + 1, said
        until(lambda: _health(at) == [("failed", len(causes) + 1), ("ok", len(causes) + 1)], "the health rows")
        assert process.stop() == 0
    at.once()
    assert report["ingest"]["state"] == "failing"
    assert report["ingest"]["failed_inserts"] > 0
    assert sum(row["lag_messages"] for row in report["lag"]) > 0  # a lower bound on the embedded broker
    assert report["pending"]


def _fed_while_refused(at: Bench, process: IngestProcess, cause: str) -> None:
    before = process.said().count("cannot insert now")
    at.feed.good(20)
    until(lambda: process.said().count("cannot insert now") > before, "the fault to be met")
    last = [line for line in process.said().splitlines() if "cannot insert now" in line][-1]
    assert "gpu_samples" in json.loads(last)["why"]
    assert cause in json.loads(last)["why"]


def _insert_again(process: IngestProcess) -> None:
    """Wait until it knows that the fault is over: rows are in before their reply, and with a lost one long before."""
    failed = process.said().count("cannot insert now")
    until(lambda: process.said().count("inserting again") == failed, "the end of the fault to be known")


def _health(at: Bench) -> list[tuple[Any, ...]]:
    return at.table.query(
        "SELECT state, count() FROM source_health WHERE source = 'ingest' AND subject = 'store' "
        f"AND host = '{at.settings.agent.host}' GROUP BY state ORDER BY state"
    )


# What never passes: its name, the statements that break and mend, and what the message must name besides the table.
BROKEN: Final[Mapping[str, tuple[list[str], list[str], list[str]]]] = {
    "a column dropped": (
        ["ALTER TABLE gpu_samples DROP COLUMN compute_instance"],
        ["ALTER TABLE gpu_samples ADD COLUMN compute_instance Nullable(UInt8)"],
        ["compute_instance", "NO_SUCH_COLUMN_IN_TABLE"],
    ),
    "a column of another type": (
        [
            "ALTER TABLE gpu_samples DROP COLUMN compute_instance",
            "ALTER TABLE gpu_samples ADD COLUMN compute_instance Map(String, String)",
        ],
        [
            "ALTER TABLE gpu_samples DROP COLUMN compute_instance",
            "ALTER TABLE gpu_samples ADD COLUMN compute_instance Nullable(UInt8)",
        ],
        ["compute_instance", "PROTOBUF_FIELD_NOT_REPEATED"],
    ),
    "the table gone": (
        ["RENAME TABLE gpu_samples TO elsewhere"],
        ["RENAME TABLE elsewhere TO gpu_samples"],
        ["UNKNOWN_TABLE"],
    ),
    "a view that fails": (
        [
            "CREATE TABLE mine (x UInt8) ENGINE = MergeTree ORDER BY x",
            "CREATE MATERIALIZED VIEW mine_mv TO mine AS SELECT toUInt8(host) AS x FROM gpu_samples",
        ],
        ["DROP VIEW mine_mv SYNC", "DROP TABLE mine SYNC"],
        ["while pushing to view warpmeter.mine_mv", "CANNOT_PARSE_TEXT"],
    ),
    "a view whose target is gone": (
        ["RENAME TABLE gpu_heatmap_1m TO elsewhere"],
        ["RENAME TABLE elsewhere TO gpu_heatmap_1m"],
        ["warpmeter.gpu_heatmap_1m", "the view is warpmeter.gpu_heatmap_1m_mv"],
    ),
    "the table made read-only": (
        ["ALTER TABLE gpu_samples MODIFY SETTING table_readonly = 1"],
        ["ALTER TABLE gpu_samples RESET SETTING table_readonly"],
        ["TABLE_IS_PERMANENTLY_READ_ONLY"],
    ),
}


def inserted(where: Store, number: int) -> Result:
    """What one insert of one sample meets."""
    with closing(store.connect(where)) as client:
        sink = ClickHouse(lambda: client, {NAME: GPUS}, {NAME: GPUS.table})
        return sink.insert(sample(number))


def sample(number: int) -> Batch:
    """A batch of one message with one row."""
    row = gpu_samples_pb2.Envelope.GpuSample(host="faults", ts=1.8e9 + number, period_ms=1000, uuid="G")
    return Batch(Span(NAME, LIFE, 0, number, number), [], [wire.pack(GPUS, "faults", [row]).value], [1])


@pytest.mark.parametrize("what", BROKEN)
def test_what_stays_names_table_and_cause(engine: EngineServer, what: str) -> None:
    breaks, mends, named = BROKEN[what]
    where, number = store_settings(engine), list(BROKEN).index(what)
    do(engine, *breaks)
    try:
        found = inserted(where, number)
    finally:
        do(engine, *mends)
    assert isinstance(found, Broken), found
    assert all(each in found.why for each in ("gpu_samples", *named)), found.why
    assert "\n" not in found.why
    assert isinstance(inserted(where, number), Landed)


def test_rights_that_lack_never_pass(engine: EngineServer) -> None:
    reader = replace(store_settings(engine), dsn=f"http://127.0.0.1:{engine.port}")
    found = inserted(reader, 100)
    assert isinstance(found, Broken), found
    assert "gpu_samples" in found.why


def test_a_wrong_password_halts_and_says_so(
    tansu: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = bench_behind(tansu, engine, topic_prefix, tmp_path, engine.port)
    wrong = replace(
        at.settings, store=replace(at.settings.store, dsn=f"http://warpmeter_writer:x@127.0.0.1:{engine.port}")
    )
    with closing(IngestProcess(wrong, at.log)) as process:
        assert process.ended() == HALTED
        assert "AUTHENTICATION_FAILED" in halt(process)


@pytest.mark.long
def test_a_body_too_large_for_a_proxy_halts_and_says_what_to_do(embedded_at: Bench, gateway: Gateway) -> None:
    at = embedded_at
    gateway.fault = Fault.TOO_LARGE
    at.feed.good(5)
    with closing(at.start()) as process:
        assert process.ended() == HALTED
        assert "gpu_samples: HTTP 413" in halt(process)
        assert "client_max_body_size" in halt(process)
    gateway.fault = Fault.NONE
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        assert process.stop() == 0
    at.once()


def test_a_view_that_fails_halts_by_name_and_after_it_is_mended_all_lands_once(
    embedded_at: Bench, engine: EngineServer
) -> None:
    at = embedded_at
    breaks, mends, _ = BROKEN["a view that fails"]
    with closing(at.start()) as process:
        at.feed.good(20)
        at.table.reaches(at.feed.sent, process.ready())
        do(engine, *breaks)
        try:
            at.feed.good(20)
            assert process.ended() == HALTED
        finally:
            do(engine, *mends)
        assert "gpu_samples" in halt(process)
        assert "mine_mv" in halt(process)
        assert process.said().count("mine_mv") == 1
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        assert process.stop() == 0
    at.once()


def halt(process: IngestProcess) -> str:
    """The one line that says why it halted."""
    lines = [line for line in process.said().splitlines() if "halted: somebody must act" in line]
    assert len(lines) == 1, process.said()
    return str(json.loads(lines[0])["why"])


def test_a_host_that_nobody_knows_passes(engine: EngineServer) -> None:
    sink = ClickHouse(
        lambda: store.connect(replace(store_settings(engine), dsn="http://no-such-host.invalid:8123")),
        {NAME: GPUS},
        {NAME: GPUS.table},
    )
    found = sink.insert(sample(200))
    assert isinstance(found, Away)
    assert "insert into gpu_samples: no-such-host.invalid:8123: Failed to resolve" in found.why


def test_every_code_has_the_name_that_the_engine_gives_it(engine: EngineServer) -> None:
    named = {**codes.DATA, **codes.PERMANENT, **codes.PASSING}
    with closing(engine.client()) as client:
        rows = client.query(
            "SELECT code, errorCodeToName(code) FROM (SELECT arrayJoin({codes:Array(Int32)}) AS code)",
            {"codes": sorted(named)},
        ).result_rows
    assert {int(code): str(name) for code, name in rows} == named


@pytest.mark.long
def test_status_answers_soon_when_store_or_broker_do_not(embedded_at: Bench, gateway: Gateway) -> None:
    at = embedded_at
    at.feed.good(20)
    with closing(at.start()) as process:
        at.table.reaches(at.feed.sent, process)
        until(lambda: not status(at)[0]["pending"], "the spans to be settled")
        gateway.close()
        at.feed.good(30)
        until(lambda: "cannot insert now" in process.said(), "the outage to be noticed")
        report, _ = status(at)
        assert [row["lag_messages"] for row in report["lag"] if row["lag_messages"]]
        assert sum(row["lag_messages"] for row in report["lag"]) <= 30  # what landed before is known without the store
        assert any("store: cannot reach ClickHouse" in why for why in report["problems"])
        assert report["ingest"]["state"] == "failing"
        process.kill()
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        away = replace(
            at.settings,
            store=Store(dsn=f"http://127.0.0.1:{port}"),
            kafka=replace(at.settings.kafka, bootstrap_servers=f"127.0.0.1:{port}"),
        )
        report, took_s = status(replace(at, settings=away))
    assert took_s < 60
    assert {why.split(":")[0].split(" ")[0] for why in report["problems"]} >= {"store", "broker"}


@pytest.mark.kafka
def test_inserts_of_thirty_seconds_keep_the_group_and_the_memory(
    kafka: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path
) -> None:
    at = bench_behind(kafka, engine, topic_prefix, tmp_path, engine.port)
    slow = " + ".join(f"sleep({3 - number / 100})" for number in range(10))
    with closing(at.start(budget_bytes=2 << 20, batch_bytes=1 << 20, session_timeout_s=15.0)) as process:
        at.feed.good(20)
        at.table.reaches(at.feed.sent, process.ready())
        do(engine, "CREATE TABLE slow (x UInt8) ENGINE = MergeTree ORDER BY x")
        do(engine, f"CREATE MATERIALIZED VIEW slow_mv TO slow AS SELECT toUInt8({slow}) AS x FROM gpu_samples")
        try:
            at.feed.good(20)
            until(lambda: (status(at)[0]["ingest"] or {}).get("state") == "slow", "status to say that it is slow")
            before = psutil.Process(process.process.pid).memory_info().rss
            at.feed.good(300, rows=200)
            report, _ = status(at)
            assert sum(row["lag_messages"] for row in report["lag"]) > 0, report
            do(engine, "DROP VIEW slow_mv SYNC")
            assert report["pending"]
            assert not [why for why in report["problems"] if "nobody ingests" in why]
            at.table.reaches(at.feed.sent, process, within_s=240)
            assert psutil.Process(process.process.pid).memory_info().rss - before < 128 << 20
        finally:
            do(engine, "DROP VIEW IF EXISTS slow_mv SYNC", "DROP TABLE slow SYNC")
        assert process.said().count("partitions taken") == 1
        assert "partitions given up" not in process.said()
        assert process.stop() == 0
    at.once()
