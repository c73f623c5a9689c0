"""Columns of an answer as pandas types, by ClickHouse's types.

| ClickHouse | pandas |
|---|---|
| UInt8 … Int64 | the same, as numpy's |
| Nullable(UInt8) … | pandas' own `UInt8` …, with `<NA>` |
| Float32, Float64, also Nullable | float, with NaN |
| Bool, Nullable(Bool) | bool, `boolean` |
| LowCardinality(String), Enum; String under a name of `FEW` | category |
| String, also Nullable | `string`, with `<NA>` |
| DateTime, DateTime64 | datetime64 of the frame's time zone |
| Date | datetime64 without a zone: a day is no instant |
| Array, Map, Tuple | Python's lists, dicts, tuples |
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final, Literal

import pandas as pd
from pandas.api.types import pandas_dtype

FEW: Final = frozenset(
    [
        "host",
        "state",
        "status",
        "model",
        "scheduler",
        "severity",
        "rule",
        "mode",
        "user",
        "account",
        "team",
        "partition",
        "agent_version",
        "source",
        "sort",
        "kind",
        "workload",
        "gpu_model",
        "reason",
        "bound",
        "requested_by",
    ]
)
"""Names of columns with few values, whatever type a view or an expression gives them."""
_INTEGER: Final = re.compile(r"U?Int(8|16|32|64)")
_WRAPPED: Final = re.compile(r"(Nullable|LowCardinality)\((.*)\)", re.DOTALL)
_FUNCTION: Final = re.compile(r"SimpleAggregateFunction\(\w+(?:\([^)]*\))?, (.*)\)", re.DOTALL)


@dataclass(frozen=True)
class Column:
    """A column of an answer, with ClickHouse's type."""

    name: str
    type: str

    @property
    def bare(self) -> tuple[str, bool, bool]:
        """The type without its wrappers, whether it is Nullable, and whether LowCardinality."""
        kind, nullable, few = self.type, False, False
        if found := _FUNCTION.fullmatch(kind):
            kind = found[1]
        while found := _WRAPPED.fullmatch(kind):
            nullable, few, kind = nullable or found[1] == "Nullable", few or found[1] == "LowCardinality", found[2]
        return kind, nullable, few

    def typed(self, values: Any, zone: tzinfo) -> "pd.Series[Any]":
        """Values of the column, of a block or of all, as pandas is to have them."""
        kind, nullable, few = self.bare
        found = values if isinstance(values, pd.Series) else pd.Series(values, dtype=_first(kind))
        if kind.startswith("DateTime"):
            return _instants(found, zone, _unit(kind))
        if kind.startswith("Date"):
            return pd.to_datetime(found).dt.as_unit("s")
        wanted = _dtype(kind, nullable, few or self.name in FEW)
        if wanted is None or str(found.dtype) == wanted:
            return found
        as_text = found.astype("string") if wanted == "category" and found.dtype != "category" else found
        return as_text.astype(pandas_dtype(wanted))


def _first(kind: str) -> Any:
    """How plain lists are taken in: objects, so that what is not known makes no float of an integer."""
    return "float64" if kind.startswith("Float") else object


def _dtype(kind: str, nullable: bool, few: bool) -> str | None:
    if _INTEGER.fullmatch(kind):
        return kind if nullable else kind.lower()
    if kind in ("Float32", "Float64"):
        return kind.lower()
    if kind == "Bool":
        return "boolean" if nullable else "bool"
    if kind.startswith("Enum") or (few and kind.startswith(("String", "FixedString"))):
        return "category"
    return "string" if kind.startswith(("String", "FixedString", "UUID")) else None


def _unit(kind: str) -> Literal["s", "ms", "us", "ns"]:
    """Of a DateTime or DateTime64(digits)."""
    digits = int(found[1]) if (found := re.match(r"DateTime64\((\d)", kind)) else 0
    return "s" if digits == 0 else "ms" if digits <= 3 else "us" if digits <= 6 else "ns"


def _instants(found: "pd.Series[Any]", zone: tzinfo, unit: Literal["s", "ms", "us", "ns"]) -> "pd.Series[Any]":
    times = found if pd.api.types.is_datetime64_any_dtype(found.dtype) else pd.to_datetime(found, format="ISO8601")
    aware = times if times.dt.tz is not None else times.dt.tz_localize("UTC")
    return aware.dt.tz_convert(zone).dt.as_unit(unit)


def frame(columns: Sequence[Column], blocks: Sequence[pd.DataFrame], zone: tzinfo) -> pd.DataFrame:
    """One frame of an answer's blocks, whose columns are in the answer's order."""
    if not blocks:
        typed = {at: each.typed([], zone) for at, each in enumerate(columns)}
    else:
        whole = blocks[0].reset_index(drop=True) if len(blocks) == 1 else pd.concat(blocks, ignore_index=True)
        typed = {at: each.typed(whole.iloc[:, at], zone) for at, each in enumerate(columns)}
    found = pd.DataFrame(typed)
    found.columns = pd.Index([each.name for each in columns])
    return found
