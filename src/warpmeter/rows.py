"""A decoded row as people and programs read it: its fields in order, by column or by SI name, with or without units."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from warpmeter.quantity import bare_name, quantity
from warpmeter.schemas.metrics import Metric
from warpmeter.terminal import printable_json


def fields(row: Message) -> dict[str, Any]:
    """A row as a dict in the order of its fields; what is not known is None, bytes are base64."""
    return {field.name: _value(row, field) for field in row.DESCRIPTOR.fields}


def _value(row: Message, field: Any) -> Any:
    value = getattr(row, field.name)
    if field.is_repeated:
        return dict(value) if isinstance(value, Mapping) else list(value)
    if field.has_presence and not row.HasField(field.name):
        return None
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def as_json(known: Mapping[str, Any]) -> str:
    """A line of JSON, which has no infinite numbers: as Protobuf's own they are "Infinity", "-Infinity" and "NaN"."""
    try:
        return printable_json(json.dumps(known, ensure_ascii=False, allow_nan=False))
    except ValueError:
        return printable_json(json.dumps(_finite(known), ensure_ascii=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def in_si(metric: Metric | None, name: str, value: Any) -> tuple[str, Any]:
    """A field by the name and value that SQL has: `power_watts`, 700.3."""
    if metric is None or value is None or isinstance(value, bool):
        return name, value
    return metric.name, scaled(value, metric.factor)


def scaled(value: float, factor: float) -> float:
    """A stored value times its scale's factor: whole where that is, else without the tail of binary floats."""
    return int(value * factor) if factor >= 1 else round(value * factor, 9)


def with_unit(metric: Metric | None, name: str, value: Any) -> str:
    """`power=700.3W`."""
    if metric is None or isinstance(value, bool):
        return f"{name}={text(value)}"
    return f"{bare_name(metric)}={quantity(value * metric.factor, metric.unit)}"


def without_unit(metric: Metric | None, name: str, value: Any) -> str:
    """`power_watts=700.3`."""
    name, value = in_si(metric, name, value)
    return f"{name}={text(value)}"


def text(value: Any) -> str:
    """A value on one line; text in quotes where it has spaces or does not print."""
    if isinstance(value, list):
        return ",".join(str(each) for each in value)
    if isinstance(value, dict):
        return ",".join(f"{key}:{each}" for key, each in value.items())
    plain = str(value)
    return json.dumps(plain, ensure_ascii=False) if not plain or " " in plain or not plain.isprintable() else plain
