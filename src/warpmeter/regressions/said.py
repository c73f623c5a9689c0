"""What a regression is, and how it is said: values alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Literal

from warpmeter.regressions.metrics import KERNEL, METRICS

Sort = Literal["between_runs", "within_run"]
What = Literal["came", "went", "slower"]
SHOWN: Final = 5
"""Kernels and differences that a sentence names; the rest it counts."""


@dataclass(frozen=True)
class Moved:
    """A metric that got worse, from what to what; `change` is of what it was: 0.25 is a quarter more."""

    metric: str
    unit: str
    before: float
    now: float

    @property
    def change(self) -> float:
        """Of what it was."""
        return self.now / self.before - 1 if self.before else 0.0

    @property
    def text(self) -> str:
        """In words."""
        return f"{METRICS[self.metric].words} {_figures(self)} ({self.change:+.0%})"


@dataclass(frozen=True)
class KernelChange:
    """A kernel that came, went or got slower. Seconds of one run of it, None where it did not run; `share` of the GPU's
    time, now, or before where it went.
    """

    what: What
    name: str
    short_name: str
    gpu_model: str
    before: float | None
    now: float | None
    share: float

    @property
    def text(self) -> str:
        """In words."""
        if self.before is not None and self.now is not None:
            moved = Moved(KERNEL, "s", self.before, self.now)
            return f"kernel {self.short_name} {_figures(moved)} ({moved.change:+.0%})"
        return f"kernel {self.short_name} {self.what} ({self.share:.0%} of the GPU time)"


@dataclass(frozen=True)
class Differs:
    """Something about the runs that is not the same: hosts, GPU model, driver, world size, image, command."""

    what: str
    before: str
    now: str

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.what}: {self.before or 'none'} → {self.now or 'none'}"


@dataclass(frozen=True)
class Regression:
    """A job that got slower: `between_runs`, than its own past runs; `within_run`, than it was before.

    `since`: when it became so (the start of the first run that was, or the place in the run). `since_job`: that run.
    `runs`: how many runs it is held against. `metrics`: what got worse, the one that says most first; there is none
    where kernels alone did. `differs` and `kernels`: what else changed, which may be why.
    """

    sort: Sort
    user: str
    name: str
    job_id: str
    since: datetime
    since_job: str
    last_seen_at: datetime
    runs: int
    metrics: tuple[Moved, ...]
    kernels: tuple[KernelChange, ...] = ()
    differs: tuple[Differs, ...] = ()

    @property
    def change(self) -> float:
        """By how much what is named first got worse, above 0."""
        if self.metrics:
            return abs(self.metrics[0].change)
        slower = [each.now / each.before - 1 for each in self.kernels if each.before and each.now]
        return max(slower, default=0.0)

    @property
    def text(self) -> str:
        """In words: of what, from what to what, since when, and what else changed."""
        whom = "than in the runs before" if self.sort == "between_runs" else "than it was"
        moved = _some([each.text for each in self.metrics] + [each.text for each in self.kernels])
        told = f"{self.name} of {self.user or 'nobody'} is slower {whom} since {self.since:%Y-%m-%d %H:%M} UTC: {moved}"
        if self.differs:
            told += f". Not the same: {_some([each.text for each in self.differs])}"
        return told

    def told(self) -> dict[str, Any]:
        """As JSON takes it, times in ISO 8601, with its text."""
        told = asdict(self)
        told |= {name: getattr(self, name).isoformat() for name in ("since", "last_seen_at")}
        told["metrics"] = [{**asdict(each), "change": each.change} for each in self.metrics]
        return {"text": self.text, "change": self.change, **told}


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _figures(moved: Moved) -> str:
    return f"{_amount(moved.before, moved.unit)} → {_amount(moved.now, moved.unit)}"


def _amount(value: float, unit: str) -> str:
    if unit == "ratio 0-1":
        return f"{value:.1%}"
    if unit != "s":
        return f"{value:.3g} {unit}".removesuffix(" 1")
    for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if value * factor >= 1 or name == "µs":
            return f"{value * factor:.3g} {name}"
    raise AssertionError
