"""An operator's inputs, read strictly: what is not there or not what it should be is a ValueError."""

import re
from collections.abc import Sequence
from typing import Any

from warpmeter.analysis.trace import Inputs

Shape = tuple[int, ...]


class Arguments:
    """An operator's inputs by place. Every reader raises ValueError for what is not there."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def shape(self, place: int) -> Shape:
        """Sizes of the tensor at `place`."""
        sizes = _at(self._inputs.dims, place)
        if not isinstance(sizes, list | tuple) or not sizes or not all(_is_size(size) for size in sizes):
            raise ValueError(f"input {place} has no sizes")
        return tuple(sizes)

    def has_tensor(self, place: int) -> bool:
        """Whether there is a tensor at `place`: optional ones that were not given have no sizes."""
        sizes = self._inputs.dims[place] if place < len(self._inputs.dims) else []
        return bool(sizes)

    def type(self, place: int) -> str:
        """The tensor's type without its namespace; empty where the trace does not tell."""
        kind = self._inputs.types[place] if place < len(self._inputs.types) else ""
        return kind.replace("c10::", "").replace("at::", "") if isinstance(kind, str) else ""

    def text(self, place: int) -> str:
        """The concrete value at `place`."""
        return str(_at(self._inputs.concrete, place))

    def flag(self, place: int) -> bool:
        """A concrete truth value; false where the trace does not tell."""
        value = self._inputs.concrete[place] if place < len(self._inputs.concrete) else ""
        return str(value) in {"True", "true", "1"}

    def whole(self, place: int) -> int:
        """A concrete whole number."""
        return int(self.text(place))

    def sizes(self, place: int, length: int) -> Shape:
        """A concrete list of `length` whole numbers; one number stands for as many."""
        found = tuple(int(number) for number in re.findall(r"-?\d+", self.text(place)))
        if len(found) == 1:
            found *= length
        if len(found) != length:
            raise ValueError(f"input {place} is not {length} numbers")
        return found


def _at(values: Sequence[Any], place: int) -> Any:
    if place >= len(values):
        raise ValueError(f"no input {place}")
    return values[place]


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 0
