"""Rates per second of counters between two pages, with resets understood."""

from collections.abc import Mapping
from typing import Final

from warpmeter.producers.scrape.page import Series, Values

LONGEST_PERIODS: Final = 5.0
"""A longer gap between two pages gives no rate: it would spread what nobody saw over all of it."""


def rates(now: Values, before: Values | None, elapsed_s: float | None, period_s: float) -> Mapping[Series, float]:
    """Growth per second of every count that was on both pages.

    None of a group (a counter; all buckets, sum and count of a histogram) that began anew: a member went back, its
    `_created` moved, or the exporter's process is another.
    """
    if before is None or not elapsed_s or elapsed_s > LONGEST_PERIODS * period_s or now.started != before.started:
        return {}
    anew = {group for group, at in now.created.items() if before.created.get(group, at) != at}
    grown: dict[Series, float] = {}
    for series, value in now.of.items():
        if series.role == "count" and (old := before.of.get(series)) is not None:
            grown[series] = value - old
            if value < old:
                anew.add(series.group)
    return {series: by / elapsed_s for series, by in grown.items() if series.group not in anew and by < float("inf")}
