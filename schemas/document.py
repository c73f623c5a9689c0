"""Make `docs/metrics.md` from the metric table: `python -m warpmeter.schemas.document` (`make docs`)."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from warpmeter.schemas import compared, equals
from warpmeter.schemas.compared import Place
from warpmeter.schemas.exposed import exposed, otel
from warpmeter.schemas.labels import LABELS
from warpmeter.schemas.metrics import METRICS, SCALES, Metric, of_topic
from warpmeter.schemas.topics import TOPICS, Topic

TARGET: Final = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
INTRODUCTION: Final = """# Metrics

Made by `make docs` from `schemas/metrics.py`; do not edit.

Everything that people read is in SI units under the name in the first column: in the views, and as an `ALIAS` column
beside the stored one in the raw tables. What travels on the bus and lies on disk is the stored column, a whole number
whose scale is in its name. A value that is not known is absent on the bus and `NULL` in the tables, never 0; why it
is not known is in `source_health`.

Kinds: a *gauge* is a value of the instant, a *ratio* lies between 0 and 1, a *rate* is per second over the interval
since the sample before, a *counter* only grows (and starts again when the driver or the host does), *bits* are a set
of flags in one number, which has no mean. Sources stand in the order of preference.

What is marked *kept* is in the windows of minutes and hours too (`gpu_heatmap_1m` and `_1h`, `host_windows_1m` and
`_1h`; of devices in hours alone, `device_windows_1h`), long after the raw rows are gone. The last columns say what the
same metric is called in dynolog, in DCGM and on its exporter's page, and in node exporter, where ours may be made of
it: a rate of its counter, a share of its sum; and its names at the agent's own `/metrics` and in OTLP
([outputs](outputs.md)).
"""


def document() -> str:
    """The whole page."""
    measured = {metric.topic for metric in METRICS}
    parts = [INTRODUCTION, *_scales()]
    for topic in TOPICS.values():
        if topic.name in measured:
            parts += _section(topic, of_topic(topic.name))
    return "\n".join([*parts, *_compared(), *_labels()])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *lines]) + "\n"


def _scales() -> Iterator[str]:
    heads = ("stored suffix", "read as", "factor", "unit")
    yield _table(
        heads,
        (
            (f"`{suffix}`", _code(scale.si_suffix) or "–", f"{scale.factor:.10g}", scale.unit)
            for suffix, scale in SCALES.items()
        ),
    )


def _section(topic: Topic, metrics: Sequence[Metric]) -> Iterator[str]:
    yield f"## {topic.table}\n"
    yield f"Topic `{topic.name}`, message `{topic.message}`: {topic.meaning}.\n"
    rows = [_row(metric) for metric in metrics]
    heads = ("name", "stored column", "unit", "kind", "kept", "meaning", "sources", "dynolog", "DCGM", "node exporter",
             "at /metrics", "OTLP")  # fmt: skip
    told = [at for at in range(len(heads)) if any(row[at] for row in rows)]  # none that is empty
    yield _table([heads[at] for at in told], ([row[at] for at in told] for row in rows))


def _row(metric: Metric) -> tuple[str, ...]:
    of = (metric.topic, metric.column)
    return (
        _code(metric.name),
        _code(metric.column) if metric.column != metric.name else "the same",
        metric.unit,
        metric.kind,
        "yes" if metric.rolled_up else "",
        metric.meaning,
        ", ".join(metric.sources),
        ", ".join(_code(name) for name in equals.dynolog_names(*of)),
        _code(equals.dcgm(*of)),
        _code(equals.node_exporter(*of)),
        _code(exposed(metric).name),
        _otel(metric),
    )


def _otel(metric: Metric) -> str:
    told = otel(metric)
    return ", ".join([_code(told.name), *(f"{key}={value}" for key, value in told.attributes.items())])


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _compared() -> Iterator[str]:
    yield "## Compared\n"
    yield "What dynolog documents (its docs/Metrics.md), and where it stands here:\n"
    yield _table(("dynolog", "column"), _theirs(compared.DYNOLOG_PAGE))
    yield "DCGM's fields that dynolog reads:\n"
    names = compared.DCGM_FIELDS
    yield _table(
        ("field", "dynolog", "column"),
        ((str(number), *row) for number, row in zip(names, _theirs(names.values()), strict=True)),
    )
    yield "What else dynolog logs, or has code to read:\n"
    others = (*compared.DYNOLOG_HOST, *compared.HOST_TIMES, *compared.DYNOLOG_RDMA, *compared.PRIORITY_PAUSES)
    yield _table(("dynolog", "column"), _theirs((*others, "device", "dcgm_error")))
    yield "The eight panels of AIBooster, and the column of the view `hosts` that shows each:\n"
    yield _table(
        ("panel", "column of `hosts`", "made of"),
        (
            (panel, _code(compared.HOST_COLUMNS[panel]), "; ".join(_place(place) for place in places))
            for panel, places in compared.PANELS.items()
        ),
    )


def _theirs(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        yield _code(name.replace("{}", "<device>")), _place(compared.place_of(name))


def _place(place: Place) -> str:
    table = TOPICS[place.topic].table
    name = next((metric.name for metric in of_topic(place.topic) if metric.column == place.field), place.field)
    return f"`{table}.{name}`" + (f" ({place.note})" if place.note else "")


def _labels() -> Iterator[str]:
    yield "## Labels of a job\n"
    yield "The keys of `job_events.labels` and `jobs.labels`; no other is ever sent.\n"
    yield _table(("key", "what it tells"), ((_code(key), meaning) for key, meaning in LABELS.items()))


def main() -> None:
    """Write the page."""
    TARGET.write_text(document())


if __name__ == "__main__":
    main()
