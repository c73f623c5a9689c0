"""What is read of the JSON: one type for each phase of events (`ph`); all else is passed over unread.

The order of fields is the order in which Kineto writes them, which the decoder looks for first. Times stay the text
that stands there: as floats they are not exact near 1.7e15 µs.
"""

from typing import Any, Final, Union

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, defstruct, field

ABSENT: Final = -1
NOTHING: Final = Raw(b"")
Whole = int | None
Word = int | str | None
"""A process or thread: a number, or a word for tracks that are none (`Spans`, `Traces`)."""


class Args(Struct, gc=False, frozen=True):
    """Arguments of complete events. Names that changed over the years stand under both."""

    external: Whole = field(name="External id", default=ABSENT)
    concrete: Raw = field(name="Concrete Inputs", default=NOTHING)
    types: Raw = field(name="Input type", default=NOTHING)
    strides: Raw = field(name="Input Strides", default=NOTHING)
    dims: Raw = field(name="Input Dims", default=NOTHING)
    parent: Whole = field(name="Python parent id", default=ABSENT)
    id: Whole = field(name="Python id", default=ABSENT)
    device: Whole = ABSENT
    stream: Whole = ABSENT
    correlation: Whole = ABSENT
    registers: Raw = field(name="registers per thread", default=NOTHING)
    shared: Raw = field(name="shared memory", default=NOTHING)
    grid: Raw = NOTHING
    block: Raw = NOTHING
    occupancy: float | None = field(name="est. achieved occupancy %", default=None)
    bytes: Whole = ABSENT
    sequence: Whole = field(name="Sequence number", default=ABSENT)
    forward: Whole = field(name="Fwd thread id", default=ABSENT)
    collective: str | UnsetType = field(name="Collective name", default=UNSET)
    inside: Whole = field(name="In msg nelems", default=0)
    outside: Whole = field(name="Out msg nelems", default=0)
    group_size: Whole = field(name="Group size", default=0)
    dtype: str = ""
    group: str | int | None = field(name="Process Group Name", default="")
    group_description: str | None = field(name="Process Group Description", default="")
    group_ranks: Raw = field(name="Process Group Ranks", default=NOTHING)
    first_rank: Whole = field(name="Global rank start", default=ABSENT)
    rank_stride: Whole = field(name="Global rank stride", default=ABSENT)
    source: Whole = field(name="Src Rank", default=ABSENT)
    target: Whole = field(name="Dst Rank", default=ABSENT)
    on_stream: Whole = field(name="wait_on_stream", default=ABSENT)
    on_correlation: Whole = field(name="wait_on_cuda_event_record_corr_id", default=ABSENT)
    old_external: Whole = field(name="external id", default=ABSENT)
    old_dims: Raw = field(name="Input dims", default=NOTHING)


class MemoryArgs(Struct, gc=False, frozen=True):
    """Arguments of `[memory]` instants."""

    reserved: Whole = field(name="Total Reserved", default=ABSENT)
    allocated: Whole = field(name="Total Allocated", default=ABSENT)
    bytes: Whole = field(name="Bytes", default=ABSENT)
    address: Whole = field(name="Addr", default=ABSENT)
    device: Whole = field(name="Device Id", default=ABSENT)
    device_type: Whole = field(name="Device Type", default=ABSENT)


NO_ARGS: Final = Args()
NO_MEMORY_ARGS: Final = MemoryArgs()


class Span(Struct, tag_field="ph", tag="X", gc=False):
    """An event with a duration, when it has one."""

    cat: str | None = ""
    name: str = ""
    pid: Word = ""
    tid: Word = ""
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Args | None = NO_ARGS


class Instant(Struct, tag_field="ph", tag="i", gc=False):
    """An instant: those named `[memory]` say what an allocator did."""

    name: str = ""
    pid: Word = ""
    tid: Word = ""
    ts: Raw = NOTHING
    args: MemoryArgs | None = NO_MEMORY_ARGS


class OldInstant(Instant, tag="I", gc=False):
    """The same under the phase's old letter."""


class Arrow(Struct, tag_field="ph", tag="s", gc=False):
    """The beginning of an arrow between events."""

    id: int | str | None = ABSENT
    pid: Word = ""
    tid: Word = ""
    ts: Raw = NOTHING
    cat: str | None = ""


class ArrowEnd(Arrow, tag="f", gc=False):
    """Its end."""


class Counter(Struct, tag_field="ph", tag="C", gc=False):
    """Values of one or more series."""

    name: str = ""
    ts: Raw = NOTHING
    args: Raw = NOTHING


class Metadata(Struct, tag_field="ph", tag="M", gc=False):
    """A name for a process or a thread."""

    name: str = ""
    pid: Word = ""
    tid: Word = ""
    args: Raw = NOTHING


Event = Span | Instant | Arrow | Counter | Metadata
READ: Final[dict[str, type[Any]]] = {
    "X": Span, "i": Instant, "I": OldInstant, "s": Arrow, "f": ArrowEnd, "C": Counter, "M": Metadata,
}  # fmt: skip
PASSED: Final = "BEntbePNODVvRcSTp()=,"
"""Phases of the format that nobody needs; a letter that is not even one of these is an odd event."""


class Passed(Struct):
    """What is left of an event that nobody needs."""


def _decoder(read: dict[str, type[Any]], passed: str) -> msgspec.json.Decoder[list[Any]]:
    others = (
        defstruct(f"Passed{ord(ph)}", [], bases=(Passed,), tag_field="ph", tag=ph, gc=False, frozen=True)
        for ph in passed
    )
    kinds: Any = Union[(*read.values(), *others)]
    return msgspec.json.Decoder(list[kinds], strict=False)


EVENTS: Final = _decoder(READ, PASSED)
"""A list of events, arrows included."""
NO_ARROWS: Final = _decoder({ph: kind for ph, kind in READ.items() if ph not in "sf"}, PASSED + "sf")
"""A list of events; arrows, two for each kernel, are passed over."""
