"""What rows say of what a sampler found: stacks told once, files shortened; and what is said where nothing was."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from warpmeter import web
from warpmeter.producers.stacks import perf, pyspy, words
from warpmeter.producers.stacks.child import End
from warpmeter.producers.stacks.intern import Told
from warpmeter.producers.stacks.pyspy import Trouble
from warpmeter.producers.stacks.rotation import Target
from warpmeter.producers.stacks.rows import CUT, DEEPEST, Rows, Sampled, StackSample, Whose
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Agent
from warpmeter.stacks import frame, identity

SAMPLED = Sampled("gpu01", 1_800_000_000.5, 60_000, 10_000, "py-spy")
WHOSE = Whose("train.py", "job", 3)
RAW = b"""\
thread (7): MainThread;<module> (/home/ann/run/train.py:20);step (/home/ann/run/train.py:5) 55
thread (7): MainThread;<module> (/home/ann/run/train.py:20);step (/home/ann/run/train.py:6) 5
thread (0x7FE8AEEA1B80);0x7fd3dd7278ec (/usr/lib/libc.so.6) 19
"""


def rows(raw: bytes = RAW, rules: Rows | None = None, now: float = 0.0) -> Sequence[StackSample]:
    profile = pyspy.profile(raw, 19)
    assert profile is not None
    return list((rules or Rows({})).of(profile, SAMPLED, lambda _: WHOSE, now))


def test_a_row_says_who_was_seen_where_and_how_long() -> None:
    first, second, third = rows()
    assert (first.host, first.ts, first.period_ms, first.sampled_ms, first.source) == (
        "gpu01", 1_800_000_000.5, 60_000, 10_000, "py-spy",
    )  # fmt: skip
    assert (first.job_id, first.rank, first.process, first.tid, first.thread) == ("job", 3, "train.py", 7, "MainThread")
    assert list(first.frames) == ["<module> (/home/ann/run/train.py:20)", "step (/home/ann/run/train.py:5)"]
    assert first.stack == identity(first.frames) != second.stack
    assert (first.samples, first.weight, first.unit) == (55, 2_894_737, "microseconds")
    assert (third.tid, third.thread, list(third.frames)) == (0, "", ["[unknown] (/usr/lib/libc.so.6)"])


def test_frames_are_told_once_in_half_an_hour() -> None:
    rules = Rows({})
    assert all(row.frames for row in rows(rules=rules, now=100.0))
    again = rows(rules=rules, now=1000.0)
    assert not any(row.frames for row in again)
    assert [row.stack for row in again] == [row.stack for row in rows()]
    assert all(row.frames for row in rows(rules=rules, now=1900.0))


def test_what_was_seen_longest_ago_is_forgotten_first() -> None:
    told = Told(again_s=100.0, most=2)
    assert [told.due(("job", stack), 0.0) for stack in (1, 2, 1, 3, 1, 2)] == [True, True, False, True, False, True]


def test_files_are_shortened_by_rule_and_what_becomes_the_same_is_one_stack() -> None:
    rules = Rows({r"^/home/[^/]+/": "~/", r"^.*/site-packages/": ""})
    seen = [b"f (/home/ann/a.py:1) 2", b"f (/home/bob/a.py:1) 3", b"g (/x/lib/site-packages/t/b.py:2) 1"]
    found = rows(b"".join(b"thread (7): M;%s\n" % each for each in seen), rules)
    assert [(list(row.frames), row.samples) for row in found] == [(["f (~/a.py:1)"], 5), (["g (t/b.py:2)"], 1)]


def test_a_recursion_that_ran_away_keeps_its_innermost_frames() -> None:
    raw = b"thread (7): M;" + b";".join(b"f (a.py:%d)" % line for line in range(1000)) + b" 1\n"
    (row,) = rows(raw)
    assert (len(row.frames), row.frames[0], row.frames[-1]) == (DEEPEST + 1, CUT, "f (a.py:999)")


def test_names_without_end_leave_a_row_that_a_topic_takes() -> None:
    stack = b";".join(b"%d%s (a.py:1)" % (at, "漢".encode() * 5000) for at in range(1000))
    (row,) = rows(b"thread (7): " + b"M" * 1_000_000 + b";" + stack + b" 1\n")
    assert row.ByteSize() < TOPICS["stack-samples"].max_message_bytes * 0.6
    assert row.frames[-1].startswith("999漢漢")


def test_a_file_of_a_name_of_several_lines_is_one_frame_and_leaves_the_others_as_they_are() -> None:
    found = rows(b"thread (7): M;f (made\n\n7 up:1) 2\nthread (7): M;g (a.py:2) 3\n")
    assert [(list(row.frames), row.samples) for row in found] == [(["f (made  7 up:1)"], 2), (["g (a.py:2)"], 3)]


def test_nothing_seen_is_no_profile_and_what_is_none_is_an_error() -> None:
    assert pyspy.profile(b"", 19) is None
    assert perf.profile(b"\n") is None
    with pytest.raises(ValueError, match="line 1"):
        pyspy.profile(b"what is this", 19)


FRAMES = {
    "main (/home/ann/a;b/ünï (1).py:7)": ("main", "/home/ann/a;b/ünï (1).py", 7),
    "<lambda> ((a).py:3)": ("<lambda>", "(a).py", 3),
    "operator() (k.cpp:7)": ("operator()", "k.cpp", 7),
    "f(int (*)(int)) (x.so)": ("f(int (*)(int))", "x.so", 0),
    "f(int (*)(int))": ("f(int (*)(int))", "", 0),
    "a (b": ("a (b", "", 0),
}


@pytest.mark.parametrize(("text", "told"), FRAMES.items())
def test_a_file_may_have_brackets_and_the_page_reads_frames_the_same_way(text: str, told: tuple[str, str, int]) -> None:
    found = frame(text)
    assert (found.function, found.file, found.line) == told
    pattern = re.search(r"FRAME = /(.*)/s;", (Path(web.__file__).parent / "lib/flame/tree.js").read_text())
    assert pattern is not None
    parts = re.fullmatch(pattern[1], text, re.DOTALL)
    assert parts is not None
    assert (parts[1], parts[2] or "", int(parts[3] or 0)) == told


def test_a_file_with_brackets_is_shortened_by_rule() -> None:
    (row,) = rows(b"thread (7): x;f (/home/ann/a;b/k (1).py:7) 2", Rows({r"^/home/[^/]+/": "~/"}))
    assert list(row.frames) == ["f (~/a;b/k (1).py:7)"]


def test_nonsense_of_any_length_is_an_error_at_once() -> None:
    for nonsense in (b"x\n" * 8_000_000, bytes(range(256)) * 60_000):
        with pytest.raises(ValueError, match="are of no stack"):
            pyspy.profile(nonsense, 19)
        with pytest.raises(ValueError, match="line 1"):
            perf.profile(nonsense)


PERF = """\
python3 10/11   100.000000:   52631578 cpu-clock:I: 
\tffffffff8140a54f do_work ([kernel.kallsyms])
\t          185073 PyList_Append (/usr/lib/libpython3.so)

