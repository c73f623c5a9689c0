"""What the store's answers mean, and what every insert carries."""

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from warpmeter.consumers.sink import Away, Broken, Refused, Result, codes
from warpmeter.consumers.sink.clickhouse import classified, columns, inline_schema, insert_settings
from warpmeter.schemas.topics import TOPICS, Topic
from warpmeter.store import cause

KINDS: list[tuple[int | None, type[Result]]] = [
    *((code, Refused) for code in codes.DATA),
    *((code, Broken) for code in codes.PERMANENT),
    *((code, Away) for code in codes.PASSING),
    (None, Away),  # the network
    (999_999, Away),  # a code of a server to come
]


@pytest.mark.parametrize(("code", "kind"), KINDS)
def test_errors_are_the_bytes_fault_or_pass_or_stay(code: int | None, kind: type[Result]) -> None:
    found = classified("gpu_samples", code, "Code: 1. why")
    assert type(found) is kind
    assert "Code: 1. why" in found.why
    assert isinstance(found, Refused) or "gpu_samples" in found.why


def test_no_code_has_two_classes() -> None:
    tables = [codes.DATA, codes.PERMANENT, codes.PASSING]
    assert len(set().union(*tables)) == sum(map(len, tables))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TOO_MANY_PARTS", Away), ("MEMORY_LIMIT_EXCEEDED", Away), ("TABLE_IS_READ_ONLY", Away),
        ("NOT_ENOUGH_SPACE", Away), ("TOO_MANY_SIMULTANEOUS_QUERIES", Away), ("TIMEOUT_EXCEEDED", Away),
        ("SOCKET_TIMEOUT", Away), ("NETWORK_ERROR", Away), ("UNKNOWN_STATUS_OF_INSERT", Away),
        ("TOO_FEW_LIVE_REPLICAS", Away), ("NO_ZOOKEEPER", Away), ("KEEPER_EXCEPTION", Away),
        ("THREAD_WAS_CANCELED", Away), ("READONLY", Broken), ("TABLE_IS_PERMANENTLY_READ_ONLY", Broken),
        ("NO_SUCH_COLUMN_IN_TABLE", Broken), ("UNKNOWN_TABLE", Broken), ("PROTOBUF_BAD_CAST", Refused),
        ("AUTHENTICATION_FAILED", Broken), ("VIOLATED_CONSTRAINT", Refused), ("UNKNOWN_PROTOBUF_FORMAT", Refused),
    ],
)  # fmt: skip
def test_what_operators_meet_has_its_class(name: str, kind: type[Result]) -> None:
    numbers = {name: code for table in (codes.DATA, codes.PERMANENT, codes.PASSING) for code, name in table.items()}
    assert type(classified("gpu_samples", numbers[name], "why")) is kind


def test_bytes_that_only_a_view_objects_to_are_the_views_fault() -> None:
    found = classified("gpu_samples", 6, "Code: 6. Cannot parse: while pushing to view warpmeter.mine. (X)")
    assert isinstance(found, Broken)
    assert "warpmeter.mine" in found.why


@pytest.mark.parametrize(("status", "kind"), [(401, Broken), (413, Broken), (502, Away), (503, Away), (404, Away)])
def test_what_a_proxy_answers_by_itself(status: int, kind: type[Result]) -> None:
    error = DatabaseError(f"HTTP driver received HTTP status {status}, server response: <html><b>No</b></html>")
    found = classified("gpu_samples", None, cause(error))
    assert type(found) is kind
    assert f"HTTP {status} by something before ClickHouse: No" in found.why


def test_a_cause_is_one_bounded_line_without_the_transports_words() -> None:
    long = f"Code: 47. DB::Exception: {'x' * 3000}: while pushing to view warpmeter.mine. (UNKNOWN_IDENTIFIER)"
    server = f"Received ClickHouse exception, code: 47, server response: {long} (version 26.9.2.1) (for url http://a:1)"
    said = cause(DatabaseError(server, code=47))
    assert said.startswith("Code: 47. DB::Exception: xxx")
    assert said.endswith("while pushing to view warpmeter.mine. (UNKNOWN_IDENTIFIER)")
    assert len(said) <= 600


@pytest.mark.parametrize("topic", TOPICS.values(), ids=list(TOPICS))
def test_every_insert_is_one_block_with_its_schema_inline(topic: Topic) -> None:
    found = insert_settings(topic)
    assert found["async_insert"] == 0
    assert found["max_insert_threads"] == 1
    assert found["input_format_parallel_parsing"] == 0
    assert found["max_insert_block_size"] == found["min_insert_block_size_rows"] == 1_000_000_000
    assert found["min_insert_block_size_bytes"] == 0
    assert found["deduplicate_blocks_in_dependent_materialized_views"] == 1
    assert found["format_schema_source"] == "string"
    assert found["format_schema_message_name"] == topic.message


def test_the_schema_travels_without_its_comments_and_means_the_same() -> None:
    text = inline_schema(TOPICS["gpu-samples"])
    assert "//" not in text
    assert len(text) < 4000
    fields = [line.split("=")[0].split()[-1] for line in text.splitlines() if "=" in line and ";" in line][1:-1]
    assert fields == columns(TOPICS["gpu-samples"])
