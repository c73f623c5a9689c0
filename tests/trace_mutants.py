"""Broken traces by seed: what a full disk, a killed process, a bad cable or another tool may make of a good one."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import msgspec
from backports import zstd

from tests.tracebuilder import TraceBuilder

TOKENS: Final = (
    b"NaN", b"-Infinity", b"null", b"true", b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"1e999", b"-1", b"]}",
    b"\x00", b'"\\ud800"', b"[" * 3000, b'{"a":' * 3000, b"9" * 400, b'"ph":"X"', b'},{"ph":"X"', b"/*", b"'", b"0x10",
    b"\xff\xfe",
)  # fmt: skip
VALUES: Final[Sequence[Any]] = (
    None, True, -1, 0, 1 << 63, -(1 << 63), 10**30, 1.5, 1e300, -1e-300, "", "x", "7", "1e5", [], [[]], {}, {"a": []},
    [None, "x", 1e308, [3]], "\x00", "é" * 100, 1 << 31, "NaN",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A broken file. So many events of the good one may be missing; None: any may."""

    kind: str
    data: bytes
    touched: int | None


def good(seed: int) -> TraceBuilder:
    """A small sound trace with events of every kind."""
    rng = Random(seed)
    trace = TraceBuilder(base_ns=rng.choice([None, 1_700_000_000_000_000_000]))
    if rng.random() < 0.7:
        trace.distributed(rng.randrange(4), 4, [{"pg_name": "0", "pg_desc": "d", "ranks": [0, 1, 2, 3], "pg_size": 4}])
        trace.device(0, "NVIDIA H100", numSms=132, totalGlobalMem=85_018_279_936, computeMajor=9, computeMinor=0)
    trace.name(thread=0, text="thread 0 (main)")
    for number in range(rng.randrange(1, 8)):
        at = 1_000_000 + number * 20_011
        dims = [[64, 128], [128, 32]]
        trace.step(number, at, 20_000)
        trace.operator("aten::mm", at + 10, 9_000, external=number, dims=dims, types=["c10::BFloat16"] * 2)
        trace.launch("sm90_gemm", (at + 500, 300), (at + 1_001, 5_503), external=number, occupancy_percent=50)
        told: dict[str, Any] = {"collective": "allreduce", "group": "0", "group_ranks": "[0, 1, 2, 3]", "group_size": 4}
        told |= {"in_elements": 1 << 20, "dtype": "Float", "stream": 20}
        trace.launch("ncclKernel_AllReduce", (at + 900, 100), (at + 4_000, 9_000), **told)
        trace.memory(at + 10, 4096 * (-1) ** number, address=4096 + number // 2, allocated=5, reserved=9)
        trace.flow(number, (at, 0), (at + 5, 1))
        trace.frame("train.py(3): step", at, 8_000, id=number + 1, parent=number or None)
    trace.copy(900_000, 100, bytes=4096)
    trace.set(901_000, 0, bytes=1, stream=9)
    trace.gpu_annotation("ProfilerStep#1", 900_500, 1_000)
    trace.wait("Stream Wait Event", 902_000, 10, on_stream=9, on_correlation=1)
    trace.counter("GPU", 903_000, {"util": 0.5})
    return trace


def mutant(seed: int, trace: TraceBuilder) -> Mutant:
    """One broken file of the trace."""
    rng = Random(seed)
    return rng.choice(KINDS)(rng, trace)


def _text(rng: Random, trace: TraceBuilder) -> bytes:
    text = trace.json()
    form = rng.randrange(4)
    if form == 0:
        return msgspec.json.encode(trace.events)
    if form == 1:
        return msgspec.json.format(text, indent=rng.choice([1, 2, 4]))
    if form == 2:
        return msgspec.json.encode({"traceEvents": trace.events, **trace.head})
    return text


def _local(change: Callable[[Random, bytes, int], bytes], kind: str) -> Callable[[Random, TraceBuilder], Mutant]:
    """A change of a few bytes somewhere in the list of events."""

    def apply(rng: Random, trace: TraceBuilder) -> Mutant:
        text = _text(rng, trace)
        first = text.index(b"[", max(text.find(b'"traceEvents"'), 0)) + 1
        at = rng.randrange(first, text.rindex(b'"ph"'))
        return Mutant(kind, change(rng, text, at), 4)

    return apply


def _flipped(rng: Random, text: bytes, at: int) -> bytes:
    return text[:at] + bytes([text[at] ^ 1 << rng.randrange(8)]) + text[at + 1 :]


def _deleted(rng: Random, text: bytes, at: int) -> bytes:
    return text[:at] + text[at + rng.randrange(1, 40) :]


def _inserted(rng: Random, text: bytes, at: int) -> bytes:
    return text[:at] + rng.choice(TOKENS) + text[at:]


def _overwritten(rng: Random, text: bytes, at: int) -> bytes:
    token = rng.choice(TOKENS)[:40]
    return text[:at] + token + text[at + len(token) :]


def _doubled(rng: Random, text: bytes, at: int) -> bytes:
    size = rng.randrange(1, 60)
    return text[: at + size] + text[at:]


def _scattered(rng: Random, trace: TraceBuilder) -> Mutant:
    """Damage anywhere, head and tail included."""
    text = bytearray(_text(rng, trace))
    for _ in range(rng.randrange(1, 20)):
        at = rng.randrange(len(text))
        text[at : at + rng.randrange(3)] = rng.choice(TOKENS)
    return Mutant("scattered", bytes(text), None)


def _cut_off(rng: Random, trace: TraceBuilder) -> Mutant:
    text = _text(rng, trace)
    return Mutant("cut off", text[: rng.randrange(len(text))], None)


def _retyped(rng: Random, trace: TraceBuilder) -> Mutant:
    """Another value somewhere in an event, or one left out."""
    events = msgspec.json.decode(msgspec.json.encode(trace.events))
    for _ in range(rng.randrange(1, 3)):
        fields = rng.choice(events)
        if rng.random() < 0.5 and isinstance(fields.get("args"), dict) and fields["args"]:
            fields = fields["args"]
        key = rng.choice(sorted(fields))
        if rng.random() < 0.1:
            del fields[key]
        else:
            fields[key] = rng.choice(VALUES)
    return Mutant("retyped", msgspec.json.encode({**trace.head, "traceEvents": events}), 2)


def _head_changed(rng: Random, trace: TraceBuilder) -> Mutant:
    """Another value somewhere in the head."""
    head = msgspec.json.decode(msgspec.json.encode(trace.head))
    fields = rng.choice([head, *(value for value in head.values() if isinstance(value, dict))])
    fields[rng.choice(sorted(fields))] = rng.choice(VALUES)
    return Mutant("head changed", msgspec.json.encode({**head, "traceEvents": trace.events}), 0)


def _crowded(rng: Random, trace: TraceBuilder) -> Mutant:
    """Entries that are no events between the events, and events twice."""
    events = [event for event in trace.events for _ in range(rng.choice([1, 1, 1, 2]))]
    for _ in range(rng.randrange(5)):
        events.insert(rng.randrange(len(events) + 1), rng.choice(VALUES))
    rng.shuffle(events)
    return Mutant("crowded", msgspec.json.encode({**trace.head, "traceEvents": events}), 0)


def _packed(rng: Random, trace: TraceBuilder) -> Mutant:
    """A packing with a few bad bytes, cut off, or with something behind."""
    text = _text(rng, trace)
    data = bytearray(gzip.compress(text, 1) if rng.random() < 0.5 else zstd.compress(text))
    match rng.randrange(4):
        case 0:
            data = data[: rng.randrange(1, len(data))]
        case 1:
            data += rng.choice([b"\0" * 9, b"more", bytes(data)])
        case _:
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return Mutant("packed", bytes(data), None)


KINDS: Final[Sequence[Callable[[Random, TraceBuilder], Mutant]]] = (
    _local(_flipped, "flipped"),
    _local(_deleted, "deleted"),
    _local(_inserted, "inserted"),
    _local(_overwritten, "overwritten"),
    _local(_doubled, "doubled"),
    _scattered,
    _cut_off,
    _retyped,
    _retyped,
    _head_changed,
    _crowded,
    _packed,
)
