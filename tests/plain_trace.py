"""A second, plain reader of traces: Python's own JSON, exact decimals, one event at a time. The real one must agree."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final

from warpmeter.analysis.trace import Columns, Trace

KINDS: Final = {
    "kernel": 0, "Kernel": 0, "mtia_ccp_events": 0,
    "gpu_memcpy": 1, "Memcpy": 1, "gpu_memset": 2, "Memset": 2,
}  # fmt: skip
CALLS: Final = ("cuda_runtime", "cuda_driver", "mtia_runtime", "Runtime")
Row = tuple[Any, ...]


def ns(value: Any) -> int:
    """Microseconds to nanoseconds."""
    return int(Decimal(str(value)) * 1000)


def rows(text: bytes) -> dict[str, list[Row]]:
    """Of a sound trace: the rows of each table, unordered, with names in place of indexes."""
    document = json.loads(text, parse_float=Decimal)
    found: dict[str, list[Row]] = {}
    for event in document if isinstance(document, list) else document["traceEvents"]:
        for table, row in _rows(event, event.get("args") or {}):
            found.setdefault(table, []).append(row)
    return found


def _rows(event: Mapping[str, Any], args: Mapping[str, Any]) -> Sequence[tuple[str, Row]]:
    phase, cat, name = event["ph"], event.get("cat", ""), event.get("name", "")
    thread = (str(event.get("pid", "")), str(event.get("tid", "")))
    if phase == "X" and "dur" in event:
        return [
            (table, (ns(event["ts"]), ns(event["dur"]), name, *row)) for table, row in _spans(cat, event, args, thread)
        ]
    if phase == "i" and name == "[memory]":
        keys = ("Addr", "Bytes", "Device Type", "Device Id", "Total Allocated", "Total Reserved")
        return [("allocations", (ns(event["ts"]), thread, *(_int(args, key) for key in keys)))]
    if phase in "sf" and cat == "fwdbwd":
        return [("flows", (ns(event["ts"]), event["id"], thread, phase == "s"))]
    return []


def _spans(cat: str, event: Mapping[str, Any], args: Mapping[str, Any], thread: Row) -> Sequence[tuple[str, Row]]:
    external = _int(args, "External id")
    if cat in KINDS:
        ids = (_int(args, key) for key in ("correlation", "External id", "bytes"))
        occupancy = args.get("est. achieved occupancy %")
        place = (_int(args, "device", event["pid"]), _int(args, "stream", event["tid"]))
        told = args.get("Collective name")
        return [("gpu", (KINDS[cat], *place, *ids, None if occupancy is None else int(occupancy), told, _launch(args)))]
    if cat in CALLS:
        return [("calls", (thread, _int(args, "correlation"), external))]
    if cat == "cpu_op":
        ids = (_int(args, key) for key in ("Sequence number", "Fwd thread id"))
        return [("operators", (thread, external, *ids, _inputs(args), args.get("Collective name")))]
    if cat == "user_annotation":
        return [("annotations", (thread, external, _inputs(args)))]
    if cat == "gpu_user_annotation":
        return [("gpu_annotations", (int(event["pid"]), int(event["tid"])))]
    if cat == "python_function":
        return [("frames", (thread, _int(args, "Python id"), _int(args, "Python parent id")))]
    return []


def _inputs(args: Mapping[str, Any]) -> Row | None:
    keys = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")
    return tuple(str(args.get(key, [])) for key in keys) if any(key in args for key in keys) else None


def _launch(args: Mapping[str, Any]) -> Row | None:
    numbers = (_int(args, "registers per thread"), _int(args, "shared memory"))
    row = (tuple(args.get("grid", ())), tuple(args.get("block", ())), *numbers)
    return None if row == ((), (), -1, -1) else row


def _int(args: Mapping[str, Any], key: str, otherwise: Any = -1) -> int:
    value = args.get(key, otherwise)
    return -1 if value is None else int(value)


def read_rows(trace: Trace) -> dict[str, list[Row]]:
    """The same of a trace that `read` gave, in its order."""
    found = {}
    for table in ("gpu", "calls", "operators", "annotations", "gpu_annotations", "frames", "allocations", "flows"):
        columns: Columns = getattr(trace, table)
        lists = {column.name: _named(trace, column.name, getattr(columns, column.name)) for column in fields(columns)}
        head = [lists.pop(name) for name in ("start", "duration", "name") if name in lists]
        if len(columns):
            found[table] = list(zip(*head, *lists.values(), strict=True))
    return found


def _named(trace: Trace, column: str, values: Any) -> list[Any]:
    if column == "name":
        return [trace.names[index] for index in values]
    if column == "thread":
        return [(trace.threads[index].pid, trace.threads[index].tid) for index in values]
    if column == "occupancy":
        return [None if value != value else round(float(value) * 100) for value in values]
    if column == "collective":
        return [None if index < 0 else trace.collectives[index].name for index in values]
    if column == "launch":
        launches = [None if index < 0 else trace.launches[index] for index in values]
        return [None if one is None else (one.grid, one.block, one.registers, one.shared_bytes) for one in launches]
    if column == "inputs":
        inputs = [None if index < 0 else trace.inputs[index] for index in values]
        return [
            None if one is None else tuple(str(list(part)) for part in (one.dims, one.types, one.concrete, one.strides))
            for one in inputs
        ]
    return list(values.tolist())