python3 10/10   103.000000:   52631578 cpu-clock:I: 
\t    7f5f8ce61860 py::step:/home/train.py (/tmp/perf-10.map)

"""  # noqa: W291 - as perf prints it


def test_perf_is_weighed_by_time_and_may_have_begun_late() -> None:
    profile = perf.profile(PERF.encode())
    assert profile is not None
    first, second = profile.parts
    assert (first.who.pid, first.who.tid, first.stacks[0].weight) == (10, 11, 52632)
    assert first.stacks[0].frames == ("PyList_Append (/usr/lib/libpython3.so)", "do_work ([kernel.kallsyms])")
    assert second.stacks[0].frames == ("step (/home/train.py)",)
    assert perf.seen_s(profile, 1, 10.0) == 4.0
    assert perf.seen_s(profile, 19, 10.0) == 10.0  # two samples tell nothing


def test_what_perf_printed_is_read_in_pieces_of_whole_samples() -> None:
    printed = PERF.encode() * 50
    found = list(perf.pieces(printed, 300))
    assert 20 < len(found) < 60
    assert all(piece.startswith(b"python3 10/1") for piece in found)
    assert sum(piece.count(b"cpu-clock") for piece in found) == 100
    whole = perf.profile(printed)
    assert whole is not None
    assert [stack.samples for _, stack in whole.stacks()] == [50, 50]
    assert list(perf.pieces(b"\n\n")) == []


def test_of_many_cpus_each_is_sampled_less_often() -> None:
    assert [perf.rate(19, cpus, 10.0) for cpus in (2, 63, 128, 4096)] == [19, 19, 9, 1]


EPERM = "Error: Failed to suspend process\n\nCaused by:\n    0: EPERM: Operation not permitted\n\nStack backtrace:\n"
DENIED = "Permission Denied: Try running again with elevated permissions by going 'sudo'"
UNKNOWN = "Error: Failed to find python version from target process\n"


@pytest.mark.parametrize(
    ("end", "tracer", "state", "why"),
    [
        (End(1, 0.1, DENIED), 0, "denied", "CAP_SYS_PTRACE"),
        (End(1, 0.1, EPERM), 77, "denied", "process 77 traces it"),
        (End(1, 0.1, UNKNOWN), 0, "unsupported", "Failed to find python version"),
        (End(1, 0.1, "Error: a\n\nCaused by:\n    0: b\n    1: c\n\nStack backtrace:\n"), 0, "failed", "a: b: c"),
        (End(-25, 0.1, ""), 0, "failed", "signal 25"),
    ],
)  # fmt: skip
def test_why_a_process_gave_none(end: End, tracer: int, state: str, why: str) -> None:
    trouble = pyspy.trouble(end, tracer)
    assert trouble is not None
    assert trouble.state == state
    assert why in trouble.why
    assert "backtrace" not in trouble.why


def test_a_sampler_that_ended_well_is_no_trouble() -> None:
    assert pyspy.trouble(End(0, 0.1, "py-spy> Wrote"), 0) is None
    assert pyspy.was_behind(End(0, 0.1, "py-spy> 2.51s behind in sampling, results may be inaccurate."))


def test_many_processes_are_one_row_of_health() -> None:
    troubles = [(Target(pid, 1, "x", "job", None), Trouble("denied", "no")) for pid in range(1, 8)]
    troubles.append((Target(9, 1, "x", "job", None), Trouble("failed", "broke")))
    denied, failed = words.told(troubles)
    assert (denied.subject, denied.state, denied.count) == ("processes/denied", "denied", 7)
    assert denied.why == "7 processes (pids 1, 2, 3, 4, 5, …): no"
    assert (failed.subject, failed.why) == ("processes/failed", "pid 9: broke")
    assert words.told([]) == words.held_back([], 19) == []


def test_perf_that_nobody_asked_for_and_that_may_not_is_a_fact() -> None:
    assert words.about_perf(Trouble("denied", "no"), "auto").state == "unsupported"
    assert words.about_perf(Trouble("denied", "no"), "on").state == "denied"
    assert words.about_perf(Trouble("failed", "no"), "auto").state == "failed"


def test_a_sampler_that_is_late_is_no_fault_of_its_host() -> None:
    """What is denied, failed or timed out makes a host one that fails."""
    late = Trouble("timeout", "py-spy did not finish in time")
    (told,) = words.told([(Target(7, 1, "x", "job", None), late)])
    assert (told.subject, told.state, told.why) == ("processes/timeout", "paused", f"pid 7: {late.why}")
    assert words.about_perf(late, "auto").state == words.about_perf(late, "on").state == "paused"


def test_perf_says_why_it_may_not() -> None:
    said = "Error:\nAccess to performance monitoring is limited.\nperf_event_paranoid setting is 2:\n"
    trouble = perf.trouble(End(255, 0.0, said))
    assert trouble is not None
    assert (trouble.state, "CAP_PERFMON" in trouble.why) == ("denied", True)
    assert perf.trouble(End(0, 0.0, "")) is None


def test_nobody_is_paused_unless_the_settings_ask_for_it() -> None:
    plain = pyspy.argv("py-spy", Agent(), 7, 19)
    assert plain[:4] == ["py-spy", "record", "--pid", "7"]
    assert "--nonblocking" in plain
    assert not {"--native", "--idle"} & set(plain)
    native = pyspy.argv("py-spy", Agent(stacks_native=True, stacks_idle=True), 7, 19)
    assert {"--native", "--idle"} <= set(native)
    assert "--nonblocking" not in native
    assert "--nonblocking" not in pyspy.argv("py-spy", Agent(stacks_blocking=True), 7, 19)
