"""The reader against a plain one, whatever the file's form, and what it says of files that are not sound."""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plain_trace import read_rows, rows
from tests.tracebuilder import TraceBuilder
from tests.traces import FOLDER, needs_traces
from warpmeter.analysis import read as reading
from warpmeter.analysis.read import TraceError, read, traces_in
from warpmeter.analysis.read.build import build
from warpmeter.analysis.read.files import Progress
from warpmeter.analysis.read.reader import ALONE, Document, Reader, Share
from warpmeter.analysis.read.tables import Tables
from warpmeter.analysis.read.text import Window
from warpmeter.analysis.trace import Trace


def made(count: int = 40) -> TraceBuilder:
    """A trace with events of every kind."""
    trace = TraceBuilder(base_ns=1_700_000_000_000_000_000)
    trace.distributed(3, 8, [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2], "pg_size": 3}])
    trace.device(0, "NVIDIA H100", numSms=132, totalGlobalMem=85_018_279_936, computeMajor=9, computeMinor=0)
    trace.name(text="python")
    trace.name(thread=0, text="thread 0 (main)")
    for number in range(count):
        at = 1_000_000 + number * 10_007
        trace.operator("aten::mm", at, 9_000, external=number, dims=[[number, 2], []], types=["float", "Scalar"])
        trace.launch(
            f"kernel_{number % 3}", (at + 500, 300), (at + 1_001, 5_503), external=number, occupancy_percent=50
        )
        trace.memory(at + 10, 512 - number, address=(1 << 63) + number if number == 7 else number, allocated=5)
        trace.flow(number, (at, 0), (at + 5, 1))
        trace.frame("train.py(3): step", at, 8_000, id=number, parent=None if number == 0 else number - 1)
    trace.copy(5_000, 100, bytes=4096)
    trace.set(6_000, 0, bytes=1, stream=9)
    trace.step(1, 900_000, 2_000_000)
    trace.gpu_annotation("ProfilerStep#1", 900_500, 1_000)
    trace.wait("Stream Wait Event", 7_000, 10, on_stream=9, on_correlation=4)
    trace.counter("GPU", 8_000, {"util": 0.5, "mem": 3})
    trace.kernel("nccl_AllReduce", 9_000, 500, stream=20, collective="allreduce", group_ranks="[0, 1]", dtype="Float")
    return trace


def trace_of(text: bytes, chunk: int = 256) -> Trace:
    """Read in tiny chunks, so that every way through the file is gone."""
    tables = Tables()
    blocks = (text[at : at + 100] for at in range(0, len(text), 100))
    document = Reader("memory", Window(blocks, chunk), tables).run()
    return build("memory", [tables], document)


def same(trace: Trace, text: bytes) -> bool:
    """Whether the trace has the rows of the text, in the order that is promised."""
    found, expected = read_rows(trace), rows(text)
    for values in found.values():
        order = [
            (row[0], -row[1]) if isinstance(row[1], int) and isinstance(row[2], str) else (row[0],) for row in values
        ]
        assert order == sorted(order)
    if "allocations" in expected:  # addresses are kept as their 64 bits
        expected["allocations"] = [
            (*row[:2], row[2] - (1 << 64) if row[2] >= 1 << 63 else row[2], *row[3:]) for row in expected["allocations"]
        ]
    return {table: Counter(values) for table, values in found.items()} == {
        table: Counter(values) for table, values in expected.items()
    }


@pytest.mark.long
@needs_traces
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.gz")), ids=lambda path: path.name)
def test_real_traces_read_as_pythons_own_json_does(path: Path) -> None:
    trace = read(str(path))
    assert same(trace, gzip.decompress(path.read_bytes()))
    assert trace.notes == ()


@pytest.mark.parametrize("chunk", [1, 64, 256, 1000, 1 << 20])
def test_chunks_of_any_size_give_the_same(chunk: int) -> None:
    text = made().json()
    trace = trace_of(text, chunk)
    assert same(trace, text)
    assert (trace.notes, trace.rank, trace.epoch_ns) == ((), 3, 1_700_000_000_000_000_000)
    assert trace.devices[0].compute_capability == (9, 0)
    assert trace.distributed is not None
    assert trace.distributed.groups[0].ranks == (0, 1, 2)
    assert trace.threads[int(trace.calls.thread[0])].name == "thread 0 (main)"
    assert [trace.names[index] for index in trace.counters.name] == ["GPU util", "GPU mem"]
    assert trace.counters.value.tolist() == [0.5, 3.0]
    assert (trace.waits.on_stream.tolist(), trace.waits.on_correlation.tolist()) == ([9], [4])
    assert trace.collectives[0].group_ranks == (0, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 2000))
