"""Make `docs/metrics.md` from the metric table: `python -m warpmeter.schemas.document` (`make docs`)."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from warpmeter.schemas.metrics import METRICS, SCALES, Metric
from warpmeter.schemas.topics import TOPICS, Topic

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
INTRODUCTION: Final = """# Metrics

Made by `make docs` from `schemas/metrics.py`; do not edit.

Everything that people read is in SI units under the name in the first column: in the views, and as an `ALIAS` column
beside the stored one in the raw tables. What travels on the bus and lies on disk is the stored column, a whole number
whose scale is in its name. A value that is not known is absent on the bus and `NULL` in the tables, never 0; why it
is not known is in `source_health`.

Kinds: a *gauge* is a value of the instant, a *ratio* lies between 0 and 1, a *rate* is per second over the interval
since the sample before, a *counter* only grows (and starts again when the driver or the host does). Sources stand in
the order of preference.
"""


def document() -> str:
    """The whole page."""
    measured = {metric.topic for metric in METRICS}
    parts = [INTRODUCTION, *_scales()]
    for topic in TOPICS.values():
        if topic.name in measured:
            parts += _section(topic, [metric for metric in METRICS if metric.topic == topic.name])
    return "\n".join(parts)


def _scales() -> Iterator[str]:
    yield "| stored suffix | read as | factor | unit |\n|---|---|---|---|"
    for suffix, scale in SCALES.items():
        read_as = f"`{scale.si_suffix}`" if scale.si_suffix else "–"
        yield f"| `{suffix}` | {read_as} | {scale.factor:.10g} | {scale.unit} |"
    yield ""


def _section(topic: Topic, metrics: Iterable[Metric]) -> Iterator[str]:
    yield f"## {topic.table}\n"
    yield f"Topic `{topic.name}`, message `{topic.message}`: {topic.meaning}.\n"
    yield "| name | stored column | unit | kind | meaning | sources |\n|---|---|---|---|---|---|"
    for metric in metrics:
        sources = ", ".join(metric.sources)
        stored = f"`{metric.column}`" if metric.column != metric.name else "the same"
        yield f"| `{metric.name}` | {stored} | {metric.unit} | {metric.kind} | {metric.meaning} | {sources} |"
    yield ""


def main() -> None:
    """Write the page."""
    TARGET.write_text(document())


if __name__ == "__main__":
    main()
