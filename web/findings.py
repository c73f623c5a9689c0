"""What stands out between the ranks of a capture, in words: as `analysis.findings.ranks`, from the store's rows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

STRAGGLER_SHARE: Final = 0.02
"""Of the mean span: what the job would gain if the rank alone kept up."""
IMBALANCE: Final = 0.1
Row = Mapping[str, Any]


def between_ranks(ranks: Sequence[Row], late: Sequence[Row]) -> list[dict[str, Any]]:
    """Stragglers, imbalance and missing ranks; `late` are rows of capture_late_ranks. Empty for one rank."""
    return [*_stragglers(ranks, late), *_imbalance(ranks), *_missing(ranks)]


def _stragglers(ranks: Sequence[Row], late: Sequence[Row]) -> Iterator[dict[str, Any]]:
    spans = [row["span_seconds"] for row in ranks if row["span_seconds"]]
    span = sum(spans) / len(spans) if spans else 0.0
    for row in late:
        if not span or row["cost_seconds"] / span < STRAGGLER_SHARE:
            continue
        why = f" ({row['cause'].replace('_', ' ')})" if row["cause"] else ""
        yield {
            "id": "straggler_rank",
            "text": f"Rank {row['rank']} comes last to {row['last']:,} of {row['of']:,} collectives, "
            f"{_ms(row['cost_seconds'])} after the last but one in all, "
            f"{_percent(row['cost_seconds'] / span)} of the time{why}",
            "advice": "All others wait for it within their collectives. Give it the same work (input, padding, "
            "experts), or look at its host and GPU: clocks, throttling, other processes.",
            "value": row["cost_seconds"] / span, "unit": "ratio", "cost_seconds": row["cost_seconds"],
            "worst_rank": row["rank"], "ranks": 1,
        }  # fmt: skip


def _imbalance(ranks: Sequence[Row]) -> Iterator[dict[str, Any]]:
    known = [(row["compute_seconds"], row["rank"]) for row in ranks if row["compute_seconds"] is not None]
    if len(known) < 2 or not (mean := sum(each for each, _ in known) / len(known)):
        return
    most, rank = max(known)
    least, idlest = min(known)
    if most / mean - 1 >= IMBALANCE:
        yield {
            "id": "load_imbalance",
            "text": f"Rank {rank} computes {_percent(most / mean - 1)} longer than the ranks' mean: {_ms(most)} "
            f"against {_ms(mean)}; rank {idlest} only {_ms(least)}",
            "advice": "Spread the work evenly: sequence lengths, pipeline stages, experts; "
            "or the ranks' GPUs are not alike.",
            "value": most / mean - 1, "unit": "ratio", "cost_seconds": most - mean, "worst_rank": rank, "ranks": 1,
        }  # fmt: skip


def _missing(ranks: Sequence[Row]) -> Iterator[dict[str, Any]]:
    world = max((row["world_size"] or 0 for row in ranks), default=0)
    missing = sorted(set(range(world)) - {row["rank"] for row in ranks})
    if missing and len(ranks) > 1:
        named = ", ".join(map(str, missing[:8])) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        yield {
            "id": "missing_ranks",
            "text": f"{len(missing)} of {world} ranks have no trace here: {named}",
            "advice": "Capture the whole job: a rank for which others wait may be among them.",
            "value": float(len(missing)), "unit": "count", "cost_seconds": 0.0, "worst_rank": None,
            "ranks": len(missing),
        }  # fmt: skip


def _ms(seconds: float) -> str:
    return (
        f"{seconds:.2f} s"
        if seconds >= 1
        else f"{seconds * 1e3:.3g} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.3g} µs"
    )


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
