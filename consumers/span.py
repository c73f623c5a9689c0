"""Spans of offsets: the unit that is inserted, and the only place where an insert's token comes from."""

from dataclasses import dataclass, replace
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a topic, by the topic's full name on the broker."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True)
class Span:
    """Offsets `first` to `last`, both included, of one partition of one life of a topic.

    `uuid` is the topic's id from describing it: a topic that is made again starts at offset 0 under another one.
    Offsets inside that hold no message (a transaction's marker, what compaction took) belong to the span.
    """

    topic: str
    uuid: str
    partition: int
    first: int
    last: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last:
            raise ValueError(f"no span: {self.first}-{self.last} of {self.topic}[{self.partition}]")

    @property
    def where(self) -> Partition:
        """The partition it is of."""
        return Partition(self.topic, self.partition)

    @property
    def token(self) -> str:
        """`insert_deduplication_token`: `<topic UUID>/<partition>/<first>-<last>`."""
        return f"{self.uuid}/{self.partition}/{self.first}-{self.last}"

    def _kin(self, other: "Span") -> bool:
        return (self.uuid, self.where) == (other.uuid, other.where)

    def before(self, other: "Span") -> bool:
        """Of the same partition and wholly in front of `other`."""
        return self._kin(other) and self.last < other.first

    def same(self, other: "Span") -> bool:
        """The very same offsets of the same partition: a replay of one drops on the other."""
        return self == other

    def overlaps(self, other: "Span") -> bool:
        """They share an offset."""
        return self._kin(other) and self.first <= other.last and other.first <= self.last

    def inside(self, other: "Span") -> bool:
        """Every offset of it is in `other`."""
        return self._kin(other) and other.first <= self.first and self.last <= other.last

    def split(self, at: int) -> tuple["Span", "Span"]:
        """Two spans that together are this one; the second begins at offset `at`, first < at <= last."""
        if not self.first < at <= self.last:
            raise ValueError(f"{at} does not split {self.first}-{self.last}")
        return replace(self, last=at - 1), replace(self, first=at)
