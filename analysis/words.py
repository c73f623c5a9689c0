"""Figures as people read them in a sentence: three digits and a unit."""

from typing import Final

_DURATIONS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_SIZES: Final = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
_RATES: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"), (1, ""))


def duration(ns: float) -> str:
    """`12.3 ms`."""
    return _scaled(ns, _DURATIONS)


def size(amount: float) -> str:
    """Bytes: `1.5 GiB`."""
    return _scaled(amount, _SIZES)


def rate(amount: float, unit: str) -> str:
    """`312 GB/s`, `495 TFLOP/s`: a unit with decimal prefixes."""
    return _scaled(amount, tuple((step, prefix + unit) for step, prefix in _RATES))


def percent(share: float) -> str:
    """A share of 0-1: `23 %`, below ten with a decimal: `4.2 %`."""
    digits = 0 if abs(share) >= 0.0995 else 1
    return f"{100 * share:.{digits}f} %"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 kernel`, `1,234 kernels`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _scaled(value: float, units: tuple[tuple[int, str], ...]) -> str:
    for step, unit in units:
        if abs(value) >= 0.9995 * step:
            return f"{digits(value / step)} {unit}".rstrip()
    return f"{digits(value)} {units[-1][1]}".rstrip()


def digits(value: float) -> str:
    """Three digits that count, never an exponent."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    text = f"{value:.{1 if size >= 9.995 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
