"""What is read of the JSON: one type an event's phase and one for the arguments; all else is passed over unread.

The order of fields is the order in which Kineto writes them, which the decoder looks for first.
"""

from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType, field

ABSENT: Final = -1
Word = int | str | None
"""A process or thread: a number, or a word for tracks that are none (`Spans`, `Traces`)."""


class Args(Struct, gc=False):
    """The arguments of complete and instant events that the analysis uses."""

    external: int | None = field(name="External id", default=ABSENT)
    concrete: Raw | UnsetType = field(name="Concrete Inputs", default=UNSET)
    types: Raw | UnsetType = field(name="Input type", default=UNSET)
    strides: Raw | UnsetType = field(name="Input Strides", default=UNSET)
    dims: Raw | UnsetType = field(name="Input Dims", default=UNSET)
    parent: int | None = field(name="Python parent id", default=ABSENT)
    id: int | None = field(name="Python id", default=ABSENT)
    device: int | None = ABSENT
    stream: int | None = ABSENT
    correlation: int | None = ABSENT
    bytes: int | None = ABSENT
    occupancy: float | None = field(name="est. achieved occupancy %", default=None)
    sequence: int | None = field(name="Sequence number", default=ABSENT)
    forward: int | None = field(name="Fwd thread id", default=ABSENT)
    collective: str | UnsetType = field(name="Collective name", default=UNSET)
    dtype: str = ""
    inside: int | None = field(name="In msg nelems", default=0)
    outside: int | None = field(name="Out msg nelems", default=0)
    group_size: int | None = field(name="Group size", default=0)
    group: str | int | None = field(name="Process Group Name", default="")
    group_description: str | None = field(name="Process Group Description", default="")
    group_ranks: Raw | UnsetType = field(name="Process Group Ranks", default=UNSET)
    source: int | None = field(name="Src Rank", default=ABSENT)
    target: int | None = field(name="Dst Rank", default=ABSENT)
    on_stream: int | None = field(name="wait_on_stream", default=ABSENT)
    on_correlation: int | None = field(name="wait_on_cuda_event_record_corr_id", default=ABSENT)
    reserved: int | None = field(name="Total Reserved", default=ABSENT)
    allocated: int | None = field(name="Total Allocated", default=ABSENT)
    size: int | None = field(name="Bytes", default=0)
    address: int | None = field(name="Addr", default=ABSENT)
    device_id: int | None = field(name="Device Id", default=ABSENT)
    device_type: int | None = field(name="Device Type", default=ABSENT)


class Event(Struct, gc=False):
    """One event. Times are left as the text that stands there: a float is not exact near 1.7e15 µs."""

    ph: str = ""
    cat: str | None = ""
    name: str | None = ""
    id: int | str | None = ABSENT
    pid: Word = ""
    tid: Word = ""
    ts: Raw | UnsetType = UNSET
    dur: Raw | UnsetType = UNSET
    args: Raw | UnsetType = UNSET
