"""Ingest and alerts: how each answer is read, and its pitfalls."""

from collections.abc import Mapping
from typing import Final

RECIPES: Final[Mapping[str, tuple[str, str]]] = {
    "ingest_freshness": (
        "`age_s` is how old the newest row of a table is, `landed_after_s_p95` how long rows were on their way.",
        "A table whose source is rare (job events of a quiet fleet) is old without anything being late.",
    ),
    "ingest_by_table": (
        "What fills the store. `rows / inserts` is the batch: below a thousand there are too many consumers or too short an age.",
        "Counted by when they landed, so that a backlog that was caught up is in the hour in which it came.",
    ),
    "ingest_gaps": (
        "`missing` and `doubled` must be 0. `warpmeter check` tells what else a hole may be.",
        "A window that begins within a topic's life begins with a span in the middle: that is no hole.",
    ),
    "dead_letters_by_reason": (
        "What could not be stored, and why; the bytes are in `dead_letters`.",
        "After a fix replay them (`warpmeter dead-letters replay`): what was replayed stays listed.",
    ),
    "alerts_by_rule": (
        "`unheeded` fired and nobody acknowledged or silenced them: a rule with many of these is noise, or an open problem. "
        "`dropped` were pending and went by themselves: raise `for`, or leave it.",
        "An alert is one episode of one subject: a rule that fires on 100 GPUs at once counts 100.",
    ),
    "alerts_by_host": (
        "Hosts to drain first. Alerts about jobs alone, without a host in their labels, are left out.",
        "A job over many hosts may raise an alert on each of them.",
    ),
}
