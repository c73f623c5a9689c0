"""What the commands say of a capture: from events in any order, and from what people write."""

import io
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from warpmeter.captures import amounts
from warpmeter.captures.asking import request
from warpmeter.captures.progress import Progress, target, what
from warpmeter.captures.ranks import Event
from warpmeter.captures.wishes import Request, objection
from warpmeter.cli import capturing, common
from warpmeter.cli.app import app
from warpmeter.cli.captured import lines
from warpmeter.settings import Scheduler

LIMITS = Scheduler()


def event(state: str, sequence: int = 1, **more: Any) -> Event:
    return Event(capture_id="cap", ts=1_800_000_000, sequence=sequence, state=state, by="agent", **more)


def rank(state: str, number: int, **more: Any) -> Event:
    return event(state, host="ant", pid=100 + number, rank=number, **more)


ENDED = event("ended", 0, why="2 of 2 processes captured")


def heard(*events: Event) -> Progress:
    progress = Progress("cap")
    for each in events:
        progress.hear(each)
    return progress


def test_a_capture_of_all_is_whole_whatever_comes_twice_or_late() -> None:
    events = [
        event("requested", 0), rank("seen", 0), rank("seen", 1), rank("requested", 1, start_at=1_800_000_013.0),
        rank("captured", 0, url="/store/a.gz", bytes=2048), rank("accepted", 0), rank("analysed", 0),
        rank("captured", 1, url="/store/b.gz", bytes=10), rank("captured", 1, url="/store/b.gz", bytes=10),
    ]  # fmt: skip
    progress = heard(*events)
    assert (progress.state, progress.whole, len(progress.captured)) == ("running", False, 2)
    progress.hear(ENDED)
    assert (progress.state, progress.whole) == ("ended", True)
    assert [line[2:4] for line in lines(progress)] == [(0, 100), (1, 101)]
    assert [str(line[4]) for line in lines(progress)] == ["analysed", "captured"]
    assert lines(progress)[0][5] == "2KiB at /store/a.gz"
    assert progress.summary() == "ended: 2 of 2 processes captured"


@pytest.mark.parametrize(
    ("odd", "whole"),
    [
        (rank("failed", 1, reason="busy", why="it traces already"), False),
        (rank("cancelled", 1, reason="limit", why="the limit is 1"), True),
        (event("failed", host="bee", reason="agent_away", why="does it run?"), False),
    ],
)
def test_who_has_no_trace_is_told_with_the_reason(odd: Event, whole: bool) -> None:
    progress = heard(event("requested", 0), rank("captured", 0, url="/store/a.gz", bytes=1), odd, ENDED)
    assert progress.whole is whole
    assert lines(progress)[1][5] == f"{odd.reason}: {odd.why}"
    assert {"rank": 0, "url": "/store/a.gz"}.items() <= progress.document()["ranks"][0].items()


def test_nothing_captured_is_not_whole_and_a_clock_is_a_warning() -> None:
    progress = heard(event("seen", host="ant", reason="clock_skew", why="ant is 80 ms ahead"), ENDED)
    assert not progress.whole
    assert progress.warnings == {"ant": "ant is 80 ms ahead"}


def test_lines_for_people_steer_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(common, "err", Console(file=said, width=common.PIPE))
    with capturing.shown(Progress("cap"), as_json=False) as show:
        show.event(rank("failed", 3, reason="busy", why="\x1b[2J[bold]"))
    assert said.getvalue() == "2027-01-15T08:00:00Z ant pid 103 rank 3 failed busy: \\x1b[2J[bold]\n"


def test_on_a_terminal_a_table_changes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(common, "err", Console(file=said, width=100, force_terminal=True))
    progress = heard(event("requested", 0))
    with capturing.shown(progress, as_json=False) as show:
        progress.hear(rank("accepted", 0))
        show.tick()
        assert "accepted" in said.getvalue()
        progress.hear(rank("failed", 0, reason="busy", why="[bold]it traces\x1b[2J"))
        show.tick()
    assert "busy: [bold]it traces\\x1b[2J" in said.getvalue()
    assert said.getvalue().endswith("\x1b[2K")


def test_what_people_write() -> None:
    assert [amounts.milliseconds(text) for text in ("500ms", "2s", "1.5m", "1h")] == [500, 2000, 90_000, 3_600_000]
    assert [amounts.seconds(text) for text in ("500ms", "2s")] == [1, 2]
    assert [amounts.size(text) for text in ("1KB", "2GiB", "7", "1.5M")] == [1024, 2 << 30, 7, 3 << 19]
    for read, bad in (
        (amounts.milliseconds, ("", "5", "0s", "-1s", "x")), (amounts.size, ("", "x", "1 Y")),
    ):  # fmt: skip
        for text in bad:
            with pytest.raises(ValueError, match="write"):
                read(text)


def test_requests_name_who_asks_and_what_is_meant() -> None:
    asked = request("start", capturing.me(), job_id="4711", hosts=["ant"], duration_ms=500, shapes=True, count=3)
    assert objection(asked) == ""
    assert "1000 traces" in objection(request("start", "ann", job_id="4711", duration_ms=500, count=4_294_967_295))
    assert "without a name" in objection(request("start", "ann", hosts=[""], duration_ms=500))
    assert "@" in asked.requested_by
    assert (target(asked), what(asked)) == ("job 4711; ant", "500ms, 3 times, shapes")
    forever = Request(pids=[7], hosts=["ant"], iterations=5, mode="continuous", interval_s=600)
    assert (target(forever), what(forever)) == ("ant; pid 7", "5 iterations, every 600 s")
    assert capturing.patience_s(forever, LIMITS) > forever.interval_s + LIMITS.grace_s


@pytest.mark.parametrize(
    "line",
    [
        [], ["7", "-d", "5"], ["7", "--iterations", "5", "--memory"], ["7", "-d", "1s", "-n", "5"],
        ["--pid", "7", "--host", "a", "--host", "b"], ["7", "--every", "1m", "--output", "x"], ["7", "-d", "1h"],
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_asked(line: list[str]) -> None:
    assert CliRunner().invoke(app, ["capture", *line]).exit_code == 2
