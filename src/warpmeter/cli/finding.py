"""What a check of `warpmeter doctor` found, and how long one may take."""

from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["ok", "warning", "failed"]

PROBE_TIMEOUT_S: Final = 5.0
LARGEST_PAGE: Final = 16 << 20


@dataclass(frozen=True)
class Finding:
    """One check: its verdict, what was seen, and what to do where something is to be done."""

    check: str
    verdict: Verdict
    seen: str
    remedy: str = ""