def test_events_may_stand_in_any_order(seed: int, chunk: int) -> None:
    text = made(15).shuffled(seed).json()
    assert same(trace_of(text, chunk), text)


def _as_array(text: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(text)["traceEvents"])


def _head_last(text: bytes) -> bytes:
    document = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({"traceEvents": document.pop("traceEvents"), **document})


def _spread(text: bytes) -> bytes:
    return msgspec.json.format(text, indent=7)


def _strings(text: bytes) -> bytes:
    document = msgspec.json.decode(text)
    for event in document["traceEvents"]:
        event["ts"] = str(event["ts"])
        for key in ("correlation", "bytes", "stream", "device", "External id"):
            if key in event.get("args", {}):
                event["args"][key] = str(event["args"][key])
    return msgspec.json.encode(document)


def _absolute(text: bytes) -> bytes:
    return text.replace(b'"ts":1', b'"ts":1683564901')


@pytest.mark.parametrize("form", [_as_array, _head_last, _spread, _strings, _absolute])
@pytest.mark.parametrize("chunk", [200, 1 << 20])
def test_forms_of_a_trace(form: "type[bytes]", chunk: int) -> None:
    text = form(made().json())
    assert same(trace_of(text, chunk), text)


def _members(text: bytes) -> bytes:
    return b"".join(gzip.compress(text[at : at + 999]) for at in range(0, len(text), 999)) + bytes(512)


def _frames(text: bytes) -> bytes:
    return b"".join(zstd.compress(text[at : at + 999]) for at in range(0, len(text), 999))


@pytest.mark.parametrize(
    "pack", [gzip.compress, _members, zstd.compress, _frames, lambda text: b"\xef\xbb\xbf\n" + text]
)
def test_what_packs_a_trace_is_told_by_its_first_bytes(pack: "type[bytes]", tmp_path: Path) -> None:
    text = made().json()
    path = tmp_path / "trace"
    path.write_bytes(pack(text))
    trace = read(str(path))
    assert same(trace, text)
    assert trace.notes == ()


def test_old_names_of_categories_and_arguments() -> None:
    def event(cat: str, **args: object) -> dict[str, object]:
        return {"ph": "X", "cat": cat, "name": cat, "pid": 2, "tid": "stream 7", "ts": 5, "dur": 1, "args": args}

    events = [
        event("Kernel", stream=7, correlation=1, **{"external id": 4}),
        event("Memcpy", stream="7", bytes="12"),
        event("Memset"),
        event("mtia_ccp_events"),
        event("Runtime", correlation=1, **{"external id": 4}),
        event("hip_runtime", correlation=2),
        event("Operator", **{"external id": 4, "Input dims": [[3]]}),
    ]
    trace = trace_of(msgspec.json.encode(events))
    assert trace.gpu.kind.tolist() == [0, 1, 2, 0]
    assert trace.gpu.device.tolist() == [2, 2, 2, 2]  # the process, where no argument tells
    assert trace.gpu.stream.tolist() == [7, 7, -1, -1]
    assert trace.gpu.bytes.tolist() == [-1, 12, -1, -1]
    assert trace.gpu.external.tolist() == [4, -1, -1, -1]
    assert (trace.calls.correlation.tolist(), trace.calls.external.tolist()) == ([1, 2], [4, -1])
    assert trace.inputs[int(trace.operators.inputs[0])].dims == ([3],)


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ((5, 8), (5, 8)),
        ((5, 10**12), (5, 0)),
        ((-3, -1), (0, 0)),
        ((1 << 40, 1 << 20), (0, 1 << 20)),
        (("7", None), (7, 1)),
    ],
)
def test_ranks_and_worlds_that_no_job_has_are_not_told(told: tuple[int, int], known: tuple[int, int]) -> None:
    info = {"rank": told[0], "world_size": told[1], "pg_config": [{"pg_name": "0", "ranks": [0, 1 << 40, -1]}]}
    found = trace_of(msgspec.json.encode({"distributedInfo": info, "traceEvents": []})).distributed

    assert found is not None
    assert (found.rank, found.world_size, found.groups[0].ranks) == (*known, (0,))


