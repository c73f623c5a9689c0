"""Rules about the ranks of a job together."""

from collections.abc import Iterator
from typing import Final

from warpmeter.analysis.findings.seen import EVIDENCE, Evidence, Finding, ns, number
from warpmeter.analysis.job import JobReport
from warpmeter.analysis.words import count, duration, percent

STRAGGLER_SHARE: Final = 0.02
"""Of the mean span: what the job would gain if the rank alone kept up."""
TOGETHER_SHARE: Final = 0.05
TOGETHER_OF: Final = 0.5
"""To so large a share of the collectives it must come late: jitter makes each rank late at times."""
IMBALANCE: Final = 0.1
SLOW_LINK_SHARE: Final = 0.3
SLOW_LINK_OF_SPAN: Final = 0.05
NAMED: Final = 8
"""Ranks that are named one by one."""


def job_findings(job: JobReport) -> list[Finding]:
    """What stands out between the ranks, what costs most first; a missing rank last."""
    found = [*_stragglers(job), *_late_together(job), *_imbalance(job), *_slow_links(job), *_missing(job)]
    return sorted(found, key=lambda each: (-each.cost_ns, each.id))


def _span(job: JobReport) -> float:
    return sum(load.span_ns for load in job.loads) / len(job.loads)


def _stragglers(job: JobReport) -> Iterator[Finding]:
    span = _span(job)
    for each in job.stragglers:
        if not span or each.cost_ns / span < STRAGGLER_SHARE:
            continue
        causes = sorted(each.causes.items(), key=lambda pair: -pair[1])
        why = f" ({_words(each.cause)}: {each.evidence})" if each.cause and each.evidence else ""
        yield Finding(
            "straggler_rank",
            f"Rank {each.rank} comes last to {each.last:,} of {count(each.of, 'collective')}, "
            f"{duration(each.cost_ns)} after the last but one in all, {percent(each.cost_ns / span)} of the time{why}",
            each.cost_ns / span,
            "ratio",
            each.cost_ns,
            [
                number(f"rank {each.rank}: last", each.last),
                ns(f"rank {each.rank}: late in all", each.late_ns),
                *(ns(f"of it {_words(name)}", value) for name, value in causes[:EVIDENCE] if value > 0),
            ],
            "All others wait for it within their collectives. Give it the same work (input, padding, experts), or look "
            "at its host and GPU: clocks, throttling, other processes.",
        )


def _late_together(job: JobReport) -> Iterator[Finding]:
    """Ranks none of which costs much alone, for the others of them would be waited for."""
    span = _span(job)
    late = [
        each
        for each in job.stragglers
        if span and each.cost_ns / span < STRAGGLER_SHARE and each.late_ns / span >= TOGETHER_SHARE
        if each.late >= TOGETHER_OF * each.of
    ]
    if len(late) < 2:
        return
    worst = max(late, key=lambda each: each.late_ns)
    named = ", ".join(str(each.rank) for each in late[:NAMED]) + (" and more" if len(late) > NAMED else "")
    why = f" ({_words(worst.cause)}: {worst.evidence})" if worst.cause and worst.evidence else ""
    yield Finding(
        "straggler_ranks",
        f"{len(late)} ranks come late together, {named}: rank {worst.rank} to {worst.late:,} of "
        f"{count(worst.of, 'collective')}, {percent(worst.late_ns / span)} of the time in all{why}",
        worst.late_ns / span,
        "ratio",
        worst.late_ns,
        [ns(f"rank {each.rank}: late in all", each.late_ns) for each in late[:EVIDENCE]],
        "The others wait for the last of them. Look for what they share: a host, a switch, a stage, larger inputs.",
    )


def _words(cause: str) -> str:
    return cause.replace("_", " ")


def _imbalance(job: JobReport) -> Iterator[Finding]:
    """Ranks that compute for different lengths of time."""
    each = next((one for one in job.balance if one.figure == "compute_ns"), None)
    if each is None or each.imbalance is None or each.imbalance < IMBALANCE:
        return
    yield Finding(
        "load_imbalance",
        f"Rank {each.most_rank} computes {percent(each.imbalance)} longer than the ranks' mean: "
        f"{duration(each.most)} against {duration(each.mean)}; rank {each.least_rank} only {duration(each.least)}",
        each.imbalance,
        "ratio",
        round(each.most - each.mean),
        [ns(f"rank {each.most_rank}", each.most), ns(f"rank {each.least_rank}", each.least)],
        "Spread the work evenly: sequence lengths, pipeline stages, experts; or the ranks' GPUs are not alike.",
    )


def _slow_links(job: JobReport) -> Iterator[Finding]:
    """Large collectives that stay far below what the link carries."""
    span = _span(job)
    for each in job.collectives:
        transfer = (each.total_ns - each.wait_ns) / len(each.ranks) if each.ranks else 0
        slow = each.link_share is not None and each.link_share < SLOW_LINK_SHARE
        if slow and each.bytes and each.bytes >= 1 << 20 and span and transfer / span >= SLOW_LINK_OF_SPAN:
            yield Finding(
                "slow_link",
                f"{each.kind} of {each.dtype} in group {each.group} reaches {percent(each.link_share or 0.0)} of what "
                f"the link carries, and takes {percent(transfer / span)} of the time",
                each.link_share or 0.0,
                "ratio",
                round(transfer),
                [number("collectives", each.count), Evidence("message", float(each.bytes), "B")],
                "Check which links it uses (NCCL_DEBUG=INFO), topology and network; join small messages.",
            )


def _missing(job: JobReport) -> Iterator[Finding]:
    missing = job.missing_ranks
    if not missing:
        return
    named = ", ".join(map(str, missing[:NAMED])) + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
    have = "has" if len(missing) == 1 else "have"
    yield Finding(
        "missing_ranks",
        f"{count(len(missing), 'rank')} of {job.world_size} {have} no trace here: {named}",
        float(len(missing)),
        "count",
        0,
        [number("ranks with a trace", len(job.ranks)), number("ranks of the job", job.world_size or 0)],
        "Give their traces as well: a rank for which others wait may be among them.",
    )
