"""dynolog's names for what it has too, for `agent.names = "dynolog"`; everything else keeps its own."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from warpmeter.rows import in_si
from warpmeter.schemas import equals
from warpmeter.schemas.compared import HOST_TIMES
from warpmeter.schemas.equals import Alias
from warpmeter.schemas.metrics import Metric, of_topic

UNFIT: Final = re.compile(r"[^A-Za-z0-9_:]")


def dynolog_name(alias: Alias, device: str) -> str:
    """`rx_bytes_eth0`."""
    return alias.name.replace("{}", device)


def at_metrics(alias: Alias, device: str) -> str:
    """The same as Prometheus takes it: what is no letter, digit, '_' or ':' becomes '_'."""
    return UNFIT.sub("_", dynolog_name(alias, device))


def dynolog_value(alias: Alias, metric: Metric, stored: float, period_ms: int) -> float:
    """The stored value as dynolog has it: in its unit, and what it counts per interval over the row's."""
    value = stored * metric.factor * alias.factor
    return round(value * period_ms / 1000 if alias.of_interval else value, 9)


@cache
def aliases(topic: str, kind: str) -> Mapping[str, tuple[Metric, Alias]]:
    """Stored column -> its metric and alias, of a topic and a kind of device ('' for no device).

    Without counters that dynolog shows as their growth, which one row does not tell, and without the CPU's utilization:
    dynolog's has the time waiting for I/O in it (`of_host`).
    """
    found = ((metric, equals.dynolog(topic, metric.column, kind)) for metric in of_topic(topic))
    return {
        metric.column: (metric, alias)
        for metric, alias in found
        if alias is not None and not (alias.of_interval and metric.kind == "counter") and alias.name != "cpu_util"
    }


def of_host(row: Any) -> dict[str, float]:
    """What dynolog says of a host beyond the aliases: `cpu_util`, and milliseconds of all cores in the interval."""
    told = {"cpu_util": 100 - row.cpu_idle_permille / 10} if row.HasField("cpu_idle_permille") else {}
    if row.HasField("cores"):
        for name, place in HOST_TIMES.items():
            if row.HasField(place.field):
                told[name] = getattr(row, place.field) / 1000 * row.cores * row.period_ms
    return {name: round(value, 9) for name, value in told.items()}


def renamed(topic: str, row: Any, known: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a row, those that dynolog has by its name and in its unit, all other measured ones in SI."""
    kind, device = getattr(row, "kind", ""), getattr(row, "device", "")
    theirs = aliases(topic, kind if topic == "device-samples" else "")
    ours = _metrics(topic)
    fields: dict[str, Any] = {}
    for column, value in known:
        if column in theirs and value is not None:
            known_there, alias = theirs[column]
            fields[dynolog_name(alias, device)] = dynolog_value(alias, known_there, value, row.period_ms)
        elif column not in theirs:  # what dynolog could not read it does not log
            metric = ours.get(column)
            fields[metric.name if metric else column] = in_si(metric, column, value)[1]
    return fields | of_host(row) if topic == "host-samples" else fields


@cache
def _metrics(topic: str) -> Mapping[str, Metric]:
    return {metric.column: metric for metric in of_topic(topic)}
