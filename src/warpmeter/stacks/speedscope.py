"""speedscope's JSON (`"$schema": "https://www.speedscope.app/file-format-schema.json"`): read, and written."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

from warpmeter.stacks import Frame, Unit, frame
from warpmeter.stacks.folded import known, whose
from warpmeter.stacks.profile import DEEPEST, Gathered, Part, Profile, Who, clean, unit_of

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_HEAD: Final = 32
"""Outermost frames of a stack that is cut off anyway: processes and threads may stand there."""
_UNITS: Final[Mapping[Unit, str]] = {"microseconds": "microseconds", "bytes": "bytes", "count": "none"}
_PY_SPY: Final = re.compile(r'Process (?P<pid>\d{1,9}) Thread (?P<tid>\w{1,20})(?: "(?P<thread>.*)")?')
_OURS: Final = re.compile(
    r"(?P<process>.*?) \(process (?P<pid>\d{1,10})\), (?P<thread>.*?) \(thread (?P<tid>\d{1,10})\)"
)


def parse(text: str, unit: Unit | None = None) -> Profile:
    """What the profiles of a file hold, all of them; raises ValueError that says where it is wrong.

    Where they are weighed in several units, `unit` says which is meant.
    """
    document = _object("the file", _loaded(text))
    frames = [_frame(place, each) for place, each in enumerate(_list("shared.frames", _shared(document)))]
    profiles = [_object(f"profiles[{at}]", each) for at, each in enumerate(_list("profiles", document.get("profiles")))]
    chosen = _chosen(profiles, unit)
    found, span = Gathered(), 0.0
    for at, factor in chosen.items():
        try:
            span = max(span, _add(found, profiles[at], frames, factor))
        except ValueError as error:
            raise ValueError(f"profiles[{at}]: {error}") from None
    kept = unit_of(str(profiles[next(iter(chosen))].get("unit")))[0]
    return found.profile(kept, duration_s=span / 1e6 if kept == "microseconds" else 0.0)


def _loaded(text: str) -> Any:
    def refused(constant: str) -> Any:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(text, parse_constant=refused)
    except RecursionError:
        raise ValueError("its JSON is nested too deep to be a profile") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: its JSON is broken: {error.msg}") from None
    except ValueError as error:
        if "integer string conversion" not in str(error):
            raise
        raise ValueError("a number in it has thousands of digits: that is no measurement") from None


def _shared(document: Mapping[str, Any]) -> Any:
    if "profiles" not in document or "shared" not in document:
        raise ValueError("it is JSON, but not speedscope's: that has `profiles` and `shared`")
    return _object("shared", document["shared"]).get("frames")


def _object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no object")
    return value


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is no list")
    return value


def _frame(place: int, value: Any) -> str:
    told = _object(f"shared.frames[{place}]", value)
    name, file, line = told.get("name"), told.get("file") or "", told.get("line") or 0
    if not isinstance(name, str) or not isinstance(file, str):
        raise ValueError(f"shared.frames[{place}]: its name or file is no text")
    return clean(str(Frame(name, file, int(line) if _is_number(line) and 0 < line < 1e9 else 0)))


def _is_number(value: Any) -> TypeGuard[float]:
    """One that a measurement may be: neither infinite nor of hundreds of digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30


def _chosen(profiles: list[dict[str, Any]], unit: Unit | None) -> dict[int, float]:
    """The profiles that are meant, by their places, and what their weights are multiplied by."""
    units = {}
    for at, each in enumerate(profiles):
        try:
            units[at] = unit_of(str(each.get("unit")))
        except ValueError as error:
            raise ValueError(f"profiles[{at}]: {error}") from None
    fitting = {at: factor for at, (kept, factor) in units.items() if unit in (None, kept)}
    kinds = sorted({units[at][0] for at in fitting})
    if len(kinds) > 1:
        raise ValueError(f"its profiles are weighed in {' and '.join(kinds)}: say with --unit which is meant")
    if not fitting:
        raise ValueError(f"it has no profile weighed in {unit}" if unit and profiles else "it has no profile")
    return fitting


def _add(found: Gathered, profile: dict[str, Any], frames: list[str], factor: float) -> float:
    """Add one profile; returns how long it is, in what weights are kept in."""
    who, kind = _who(str(profile.get("name", ""))), profile.get("type")
    if kind not in ("sampled", "evented"):
        raise ValueError(f"its type is {str(kind)[:40]!r}, neither sampled nor evented")
    for stack, weight in (_sampled if kind == "sampled" else _evented)(profile, len(frames)):
        owner, left = whose([frames[place] for place in stack])
        found.add(_both(who, owner), left, weight * factor)
    begin, end = profile.get("startValue"), profile.get("endValue")
    return max(0.0, end - begin) * factor if _is_number(begin) and _is_number(end) else 0.0


