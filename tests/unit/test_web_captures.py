"""Parts of traces, what lies in the trace store, and rows of captures with what was heard since."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fastapi import HTTPException, Request
from fsspec.implementations.memory import MemoryFileSystem

from warpmeter.captures.asking import NotTakenError, request
from warpmeter.captures.progress import Progress
from warpmeter.captures.ranks import Event
from warpmeter.captures.stored import events
from warpmeter.settings import Settings, Traces
from warpmeter.web.api import traces as api
from warpmeter.web.captures.heard import Captures, Known, processes
from warpmeter.web.captures.live import ROUNDS, Heard, Live
from warpmeter.web.captures.looking import Looked, Looking
from warpmeter.web.store.reads import Reads
from warpmeter.web.traces.files import NoFileError, NoRangeError, asked, stored


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", None), ("bytes=0-0", (0, 0)), ("bytes=2-", (2, 9)), ("bytes=2-99", (2, 9)), ("bytes=-3", (7, 9)),
        ("bytes=-99", (0, 9)), ("bytes=5-2", None), ("bytes=0-1,4-5", None), ("lines=0-1", None), ("bytes=-", None),
        (f"bytes={'9' * 5000}-", None), (f"bytes=-{'9' * 5000}", None), ("bytes=٣-", None),
    ],
)  # fmt: skip
def test_a_range_is_one_part_or_all(text: str, part: tuple[int, int] | None) -> None:
    assert asked(text, 10) == part


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-20", "bytes=-0"])
def test_a_range_behind_the_end_is_none(text: str) -> None:
    with pytest.raises(NoRangeError):
        asked(text, 10)


def test_what_is_in_the_store_is_read_in_parts(tmp_path: Path) -> None:
    file = tmp_path / "traces" / "job" / "a.json.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"0123456789")
    for url in (str(file), f"file://{file}"):
        found = stored(Traces(url=str(tmp_path / "traces")), url, "5u")
        assert (found.size, found.name, found.etag) == (10, "a.json.gz", '"5u"')
        assert b"".join(found.read(3, 7)) == b"34567"
    assert stored(Traces(url=str(tmp_path / "traces")), str(file), 'no\r\nsum: "').etag == ""


def test_nothing_beyond_the_store_is_read(tmp_path: Path) -> None:
    store, secret = tmp_path / "traces", tmp_path / "traces-of-others"
    store.mkdir()
    secret.write_bytes(b"secret")
    (store / "link").symlink_to(secret)
    (store / "folder").symlink_to(tmp_path)
    (store / "circle").symlink_to(store / "circle")
    (store / "two\nlines").write_bytes(b"x")
    for url in (
        str(secret), f"{store}/../traces-of-others", f"{store}/link", f"{store}/folder/traces-of-others",
        f"file://{secret}", "memory://traces/a", "/etc/passwd", str(store), "http://127.0.0.1/x",
        f"{store}/circle", f"{store}/circle/a", f"{store}/nul\0", f"{store}/two\nlines", "http://[", "",
        f"{store}/{'x' * 300}",
    ):  # fmt: skip
        with pytest.raises(NoFileError):
            stored(Traces(url=str(store)), url)


def test_a_store_behind_a_url_is_read_and_nothing_beside_it() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/traces/job/a.json.gz", b"0123456789")
    memory.pipe("/bucket/traces-of-others/b", b"secret")
    traces = Traces(url="memory://bucket/traces")
    assert b"".join(stored(traces, "memory://bucket/traces/job/a.json.gz").read(0, 4)) == b"01234"
    for url in (
        "memory://bucket/traces-of-others/b",
        "memory://bucket/traces/../traces-of-others/b",
        "/bucket/traces/a",
    ):
        with pytest.raises(NoFileError, match="outside"):
            stored(traces, url)
    with pytest.raises(NoFileError, match="keep_days"):
        stored(traces, "memory://bucket/traces/job/gone")


SETTINGS = Settings()


class Told(Captures):
    """Captures of which the store knows what a test says."""

    stored = Known(None, [])

    def known(self, _: str) -> Known:
        return self.stored


@pytest.fixture
def captures() -> Told:
    """They hear what a test says: nobody listens to a bus."""
    return Told(SETTINGS, Reads(SETTINGS.store, SETTINGS.web), deaf())


def deaf() -> Live:
    live = Live(SETTINGS.kafka)
    live.close()
    return live


def rank(state: str, pid: int = 7, **more: Any) -> Event:
    return Event(capture_id="c", ts=1_800_000_000, sequence=1, state=state, host="h", pid=pid, rank=pid, **more)


WHOLE = (
    Event(capture_id="c", ts=1_800_000_000, state="requested"), rank("seen"), rank("requested"), rank("accepted"),
    Event(capture_id="c", ts=1_800_000_004, sequence=1, state="failed", host="g", reason="agent_away"),
    rank("captured", url="/t/a", bytes=5, sha256="5u"), rank("failed", 8, reason="busy", why="it traces already"),
    Event(capture_id="c", ts=1_800_000_009, state="ended", why="1 of 2"),
)  # fmt: skip


def test_a_capture_is_known_by_what_is_heard_before_the_store_has_it(captures: Told) -> None:
    asked_for = request("start", "ann", "c", job_id="j", duration_ms=500)
    captures.live.note(asked_for)
    assert captures.progress("c") is not None
    captures.live.hear(WHOLE[:-1])
    found = captures.progress("c")
    assert found is not None
    assert {
        "state": "running",
        "captured": 1,
        "processes": 2,
        "failed": 1,
        "bytes": 5,
        "hosts_failed": ["g"],
    }.items() <= found[0].items()
    (failed, alone, traced) = processes(found[1])  # those without a trace first
    assert (alone["host"], alone["pid"], alone["reason"]) == ("g", None, "agent_away")
    assert (traced["state"], traced["stored"], "url" in traced) == ("captured", True, False)
    assert (failed["reason"], failed["why"], failed["meaning"][:17]) == (
        "busy",
        "it traces already",
        "it traces already",
    )
    assert captures.unlisted([])[0]["state"] == "running"
    assert captures.unlisted([found[0]]) == []
    assert captures.progress("another") is None


@pytest.mark.parametrize("heard", range(len(WHOLE) + 1))
def test_store_and_bus_together_never_go_back(captures: Told, heard: int) -> None:
    captures.live.note(request("start", "ann", "c", job_id="j", duration_ms=500))
    captures.live.hear(WHOLE)
    found = captures.progress("c")
    assert found is not None
    row = dict(found[0])
    captures.live = deaf()
    captures.stored = Known({**row, "requested_at": row["requested_at"]}, [])
    captures.live.hear(WHOLE[:heard])  # the same once more, from the bus, in part
    again = captures.progress("c")
    assert again is not None
    assert again[0] == {**row, "summary": again[0]["summary"]}


def test_of_an_endless_capture_the_latest_rounds_are_kept() -> None:
    heard = Heard()
    heard.take(WHOLE[0])
    for number in range(1, 3 * ROUNDS):
        heard.take(Event(capture_id="c", sequence=number, state="seen", host="h", pid=1))
    kept = [event.sequence for event in heard.events()]
    assert kept == [0, *range(2 * ROUNDS, 3 * ROUNDS)]


def in_the_store(state: str) -> dict[str, Any]:
    """A process with a trace, as the query capture_states has it."""
    nothing = dict.fromkeys(("start_at", "traced_from", "traced_until", "raw_bytes", "slowdown_permille"))
    about = {"sequence": 1, "host": "h", "pid": 7, "rank": 0, "job_id": "j", "state": state, "reason": "", "why": ""}
    return {**about, **nothing, "url": "/t/a.json.gz", "bytes": 5, "sha256": "5u"}


@pytest.mark.parametrize("state", ["captured", "analysed", "failed"])
def test_a_trace_is_known_from_the_store_alone_analysed_or_not(state: str) -> None:
    progress = Progress("c")
    for event in events("c", None, [in_the_store(state)]):
        progress.hear(event)
    (trace,) = progress.captured
    assert (trace.url, trace.bytes, trace.sha256) == ("/t/a.json.gz", 5, "5u")
    assert processes(progress)[0]["stored"]


class Away(Looking):
    """Asks agents over a bus that is away."""

    def _look(self, job_id: str) -> Looked:
        raise NotTakenError(f"nobody takes a question about {job_id}")


def test_of_a_question_that_fails_nothing_is_kept(captures: Told) -> None:
    looking = Away(captures)
    for job in range(300):
        with pytest.raises(NotTakenError):
            looking.at(f"job {job}")
    kept = [name for name, value in vars(looking).items() if isinstance(value, dict) and value]
    assert kept == []


class Locked(MemoryFileSystem):  # type: ignore[misc] # fsspec has no types
    """The store in memory behind another scheme: it tells what it has, and lets nobody read it."""

    protocol = "locked"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("locked://", "memory://")))

    def _open(self, path: str, *_: Any, **__: Any) -> Any:
        raise PermissionError(f"Access Denied: {path}")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_trace_that_cannot_be_read_is_said_before_an_answer_begins(captures: Told, method: str) -> None:
    fsspec.register_implementation("locked", Locked, clobber=True)
    fsspec.filesystem("memory").pipe("/bucket/traces/job/locked.json.gz", b"0123456789")
    captures.live.note(request("start", "ann", "c", job_id="j", duration_ms=500))
    captures.live.hear([rank("captured", url="locked://bucket/traces/job/locked.json.gz", bytes=10)])
    settings = replace(SETTINGS, traces=Traces(url="locked://bucket/traces"))
    asked_for = Request({"type": "http", "method": method})
    with pytest.raises(HTTPException, match=r"does not give it: Access Denied.*must be able to read") as refused:
        api.file(asked_for, "c", captures, settings, "h", 7, 1, "", "", "")
    assert refused.value.status_code == 404
