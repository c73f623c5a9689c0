"""Profiles that others write: read as they are meant, refused with the place where they are broken, written again."""

import contextlib
import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpmeter.stacks import Weighed, folded, speedscope
from warpmeter.stacks.generated import profile_pb2
from warpmeter.stacks.profile import CUT, DEEPEST, Part, Profile, StacksError, Who
from warpmeter.stacks.reading import parse, read

GOLDEN = Path(__file__).parents[1] / "golden" / "stacks"
packed = partial(gzip.compress, mtime=0)  # bytes name tests, and must be the same in each worker


def shares(profile: Profile, depth: int = -1) -> dict[str, int]:
    """Weight by the frame at a depth, the innermost unless told."""
    found: dict[str, int] = defaultdict(int)
    for _, stack in profile.stacks():
        found[stack.frames[depth]] += stack.weight
    return dict(found)


# --- real files -----------------------------------------------------------------------------------------------------


def test_a_cpu_profile_of_go_is_time_with_inlined_calls_files_and_lines() -> None:
    kind, found = read(GOLDEN / "cpu.pprof")
    assert (kind, found.unit, found.weight) == ("pprof", "microseconds", 30_000)  # as `go tool pprof -top` says
    assert sum(stack.samples for _, stack in found.stacks()) == 3
    below_main = {stack.frames[2].split(" ")[0]: stack.weight for _, stack in found.stacks()}
    assert set(below_main) == {"main.mostly", "main.sometimes"}
    assert all(stack.frames[0].startswith("runtime.main (") for _, stack in found.stacks())
    assert any(text.startswith("main.small (/tmp/busy/main.go:") for text in shares(found))
    assert found.duration_s == pytest.approx(1.01, abs=0.01)
    assert found.at is not None


def test_a_heap_profile_of_go_is_bytes_in_use_unless_another_is_meant() -> None:
    _, found = read(GOLDEN / "heap.pprof")
    assert found.unit == "bytes"
    assert round(found.weight / 2**20, 2) == 65.92  # as `go tool pprof -sample_index=inuse_space -top` says
    _, counted = read(GOLDEN / "heap.pprof", "count")
    assert counted.unit == "count"
    with pytest.raises(StacksError, match="nothing in it is weighed in microseconds; it has alloc_objects in count"):
        read(GOLDEN / "heap.pprof", "microseconds")


def test_py_spys_lines_tell_process_and_thread_apart() -> None:
    kind, found = read(GOLDEN / "py-spy.raw.txt")
    assert (kind, found.unit) == ("folded", "count")
    whose = {part.who.thread: part.who for part in found.parts if part.who.pid == 2250}
    assert whose == {
        "MainThread": Who(2250, "python3", 2250, "MainThread"),
        "Loader-1": Who(2250, "python3", 2256, "Loader-1"),
    }
    child = next(part.who for part in found.parts if part.who.pid == 2255)
    assert child.process == "python3"
    assert shares(found)["inner (busy.py:8)"] == sum(
        int(line.rsplit(" ", 1)[1])
        for line in (GOLDEN / "py-spy.raw.txt").read_text().splitlines()
        if line.rsplit(" ", 1)[0].endswith("inner (busy.py:8)")
    )
    timed = found.at_rate(20)
    assert (timed.unit, timed.weight) == ("microseconds", found.weight * 50_000)


def test_semicolons_in_names_part_no_frame_of_py_spy() -> None:
    line = b'process 7:"python3";thread (7): w;<b>;5;run (t.py:3);f (dir;of/a;b.py:7);g (libc.so) 3\nx;y 1\n'
    py_spys, others = parse(line, "x")[1].parts
    assert py_spys.who == Who(7, "python3", 7, "w;<b>;5")
    assert py_spys.stacks[0].frames == ("run (t.py:3)", "f (dir;of/a;b.py:7)", "g (libc.so)")
    assert others.stacks[0].frames == ("x", "y")


