"""The traces of one capture: each file's report, and the job that its ranks make together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from warpmeter.analysis.diff import Diff, diff
from warpmeter.analysis.findings import Finding, job_findings
from warpmeter.analysis.job import JobReport, RankExtract, extract, job
from warpmeter.analysis.read import TraceError, read
from warpmeter.analysis.report import SCHEMA_VERSION, Material, Options, RankReport, material, report
from warpmeter.analysis.selection import Numbers, SelectionError, rank_in
from warpmeter.analysis.trace import Distributed, Trace
from warpmeter.analysis.workers import Failed, Progress, work


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a capture: of the ranks and the steps those named, else all."""

    ranks: Numbers | None = None
    options: Options = field(default_factory=Options)


Keep = Callable[[Material, RankReport, RankExtract], None]
"""What else is to be done with a trace where it is analysed, in its process: a function of a module, or a partial."""


@dataclass(frozen=True)
class Ranked:
    """What one file gave: its report, and its part of the job; None for a rank that was not wanted."""

    ranked: tuple[RankReport, RankExtract] | None


@dataclass(frozen=True)
class Document:
    """The JSON of `warpmeter analyze`: ranks in order, what holds of all together, files that gave nothing.

    `job` is None for a single trace; `findings` are the job's own, each rank has those of its trace.
    `diff` is there when an earlier capture was given, whose files are `before`.
    """

    schema_version: int
    ranks: list[RankReport]
    job: JobReport | None
    findings: list[Finding]
    failed: list[Failed]
    before: list[str] = field(default_factory=list)
    diff: Diff | None = None


def capture(
    files: Sequence[str],
    wanted: Wanted = Wanted(),
    told: Callable[[int, int, int], None] | None = None,
    keep: Keep | None = None,
) -> Document:
    """Analyse the files of one capture, in several processes where there are several.

    `told` hears file index, bytes done, bytes in all. A file that cannot be analysed is in `failed`, the others go on.
    `keep` is called with each trace that is wanted.
    """
    several = len(files) > 1 or wanted.ranks is not None
    reports: list[RankReport] = []
    extracts: list[RankExtract] = []
    failed: dict[int, Failed] = {}
    for index, found in work(files, partial(one, wanted=wanted, several=several, keep=keep), told):
        if isinstance(found, Failed):
            failed[index] = Failed(_text(found.file), _text(found.why))
        elif found.ranked is not None:
            reports.append(found.ranked[0])
            extracts.append(found.ranked[1])
    reports.sort(key=lambda each: (each.rank, each.file))
    whole = job(sorted(extracts, key=lambda each: (each.rank, each.file))) if len(extracts) > 1 else None
    said = [] if whole is None else job_findings(whole)
    return Document(SCHEMA_VERSION, reports, whole, said, [failed[index] for index in sorted(failed)])


def _text(name: str) -> str:
    """A file's name that is no text, as JSON can hold it."""
    return name.encode("utf-8", "replace").decode()


def compared(before: Document, after: Document) -> Document:
    """The later capture's document, with what changed from the earlier one."""
    failed = [*before.failed, *after.failed]
    files = [rank.file for rank in before.ranks]
    return replace(after, diff=diff(before.ranks, after.ranks), before=files, failed=failed)


def one(
    file: str, progress: Progress, wanted: Wanted = Wanted(), several: bool = False, keep: Keep | None = None
) -> Ranked:
    """One file's part of a capture. Raises TraceError."""
    trace = read(file, progress)
    if several:
        trace = _with_rank(trace)
    if wanted.ranks is not None and trace.rank not in wanted.ranks:
        return Ranked(None)
    try:
        on = material(trace, wanted.options)
    except SelectionError as error:
        raise TraceError(f"{file}: {error}") from error
    found = report(on, wanted.options), extract(on.trace, on.links)
    if keep is not None:
        keep(on, *found)
    return Ranked(found)


def may_be_wanted(file: str, ranks: Numbers | None) -> bool:
    """Whether to open it at all: a name that tells another rank saves the reading."""
    rank = rank_in(file)
    return ranks is None or rank is None or rank in ranks


def _with_rank(trace: Trace) -> Trace:
    """One of several traces that does not tell its rank has that of its file's name."""
    rank = rank_in(trace.file)
    if trace.distributed is not None or rank is None:
        return trace
    note = f"the trace does not tell its rank; {rank} is from the file's name"
    return replace(trace, distributed=Distributed("", rank, 0), notes=(*trace.notes, note))
