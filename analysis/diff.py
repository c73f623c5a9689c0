"""Two captures held against each other: what came, what went, what got slower or faster, and the whole accounted for.

Captures of different length are made comparable: where steps are known on both sides, all times are per step (and
rank); else they are those of the whole captures. Every change is divided into what comes of the number of calls (at
the old duration) and what comes of their duration (at the new number), and the changes of all names add up to the
whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from warpmeter.analysis.kernels import Kernel
from warpmeter.analysis.operators import OperatorTimes
from warpmeter.analysis.steps import Step

CHANGED: Final = 0.02
"""Share of the old time (of the new one, for what is new) below which nothing is said to have changed."""

PARTS: Final = ("compute_ns", "exposed_comm_ns", "exposed_mem_ns", "idle_ns")
"""What a span consists of, each moment once."""


class Measured(Protocol):
    """What is needed of one rank's report; figures of the GPU are None without GPU events."""

    @property
    def kernels(self) -> Sequence[Kernel]:
        """By name."""

    @property
    def operators(self) -> OperatorTimes | None:
        """By name."""

    @property
    def steps(self) -> Sequence[Step]:
        """In order."""

    @property
    def span_ns(self) -> int | None:
        """From the first GPU event to the last."""

    @property
    def compute_ns(self) -> int | None:
        """Of the span."""

    @property
    def exposed_comm_ns(self) -> int | None:
        """Of the span."""

    @property
    def exposed_mem_ns(self) -> int | None:
        """Of the span."""

    @property
    def idle_ns(self) -> int | None:
        """Of the span."""


@dataclass(frozen=True)
class Change:
    """One kernel or operator on both sides.

    `status`: came, went, slower, faster (each call), more, fewer (calls), or same: the change is under 2 %. Counts are
    of the whole captures; times per unit (see `Diff.unit`): `change_ns` = `after_ns` - `before_ns` = `by_number_ns` +
    `by_duration_ns`. `instead` is what stands in the other capture for a kernel that came or went: launched by the
    same operator, about as often; a guess.
    """

    name: str
    status: str
    before_count: int
    after_count: int
    before_ns: float
    after_ns: float
    change_ns: float
    by_number_ns: float
    by_duration_ns: float
    instead: str | None = None


@dataclass(frozen=True)
class Part:
    """One part of the time per unit; `change_ns` of the parts add up to that of the whole."""

    part: str
    before_ns: float
    after_ns: float
    change_ns: float


@dataclass(frozen=True)
class Diff:
    """`unit` is "step" (times are of one step of one rank, the mean) or "capture" (times are sums over all ranks).

    `kernels` are all GPU events by name, by the duration they took; `operators_gpu` all operators by the GPU time that
    they launched themselves, `operators_cpu` by their own time on the host: each the largest change first. `kernels_ns`
    is the whole of the first, `by_status` divides its change; the operators' whole is the same, but for
    `elsewhere_ns`, launched by no operator. `span_ns` is the steps' length, or the captures' spans.
    """

    unit: str
    before_units: int
    after_units: int
    kernels_ns: Part
    by_status: dict[str, float]
    elsewhere_ns: Part
    cpu_ns: Part
    span_ns: Part | None
    parts: list[Part]
    kernels: list[Change]
    operators_gpu: list[Change]
    operators_cpu: list[Change]
    notes: list[str]


@dataclass(frozen=True)
class _Sum:
    """Calls and time of one name in one capture."""

    count: int = 0
    total_ns: int = 0


@dataclass(frozen=True)
class _Side:
    """One capture, its ranks added up."""

    ranks: int
    units: int
    kernels: dict[str, _Sum]
    launchers: dict[str, str]
    gpu: dict[str, _Sum]
    cpu: dict[str, _Sum]
    elsewhere_ns: int
    parts: dict[str, int] | None


def diff(before: Sequence[Measured], after: Sequence[Measured]) -> Diff:
    """What changed from one capture to the other; each is the reports of its ranks. Raises ValueError for no report."""
    if not before or not after:
        raise ValueError("a diff needs a report on either side")
    by_step = all(each.steps for each in (*before, *after))
    old, new = _side(before, by_step=by_step), _side(after, by_step=by_step)
    kernels = _with_instead(_changes(old.kernels, new.kernels, old, new), old, new)
    parts = _parts(old, new)
    return Diff(
        unit="step" if by_step else "capture",
        before_units=old.units,
        after_units=new.units,
        kernels_ns=_part("kernels_ns", _total(old.kernels), _total(new.kernels), old, new),
        by_status=_by_status(kernels),
        elsewhere_ns=_part("elsewhere_ns", old.elsewhere_ns, new.elsewhere_ns, old, new),
        cpu_ns=_part("cpu_ns", _total(old.cpu), _total(new.cpu), old, new),
        span_ns=_whole(parts),
        parts=parts,
        kernels=kernels,
        operators_gpu=_changes(old.gpu, new.gpu, old, new),
        operators_cpu=_changes(old.cpu, new.cpu, old, new),
        notes=_notes(old, new, by_step=by_step),
    )


def _side(ranks: Sequence[Measured], *, by_step: bool) -> _Side:
    kernels = [each for rank in ranks for each in rank.kernels]
    operators = [rank.operators for rank in ranks if rank.operators is not None]
    rows = [row for each in operators for row in each.by_name]
    return _Side(
        ranks=len(ranks),
        units=sum(len(rank.steps) for rank in ranks) if by_step else 1,
        kernels=_sums((each.name, each.count, each.total_ns) for each in kernels),
        launchers={each.name: each.operators[0].name for each in reversed(kernels) if each.operators},
        gpu=_sums((row.name, row.gpu_events, row.gpu_self_ns) for row in rows if row.gpu_events),
        cpu=_sums((row.name, row.count, row.cpu_self_ns) for row in rows),
        elsewhere_ns=sum(each.gpu_elsewhere_ns for each in operators),
        parts=_in_steps(ranks) if by_step else _in_spans(ranks),
    )