def test_py_spys_speedscope_is_time_of_each_thread() -> None:
    kind, found = read(GOLDEN / "py-spy.speedscope.json")
    told = json.loads((GOLDEN / "py-spy.speedscope.json").read_text())
    seconds = sum(weight for profile in told["profiles"] for weight in profile["weights"])
    assert (kind, found.unit) == ("speedscope", "microseconds")
    assert found.weight == pytest.approx(seconds * 1e6, abs=len(list(found.stacks())))
    assert {(part.who.pid, part.who.process, part.who.thread) for part in found.parts} >= {
        (2271, "python3", "MainThread"),
        (2271, "python3", "Loader-1"),
        (2276, "python3", "MainThread"),
    }
    assert shares(found)["inner (/tmp/busy/busy.py:8)"] == 3_150_000
    assert not any(text.startswith(("process ", "thread (")) for _, stack in found.stacks() for text in stack.frames)


def test_what_perf_prints_is_time_of_each_thread_outermost_first() -> None:
    kind, found = read(GOLDEN / "perf.txt")
    heads = [line for line in (GOLDEN / "perf.txt").read_text().splitlines() if "cpu-clock:" in line]
    assert (kind, found.unit) == ("perf script", "microseconds")
    assert sum(stack.samples for _, stack in found.stacks()) == len(heads)
    assert found.weight == pytest.approx(len(heads) * 2500, abs=len(heads))  # at 400 Hz
    assert {part.who.process for part in found.parts} == {"busy"}
    mains = [stack for _, stack in found.stacks() if "runtime.main (/tmp/busy/busy)" in stack.frames]
    assert mains
    assert all(stack.frames[0].startswith("runtime.goexit") for stack in mains)
    assert 0 < found.duration_s < 10


def test_perf_without_call_chains_has_a_frame_a_sample() -> None:
    _, found = read(GOLDEN / "perf-flat.txt")
    lines = (GOLDEN / "perf-flat.txt").read_text().splitlines()
    assert sum(stack.samples for _, stack in found.stacks()) == len(lines)
    assert all(len(stack.frames) == 1 for _, stack in found.stacks())


# --- what else perf prints ------------------------------------------------------------------------------------------


def perf(*lines: str) -> Profile:
    return parse("\n".join(lines).encode(), "x")[1]


def test_perfs_columns_may_be_more_and_fewer() -> None:
    head = "pt data wrk  12/34    [003]   5.000001:    250000 cpu-clock:ppp: "
    found = perf(head, "\tffff00 do_it+0x1f ([kernel.kallsyms])", "\t  7f00 main (inlined)", "  a.c:12", "")
    assert found.parts == (
        Part(
            Who(12, "pt data wrk", 34, "pt data wrk"),
            (Weighed(("main (a.c:12)", "do_it ([kernel.kallsyms])"), 250, 1),),
        ),
    )
    assert perf("x 1 1.5: cycles: ", "\tff a+0x1 (/b)").unit == "count"
    assert (
        perf("x 1 1.5:  7 cpu_core/cycles/u: ", "\tff a (/b)", "", "x 1 1.5: 2 cycles:P: ", "\tff a (/b)").weight == 9
    )
    assert perf(":-1 -1 1.5: 9 cycles: ", "\tff a (/b (deleted))").parts[0].who == Who(0, ":-1", 0, ":-1")


def test_pythons_own_functions_have_their_file_in_perf() -> None:
    found = perf("x 1 1.5: 1 cycles: ", "\tff py::Loader.next:/a/loader.py+0xb (/tmp/perf-1.map)")
    assert shares(found) == {"Loader.next (/a/loader.py)": 1}


# --- pprof ----------------------------------------------------------------------------------------------------------

NAMES = ["", "cpu", "nanoseconds", "f", "g", "/a.py", "thread_id", "thread_name", "worker", "samples", "count"]


