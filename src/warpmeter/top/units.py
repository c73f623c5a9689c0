"""Values as they stand in a narrow column: three figures and a unit; and a line of small bars."""

from collections.abc import Sequence
from typing import Final

BARS: Final = "▁▂▃▄▅▆▇█"
PARTS: Final = " ▏▎▍▌▋▊▉█"
_DECIMAL: Final = ("", "k", "M", "G", "T", "P")
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS: Final = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def three(value: float) -> str:
    """Three figures, as many of them after the point as there is room for: 5.51, 55.1, 551."""
    return f"{value:.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"


def ratio(value: float) -> str:
    """A share of 0-1 as per cent."""
    return f"{100 * value:.0f}%"


def watts(value: float) -> str:
    """550 W, 4.40 kW, 5.51 MW."""
    return f"{value:.0f} W" if value < 999.5 else _prefixed(value, "W")


def rate(value: float) -> str:
    """Bytes a second, decimal: 1.25 GB/s."""
    return f"{value:.0f} B/s" if value < 999.5 else _prefixed(value, "B/s")


def size(value: float) -> str:
    """Bytes, binary: 58.6 GiB."""
    power = 0
    while abs(value) >= 999.5 and power < len(_BINARY) - 1:
        value, power = value / 1024, power + 1
    return f"{three(value) if power else f'{value:.0f}'} {_BINARY[power]}"


def span(seconds: float) -> str:
    """How long: 12s, 3m 5s, 4h 12m, 2d 5h."""
    whole = int(seconds)
    for least, unit, smaller, small_unit in _SPANS:
        if whole >= least:
            return f"{whole // least}{unit} {whole % least // smaller}{small_unit}"
    return f"{whole}s"


def _prefixed(value: float, unit: str) -> str:
    power = 0
    while abs(value) >= 999.5 and power < len(_DECIMAL) - 1:
        value, power = value / 1000, power + 1
    return f"{three(value)} {_DECIMAL[power]}{unit}"


def spark(values: Sequence[float | None], width: int, most: float | None = None) -> str:
    """The last `width` values as bars, a space where nothing is known; full at `most`, else at the highest of them."""
    shown = values[-width:] if width > 0 else ()
    top = most or max((value for value in shown if value is not None), default=0.0) or 1.0
    return "".join(" " if value is None else BARS[min(7, max(0, int(value / top * 8)))] for value in shown)


def bar(value: float, width: int) -> str:
    """A share of 0-1 as a bar of `width` cells, in eighths of a cell."""
    eighths = round(min(1.0, max(0.0, value)) * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (PARTS[part] if part else "")).ljust(width)
