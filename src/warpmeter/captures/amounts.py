"""Lengths of time and sizes as people write them: 500ms, 10m, 20GB."""

import re
from collections.abc import Mapping
from typing import Final

DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
UNITS_MS: Final[Mapping[str, int]] = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
USUAL_MS: Final = 500
SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.I)


def milliseconds(text: str) -> int:
    """`500ms`, `2s`, `10m`, `1h`; raises ValueError for anything else."""
    found = DURATION.fullmatch(text.strip())
    if found is None or (value := round(float(found[1]) * UNITS_MS[found[2]])) <= 0:
        raise ValueError(f"{text!r} is no length of time; write 500ms, 2s, 10m or 1h")
    return value


def traced_ms(duration: str | None, iterations: int) -> int:
    """How long to trace: what is written; else as usual, or 0 where steps are counted. Raises ValueError."""
    return milliseconds(duration) if duration else 0 if iterations else USUAL_MS


def seconds(text: str) -> int:
    """The same in whole seconds, rounded up."""
    return -(-milliseconds(text) // 1000)


def size(text: str) -> int:
    """`500MB`, `20GiB` (both binary) as bytes; raises ValueError for anything else."""
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size; write 500MB or 20GB")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))
