"""Several ranks: a line each, the findings that they share, and their job."""

from warpmeter.analysis.capture import Document
from warpmeter.analysis.findings import Finding
from warpmeter.analysis.words import percent, rate, size
from warpmeter.cli import common
from warpmeter.cli.reporting.lines import Rows, line, ns, said, share, table, titled


def show_ranks(document: Document, top: int) -> None:
    """A line each, what the job's findings are and which its ranks share, collectives, stragglers."""
    loads = {load.rank: load for load in document.job.loads} if document.job is not None else {}
    rows: Rows = []
    for each in document.ranks:
        of = each if each.span_ns is not None else loads.get(each.rank, each)  # without a GPU: the host's own figures
        parts = (of.busy_ns, of.compute_ns, of.comm_ns, of.exposed_comm_ns, of.idle_ns)
        rows.append((each.rank, ns(of.span_ns), *(share(part, of.span_ns) for part in parts), each.file))
    columns = ("rank", "span", "busy", "compute", "comm", "exposed", "idle", "file")
    table(f"{len(document.ranks)} ranks", columns, rows)
    common.out.print()
    said(document.findings)
    _of_ranks(document)
    _job(document, top)
    for each in document.ranks:
        for note in each.notes:
            line(f"! {each.file}: {note}", "yellow")


def _of_ranks(document: Document) -> None:
    """Findings of single ranks: each kind once, in the words of the rank where it costs most."""
    found: dict[str, list[tuple[int, Finding]]] = {}
    for rank in document.ranks:
        for each in rank.findings:
            found.setdefault(each.id, []).append((rank.rank, each))
    worst = {id_: max(those, key=lambda pair: pair[1].cost_ns) for id_, those in found.items()}
    rows: Rows = [
        (id_, f"{len(found[id_]):,} of {len(document.ranks):,}", rank, each.text)
        for id_, (rank, each) in sorted(worst.items(), key=lambda item: -item[1][1].cost_ns)
    ]
    table("Findings of single ranks", ("finding", "ranks", "worst in", "where it is worst"), rows)


def _job(document: Document, top: int) -> None:
    if document.job is None:
        return
    rows: Rows = [
        (each.group or "(not told)", each.kind, "" if each.bytes is None else size(each.bytes), f"{each.count:,}",
         ns(each.transfer_p50_ns), share(each.wait_ns, each.total_ns), ns(each.skew_p50_ns), ns(each.skew_max_ns),
         "" if each.bus_bytes_per_s is None else rate(each.bus_bytes_per_s, "B/s"),
         "" if each.link_share is None else percent(each.link_share), each.last_rank)
        for each in document.job.collectives[:top]
    ]  # fmt: skip
    columns = (
        "group",
        "collective",
        "bytes",
        "count",
        "transfer",
        "waiting",
        "skew p50",
        "max",
        "bus",
        "of link",
        "last",
    )
    table(titled("Collectives", len(document.job.collectives), len(rows)), columns, rows)
    late: Rows = [
        (each.rank, f"{each.last:,} of {each.of:,}", ns(each.late_ns), ns(each.cost_ns), ns(each.waited_ns),
         each.cause or "", each.evidence)
        for each in document.job.stragglers[:top]
    ]  # fmt: skip
    table("Ranks that others waited for", ("rank", "last", "late", "gain", "waited itself", "cause", "evidence"), late)
    for note in document.job.notes:
        line(f"! {note}", "yellow")