def test_times_are_those_of_the_text() -> None:
    """As floats these two are one: near 1.7e15 µs the next float is 0.25 µs away."""
    events = [
        _kernel(ts) for ts in ("1712195495519689.801", "1712195495519689.802", '"1712195495519689.803"', "1e3", "-5")
    ]
    trace = trace_of(b"[" + b",".join(events) + b"]")
    assert trace.gpu.start.tolist() == [-5_000, 1_000_000, *(1_712_195_495_519_689_801 + place for place in range(3))]


def _kernel(ts: str = "1", more: str = "") -> bytes:
    return f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":1.5{more}}}'.encode()


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_truncated_file_gives_what_is_whole(cut: int) -> None:
    text = made().json()
    short = text[: len(text) * cut // 12]
    whole = short[: short.rfind(b',{"ph"')] + b"]}"
    trace = trace_of(short)
    assert same(trace, whole)
    assert any("breaks off" in note for note in trace.notes)


def test_a_truncated_packing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(made(2000).json())[:-5000])
    trace = read(str(path))
    assert len(trace.gpu) > 0
    assert "its gzip data breaks off" in trace.notes


LEFT_OUT = [
    _kernel('"soon"'),
    _kernel("[]"),
    _kernel("1e300"),
    _kernel("1", ',"dur":-1'),
    _kernel("1", ',"name":5'),
    _kernel("1", ',"ph":"?"'),
    _kernel("1", ',"x":'),
    _kernel("1")[:-1],
    _kernel("1", ',"x":"'),
    _kernel("1", ',"x":' + "[" * 50_000 + "]" * 50_000),
    b"7",
    b"null",
    b'"x"',
    b"[[]]",
]
KEPT = [
    _kernel("1") + b"}",
    _kernel("1", ',"x":nan,"y":-Infinity'),
    _kernel("1", ',"x":"\x07\t"'),
    _kernel("1", r',"x":"\ud800\q"'),
    _kernel("1", ',"args":[]'),
    _kernel("1", ',"args":{"stream":[7],"bytes":1e40,"device":null}'),
    _kernel("1", ',"args":{"correlation":99999999999999999999}'),
    _kernel("1", ',"dur":2,"dur":3'),
    _kernel("1", ',"x":[{"name":1},{"name":2},{"ts":"},{"}]'),
]


@pytest.mark.parametrize(("bad", "kept"), [*((bad, 4) for bad in LEFT_OUT), *((bad, 5) for bad in KEPT)])
def test_an_odd_event_takes_no_other_with_it(bad: bytes, kept: int) -> None:
    for place in range(5):
        events = [_kernel()] * 4
        events.insert(place, bad)
        for chunk in (1, 1 << 20):
            trace = trace_of(b'{"traceEvents":[' + b",\n ".join(events) + b'],"displayTimeUnit":"ms"}', chunk)
            assert kept - 1 <= len(trace.gpu) <= kept  # one that does not end may take its neighbour along
            assert trace.metadata == {"displayTimeUnit": "ms"}
            if kept == 4:
                assert trace.notes


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    trace = trace_of(b"[" + _kernel().replace(b'"k"', b'"k\xff"') + b"]")
    assert trace.names == ["k\ufffd"]
    assert trace.notes == ("places that are no JSON (NaN, infinity, bad characters) and were mended: 1 or more",)


NO_TRACES = {
    b"": "is empty",
    b" \n": "is empty",
    b"hello": "no JSON",
    b"\x00\x01": "no JSON",
    b"{}": "no list of traceEvents",
    b'{"traceEvents":null}': "no list of traceEvents",
    b'{"a":': "no sound JSON",
    b"[1,2,3]": "no whole event",
    b'{"traceEvents":[{"ph":"X",': "no whole event",
    b"[" + b"1," * 3_000_000: "no (whole )?event",
}


