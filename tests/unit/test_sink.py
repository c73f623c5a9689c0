"""What the store's answers mean, and what every insert carries."""

import pytest

from warpmeter.consumers.sink import Away, Broken, Refused, Result, classified, inline_schema, insert_settings
from warpmeter.schemas.topics import TOPICS, Topic


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (469, Refused),  # VIOLATED_CONSTRAINT
        (32, Refused),  # ATTEMPT_TO_READ_AFTER_EOF
        (444, Refused),  # UNKNOWN_PROTOBUF_FORMAT
        (252, Away),  # TOO_MANY_PARTS
        (241, Away),  # MEMORY_LIMIT_EXCEEDED
        (159, Away),  # TIMEOUT_EXCEEDED
        (209, Away),  # SOCKET_TIMEOUT
        (243, Away),  # NOT_ENOUGH_SPACE
        (242, Away),  # TABLE_IS_READ_ONLY: a replica without its keeper
        (319, Away),  # UNKNOWN_STATUS_OF_INSERT
        (None, Away),  # the network
        (60, Broken),  # UNKNOWN_TABLE
        (81, Broken),  # UNKNOWN_DATABASE
        (164, Broken),  # READONLY
        (497, Broken),  # ACCESS_DENIED
        (516, Broken),  # AUTHENTICATION_FAILED
        (16, Broken),  # NO_SUCH_COLUMN_IN_TABLE
    ],
)
def test_errors_are_the_bytes_fault_or_pass_or_stay(code: int | None, kind: type[Result]) -> None:
    found = classified("gpu_samples", code, "Code: 1.\n why")
    assert isinstance(found, kind)
    assert "Code: 1. why" in found.why
    assert isinstance(found, Refused) or "gpu_samples" in found.why


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
    assert fields == [field.name for field in TOPICS["gpu-samples"].envelope.DESCRIPTOR.nested_types[0].fields]
