"""What the collectives of a trace are, by what the profiler, the operators and the kernels' names tell."""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from warpmeter.analysis.job.collectives import Group, Meeting, by_input, by_inputs, meeting
from warpmeter.analysis.links import Links
from warpmeter.analysis.names import is_communication
from warpmeter.analysis.trace import NONE, Booleans, Collective, Inputs, Int32s, Int64s, Kind, Places, Spans, Trace

HOST_COLLECTIVE: Final = re.compile(r"(gloo|mpi|ucc):")
"""Annotations of backends that communicate on the host; `nccl:` ranges only enqueue."""


def communicates(trace: Trace) -> Booleans:
    """Which GPU events communicate."""
    names = np.array([is_communication(name) for name in trace.names], np.bool_)
    return (trace.gpu.kind == Kind.KERNEL) & names[trace.gpu.name] if len(names) else np.zeros(len(trace.gpu), np.bool_)


def named(trace: Trace, spans: Spans, pattern: re.Pattern[str]) -> Booleans:
    """Which spans have a name that begins so."""
    names = np.array([bool(pattern.match(name)) for name in trace.names], np.bool_)
    return names[spans.name] if len(spans) else np.zeros(0, np.bool_)


@dataclass(frozen=True, eq=False)
class Rows:
    """Collectives of one rank in order of start, on the trace's own time; `what` numbers what they are."""

    start: Int64s
    end: Int64s
    what: Int32s


def rows_of(trace: Trace, links: Links, rank: int) -> tuple[Rows, tuple[Meeting, ...]]:
    """The rank's collectives in order of start, and what they are."""
    on_gpu, on_host = _gpu_meetings(trace, links, rank), _host_meetings(trace)
    table: dict[Meeting, int] = {}
    what = [table.setdefault(each, len(table)) for each in (*on_gpu[1], *on_host[1])]
    gpu, host = trace.gpu.take(on_gpu[0]), trace.annotations.take(on_host[0])
    start, end = np.concatenate([gpu.start, host.start]), np.concatenate([gpu.end, host.end])
    of_gpu, of_host = on_gpu[2], on_host[2] + len(on_gpu[1])
    codes = np.array(what, np.int32)[np.concatenate([of_gpu, of_host])] if what else np.zeros(0, np.int32)
    order = np.argsort(start, kind="stable")
    return Rows(start[order], end[order], codes[order]), tuple(table)


Found = tuple[Places, list[Meeting], Places]
"""Which events, the distinct things they may be, and which of these each is."""


def _gpu_meetings(trace: Trace, links: Links, rank: int) -> Found:
    """Collectives on the GPU: what the kernel says of itself, else what the operator that launched it does."""
    places = np.flatnonzero(communicates(trace))
    gpu = trace.gpu.take(places)
    operator = links.operator[places]
    said = _said(trace, links, gpu.collective, operator)
    outer = _outer(trace, links, operator)
    inputs = np.where(outer >= 0, trace.operators.inputs[outer], NONE) if len(trace.operators) else outer
    around = np.where(outer >= 0, trace.operators.name[outer], NONE) if len(trace.operators) else outer
    silent = np.where(said < 0, np.stack([around, gpu.stream, inputs]), 0)
    keys = np.stack([gpu.name, said, *silent], axis=1).astype(np.int64)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    groups = {group.name: group for group in groups_of(trace)}
    found = [_of_kernel(trace, tuple(row), groups, rank) for row in distinct.tolist()]
    return places, found, which.reshape(-1)


def _said(trace: Trace, links: Links, own: Int32s, operator: Places) -> Int64s:
    """The index of what is told of each collective, -1 where nothing is: by itself, its operator, or the one around."""
    said = own.astype(np.int64)
    for _ in range(2):
        lacks = np.flatnonzero((said < 0) & (operator >= 0))
        said[lacks] = trace.operators.collective[operator[lacks]]
        operator = (
            np.where(operator >= 0, links.operator_parent[np.maximum(operator, 0)], NONE)
            if len(trace.operators)
            else operator
        )
    return said


def _outer(trace: Trace, links: Links, operator: Places) -> Places:
    """The operator that launched each, past `record_param_comms` to the one around it; -1 for none."""
    there = np.flatnonzero(operator >= 0)
    outer = operator.copy()
    inner = np.array([text == "record_param_comms" for text in trace.names], np.bool_)
    above = links.operator_parent[operator[there]]
    past = inner[trace.operators.name[operator[there]]] & (above >= 0)
    outer[there[past]] = above[past]
    return outer


def _of_kernel(trace: Trace, row: tuple[int, ...], groups: dict[str, Group], rank: int) -> Meeting:
    kernel, said, outer, stream, inputs = row
    if said >= 0:
        told = trace.collectives[said]
        return meeting(told, _group(told, groups), trace.names[kernel], rank)
    name = trace.names[outer] if outer >= 0 and trace.names[outer].startswith("c10d::") else ""
    told = by_inputs(name, trace.inputs[inputs] if inputs >= 0 else Inputs())
    return meeting(told, Group("", description=f"stream {stream}"), trace.names[kernel], rank)


def _group(told: Collective, groups: dict[str, Group]) -> Group:
    """The group that a collective names, with the ranks that `distributedInfo` lists where it cuts them short."""
    listed = groups.get(told.group_name)
    if listed is not None and listed.size in (0, told.group_size, len(listed.ranks)):
        return listed
    ranks = told.group_ranks if len(told.group_ranks) == told.group_size else ()
    return Group(told.group_name, tuple(sorted(ranks)), told.group_size, told.group_description)


def groups_of(trace: Trace) -> tuple[Group, ...]:
    """The process groups that `distributedInfo` lists."""
    if trace.distributed is None:
        return ()
    return tuple(
        Group(each.name, tuple(sorted(each.ranks)), each.size or len(each.ranks), each.description)
        for each in trace.distributed.groups
    )


def _host_meetings(trace: Trace) -> Found:
    """Collectives of a backend on the host, which tells their inputs at most: not its group."""
    places = np.flatnonzero(named(trace, trace.annotations, HOST_COLLECTIVE))
    keys = np.stack([trace.annotations.name[places], trace.annotations.inputs[places]], axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    return places, [_on_host(trace, *row) for row in distinct.tolist()], which.reshape(-1)


def _on_host(trace: Trace, name: int, inputs: int) -> Meeting:
    backend, _, collective = trace.names[name].partition(":")
    told = by_input(collective, trace.inputs[inputs] if inputs >= 0 else Inputs())
    return meeting(told, Group("", description=backend), "", NONE)
