"""pprof's profiles: what Go, and most continuous profilers, write."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, TypeVar

from google.protobuf.message import DecodeError

from warpmeter.stacks import Frame, Unit
from warpmeter.stacks.folded import known
from warpmeter.stacks.generated import profile_pb2
from warpmeter.stacks.profile import DEEPEST, Gathered, Profile, Who, clean, unit_of

PID: Final = ("pid", "process_id")
TID: Final = ("tid", "thread_id", "thread id")
PROCESS: Final = ("process", "process_name", "comm")
THREAD: Final = ("thread", "thread_name", "thread name")


class _Numbered(Protocol):
    id: int


T = TypeVar("T", bound=_Numbered)


def parse(data: bytes, unit: Unit | None = None) -> Profile:
    """What a profile holds of one unit: of `unit`, else of its default type, else of time, else of its last type.

    Raises ValueError that says where it is wrong.
    """
    try:
        profile = profile_pb2.Profile.FromString(data)
    except DecodeError as error:
        raise ValueError(f"it is neither text nor a whole profile of pprof ({error})") from None
    return _Reading(profile).profile(unit)


class _Reading:
    """One profile: its tables by their numbers, its locations as frames."""

    def __init__(self, profile: profile_pb2.Profile) -> None:
        if not profile.sample_type or not profile.string_table or profile.string_table[0]:
            raise ValueError("it is no profile of pprof: it has no types of samples, or no texts that begin with none")
        self._profile = profile
        self._texts = [text.decode("utf-8", "replace") for text in profile.string_table]
        self._mappings = _by_id("mapping", profile.mapping)
        self._functions = _by_id("function", profile.function)
        locations = _by_id("location", profile.location)
        types = [(self._text(each.type), self._text(each.unit)) for each in profile.sample_type]
        self._samples = types.index(("samples", "count")) if ("samples", "count") in types else None
        self._frames = {number: self._frames_at(found) for number, found in locations.items()}

    def profile(self, unit: Unit | None) -> Profile:
        """The stacks of one type of value."""
        column, (kept, factor) = self._column(unit)
        found = Gathered()
        for number, sample in enumerate(self._profile.sample):
            try:
                self._add(found, sample, column)
            except ValueError as error:
                raise ValueError(f"sample {number}: {error}") from None
        began = self._profile.time_nanos
        return found.profile(
            kept, factor, max(0, self._profile.duration_nanos) / 1e9, began / 1e9 if began > 0 else None
        )

    def _column(self, unit: Unit | None) -> tuple[int, tuple[Unit, float]]:
        """Which value of a sample counts, and what it is kept in."""
        units = list(self._units())
        fitting = [place for place, (found, _) in units if unit in (None, found)]
        if not fitting:
            names = ", ".join(
                f"{self._text(each.type)} in {self._text(each.unit)}" for each in self._profile.sample_type
            )
            raise ValueError(f"nothing in it is weighed in {unit or 'a unit that is known'}; it has {names}")
        by_place = dict(units)
        chosen = [place for place in fitting if self._chosen(place)]
        timed = [place for place in fitting if by_place[place][0] == "microseconds"]
        place = (chosen or timed or fitting)[-1]
        return place, by_place[place]

    def _units(self) -> Iterator[tuple[int, tuple[Unit, float]]]:
        for place, each in enumerate(self._profile.sample_type):
            try:
                yield place, unit_of(self._text(each.unit))
            except ValueError:
                continue

    def _chosen(self, place: int) -> bool:
        return 0 != self._profile.default_sample_type == self._profile.sample_type[place].type

    def _add(self, found: Gathered, sample: profile_pb2.Sample, column: int) -> None:
        if len(sample.value) != len(self._profile.sample_type):
            raise ValueError(f"it has {len(sample.value)} values of {len(self._profile.sample_type)} types")
        missing = [number for number in sample.location_id if number not in self._frames]
        if missing:
            raise ValueError(f"its location {missing[0]} is not there")
        frames = list(islice(self._inwards(sample), DEEPEST + 1))[::-1]
        seen = 1 if self._samples is None else max(0, sample.value[self._samples])
        found.add(self._who(sample), frames, sample.value[column], seen)

    def _inwards(self, sample: profile_pb2.Sample) -> Iterator[str]:
        """The frames of a sample, innermost first."""
        return (text for number in sample.location_id for text in reversed(self._frames[number]))

    def _who(self, sample: profile_pb2.Sample) -> Who:
        if not sample.label:
            return Who()
        told = {self._text(label.key): (label.num, self._text(label.str)) for label in sample.label}

        def first(keys: Sequence[str]) -> tuple[int, str]:
            return next((told[key] for key in keys if key in told), (0, ""))

        def name(keys: Sequence[str]) -> str:
            text = first(keys)[1]
            return clean(text) if text else ""

        return Who(_number(first(PID)), name(PROCESS), _number(first(TID)), name(THREAD))

    def _frames_at(self, location: profile_pb2.Location) -> tuple[str, ...]:
        """Of one location, outermost first."""
        if location.line:
            return tuple(self._frame(location, line) for line in reversed(location.line))
        mapping = self._mappings.get(location.mapping_id)
        if mapping is None and location.mapping_id:
            raise ValueError(f"location {location.id}: its mapping {location.mapping_id} is not there")
        return (clean(str(Frame(f"0x{location.address:x}", "" if mapping is None else self._text(mapping.filename)))),)

    def _frame(self, location: profile_pb2.Location, line: profile_pb2.Line) -> str:
        function = self._functions.get(line.function_id)
        if function is None:
            raise ValueError(f"location {location.id}: its function {line.function_id} is not there")
        name = self._text(function.name) or self._text(function.system_name) or f"0x{location.address:x}"
        return clean(str(Frame(name, self._text(function.filename), max(0, line.line))))

    def _text(self, place: int) -> str:
        if not 0 <= place < len(self._texts):
            raise ValueError(f"text {place} is not there: it has {len(self._texts)}")
        return self._texts[place]


def _number(told: tuple[int, str]) -> int:
    """Of a label, which has it as a number or, with some profilers, as a text."""
    return known(int(told[1]) if told[1].isascii() and told[1].isdigit() and len(told[1]) < 12 else told[0])


def _by_id(what: str, table: Sequence[T]) -> Mapping[int, T]:
    found = {each.id: each for each in table}
    if 0 in found or len(found) < len(table):
        raise ValueError(f"a {what} of it has the number 0, or one that another has")
    return found