def _sums(rows: Iterable[tuple[str, int, int]]) -> dict[str, _Sum]:
    found: dict[str, _Sum] = {}
    for name, count, total_ns in rows:
        had = found.get(name, _Sum())
        found[name] = _Sum(had.count + count, had.total_ns + total_ns)
    return found


def _in_steps(ranks: Sequence[Measured]) -> dict[str, int] | None:
    """The parts of the windows of all steps; None where no rank has GPU events.

    Not of the span: that ends with the last step's work and so is longer for each step where there are more of them.
    """
    steps = [step for rank in ranks if rank.span_ns is not None for step in rank.steps]
    if not steps:
        return None
    parts = {part: sum(getattr(step.during, part) or 0 for step in steps) for part in PARTS[:-1]}
    return {**parts, PARTS[-1]: sum(step.duration_ns for step in steps) - sum(parts.values())}


def _in_spans(ranks: Sequence[Measured]) -> dict[str, int] | None:
    """The parts of the ranks' spans; None where no rank has GPU events."""
    spans = [rank for rank in ranks if rank.span_ns is not None]
    return {part: sum(getattr(rank, part) or 0 for rank in spans) for part in PARTS} if spans else None


def _total(sums: Mapping[str, _Sum]) -> int:
    return sum(each.total_ns for each in sums.values())


def _changes(old: Mapping[str, _Sum], new: Mapping[str, _Sum], before: _Side, after: _Side) -> list[Change]:
    """Of all names, the largest change first."""
    names = dict.fromkeys((*old, *new))
    found = [_change(name, old.get(name, _Sum()), new.get(name, _Sum()), before, after) for name in names]
    return sorted(found, key=lambda each: (-abs(each.change_ns), each.name))


def _change(name: str, old: _Sum, new: _Sum, before: _Side, after: _Side) -> Change:
    old_ns, new_ns = old.total_ns / before.units, new.total_ns / after.units
    if old.count and new.count:
        by_number = (new.count / after.units - old.count / before.units) * (old.total_ns / old.count)
    else:
        by_number = new_ns - old_ns
    by_duration = new_ns - old_ns - by_number
    return Change(
        name=name,
        status=_status(old, new, by_number, by_duration, old_ns),
        before_count=old.count,
        after_count=new.count,
        before_ns=old_ns,
        after_ns=new_ns,
        change_ns=new_ns - old_ns,
        by_number_ns=by_number,
        by_duration_ns=by_duration,
    )


def _status(old: _Sum, new: _Sum, by_number: float, by_duration: float, old_ns: float) -> str:
    if not old.count:
        return "came"
    if not new.count:
        return "went"
    largest = max(by_number, by_duration, key=abs)
    if abs(largest) <= CHANGED * old_ns:
        return "same"
    if abs(by_duration) >= abs(by_number):
        return "slower" if by_duration > 0 else "faster"
    return "more" if by_number > 0 else "fewer"


def _by_status(changes: Sequence[Change]) -> dict[str, float]:
    found = dict.fromkeys(("came", "went", "slower", "faster", "more", "fewer", "same"), 0.0)
    for each in changes:
        found[each.status] += each.change_ns
    return found


def _with_instead(changes: list[Change], old: _Side, new: _Side) -> list[Change]:
    """Each kernel that went with the one that came for it."""
    pairs = _replaced(changes, old, new)
    return [_named(each, pairs.get(each.name)) for each in changes]


def _named(change: Change, instead: str | None) -> Change:
    return change if instead is None else Change(**{**change.__dict__, "instead": instead})


def _replaced(changes: Sequence[Change], old: _Side, new: _Side) -> dict[str, str]:
    """Went to came and back: of one operator, the numbers of calls per unit nearest (within a factor of two)."""
    came: dict[str, list[Change]] = {}
    for each in changes:
        if each.status == "came" and each.name in new.launchers:
            came.setdefault(new.launchers[each.name], []).append(each)
    pairs: dict[str, str] = {}
    for gone in changes:
        if gone.status != "went" or gone.name not in old.launchers:
            continue
        candidates = [each for each in came.get(old.launchers[gone.name], []) if each.name not in pairs]
        apart = {each.name: _apart(gone.before_count / old.units, each.after_count / new.units) for each in candidates}
        best = min(apart, key=lambda name: apart[name], default=None)
        if best is not None and apart[best] <= 2:
            pairs[gone.name], pairs[best] = best, gone.name
    return pairs


def _apart(one: float, other: float) -> float:
    return max(one, other) / min(one, other)


def _part(name: str, old: int, new: int, before: _Side, after: _Side) -> Part:
    old_ns, new_ns = old / before.units, new / after.units
    return Part(name, old_ns, new_ns, new_ns - old_ns)


def _parts(old: _Side, new: _Side) -> list[Part]:
    if old.parts is None or new.parts is None:
        return []
    return [_part(name, old.parts[name], new.parts[name], old, new) for name in PARTS]


def _whole(parts: Sequence[Part]) -> Part | None:
    if not parts:
        return None
    before, after = sum(each.before_ns for each in parts), sum(each.after_ns for each in parts)
    return Part("span_ns", before, after, after - before)


def _notes(old: _Side, new: _Side, *, by_step: bool) -> list[str]:
    notes = []
    if not by_step:
        notes.append("not both captures have steps: times are of the whole captures, whatever their length")
    if old.ranks != new.ranks:
        notes.append(f"the captures have {old.ranks} and {new.ranks} ranks")
    return notes
