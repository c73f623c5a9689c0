"""Traces analysed and loaded as `warpmeter analyze --load` does, without waiting for who may be asking meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpmeter import landing
from warpmeter.analysis import rows
from warpmeter.analysis.diff import Diff, diff
from warpmeter.analysis.findings import job_findings
from warpmeter.analysis.job import JobReport, RankExtract, extract, job
from warpmeter.analysis.job.rows import collectives
from warpmeter.analysis.read import read
from warpmeter.analysis.report import Material, RankReport, material, report
from warpmeter.landing import Process
from warpmeter.settings import Store
from warpmeter.store import Client


@dataclass(frozen=True)
class Analysed:
    """A capture's ranks, as analysis gives them."""

    ranks: Sequence[tuple[Material, RankReport, RankExtract]]

    @property
    def reports(self) -> list[RankReport]:
        """What `warpmeter analyze --json` says of each."""
        return [told for _, told, _ in self.ranks]

    @property
    def job(self) -> JobReport:
        """What it says of all together."""
        return job([each for _, _, each in self.ranks])

    def since(self, before: "Analysed") -> Diff:
        """What `--diff` says."""
        return diff(before.reports, self.reports)


def analysed(paths: Sequence[Path]) -> Analysed:
    """Analyse the files of a capture."""
    found = []
    for path in paths:
        on = material(read(str(path)))
        found.append((on, report(on), extract(on.trace, on.links)))
    return Analysed(found)


def load(client: Client, store: Store, capture: str, of: Analysed, *, told: bool = True) -> None:
    """Load them as `capture`; without `told` as processes `ant/0`, `ant/1`, … whose traces do not tell their ranks."""
    begun = landing.begin(client, capture, "4711")
    extracts = [each for _, _, each in of.ranks]
    met = collectives(extracts, [on.trace.epoch_ns + rows.began_ns(on.trace) for on, _, _ in of.ranks])
    together = {name: [value] for name, value in rows.together(job_findings(of.job)).items()}
    puts = []
    for place, ((on, about, _), own) in enumerate(zip(of.ranks, met, strict=True)):
        called = "" if told else f"ant/{place}"
        process = Process(about.rank if told else 0, "ant", told, rows.captured_at_ns(on.trace), called)
        found = rows.rows(on, about)
        rank = [{**found["trace_ranks"][0], **together}]
        tables: landing.Tables = {**found, "trace_ranks": rank, "trace_collectives": [own]}
        puts.append(landing.put(client, store, begun, process, tables))
    landing.publish(client, store, begun, puts, lambda _: None)
