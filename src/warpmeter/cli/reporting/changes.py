"""Two captures: what changed."""

from collections.abc import Sequence
from dataclasses import replace

from warpmeter.analysis.diff import Change, Diff
from warpmeter.analysis.names import short_name
from warpmeter.analysis.words import duration
from warpmeter.cli.reporting.lines import Rows, line, ns, share, table, titled


def show_diff(found: Diff, top: int) -> None:
    """The whole first, then kernels and operators, the largest change first."""
    whole: Rows = [
        (name, ns(part.before_ns), ns(part.after_ns), _change(part.change_ns), share(part.change_ns, part.before_ns))
        for name, part in (
            ("span", found.span_ns),
            *(("  " + part.part.removesuffix("_ns").replace("_", " "), part) for part in found.parts),
            ("kernels, copies and sets", found.kernels_ns),
            ("operators on the host", found.cpu_ns),
        )
        if part is not None
    ]
    one = "of one step of one rank" if found.unit == "step" else "of the whole captures"
    table(f"Times {one}", ("", "before", "after", "change", ""), whole)
    by: Rows = [(name, _change(value)) for name, value in found.by_status.items() if value]
    table("The kernels' change, by what became of them", ("", "change"), by)
    parts = {
        "Kernels, copies and sets": [_shortened(each) for each in found.kernels],
        "Operators, on the GPU": found.operators_gpu,
        "Operators, on the host": found.operators_cpu,
    }
    for title, changes in parts.items():
        _changes(title, [each for each in changes if each.status != "same"], top)
    for note in found.notes:
        line(f"! {note}", "yellow")


def _change(ns: float) -> str:
    return f"{'+' if ns > 0 else '-' if ns < 0 else ''}{duration(abs(ns))}"


def _shortened(change: Change) -> Change:
    instead = None if change.instead is None else short_name(change.instead)
    return replace(change, name=short_name(change.name), instead=instead)


def _changes(title: str, changes: Sequence[Change], top: int) -> None:
    rows: Rows = [
        (each.status, each.name, f"{each.before_count:,}", f"{each.after_count:,}", ns(each.before_ns),
         ns(each.after_ns), _change(each.change_ns), each.instead or "")
        for each in changes[:top]
    ]  # fmt: skip
    columns = ("", "name", "calls before", "after", "time before", "after", "change", "instead")
    table(titled(title, len(changes), len(rows)), columns, rows)
