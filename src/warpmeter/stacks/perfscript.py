"""What `perf script` prints of its default fields: a line about the sample, then its frames, innermost first."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from warpmeter.stacks import Frame, Unit
from warpmeter.stacks.folded import known
from warpmeter.stacks.profile import Gathered, Profile, Who, clean

HEAD: Final = re.compile(
    r"\s*(?P<comm>\S.*?)(?<=\S)\s+(?P<pid>-?\d{1,10})(?:/(?P<tid>-?\d{1,10}))?\s+(?:\[(?P<cpu>\d+)\]\s+)?"
    r"(?:[A-Za-z.]{3,6}\s+)?(?P<time>\d{1,12}\.\d{1,9}):\s+(?:(?P<period>\d{1,18})\s+)?(?P<event>\S+?):(?:\s+(?P<rest>.*))?"
)
"""The line about a sample: comm, pid or pid/tid, [cpu], time, period, event."""
_FRAME: Final = re.compile(
    r"\s+(?P<address>[0-9a-f]{1,16})\s+(?P<symbol>\S.*?)(?:(?<=\S)\s+\((?P<dso>[^()]*(?:\([^()]*\)[^()]*)?)\))?(?<=\S)\s*"
)
_INLINED: Final = "inlined"
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]+$")
_SOURCE_LINE: Final = re.compile(r"\s+(?P<file>\S.*):(?P<line>\d{1,9})\s*")
_PYTHON: Final = re.compile(r"py::(?P<function>.+):(?P<file>[^:]+)")
_EVENT: Final = re.compile(r"(?:cpu_\w+/)?(?P<name>[^/:]+)(?:/[^:]*)?(?::[ukhpPGHISDWeb]*)?")
CLOCKS: Final = ("cpu-clock", "task-clock")
"""Events whose period is the time between samples, in nanoseconds."""


@dataclass
class _Sample:
    """One that is being read."""

    line: int
    who: Who
    event: str
    period: int
    frames: list[Frame]


def parse(text: str) -> Profile:
    """What its samples hold: time where a clock was sampled, else how often the event came. Raises ValueError that
    names the line."""
    found, reading = Gathered(), _Reading()
    for sample in reading.samples(text):
        frames = [clean(str(frame)) for frame in reversed(sample.frames)]
        found.add(sample.who, frames or [f"[{sample.who.process}]"], sample.period)
    clock = reading.event in CLOCKS
    unit: Unit = "microseconds" if clock else "count"
    return found.profile(unit, 1e-3 if clock else 1.0, reading.duration_s)


class _Reading:
    """Goes through the lines; holds which event it is of, and from when to when."""

    def __init__(self) -> None:
        self.event = ""
        self._began, self._ended = float("inf"), 0.0

    @property
    def duration_s(self) -> float:
        """From the first sample to the last."""
        return max(0.0, self._ended - self._began)

    def samples(self, text: str) -> Iterator[_Sample]:
        """One after another; raises ValueError for a line that is none of perf's."""
        sample: _Sample | None = None
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip() or line.startswith("#"):
                if sample is not None and not line.strip():
                    yield sample
                    sample = None
            elif sample is None:
                sample = self._head(number, line)
                if sample.frames:  # recorded without call chains: the one frame is on this line
                    yield sample
                    sample = None
            else:
                self._frame(number, line, sample)
        if sample is not None:
            yield sample

    def _head(self, number: int, line: str) -> _Sample:
        found = HEAD.fullmatch(line)
        if found is None:
            raise ValueError(
                f"line {number}: no line of `perf script` about a sample (comm, pid, time): {line.strip()[:60]!r}"
            )
        named = _EVENT.fullmatch(found["event"])
        event = named["name"] if named else found["event"]
        if self.event not in ("", event):
            raise ValueError(
                f"line {number}: a sample of {event} among those of {self.event}: give one event at a time, as `perf "
                "record -e` or grep leaves it"
            )
        self.event, at = event, float(found["time"])
        self._began, self._ended = min(self._began, at), max(self._ended, at)
        return _Sample(number, _who(found), event, int(found["period"] or 1), _on_the_line(found["rest"] or ""))

    @staticmethod
    def _frame(number: int, line: str, sample: _Sample) -> None:
        if found := _FRAME.fullmatch(line):
            sample.frames.append(_frame(found))
        elif (found := _SOURCE_LINE.fullmatch(line)) and sample.frames:
            sample.frames[-1] = Frame(sample.frames[-1].function, found["file"], int(found["line"]))
        else:
            raise ValueError(f"line {number}: no frame of `perf script` (address, symbol, file): {line.strip()[:60]!r}")


def _who(found: re.Match[str]) -> Who:
    """The number alone is the thread's: perf prints the process's only where it is asked for (-F +pid)."""
    first, second = int(found["pid"]), found["tid"]
    tid = first if second is None else int(second)
    return Who(known(first) if second is not None else 0, clean(found["comm"]), known(tid), clean(found["comm"]))


def _on_the_line(rest: str) -> list[Frame]:
    """Without call chains the one frame follows on the sample's own line."""
    found = _FRAME.fullmatch(f" {rest}") if rest.strip() else None
    return [] if found is None else [_frame(found)]


def _frame(found: re.Match[str]) -> Frame:
    """A function of the interpreter, where it tells perf of its own, has the name `py::function:file`."""
    symbol, dso = _OFFSET.sub("", found["symbol"]), found["dso"] or ""
    if python := _PYTHON.fullmatch(symbol):
        return Frame(python["function"], python["file"])
    return Frame(symbol, "" if dso in (_INLINED, "[unknown]") else dso)
