"""Exact integers from the text and the numbers of a trace."""

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from warpmeter.analysis.trace import NONE, Int64s, Places

UNREADABLE: Final = np.iinfo(np.int64).min
"""Stands for a text that is no number, or one that no int64 holds."""
Words = npt.NDArray[np.uint64]
_PAD: Final = b" " * 16
_ZEROS: Final = 0x3030303030303030
_SPACE, _MINUS, _DOT = b" -."
_LONGEST: Final = 16
"""Digits before the dot that the quick way takes: microseconds since 1970 have 16."""
_LIMIT: Final = 9_000_000_000_000_000
"""Microseconds from which on their nanoseconds may be none of int64."""


def nanoseconds(texts: Sequence[Raw]) -> Int64s:
    """Microseconds as the file writes them, numbers or quoted, to nanoseconds: exact, from the fourth digit after the
    dot on rounded half away from zero. `UNREADABLE` where the text is no number or out of range.
    """
    if not texts:
        return np.empty(0, np.int64)
    joined = b" ".join(texts)
    if b'"' in joined:
        joined = joined.replace(b'"', b"")
    found = _quick(joined, len(texts))
    return found if found is not None else np.fromiter(map(_slow, texts), np.int64, len(texts))


def _quick(joined: bytes, count: int) -> Int64s | None:
    """All of them at once by arithmetic on eight digits in a word; None where one is not plain digits and a dot."""
    text = np.frombuffer(_PAD + joined + _PAD, np.uint8)
    spaces = np.flatnonzero(text[len(_PAD) : -len(_PAD)] == _SPACE) + len(_PAD)
    dots = np.flatnonzero(text == _DOT)
    if len(spaces) != count - 1 or len(dots) > count:
        return None
    start = np.concatenate(([len(_PAD)], spaces + 1))
    end = np.append(spaces, len(text) - len(_PAD))
    minus = text[start] == _MINUS
    digits = np.count_nonzero(text - np.uint8(ord("0")) < 10)
    if digits != len(joined) - len(spaces) - len(dots) - np.count_nonzero(minus):
        return None
    start += minus
    dot = _dots(dots, start, end)
    if dot is None:
        return None
    whole = dot - start
    if whole.min() < 1 or whole.max() > _LONGEST:
        return None
    words = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))
    micros = _before(words, dot, whole)
    if micros.max() >= _LIMIT:
        return None
    value = micros * 1000 + _after(words, dot, end)
    return np.where(minus, -value, value)


def _dots(dots: Places, start: Places, end: Places) -> Places | None:
    """Where each number's dot is, its end where it has none; None if one has two."""
    if len(dots) == len(start) and (dots >= start).all() and (dots < end).all():
        return dots
    owner = np.searchsorted(start, dots, side="right") - 1
    if len(owner) > 1 and not (np.diff(owner) > 0).all():
        return None
    dot = end.copy()
    dot[owner] = dots
    return dot


def _before(words: Words, dot: Places, whole: Places) -> Int64s:
    """The digits before the dot: the last eight, and eight before those where there are more than eight."""
    value = _eight(_left(words[dot - 8], np.minimum(whole, 8)))
    longer = np.flatnonzero(whole > 8)
    value[longer] += 100_000_000 * _eight(_left(words[dot[longer] - 16], whole[longer] - 8))
    return value


def _left(word: Words, digits: Places) -> Words:
    """The word with zeros in place of all but its last `digits` (1 to 8) characters."""
    other = ((8 - digits) * 8).astype(np.uint64)
    kept = (np.uint64(0xFFFFFFFFFFFFFFFF) >> other) << other
    zeros: Words = np.uint64(_ZEROS) & ~kept
    return word & kept | zeros


def _after(words: Words, dot: Places, end: Places) -> Int64s:
    """The digits after the dot as thousandths, rounded by the fourth."""
    digits = np.clip(end - dot - 1, 0, 7).astype(np.uint64) * np.uint64(8)
    kept = (np.uint64(1) << digits) - np.uint64(1)
    word = words[np.minimum(dot + 1, len(words) - 1)] & kept | np.uint64(_ZEROS) & ~kept
    return (_eight(word) + 50_000) // 100_000


def _eight(word: Words) -> Int64s:
    """Eight ASCII digits in a word, the first in the lowest byte, as a number."""
    word = (word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561) >> np.uint64(8)
    word = (word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
    return ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001) >> np.uint64(32)).astype(np.int64)


def _slow(text: Raw) -> int:
    plain = bytes(text).strip(b'"').strip()
    if len(plain) > 64 or b"_" in plain:
        return UNREADABLE
    try:
        value = (Decimal(plain.decode()) * 1000).to_integral_value(ROUND_HALF_UP)
    except (InvalidOperation, ValueError):
        return UNREADABLE
    return int(value) if value.is_finite() and abs(value) < _LIMIT * 1000 else UNREADABLE


def integers(values: Sequence[int | None]) -> Int64s:
    """Whole numbers as they were decoded; `NONE` for null and what int64 does not hold."""
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, OverflowError):
        return np.fromiter(map(_held, values), np.int64, len(values))


def small(values: Sequence[int | None]) -> npt.NDArray[np.int32]:
    """The same as int32."""
    wide = integers(values)
    held = (wide >= -(1 << 31)) & (wide < 1 << 31)
    return np.where(held, wide, NONE).astype(np.int32)


def addresses(values: Sequence[int | None]) -> Int64s:
    """64-bit addresses: those above 2^63 keep their bits, as a negative number."""
    try:
        return integers([value if value is None or value < 1 << 63 else value - (1 << 64) for value in values])
    except TypeError:
        return integers(values)


def number(word: object) -> int:
    """A word that may be a number, as text or not; `NONE` where it is none."""
    if isinstance(word, int) and not isinstance(word, bool):
        return _held(word)
    if isinstance(word, str) and len(word) < 20 and word.isascii() and word.isdecimal():
        return _held(int(word))
    return NONE


def numbers(words: Iterable[object]) -> Int64s:
    """`number` of each."""
    return np.array([number(word) for word in words], np.int64)


def _held(value: int | None) -> int:
    return value if value is not None and -(1 << 63) <= value < 1 << 63 else NONE
