"""Which XIDs stand, and what ends them. Pure: events and looks at the GPUs in, rows of `gpu-events` out.

An XID is cleared, with the reason, when
- the GPU was gone and answers again (it was reset, or found its way back to the bus),
- the driver was loaded anew, or the host was started anew (the energy counter begins anew then, and at a reset: so it
  is seen also when it happened while no agent ran),
- and one of the application (see `xids`) also when the processes that were on the GPU have left it: the one at fault
  where it is known.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from warpmeter.producers.gpu.events import Raised
from warpmeter.producers.gpu.xids import OF_APPLICATION

ANSWERS: Final = "the GPU was gone and answers again"
RELOADED: Final = "the driver was loaded anew"
RESTARTED: Final = "the host was started anew"
RESET: Final = "its energy counter began anew: the GPU was reset, or the driver was loaded anew"
LEFT: Final = "its processes have left the GPU"


@dataclass(frozen=True)
class Look:
    """All GPUs at one instant. `loads`: how often the driver was loaded while the agent ran.

    `pids`: processes by the uuid of each GPU and MIG instance that answers, None where they are not known. `gone`:
    uuids. `migs`: uuid of a MIG instance by its GPU's index and its two instances. `energy`: counters by GPU.
    """

    ts: float = 0.0
    loads: int = 0
    pids: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    migs: Mapping[tuple[int, int | None, int | None], str] = field(default_factory=dict)
    energy: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Standing:
    """An XID that has not been cleared. `whole`: uuid of the GPU itself; `pids`: whose end ends it, None: no one's."""

    ts: float
    gpu: int
    uuid: str
    whole: str
    code: int
    pids: frozenset[int] | None
    loads: int
    gone: bool = False
    energy: float = 0.0


@dataclass(frozen=True)
class Cleared:
    """An XID that is over, and why."""

    ts: float
    of: Standing
    why: str


class Book:
    """The XIDs that stand, each GPU's code once."""

    def __init__(self, standing: Iterable[Standing] = ()) -> None:
        self._standing = {(each.uuid, each.code): each for each in standing}
        self.changed = False

    @property
    def standing(self) -> Sequence[Standing]:
        """All of them."""
        return tuple(self._standing.values())

    def raised(self, event: Raised, look: Look, pid: int | None) -> Standing:
        """Takes one in; the same again begins anew with the processes of now. `pid`: of the process at fault."""
        uuid = look.migs.get((event.index, event.gpu_instance, event.compute_instance), event.uuid)
        pids = look.pids.get(uuid) if pid is None else frozenset({pid})
        standing = Standing(
            event.ts,
            event.index,
            uuid,
            event.uuid,
            event.code,
            pids if event.code in OF_APPLICATION else None,
            look.loads,
            event.uuid in look.gone,
            look.energy.get(event.uuid, 0.0),
        )
        self._standing[uuid, event.code] = standing
        self.changed = True
        return standing

    def looked(self, look: Look) -> Iterator[Cleared]:
        """Those that this look ends."""
        for key, each in tuple(self._standing.items()):
            if look.ts <= each.ts:
                continue
            if each.whole in look.gone and not each.gone:
                self._standing[key], self.changed = replace(each, gone=True), True
            elif (why := _over(each, look)) is not None:
                del self._standing[key]
                self.changed = True
                yield Cleared(look.ts, each, why)


def _over(each: Standing, look: Look) -> str | None:
    if each.whole not in look.pids:
        return None
    if look.loads != each.loads:
        return RELOADED
    if each.gone:
        return ANSWERS
    if look.energy.get(each.whole, each.energy) < each.energy:
        return RESET
    there = look.pids.get(each.uuid, frozenset())
    return LEFT if each.pids is not None and there is not None and not each.pids & there else None


def kept(standing: Sequence[Standing]) -> list[dict[str, Any]]:
    """For a file, so that an agent that is started again goes on with them."""
    return [{**asdict(each), "pids": None if each.pids is None else sorted(each.pids)} for each in standing]


def recalled(rows: Iterable[Mapping[str, Any]]) -> list[Standing]:
    """From the file; loads of the driver are counted from 0. Raises KeyError or TypeError when it is no such file."""
    return [
        Standing(**{**row, "pids": None if row["pids"] is None else frozenset(row["pids"]), "loads": 0}) for row in rows
    ]
