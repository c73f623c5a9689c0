"""What two reads of a counter say, and what a file of the kernel holds: None wherever it is not known.

A counter that went back (it wrapped, or its device was reset) says nothing about the interval, and neither does one
that grew by more than its column can hold: another device took the name.
"""

from typing import Final

UINT32_MAX: Final = 0xFFFF_FFFF
UINT64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF


def whole(text: bytes | None) -> int | None:
    """A number that is a file's first word; None for no file, no word, and what is no whole number of at least 0."""
    words = text.split(None, 1) if text else ()
    return int(words[0]) if words and words[0].isdigit() else None


def growth(old: int | None, new: int | None) -> int | None:
    """How far a counter went."""
    return None if old is None or new is None or new < old else new - old


def rate(old: int | None, new: int | None, elapsed_s: float, factor: float = 1.0) -> int | None:
    """A counter's growth a second, times `factor`."""
    grown = growth(old, new)
    return None if grown is None or elapsed_s <= 0 else fitting(grown * factor / elapsed_s)


def fitting(value: float | None) -> int | None:
    """A value as a column of 32 bits holds it."""
    return None if value is None or not 0 <= value <= UINT32_MAX else round(value)


def permille(share: float) -> int:
    """A share of 0 to 1 in thousandths; rounding and clocks that differ a little are cut off."""
    return min(1000, max(0, round(share * 1000)))


def summed(*counts: int | None) -> int | None:
    """The sum of those that are known; None when none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
