"""Jobs: process trees that work, found by their process tree id or by what a scheduler says, and what they use.

`process` reads; `scheduler`, `pattern` and `trees` decide; `usage` sums; `events` tells; `source` puts them together.
"""

from warpmeter.producers.jobs.pattern import Pattern, pattern_in_force
from warpmeter.producers.jobs.source import JobSource, sources

__all__ = ["JobSource", "Pattern", "pattern_in_force", "sources"]
