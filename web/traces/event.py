"""One event of a timeline with what belongs to it: what is around it, what launched it, what it launched, its stack."""

from typing import Any, Final

import msgspec
from pydantic import BaseModel, Field

from warpmeter.web.store.reads import Reads
from warpmeter.web.traces.timelines import Shown

GPU: Final = ("kernel", "memcpy", "memset")


class Placed(BaseModel):
    """An event, and where it is drawn."""

    lane: int
    depth: int
    start_ns: int
    duration_ns: int
    kind: str = Field(examples=["kernel"])
    name: str = Field(examples=["ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn"])


class Told(Placed):
    """All that the store knows of it alone. `thread` is pid/tid; what an event has not is null or empty."""

    device: int | None
    stream: int | None
    thread: str
    thread_name: str
    correlation: int | None
    external: int | None
    sequence: int | None
    arguments: dict[str, Any]


class Launched(BaseModel):
    """What was launched: how many events, the sum of their durations, and the first of them."""

    events: int = 0
    total_ns: int = 0
    first: list[Placed] = []


class Event(BaseModel):
    """`around`: on its lane, the outermost first. `call`: what launched it, `launched_by`: what was open around that.

    `launches`: what it, or the calls within it, launched. `python`: the Python calls that were open, the outermost
    first. `paired`: operators of the same sequence number, forward and backward.
    """

    event: Told
    around: list[Placed]
    call: Placed | None = None
    launched_by: list[Placed] = []
    launches: Launched = Launched()
    python: list[Placed] = []
    paired: list[Placed] = []


def event(reads: Reads, of: Shown, lane: int, start_ns: int, depth: int) -> Event | None:
    """The event that begins there; None where there is none. Raises ClickHouseError."""
    rows = reads.rows("timeline_event", **of.parameters(), lane=lane, start_ns=start_ns, depth=depth)
    at = [row for row in rows if row["start_ns"] == start_ns and row["depth"] == depth]
    if not at:
        return None
    told = _told(at[-1])
    around = [_placed(row) for row in rows if row["depth"] < depth]
    return _Links(reads, of).of(told, around)


class _Links:
    """Finds what belongs to an event."""

    def __init__(self, reads: Reads, of: Shown) -> None:
        self._reads = reads
        self._of = of

    def of(self, told: Told, around: list[Placed]) -> Event:
        if told.kind in GPU:
            return self._on_device(told, around)
        if not told.thread:
            return Event(event=told, around=around)
        return Event(
            event=told,
            around=around,
            launches=self._launches(told),
            python=[] if told.kind == "frame" else self._thread(told.thread, told.start_ns, python=True),
            paired=self._paired(told),
        )

    def _on_device(self, told: Told, around: list[Placed]) -> Event:
        calls = [row for row in self._correlated(told) if row["kind"] == "call"]
        call = next((row for row in reversed(calls) if row["start_ns"] <= told.start_ns), next(iter(calls), None))
        if call is None:
            return Event(event=told, around=around)
        opened = self._thread(call["thread"], call["start_ns"], python=False)
        return Event(
            event=told,
            around=around,
            call=_placed(call),
            launched_by=[each for each in opened if each.depth < call["depth"]],
            python=self._thread(call["thread"], call["start_ns"], python=True),
        )

    def _launches(self, told: Told) -> Launched:
        if told.kind == "call":
            rows = [row for row in self._correlated(told) if row["kind"] in GPU]
            total = sum(row["duration_ns"] for row in rows)
            return Launched(events=len(rows), total_ns=total, first=[_placed(row) for row in rows])
        end = told.start_ns + max(told.duration_ns, 1)
        rows = self._ask("timeline_launched", thread=told.thread, since_ns=told.start_ns, until_ns=end)
        if not rows:
            return Launched()
        return Launched(events=rows[0]["events"], total_ns=rows[0]["total_ns"], first=[_placed(row) for row in rows])

    def _correlated(self, told: Told) -> list[dict[str, Any]]:
        return [] if told.correlation is None else self._ask("timeline_correlated", correlation=told.correlation)

    def _paired(self, told: Told) -> list[Placed]:
        if told.sequence is None:
            return []
        rows = self._ask("timeline_paired", sequence=told.sequence)
        here = (told.lane, told.depth, told.start_ns)
        return [_placed(row) for row in rows if (row["lane"], row["depth"], row["start_ns"]) != here]

    def _thread(self, thread: str, at_ns: int, python: bool) -> list[Placed]:
        rows = self._ask("timeline_thread", thread=thread, at_ns=at_ns, python=int(python))
        return [_placed(row) for row in rows]

    def _ask(self, name: str, **given: object) -> list[dict[str, Any]]:
        return self._reads.rows(name, **self._of.parameters(), **given)


def _placed(row: dict[str, Any]) -> Placed:
    return Placed(**{name: row[name] for name in Placed.model_fields})


def _told(row: dict[str, Any]) -> Told:
    arguments = msgspec.json.decode(row["arguments"]) if row["arguments"] else {}
    return Told(**{**row, "arguments": arguments})
