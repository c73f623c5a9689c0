"""The calling tree as the page carries it: few enough nodes for a browser, the sums unchanged."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from warpmeter.analysis.stacks import KINDS, SMALLER, Stacks

REST: Final = KINDS.index("rest")


@dataclass(frozen=True)
class Flame:
    """Columns for the script: `t` texts, `n` text of each node, `p` its parent (-1), `k` kind, `c` and `g` own ns."""

    t: list[str]
    n: list[int]
    p: list[int]
    k: list[int]
    c: list[int]
    g: list[int]


def flame(stacks: Stacks, most: int) -> Flame:
    """The tree with at most about `most` nodes: small ones become one node of their parent."""
    cpu, gpu = _below(stacks, stacks.cpu_ns), _below(stacks, stacks.gpu_ns)
    whole = max(1, sum(stacks.cpu_ns)), max(1, sum(stacks.gpu_ns))
    share = [max(c / whole[0], g / whole[1]) for c, g in zip(cpu, gpu, strict=True)]
    kept = set(sorted(range(len(share)), key=lambda node: -share[node])[:most])
    made = Flame(list(stacks.names), [], [], [], [], [])
    number, rest = {-1: -1}, dict[int, int]()
    for node, parent in enumerate(stacks.parent):
        if parent not in number:
            continue
        if node in kept:
            own = stacks.cpu_ns[node], stacks.gpu_ns[node]
            number[node] = _add(made, stacks.name[node], number[parent], stacks.kind[node], own)
        elif parent in rest:
            made.c[rest[parent]] += cpu[node]
            made.g[rest[parent]] += gpu[node]
        else:
            rest[parent] = _add(made, _smaller(made), number[parent], REST, (cpu[node], gpu[node]))
    return made


def _smaller(made: Flame) -> int:
    if made.t[-1:] != [SMALLER]:
        made.t.append(SMALLER)
    return len(made.t) - 1


def _add(made: Flame, name: int, parent: int, kind: int, own: tuple[int, int]) -> int:
    for column, value in ((made.n, name), (made.p, parent), (made.k, kind), (made.c, own[0]), (made.g, own[1])):
        column.append(value)
    return len(made.n) - 1


def _below(stacks: Stacks, own: list[int]) -> list[int]:
    """The sum of each node and all below it; children stand behind their parents."""
    sums = list(own)
    for node in range(len(sums) - 1, -1, -1):
        if stacks.parent[node] >= 0:
            sums[stacks.parent[node]] += sums[node]
    return sums


def as_json(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it ends the element or begins a comment."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")