def made(change: Callable[[profile_pb2.Profile], None] = lambda _: None) -> bytes:
    """f (line 3) calls g (line 4), once, for two milliseconds."""
    found = profile_pb2.Profile(string_table=[name.encode() for name in NAMES])
    found.sample_type.add(type=9, unit=10)
    found.sample_type.add(type=1, unit=2)
    found.function.add(id=1, name=3, filename=5)
    found.function.add(id=2, name=4, filename=5)
    found.location.add(id=1).line.add(function_id=1, line=3)
    found.location.add(id=2).line.add(function_id=2, line=4)
    sample = found.sample.add(location_id=[2, 1], value=[20, 2_000_000])
    sample.label.add(key=6, num=77)
    sample.label.add(key=7, str=8)
    change(found)
    return found.SerializeToString()


def test_a_profile_is_read_packed_and_plain_with_its_thread() -> None:
    expected = (Part(Who(tid=77, thread="worker"), (Weighed(("f (/a.py:3)", "g (/a.py:4)"), 2000, 20),)),)
    assert parse(made(), "x")[1].parts == expected
    assert parse(packed(made()), "x")[1].parts == expected
    halves = made()[:40], made()[40:]
    assert parse(b"".join(map(packed, halves)), "x")[1].parts == expected


def _set(field: str, value: Any) -> Callable[[profile_pb2.Profile], None]:
    return lambda profile: setattr(profile.sample[0], field, value)