@pytest.mark.parametrize(("text", "why"), NO_TRACES.items())
def test_what_is_no_trace_is_told(text: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    with pytest.raises(TraceError, match=why):
        read(str(path))


def test_a_trace_without_events_is_one() -> None:
    for text in (b"[]", b'{"traceEvents": [ ] }'):
        assert trace_of(text).events == 0


def test_long_lists_of_ranks_are_cut_short_by_kineto() -> None:
    more = ',"args":{"Collective name":"allreduce","Process Group Ranks":"[0, 4, ..., 252]","Group size":64,'
    trace = trace_of(b"[" + _kernel("1", more + '"Global rank start":0,"Global rank stride":4}') + b"]")
    assert trace.collectives[0].group_ranks == tuple(range(0, 256, 4))


def test_files_are_found_once_each(tmp_path: Path) -> None:
    for name in ("b.json", "a.json.gz", "deep/c.json.zst", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"[]")
    found = [Path(path).name for path in traces_in([str(tmp_path), str(tmp_path / "*.json")])]
    assert found == ["a.json.gz", "b.json", "c.json.zst"]
    assert traces_in([f"file://{tmp_path}/*.json"]) == [f"file://{tmp_path}/b.json"]
    assert read(f"file://{tmp_path}/b.json").events == 0
    with pytest.raises(TraceError, match="no such file"):
        traces_in([str(tmp_path / "none*")])
    with pytest.raises(TraceError, match=r"^memory://none.json cannot be opened: there is no such file$"):
        read("memory://none.json")


def test_progress_ends_at_the_files_size(tmp_path: Path) -> None:
    path = made(5000).write(tmp_path / "trace.json")
    told: list[tuple[int, int]] = []
    read(str(path), lambda done, total: told.append((done, total)))
    assert told[-1] == (path.stat().st_size, path.stat().st_size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[Share]:
    """What this process was asked to decode, pass by pass."""
    passes: list[Share] = []
    decoded = reading._decoded

    def noted(path: str, progress: Progress | None, share: Share) -> tuple[Tables, Document]:
        passes.append(share)
        return decoded(path, progress, share)

    monkeypatch.setattr(reading, "_decoded", noted)
    return passes


def test_two_processes_read_as_one(tmp_path: Path, shares: list[Share]) -> None:
    text = made(4_000).json()
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    one, two = read(str(path), processes=1), read(str(path), processes=2)
    assert read_rows(one) == read_rows(two)
    assert (one.events, one.rank, one.notes, one.epoch_ns) == (two.events, two.rank, two.notes, two.epoch_ns)
    assert np.array_equal(one.counters.value, two.counters.value)
    assert shares == [ALONE, Share(0, 2)]


def test_two_processes_leave_unsound_text_to_one(tmp_path: Path, shares: list[Share]) -> None:
    text = made(4_000).json()
    path = tmp_path / "trace.json"
    path.write_bytes(text.replace(b'"Ev', b'"E"v').replace(b'"cat":"kernel"', b'"cat":kernel"', 3)[:-10_000])
    one, two = read(str(path), processes=1), read(str(path), processes=2)
    assert read_rows(one) == read_rows(two)
    assert (one.events, one.notes) == (two.events, two.notes)
    assert len(one.notes) == 2
    assert shares == [ALONE, Share(0, 2), ALONE]


def blocks_of(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks as a file gives them."""
    yield from texts


def test_memory_is_bounded_by_the_chunk_not_by_the_file() -> None:
    """The window holds no more than a chunk, a margin and a block, however long the file is."""
    event = _kernel() + b","
    block = event * (100_000 // len(event))
    window = Window(blocks_of([b"[", *[block] * 200, _kernel() + b"]"]), 50_000)
    longest = 0

    class Watching(Tables):
        def add(self, chunk: int, events: object) -> None:
            nonlocal longest
            longest = max(longest, len(window.text))
            super().add(chunk, events)  # type: ignore[arg-type]

    Reader("memory", window, Watching()).run()
    assert longest < 50_000 + (64 << 10) + 2 * len(block)


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_file_that_breaks_off_before_its_text_begins_is_told(pack: "type[bytes]", tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(pack(made().json())[:9])
    with pytest.raises(TraceError, match="data breaks off"):
        read(str(path))


def test_a_url_that_cannot_be_had_is_told() -> None:
    for url in ("nosuch://bucket/trace.json", "memory://nothing/trace.json", "s3://bucket/trace.json"):
        with pytest.raises(TraceError, match=url):
            read(url)
