"""Folded stacks, a line each: `outermost;inner;innermost 12`, as flame graph scripts and `py-spy record -f raw` write.

The number is what was counted: samples, unless whoever wrote it says otherwise. py-spy puts processes and threads in
front as frames of their own; they are told apart here.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from warpmeter.stacks import Weighed
from warpmeter.stacks.profile import Gathered, Profile, Who, clean

_LINE: Final = re.compile(r"(?P<frames>.*\S)\s+(?P<weight>\S+)")
_COUNTED: Final = re.compile(r"\s[\d.]+\s*$")
_NUMBER: Final = re.compile(r"\d{1,18}(?:\.\d+)?")
_PROCESS: Final = re.compile(r'process (?P<pid>\d{1,9}):"(?P<command>.*)"')
_THREAD: Final = re.compile(r"thread \((?P<tid>0x[0-9a-fA-F]{1,16}|\d{1,18})\)(?:: (?P<name>.*))?")
PID_MOST: Final = 2**32 - 1


def parse(text: str) -> Profile:
    """What lines of folded stacks hold, by count; raises ValueError that names the line."""
    found = Gathered()
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not (line.startswith("#") and _COUNTED.search(line) is None):  # words, not a stack
            try:
                _add(found, line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    return found.profile("count")


def _add(found: Gathered, line: str) -> None:
    parts = _LINE.fullmatch(line.rstrip())
    if parts is None:
        raise ValueError(f"a folded stack is `outermost;inner 12`, and this is {line.strip()[:60]!r}")
    if _NUMBER.fullmatch(parts["weight"]) is None:
        raise ValueError(
            f"{parts['weight'][:60]!r} is no number of samples: it is 0 or more, and has at most 18 digits"
        )
    who, frames = whose(_whole(parts["frames"].strip().split(";")))
    weight = float(parts["weight"]) if "." in parts["weight"] else int(parts["weight"])
    found.add(who, map(clean, frames), weight, max(1, round(weight)))


def _whole(parts: list[str]) -> list[str]:
    """Of py-spy, whose frames end with a bracket: what a semicolon in a file's or thread's name parted is one again."""
    at = next((place for place, part in enumerate(parts) if _THREAD.fullmatch(part)), len(parts))
    if at == len(parts) or not parts[-1].endswith(")"):
        return parts
    found, begun = parts[: at + 1], list[str]()
    for part in parts[at + 1 :]:
        begun.append(part)
        if part.endswith(")"):
            found.append(";".join(begun))
            begun.clear()
    name = found[at + 1].partition(" (")[0].rpartition(";")[0]
    if name:
        found[at : at + 2] = [f"{found[at]};{name}", found[at + 1][len(name) + 1 :]]
    return found


def whose(frames: list[str]) -> tuple[Who, list[str]]:
    """Takes the processes (the last one is meant: those before are its parents) and the thread that py-spy puts in
    front from there."""
    pid, process, at = 0, "", 0
    while at < len(frames) and (found := _PROCESS.fullmatch(frames[at])):
        pid, process, at = int(found["pid"]), command_name(found["command"]), at + 1
    if at < len(frames) and (found := _THREAD.fullmatch(frames[at])):
        name = found["name"] or ""
        return Who(pid, process, known(int(found["tid"], 0)), clean(name) if name else ""), frames[at + 1 :]
    return Who(pid, process), frames[at:]


def known(number: int) -> int:
    """A pid or tid, or 0 for what is a pointer or nothing: the kernel's numbers are smaller."""
    return number if 0 <= number <= PID_MOST else 0


def command_name(command: str) -> str:
    """The program of a command line, without its folder."""
    first = command.split(" ", 1)[0]
    return clean(first.rsplit("/", 1)[-1]) if first else ""


def lines(stacks: Iterable[Weighed]) -> Iterator[str]:
    """Folded stacks, each a line with its end; a semicolon in a frame, which would part it, becomes a comma."""
    for stack in stacks:
        yield f"{';'.join(clean(frame).replace(';', ',') for frame in stack.frames)} {stack.weight}\n"