BROKEN: dict[str, tuple[Callable[[profile_pb2.Profile], Any], str]] = {
    "no location": (lambda p: p.sample[0].location_id.append(9), "sample 0: its location 9 is not there"),
    "no function": (
        lambda p: p.location[0].line.add(function_id=7),
        "location 1: its function 7 is not there",
    ),
    "no mapping": (lambda p: p.location.add(id=5, mapping_id=8), "location 5: its mapping 8 is not there"),
    "twice": (lambda p: p.location.add(id=1), "a location of it has the number 0, or one that another has"),
    "no number": (lambda p: p.function.add(), "a function of it has the number 0"),
    "no text": (lambda p: setattr(p.function[0], "name", 99), "text 99 is not there: it has 11"),
    "before the texts": (lambda p: setattr(p.function[0], "name", -1), "text -1 is not there"),
    "no values": (lambda p: p.sample[0].ClearField("value"), "sample 0: it has 0 values of 2 types"),
    "negative": (lambda p: p.sample[0].value.__setitem__(1, -5), "sample 0: a weight of -5 is none"),
    "nothing": (lambda p: p.ClearField("sample"), "there is no stack in it that weighs anything"),
    "no types": (lambda p: p.ClearField("sample_type"), "it has no types of samples"),
    "a text for none": (lambda p: p.string_table.__setitem__(0, b"x"), "no texts that begin with none"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_profile_is_refused_with_its_place(name: str) -> None:
    change, said = BROKEN[name]
    with pytest.raises(StacksError, match=r"x\.pprof: ") as refused:
        parse(made(change), "x.pprof")
    assert said in str(refused.value)


def test_too_much_is_no_measurement() -> None:
    def change(profile: profile_pb2.Profile) -> None:
        profile.sample_type[1].unit = 10
        for place in range(3):
            profile.sample.add(location_id=[1] * (place + 1), value=[1, 2**62])

    with pytest.raises(StacksError, match="which is no measurement"):
        parse(made(change), "x")


# --- refused --------------------------------------------------------------------------------------------------------


def scope(**changes: Any) -> bytes:
    """One sampled profile of two frames."""
    profile = {"type": "sampled", "name": "t", "unit": "milliseconds", "startValue": 0, "endValue": 3}
    profile |= {"samples": [[0], [0, 1]], "weights": [1, 2]} | changes
    profile = {key: value for key, value in profile.items() if value is not None}
    frames = [{"name": "f"}, {"name": "g", "file": "a.py", "line": 3}]
    return json.dumps({"$schema": speedscope.SCHEMA, "shared": {"frames": frames}, "profiles": [profile]}).encode()


def events(*told: tuple[str, int, float]) -> bytes:
    listed = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in told]
    return scope(type="evented", events=listed, samples=None, weights=None)


REFUSED: dict[bytes, str] = {
    b"": "it is empty",
    b" \n\n ": "it is empty",
    b"# nothing but words\n": "there is no stack in it that weighs anything",
    b"a;b 0\n": "there is no stack in it that weighs anything",
    b"a;b 3\na;b\n": "line 2: a folded stack is `outermost;inner 12`",
    b"a;b 3\n\na;c -3\n": "line 3: '-3' is no number of samples",
    b"a;b nan\n": "line 1: 'nan' is no number of samples",
    b"a;b 1e999\n": "line 1: '1e999' is no number",
    b"a;b " + b"9" * 5000: "is no number of samples",
    b"a;b 999999999999999999\n" * 2 + b"c 999999999999999999\n" * 20: "which is no measurement",
    b"<html><body>not found</body></html>\n": "line 1: 'found</body></html>' is no number of samples",
    b"x 1 1.5: 1 cycles: \n\tff a (/b)\nnonsense\n": "line 3: no frame of `perf script`",
    b"x 1 1.5: 1 cycles: \n\tff a (/b)\n\nnonsense\n": "line 4: no line of `perf script` about a sample",
    b"x 1 1.5: 1 cycles: \n\tff a (/b)\n\nx 1 1.5: 1 faults: \n": "line 4: a sample of faults among those of cycles",
    b"{": "line 1, column 2: its JSON is broken",
    b"{}": "it is JSON, but not speedscope's",
    b'{"traceEvents": []}': "it is JSON, but not speedscope's",
    b'{"profiles": [], "shared": []}': "shared is no object",
    b'{"profiles": [], "shared": {"frames": []}}': "it has no profile",
    b'{"profiles": [3], "shared": {"frames": []}}': "profiles[0] is no object",
    b'{"profiles": NaN, "shared": {}}': "NaN is no number of JSON",
    b'{"a":' * 100_000: "nested too deep",
    b'{"profiles": [' + b"1" * 5000 + b'], "shared": {}}': "a number in it has thousands of digits",
    scope(unit="parsecs"): "profiles[0]: the unit 'parsecs' is none that is known",
    scope(type="sideways"): "profiles[0]: its type is 'sideways'",
    scope(weights=[1]): "profiles[0]: it has 2 samples and 1 weights",
    scope(weights=[1, -2]): "profiles[0]: weights[1] is -2",
    scope(weights=[1, "2"]): "profiles[0]: weights[1] is 2",
    scope(weights=[1, 10**60]): "weights[1] is 1000",
    scope(samples=[[0], [0, 2]]): "profiles[0]: samples[1]: frame 2 is not there: shared.frames has 2",
    scope(samples=[[0], [-1]]): "frame -1 is not there",
    scope(samples=[[0], [True]]): "frame True is not there",
    scope(samples=None): "profiles[0]: samples is no list",
    events(("O", 0, 0), ("O", 1, 1), ("C", 0, 2)): "events[2] closes frame 0, which is not the innermost",
    events(("C", 0, 0)): "events[0] closes frame 0",
    events(("O", 0, 1), ("C", 0, 0)): "events[1] is at 0, before 1",
    events(("O", 0, 1)): "1 frames are still open: the file is cut off",
    events(("X", 0, 1)): "events[0] is no event",
    made()[:-3]: "neither text nor a whole profile of pprof",
    b"\x00\x01\x02": "neither text nor a whole profile of pprof",
    b"\x7fELF" + bytes(64): "neither text nor a whole profile of pprof",
    packed(made())[:-9]: "its gzip is cut off",
    packed(made())[:20] + b"\0\0\0" + packed(made())[23:]: "its gzip is",
    packed(b""): "it is empty",
    packed(b"a;b 1\n") + b"a;b 2\n": "after its gzip follows what is none",
    "a;b 3\n".encode("utf-16")[:-1]: "it begins as UTF-16 and is none at byte 12",
}


@pytest.mark.parametrize("data", REFUSED, ids=lambda data: repr(data[:40]))
def test_what_is_broken_is_refused_in_one_line_that_names_file_and_place(data: bytes) -> None:
    with pytest.raises(StacksError) as refused:
        parse(data, "/x/file")
    assert str(refused.value).startswith("/x/file: ")
    assert REFUSED[data] in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_line_of_any_length_is_read_or_refused_at_once() -> None:
    head, wide = b"x 1 1.5: 1 cycles: \n", 200_000
    assert shares(parse(head + b"\tff f (" + b"x" * wide + b"\n", "x")[1])
    assert shares(parse(head + b"\tff f" + b" " * wide + b"x\n", "x")[1])
    with pytest.raises(StacksError, match="line 3: no line of `perf script`"):
        parse(head + b"\na" + b" " * wide + b"b\n", "x")


def test_of_a_recursion_without_end_the_innermost_frames_are_kept() -> None:
    deep = 60_000
    opened = [("O", 0, 0.0)] + [("O", 1, 0.0)] * deep + [("C", 1, 3.0)] * deep + [("C", 0, 3.0)]
    profile = made(lambda found: found.sample[0].location_id.extend([1] * deep))
    for data in (events(*opened), b";".join([b"f"] + [b"g"] * deep) + b" 3\n", profile):
        ((_, stack),) = parse(data, "x")[1].stacks()
        assert (len(stack.frames), stack.frames[0]) == (DEEPEST, CUT)
    risen = [("O", 0, 0.0)] + [("O", 1, float(at)) for at in range(3000)]
    risen += [("C", 1, 3000.0 + at) for at in range(3000)] + [("C", 0, 6000.0)]
    _, found = parse(events(*risen), "x")
    assert len(list(found.stacks())) == DEEPEST + 1
    assert found.weight == 6_000_000


def test_text_may_be_of_any_system() -> None:
    for data in ("a;ü 3\r\nb 4\r\n".encode("utf-16"), "\ufeffa;ü 3\nb 4".encode(), "a;ü 3\rb 4\r".encode()):
        assert shares(parse(data, "x")[1]) == {"ü": 3, "b": 4}
    assert shares(parse(packed(b"a 1\n") + packed(b"b 2\n") + bytes(512), "x")[1]) == {"a": 1, "b": 2}


def test_what_is_too_large_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    bomb = packed(b"a;b 1\n" * 1_000_000)
    with pytest.raises(StacksError, match="unpacked it has more than 1,000,000 bytes"):
        parse(bomb, "x", limit=1_000_000)
    file = tmp_path / "large"
    file.write_bytes(b"a 1\n" * 100)
    with pytest.raises(StacksError, match=r"large: it has 400 bytes, and 300 can be read"):
        read(file, limit=300)
    with pytest.raises(StacksError, match="there is no such file"):
        read(tmp_path / "none")
    with pytest.raises(StacksError, match="it is no file"):
        read(tmp_path)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([made(), scope(), events(("O", 0, 0), ("C", 0, 2)), b"a;b 3\nc 4\n", packed(made())]),
    st.data(),
)
def test_bytes_changed_anywhere_are_read_or_refused_and_nothing_else(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole)))
    broken = whole[:at] + data.draw(st.binary(max_size=6)) + whole[at + data.draw(st.integers(0, 6)) :]
    with contextlib.suppress(StacksError):
        _, found = parse(broken, "x")
        assert all(0 < stack.weight < 2**63 and stack.frames for _, stack in found.stacks())
        assert all("\n" not in text and text.encode() for _, stack in found.stacks() for text in stack.frames)


