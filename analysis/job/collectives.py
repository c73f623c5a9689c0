"""What a collective is: its kind from any of its names, its bytes, its factor for bus bandwidth, the lane it meets in.

A *lane* is where ranks meet one after the other in the same order: a process group, and for point-to-point the pair
of sender and receiver within it. What is compared between ranks is a `Meeting`: lane, kind, and the size where all
ranks of a collective must give the same.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

from warpmeter.analysis.trace import NONE, Collective, Inputs

UNKNOWN: Final = "unknown"
POINT_TO_POINT: Final = "send_recv"

_KINDS: Final = (
    ("allreduce", "all_reduce"),
    ("crossdevicereduce", "all_reduce"),
    ("reducescatter", "reduce_scatter"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("sendrecv", POINT_TO_POINT),
    ("send", POINT_TO_POINT),
    ("recv", POINT_TO_POINT),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("reduce", "reduce"),
)

SYMMETRIC: Final = frozenset({"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier"})
"""Kinds in which nobody can leave before the last has come: every rank needs something of every other."""

_EVEN: Final = re.compile(r"allreduce|reducescatter(base|tensor)|allgather(base|into)|broadcast|^reduce$|barrier")
"""Names of collectives in which every rank gives the same size; of the others each may have its own."""

_BY_ONE: Final = frozenset({"all_reduce", "broadcast", "reduce", POINT_TO_POINT})
"""Kinds whose message is what a rank gives, however many ranks there are."""

_DTYPES: Final = {
    **dict.fromkeys(("byte", "char", "bool", "int8", "uint8", "unsigned char", "signed char"), 1),
    **dict.fromkeys(("short", "half", "bfloat16", "int16", "uint16", "float16"), 2),
    **dict.fromkeys(("int", "float", "int32", "uint32", "float32", "complexhalf"), 4),
    **dict.fromkeys(("long", "double", "int64", "uint64", "float64", "complexfloat"), 8),
    "complexdouble": 16,
}


@dataclass(frozen=True)
class Group:
    """A process group as both sides can name it. `ranks` is empty where the trace does not tell them."""

    name: str
    ranks: tuple[int, ...] = ()
    size: int = 0
    description: str = ""

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        """What makes it the same group on two ranks: groups of different ranks may have one name."""
        return self.label, self.ranks

    @property
    def label(self) -> str:
        """Its name, else what is known of it (a stream of the device, a backend)."""
        return self.name or self.description


@dataclass(frozen=True)
class Meeting:
    """What ranks meet for. `bytes` is this rank's message (nccl-tests' size), -1 where it is not told.

    `peers` are sender and receiver of a point-to-point transfer, (-1, -1) otherwise.
    """

    group: Group
    kind: str
    dtype: str = ""
    bytes: int = NONE
    even: bool = False
    peers: tuple[int, int] = (NONE, NONE)

    @property
    def lane(self) -> tuple[str, tuple[int, ...], int, int]:
        """Where its ranks meet in one order."""
        return *self.group.key, *self.peers

    @property
    def alike(self) -> tuple[str, str, int]:
        """What must be equal on all ranks of one meeting."""
        return (self.kind, self.dtype, self.bytes) if self.even else (self.kind, "", NONE)


def kind_of(name: str) -> str:
    """The kind of a collective by the name of its kernel, operator, annotation or profiler's argument."""
    letters = _letters(name)
    return next((kind for stem, kind in _KINDS if stem in letters), UNKNOWN)


def dtype_bytes(dtype: str) -> int | None:
    """Bytes an element; None for a type that is not known."""
    plain = dtype.lower().removeprefix("c10::")
    return 1 if plain.startswith("float8") else _DTYPES.get(plain)


def message_bytes(kind: str, told: Collective) -> int:
    """Bytes of a rank's message as nccl-tests count them: what a rank gives or, where that is more, what it gets.

    -1 where elements or type are not told. An all-gather's is the gathered whole, a reduce-scatter's the whole that
    is scattered.
    """
    width = dtype_bytes(told.dtype)
    elements = told.in_elements if kind == "all_to_all" else max(told.in_elements, told.out_elements)
    return elements * width if width and elements > 0 else NONE


def bus_factor(kind: str, size: int) -> float | None:
    """Bus bandwidth over algorithm bandwidth among `size` ranks: nccl-tests, doc/PERFORMANCE.md.

    The bandwidth that each link of an ideal ring or switch carries, comparable over kinds and numbers of ranks.
    None for kinds without one.
    """
    if size < 2:
        return None
    if kind == "all_reduce":
        return 2 * (size - 1) / size
    if kind in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return (size - 1) / size
    return 1.0 if kind in ("broadcast", "reduce", POINT_TO_POINT) else None


def meeting(told: Collective, group: Group, kernel: str, rank: int) -> Meeting:
    """What a collective's own arguments say, with the kernel's name where they do not."""
    kind = kind_of(told.name)
    kind = kind if kind != UNKNOWN else kind_of(kernel)
    return Meeting(
        group=group,
        kind=kind,
        dtype=told.dtype,
        bytes=message_bytes(kind, told),
        even=bool(_EVEN.search(_letters(told.name))),
        peers=_peers(told, kind, rank),
    )


def by_inputs(operator: str, inputs: Inputs) -> Collective:
    """What an operator's inputs tell of its collective, in traces that are older than the profiler's own words for it.

    `_allgather_base_`, `alltoall_base_` and `_reduce_scatter_base_` have output and input tensor as the first two.
    """
    sizes = [math.prod(each) if _is_shape(each) else 0 for each in inputs.dims[:2]]
    if "base" not in operator or len(sizes) < 2 or not all(sizes) or not inputs.types:
        return Collective(name=operator)
    return Collective(name=operator, dtype=inputs.types[0], in_elements=sizes[1], out_elements=sizes[0])


def by_input(collective: str, inputs: Inputs) -> Collective:
    """What the one input of a backend's range tells: the size where that does not depend on the number of ranks."""
    dims = inputs.dims[0] if inputs.dims else None
    if not _is_shape(dims) or not inputs.types or kind_of(collective) not in _BY_ONE:
        return Collective(name=collective)
    return Collective(name=collective, dtype=inputs.types[0], in_elements=math.prod(dims))


def _is_shape(dims: object) -> TypeGuard[Sequence[int]]:
    return isinstance(dims, list | tuple) and bool(dims) and all(isinstance(size, int) for size in dims)


def _peers(told: Collective, kind: str, rank: int) -> tuple[int, int]:
    if kind != POINT_TO_POINT:
        return NONE, NONE
    if told.target >= 0:
        return rank, told.target
    return (told.source, rank) if told.source >= 0 else (NONE, NONE)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())