def _sampled(profile: dict[str, Any], count: int) -> Iterator[tuple[list[int], float]]:
    samples, weights = _list("samples", profile.get("samples")), _list("weights", profile.get("weights"))
    if len(samples) != len(weights):
        raise ValueError(f"it has {len(samples)} samples and {len(weights)} weights")
    for at, (stack, weight) in enumerate(zip(samples, weights, strict=True)):
        places = [_place(f"samples[{at}]", place, count) for place in _list(f"samples[{at}]", stack)]
        if not _is_number(weight) or weight < 0:
            raise ValueError(f"weights[{at}] is {str(weight)[:40]}: a weight is a number, 0 or more")
        yield places, weight


def _evented(profile: dict[str, Any], count: int) -> Iterator[tuple[list[int], float]]:
    """What was open between an event and the next one."""
    stack, begin, at = list[int](), profile.get("startValue"), -1
    if not _is_number(begin):
        raise ValueError("its startValue is no number")
    last = begin
    for at, event in enumerate(_list("events", profile.get("events"))):
        kind, place, moment = _event(f"events[{at}]", event, count)
        if moment < last:
            raise ValueError(f"events[{at}] is at {moment}, before {last}")
        if moment > last and stack:
            yield (list(stack) if len(stack) <= DEEPEST else [*stack[:_HEAD], *stack[-DEEPEST:]]), moment - last
        last = moment
        if kind == "O":
            stack.append(place)
        elif not stack or stack.pop() != place:
            raise ValueError(f"events[{at}] closes frame {place}, which is not the innermost that is open")
    if stack:
        raise ValueError(f"after events[{at}] {len(stack)} frames are still open: the file is cut off")


def _event(where: str, value: Any, count: int) -> tuple[str, int, float]:
    event = _object(where, value)
    kind, place, moment = event.get("type"), _place(where, event.get("frame"), count), event.get("at")
    if not isinstance(kind, str) or kind not in ("O", "C") or not _is_number(moment):
        raise ValueError(f"{where} is no event: its type is O or C, and `at` a number")
    return kind, place, moment


def _place(where: str, place: Any, count: int) -> int:
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < count:
        raise ValueError(f"{where}: frame {str(place)[:40]} is not there: shared.frames has {count}")
    return place


def _who(name: str) -> Who:
    """By the names that py-spy and we give to profiles; any other is a thread's."""
    if found := _OURS.fullmatch(name):
        return Who(known(int(found["pid"])), found["process"], known(int(found["tid"])), found["thread"])
    if found := _PY_SPY.fullmatch(name):
        tid = int(found["tid"]) if found["tid"].isdigit() else 0
        return Who(int(found["pid"]), "", known(tid), _told(found["thread"]))
    return Who(thread=_told(name))


def _both(named: Who, framed: Who) -> Who:
    """What a profile's name tells, and its frames where they tell more."""
    if framed == Who():
        return named
    return Who(
        framed.pid or named.pid, framed.process or named.process, framed.tid or named.tid, framed.thread or named.thread
    )


def _told(name: str | None) -> str:
    return clean(name) if name else ""


def document(profile: Profile, name: str, exporter: str = "warpmeter") -> dict[str, Any]:
    """A profile as speedscope opens it: each thread a profile of its own, stacks as they come."""
    places: dict[str, int] = {}
    profiles = [_written(part, profile.unit, places) for part in profile.parts]
    return {
        "$schema": SCHEMA,
        "name": name,
        "exporter": exporter,
        "activeProfileIndex": 0,
        "shared": {"frames": [_written_frame(text) for text in places]},
        "profiles": profiles,
    }


def _written(part: Part, unit: Unit, places: dict[str, int]) -> dict[str, Any]:
    weights = [stack.weight for stack in part.stacks]
    return {
        "type": "sampled",
        "name": _name(part.who),
        "unit": _UNITS[unit],
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [
            [places.setdefault(text, len(places)) for text in map(clean, stack.frames)] for stack in part.stacks
        ],
        "weights": weights,
    }


def _name(who: Who) -> str:
    if not (who.pid or who.tid or who.process):
        return who.thread
    return f"{who.process} (process {who.pid}), {who.thread} (thread {who.tid})"


def _written_frame(text: str) -> dict[str, Any]:
    told = frame(text)
    if str(told) != text:
        return {"name": text}
    return {key: value for key, value in (("name", told.function), ("file", told.file), ("line", told.line)) if value}