# --- evented, units -------------------------------------------------------------------------------------------------


def test_what_was_open_between_two_events_is_weighed() -> None:
    told = events(("O", 0, 0), ("O", 1, 1), ("C", 1, 3), ("O", 1, 3), ("C", 1, 3.5), ("C", 0, 4))
    found = parse(told, "x")[1]
    weights = {stack.frames: stack.weight for _, stack in found.stacks()}
    assert weights == {("f",): 1500, ("f", "g (a.py:3)"): 2500}
    assert found.duration_s == 0.003  # of its own start and end


def test_units_are_kept_as_microseconds_bytes_or_count() -> None:
    units = {"nanoseconds": 0.003, "microseconds": 3, "milliseconds": 3000, "seconds": 3_000_000, "bytes": 3, "none": 3}
    assert {unit: parse(scope(unit=unit, weights=[1000, 2000]), "x")[1].weight / 1000 for unit in units} == units


def test_profiles_of_several_units_are_read_when_one_is_meant() -> None:
    both = json.loads(scope())
    both["profiles"] += json.loads(scope(unit="bytes", weights=[5, 6]))["profiles"]
    data = json.dumps(both).encode()
    with pytest.raises(StacksError, match="weighed in bytes and microseconds: say with --unit which is meant"):
        parse(data, "x")
    assert parse(data, "x", "bytes")[1].weight == 11
    assert parse(data, "x", "microseconds")[1].weight == 3000
    with pytest.raises(StacksError, match="it has no profile weighed in count"):
        parse(data, "x", "count")


