"""Exact integers from the decimal text of a trace."""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from msgspec import Raw

from warpmeter.analysis.trace import Int64s


def nanoseconds(texts: Sequence[Raw]) -> Int64s:
    """Microseconds as the file writes them, numbers or quoted, to integer nanoseconds. ValueError if one is neither."""
    return np.fromiter((_nanoseconds(bytes(text)) for text in texts), np.int64, len(texts))


def _nanoseconds(text: bytes) -> int:
    return int((Decimal(text.strip(b'" ').decode()) * 1000).to_integral_value())
