"""What /sys/bus/event_source says of the units that count: their number, the encoding of events, the CPUs they are on.

Format: Documentation/ABI/testing/sysfs-bus-event_source-devices-{format,events} of the kernel.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from warpmeter.producers import files
from warpmeter.producers.counters import whole
from warpmeter.producers.perf.kernel import Event
from warpmeter.producers.topology import cpu_list

UNITS: Final = {"": 1.0, "Bytes": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "MB": 1e6}


@dataclass(frozen=True)
class Pmu:
    """A unit that counts: its folder, its number for perf_event_open, and the CPUs that read it (() for all)."""

    name: str
    folder: str
    type: int
    cpus: tuple[int, ...]

    def named(self, counter: str, name: str, unit: float) -> Event | None:
        """An event that the kernel names; None when it does not. `unit`: what a count stands for if it does not say."""
        text = files.optional(f"{self.folder}/events/{name}")
        if text is None:
            return None
        scale = _number(files.optional(f"{self.folder}/events/{name}.scale"))
        of = (files.optional(f"{self.folder}/events/{name}.unit") or b"").decode(errors="replace").strip()
        known = scale * UNITS[of] if scale is not None and of in UNITS else unit
        return self.encoded(counter, terms(text.decode(errors="replace")), known)

    def encoded(self, counter: str, values: Mapping[str, int], unit: float = 1.0) -> Event | None:
        """An event by its terms as in {"event": 4, "umask": 3}; None when the unit does not know one of them."""
        words = {"config": 0, "config1": 0}
        for term, value in values.items():
            layout = (files.optional(f"{self.folder}/format/{term}") or b"").decode(errors="replace").strip()
            word, _, ranges = layout.partition(":")
            if word not in words:
                return None
            words[word] |= placed(value, ranges)
        return Event(counter, self.type, words["config"], words["config1"], unit)


def find(sys: str, pattern: re.Pattern[str]) -> list[Pmu]:
    """The units whose name matches."""
    base = f"{sys}/bus/event_source/devices"
    try:
        names = sorted(name for name in os.listdir(base) if pattern.fullmatch(name))  # noqa: PTH208 - cheap
    except OSError:
        return []
    found = []
    for name in names:
        number = whole(files.optional(f"{base}/{name}/type"))
        if number is not None:
            found.append(Pmu(name, f"{base}/{name}", number, cpu_list(files.optional(f"{base}/{name}/cpumask"))))
    return found


def terms(text: str) -> dict[str, int]:
    """Of `event=0x04,umask=0x03`: numbers by name; a term without a number is 1."""
    found = {}
    for part in text.strip().split(","):
        name, is_given, value = part.partition("=")
        number = _integer(value) if is_given else 1
        if name and number is not None:
            found[name.strip()] = number
    return found


def placed(value: int, ranges: str) -> int:
    """A value in its bits, as in `0-7,32-35`: the lowest bits go to the first range."""
    word = 0
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        first, last = _integer(low), _integer(high or low)
        if first is None or last is None or not 0 <= first <= last < 64:
            continue
        width = last - first + 1
        word |= (value & ((1 << width) - 1)) << first
        value >>= width
    return word


def _integer(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _number(text: bytes | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
