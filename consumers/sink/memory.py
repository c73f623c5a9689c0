"""The sink's twin in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from warpmeter.consumers.batch import Batch
from warpmeter.consumers.sink import Away, Broken, Landed, Refused, Result
from warpmeter.consumers.span import Span

Rule = Callable[[bytes], str | None]


@dataclass
class MemorySink:
    """The twin: counts rows by token, drops a token it has seen, refuses payloads that `rule` objects to.

    `next_results` are handed out before anything else, one a call (an outage, a lost reply); `Landed` among them is a
    normal call. `lose_reply` lands and answers Away, as a cut connection does. `unready` is what `ready` answers.
    """

    rule: Rule = lambda _: None
    rows: dict[Span, tuple[bytes, ...]] = field(default_factory=dict)
    next_results: list[Result] = field(default_factory=list)
    lose_reply: bool = False
    unready: Away | Broken | None = None

    def insert(self, batch: Batch) -> Result:
        if self.next_results and not isinstance(result := self.next_results.pop(0), Landed):
            return result
        kept = [batch.payloads[index] for index in batch.kept]
        refused = self.ask(batch.span.topic, kept)
        if not isinstance(refused, Landed):
            return refused
        self.rows.setdefault(batch.span, tuple(kept))
        if self.lose_reply:
            self.lose_reply = False
            return Away("the connection was cut before the reply")
        return Landed()

    def ask(self, topic: str, payloads: Sequence[bytes]) -> Result:
        why = next((why for payload in payloads if (why := self.rule(payload))), None)
        return Landed() if why is None else Refused(f"{topic}: {why}")

    def ready(self) -> Away | Broken | None:
        return self.unready

    def last(self, topic: str, uuid: str) -> Mapping[int, int] | Away | Broken:
        lasts: dict[int, int] = {}
        for span in self.rows:
            if (span.topic, span.uuid) == (topic, uuid):
                lasts[span.partition] = max(span.last, lasts.get(span.partition, -1))
        return lasts

    def landed(self, span: Span) -> bool | Away | Broken:
        return span in self.rows

    def inserts_since(self, at: float) -> int | Away | Broken:  # noqa: ARG002
        return len(self.rows)

    @property
    def stored(self) -> list[bytes]:
        """All payloads in the table, by span."""
        spans = sorted(self.rows, key=lambda span: (span.topic, span.uuid, span.partition, span.first))
        return [payload for span in spans for payload in self.rows[span]]
