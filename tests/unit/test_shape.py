"""What may join a batch without a row of it being decoded: the shape of a value, and Confluent's framing."""

import random

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from warpmeter import wire
from warpmeter.consumers.shape import Odd, checker, looker
from warpmeter.registry import FramingError, strip
from warpmeter.schemas.generated import gpu_samples_pb2, host_samples_pb2
from warpmeter.schemas.topics import TOPICS

GPU = TOPICS["gpu-samples"]
check = checker(GPU)


def gpus(count: int) -> wire.Envelope:
    row = gpu_samples_pb2.Envelope.GpuSample
    return wire.pack(GPU, "h", [row(host="h", ts=1.8e9, gpu=gpu, uuid=f"GPU-{gpu}") for gpu in range(count)])


@pytest.mark.parametrize("count", [1, 8, 1024, 1025, 3000])
def test_a_good_value_tells_its_rows(count: int) -> None:
    envelope = gpus(count)
    assert check(envelope.value, envelope.headers) == count


def test_other_headers_beside_ours_do_no_harm() -> None:
    envelope = gpus(2)
    assert check(envelope.value, [("traceparent", b"00-1"), *envelope.headers]) == 2


def odd(value: bytes | None, headers: list[tuple[str, bytes]] | None) -> Odd:
    found = check(value, headers)
    assert isinstance(found, Odd)
    return found


GOOD = gpus(3)


@pytest.mark.parametrize(
    ("value", "headers", "reason"),
    [
        (None, GOOD.headers, "tombstone"),
        (b"", GOOD.headers, "without rows"),
        (b"\xff\xff\xff", GOOD.headers, "do not parse"),
        (GOOD.value[:-1], GOOD.headers, "do not parse"),
        (GOOD.value + wire.field(2, b"x"), GOOD.headers, "another field"),
        (GOOD.value + b"\x08\x01", GOOD.headers, "another field"),
        (GOOD.value, [("type", b"HostSample"), ("rows", b"3")], "HostSample"),
        (GOOD.value, [("type", b"GpuSample"), ("rows", b"4")], "holds 3"),
        (GOOD.value, [("type", b"GpuSample"), ("rows", b"x")], "holds 3"),
    ],
)
def test_what_the_wire_alone_refuses(value: bytes | None, headers: list[tuple[str, bytes]], reason: str) -> None:
    assert reason in odd(value, headers).reason
    assert odd(value, headers).certain


@pytest.mark.parametrize("headers", [None, [], [("type", b"GpuSample")], [("rows", b"3")]])
def test_a_value_that_nothing_vouches_for_is_left_to_the_engine(headers: list[tuple[str, bytes]] | None) -> None:
    found = odd(GOOD.value, headers)
    assert not found.certain
    assert found.rows == 3


def test_a_message_of_another_topic_is_refused_by_its_header() -> None:
    row = host_samples_pb2.Envelope.HostSample(host="h", ts=1.8e9)
    other = wire.pack(TOPICS["host-samples"], "h", [row])
    assert "HostSample" in odd(other.value, other.headers).reason


def test_millions_of_empty_rows_are_refused_before_the_engine_makes_a_block_of_them() -> None:
    value = b"\x0a\x00" * 100_000
    assert "too short" in odd(value, [("type", b"GpuSample"), ("rows", b"100000")]).reason
    assert "too short" in odd(value, None).reason
    least = wire.pack(GPU, "h", [gpu_samples_pb2.Envelope.GpuSample(host="h", ts=1.8e9)] * 2000)
    assert check(least.value, least.headers) == 2000


def test_a_message_of_another_topic_that_does_not_say_its_type_is_refused_by_its_fields() -> None:
    row = host_samples_pb2.Envelope.HostSample(host="h", ts=1.8e9, agent_version="1", cpu_idle_permille=5)
    other = wire.pack(TOPICS["host-samples"], "h", [row])
    assert "fields that a GpuSample does not have" in odd(other.value, None).reason
    assert odd(other.value, [("rows", b"1")]).certain


def test_a_later_version_says_its_type_and_may_have_more_fields() -> None:
    row = gpu_samples_pb2.Envelope.GpuSample(host="h", ts=1.8e9).SerializeToString() + wire.field(900, b"new")
    value = wire.field(1, row)
    assert check(value, [("type", b"GpuSample"), ("rows", b"1")]) == 1
    assert odd(value, None).certain


@pytest.mark.long
def test_a_mutated_value_that_passes_still_holds_the_rows_it_says() -> None:
    """Joined with its neighbours it is then as many rows more, so none of theirs is taken along."""
    rng, envelope = random.Random(7), gpus(3)
    after = gpus(2).value
    for _ in range(5000):
        value = bytearray(envelope.value)
        value[rng.randrange(len(value))] = rng.randrange(256)
        if isinstance(check(bytes(value), envelope.headers), Odd):
            continue
        shape = checker(GPU)
        assert shape(bytes(value) + after, None).rows == 5  # type: ignore[union-attr]


@given(st.binary(max_size=200))
def test_any_bytes_give_a_verdict(value: bytes) -> None:
    found = check(value, GOOD.headers)
    try:
        rows = len(wire.unpack(GPU, value))
    except DecodeError:
        return
    assert isinstance(found, Odd) or found == rows


SCHEMA_ID = b"\x00\x00\x00\x00\x2a"


@pytest.mark.parametrize("indexes", [b"\x00", b"\x02\x00"])
def test_confluents_framing_is_stripped(indexes: bytes) -> None:
    payload, seen = looker(GPU, framed=True)(SCHEMA_ID + indexes + GOOD.value, GOOD.headers)
    assert (payload, seen) == (GOOD.value, 3)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no Schema Registry framing"),
        (GOOD.value, "no Schema Registry framing"),
        (b"\x00\x00\x00", "no Schema Registry framing"),
        (SCHEMA_ID, "cut off"),
        (SCHEMA_ID + b"\x02", "cut off"),
        (SCHEMA_ID + b"\x02\x02" + GOOD.value, r"message \[1\]"),
        (SCHEMA_ID + b"\x04\x00\x00" + GOOD.value, r"message \[0, 0\]"),
        (SCHEMA_ID + b"\x01" + GOOD.value, "message"),
        (SCHEMA_ID + b"\xff" * 12, "cut off"),
    ],
)
def test_what_is_not_framed_for_the_envelope_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(FramingError, match=reason):
        strip(value)
    payload, seen = looker(GPU, framed=True)(value, GOOD.headers)
    assert payload == value
    assert isinstance(seen, Odd) or value == GOOD.value


def test_what_was_sent_before_there_was_a_registry_is_taken_as_it_is() -> None:
    assert looker(GPU, framed=True)(GOOD.value, GOOD.headers) == (GOOD.value, 3)


def test_framing_is_not_looked_for_without_a_registry() -> None:
    assert looker(GPU, framed=False)(GOOD.value, GOOD.headers) == (GOOD.value, 3)
    assert looker(GPU, framed=True)(None, None)[0] == b""
