"""The judge: which messages of a batch go in. It asks the engine, and never keeps a copy of the engine's rules."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from warpmeter.consumers.batch import Batch
from warpmeter.consumers.sink import Away, Broken, Landed, Refused, Result


@dataclass(frozen=True)
class Keep:
    """It goes in."""


@dataclass(frozen=True)
class Reject:
    """It stays out, because of `reason`, and goes to the dead letters."""

    reason: str


Verdict = Keep | Reject
Ask = Callable[[Sequence[bytes]], Result]


def verdicts(payloads: Sequence[bytes], ask: Ask) -> list[Verdict] | Away | Broken:
    """One verdict a payload, by asking about all of them and halving what is refused.

    A payload is kept when the engine takes it together with its neighbours: each was found to be a whole Envelope
    before, so joined ones cannot swallow each other. Asks about 2 log2(n) times a bad payload.
    """
    if not payloads:
        return []
    match ask(payloads):
        case Landed():
            return [Keep()] * len(payloads)
        case Refused(why) if len(payloads) == 1:
            return [Reject(why)]
        case Refused():
            return _halved(payloads, ask)
        case Away() | Broken() as other:
            return other


def _halved(payloads: Sequence[bytes], ask: Ask) -> list[Verdict] | Away | Broken:
    middle = len(payloads) // 2
    left = verdicts(payloads[:middle], ask)
    if not isinstance(left, list):
        return left
    right = verdicts(payloads[middle:], ask)
    return [*left, *right] if isinstance(right, list) else right


def judge(batch: Batch, indexes: Iterable[int], ask: Ask) -> Batch | Away | Broken:
    """The batch with the engine's verdicts on the messages at `indexes`."""
    asked = [index for index in sorted(indexes) if index not in batch.rejects]
    found = verdicts([batch.payloads[index] for index in asked], ask)
    if not isinstance(found, list):
        return found
    return batch.judged(_refused(asked, found))


def _refused(indexes: Sequence[int], found: Sequence[Verdict]) -> Mapping[int, str]:
    refused = {}
    for index, verdict in zip(indexes, found, strict=True):
        match verdict:
            case Reject(reason):
                refused[index] = reason
            case Keep():
                pass
    return refused


class Budget:
    """How many rejects a topic may have: `share` of the last `window` messages. Not thread-safe."""

    def __init__(self, window: int, share: float) -> None:
        self._window = window
        self._allowed = window * share
        self._seen: dict[str, int] = {}
        self._rejected: dict[str, deque[int]] = {}

    def spend(self, topic: str, messages: int, rejected: Iterable[int]) -> str | None:
        """Count `messages` more of `topic`, of which those at places `rejected` (ascending) were refused.

        None, or why the consumer must halt: a schema mistake must not drain a topic into the dead letters.
        """
        start = self._seen.get(topic, 0)
        kept = self._rejected.setdefault(topic, deque())
        self._seen[topic] = start + messages
        for place in rejected:
            kept.append(start + place)
            while kept[0] <= start + place - self._window:
                kept.popleft()
            if len(kept) > self._allowed:
                return (
                    f"{len(kept)} of the last {self._window} messages of {topic} were refused, more than "
                    f"{self._allowed / self._window:.0%}: is its producer of another version than these tables?"
                )
        return None
