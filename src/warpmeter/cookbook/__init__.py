"""Which named query answers which question, how its answer is to be read, and where one goes wrong: docs/cookbook.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warpmeter.cookbook import captures, fleet, hours, jobs, operating

__all__ = ["CHAPTERS", "NAMES", "Chapter"]


@dataclass(frozen=True)
class Chapter:
    """Recipes of one subject: of each named query what its answer means, and its pitfalls."""

    title: str
    recipes: Mapping[str, tuple[str, str]]


CHAPTERS: Final[Sequence[Chapter]] = (
    Chapter("GPU hours and money", hours.RECIPES),
    Chapter("Jobs", jobs.RECIPES),
    Chapter("GPUs that fail or lag", fleet.GPUS),
    Chapter("Hosts", fleet.HOSTS),
    Chapter("Captures and kernels", captures.RECIPES),
    Chapter("Ingest and alerts", operating.RECIPES),
)
NAMES: Final[Sequence[str]] = tuple(name for chapter in CHAPTERS for name in chapter.recipes)
"""All queries of the cookbook, in its order."""