def test_samples_that_make_no_time_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at 1e-06 samples a second it is 4e\+15 s, which is no measurement"):
        parse(b"a;b 4000000000\n", "x")[1].at_rate(1e-6)
    with pytest.raises(ValueError, match="those are no samples, but weights"):
        parse(b"a;b 50000000000\n", "x")[1].at_rate(100)


@pytest.mark.parametrize("hertz", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_rate_that_is_none_is_refused(hertz: float) -> None:
    with pytest.raises(ValueError, match="is no rate of sampling"):
        parse(b"a 1\n", "x")[1].at_rate(hertz)


# --- written, and read again ----------------------------------------------------------------------------------------

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.one_of(
    st.sampled_from(["f (a.py:1)", "f (a.py)", "f (a.py:0)", "f (a.py:007)", "f ()", "(", "f (:3)", "a;b", "naïve 猫"]),
    text,
)
weighed = st.builds(Weighed, st.lists(names, min_size=1, max_size=5).map(tuple), st.integers(1, 10**12))
numbers = st.integers(1, 2**32 - 1)
whos = st.builds(Who, numbers, st.text("abc .-/\"'", max_size=5), numbers, st.text("abc (x)", max_size=5))


def kept(frames: tuple[str, ...]) -> tuple[str, ...]:
    """Frames as every reader keeps them."""
    from warpmeter.stacks.profile import clean

    return tuple(map(clean, frames))


def summed(
    stacks: list[Weighed], told: Callable[[tuple[str, ...]], tuple[str, ...]] = kept
) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = defaultdict(int)
    for stack in stacks:
        found[told(stack.frames)] += stack.weight
    return dict(found)


@settings(deadline=None)
@given(st.lists(weighed, min_size=1, max_size=8))
def test_folded_stacks_are_read_as_they_were_written(stacks: list[Weighed]) -> None:
    written = "".join(folded.lines(stacks))
    assert written.count("\n") == len(stacks)
    found = summed([stack for _, stack in folded.parse("\n" + written).stacks()])
    assert found == summed(stacks, lambda frames: tuple(text.replace(";", ",") for text in kept(frames)))


@settings(deadline=None)
@given(st.lists(st.tuples(whos, st.lists(weighed, min_size=1, max_size=5)), min_size=1, max_size=4))
def test_speedscope_is_read_as_it_was_written_and_is_what_it_should_be(parts: list[tuple[Who, list[Weighed]]]) -> None:
    profile = Profile("microseconds", tuple(Part(who, tuple(stacks)) for who, stacks in parts))
    document = speedscope.document(profile, "a test")
    check_speedscope(document)
    found = parse(json.dumps(document).encode(), "x")[1]
    assert summed([stack for _, stack in found.stacks()]) == summed([stack for _, stack in profile.stacks()])
    assert {(part.who.pid, part.who.tid) for part in found.parts} == {(who.pid, who.tid) for who, _ in parts}
    assert found.unit == "microseconds"


def check_speedscope(document: dict[str, Any]) -> None:
    """Holds a document against what speedscope says of its format: https://www.speedscope.app/file-format-schema.json"""
    assert set(document) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
    for frame in document["shared"]["frames"]:
        assert set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str)
        assert isinstance(frame.get("line", 1), int)
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled"
        assert profile["unit"] in {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
        count = len(document["shared"]["frames"])
        assert all(0 <= place < count for stack in profile["samples"] for place in stack)
