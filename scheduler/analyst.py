"""Analyses in a process of their own, one round after the other: a bad trace ends none but its own."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warpmeter import launch, log
from warpmeter.captures.ranks import Event
from warpmeter.scheduler.capture import Analyse
from warpmeter.schemas.generated.capture_events_pb2 import Envelope
from warpmeter.settings import Settings

MODULE: Final = "warpmeter.scheduler.analysing"
TRACES: Final = "traces"
FOUND: Final = "found.json"
LOG: Final = "analysis.log"
LAST_WORDS: Final = 400
OF_MEMORY: Final = re.compile(r"^(?=\S).*(memory|alloc|map segment|new thread)", re.IGNORECASE | re.MULTILINE)
"""In the last words of what was refused memory: Python's, a library's in C, the loader's, or of a thread's stack.

Not in what stands indented, the places of a traceback: a file may be called so.
"""


@dataclass
class _Running:
    wanted: Analyse
    folder: Path
    process: subprocess.Popen[bytes]
    ends_at: float


class Analyst:
    """One analysis at a time, killed when it takes longer than the settings allow."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: deque[Analyse] = deque()
        self._running: _Running | None = None
        self._log = log.get("scheduler")

    def analyse(self, wanted: Analyse) -> None:
        """Queue the analysis of a round."""
        self._waiting.append(wanted)

    def said(self) -> list[Event]:
        """`analysed` of every trace of what was done since the last call."""
        events = [] if self._running is None else self._looked_at(self._running)
        if self._running is None and self._waiting:
            wanted = self._waiting.popleft()
            try:
                self._running = self._start(wanted)
            except OSError as error:
                why = f"the analysis could not be started: {error.strerror} ({error.filename or 'a process'})"
                events += [_event(trace, "analysis_failed", why) for trace in wanted.traces]
        return events

    def drop(self) -> None:
        """End what is under way, and forget what waits."""
        self._waiting.clear()
        if self._running is not None:
            self._end(self._running)

    def _start(self, wanted: Analyse) -> _Running:
        base = self._settings.scheduler.data
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix="analysis-", dir=base))
        (folder / TRACES).write_bytes(Envelope(rows=wanted.traces).SerializeToString())
        with (folder / LOG).open("wb") as file:
            process = launch.spawn(MODULE, self._settings, [str(folder)], file)
        self._log.info("analysing", capture=wanted.capture_id, sequence=wanted.sequence, traces=len(wanted.traces))
        return _Running(wanted, folder, process, time.monotonic() + self._settings.scheduler.analyse_s)

    def _looked_at(self, running: _Running) -> list[Event]:
        if running.process.poll() is not None:
            events = _results(running)
        elif time.monotonic() >= running.ends_at:
            why = f"the analysis took longer than {self._settings.scheduler.analyse_s:g} s (scheduler.analyse_s)"
            events = [_event(trace, "analysis_failed", why) for trace in running.wanted.traces]
        else:
            return []
        self._end(running)
        return events

    def _end(self, running: _Running) -> None:
        with suppress(ProcessLookupError):
            os.killpg(running.process.pid, 9)  # its workers are of its group
        running.process.wait()
        shutil.rmtree(running.folder, ignore_errors=True)
        self._running = None


def _results(running: _Running) -> list[Event]:
    """What the child found of each trace; the same of all where it ended without a word."""
    try:
        found = json.loads((running.folder / FOUND).read_bytes())
    except (OSError, ValueError):
        said = (running.folder / LOG).read_text(errors="replace").strip()[-LAST_WORDS:]
        why = how_it_ended(running.process.returncode, said)
        found = dict.fromkeys(range(len(running.wanted.traces)), ("analysis_failed", f"{why}: {said}"))
    return [
        _event(trace, *found.get(str(place), found.get(place, ("analysis_failed", "nothing was found of it"))))
        for place, trace in enumerate(running.wanted.traces)
    ]


def how_it_ended(status: int, said: str) -> str:
    """How a child ended whose last words were these."""
    how = f"it ended with signal {-status}" if status < 0 else f"it ended with status {status}"
    wanting = status < 0 or OF_MEMORY.search(said)
    return f"{how}, most likely for want of memory (scheduler.analyse_bytes)" if wanting else how


def _event(trace: Event, reason: str, why: str) -> Event:
    event = Event(
        capture_id=trace.capture_id, ts=time.time(), sequence=trace.sequence, state="analysed", reason=reason, why=why,
        by="analysis", host=trace.host, pid=trace.pid, job_id=trace.job_id,
    )  # fmt: skip
    if trace.HasField("rank"):
        event.rank = trace.rank
    return event
