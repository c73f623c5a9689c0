"""What people say of alerts, as messages of the topic `alert-words`: silences, and that one is taken care of.

Words are heard in any order and may come twice: of one subject the latest by its time holds.
"""

import math
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from warpmeter.alerts.alert import Alert
from warpmeter.alerts.expression import ExpressionError, compiled, fits
from warpmeter.schemas.generated.alert_words_pb2 import Envelope

Word = Envelope.AlertWord
SILENCING: Final = ("silence", "unsilence")
CARING: Final = ("acknowledge", "unacknowledge")
ACTIONS: Final = (*SILENCING, *CARING)
LONGEST_S: Final = 366 * 86_400.0
"""Of a silence: what is to be silent for ever is a rule to be switched off."""
KEPT: Final = (1_577_836_800.0, 4_102_444_800.0)
"""The times that the store takes: 2020 to 2100."""
EXPRESSION: Final = "~"
"""Before the expression of a matcher, which must match the whole value."""
MATCHERS: Final = 20
LONGEST_TEXT: Final = 2000


class _Labelled(Protocol):
    @property
    def rule(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Silence:
    """Alerts that all `matchers` match are not told to receivers from `starts_at` until `ends_at`."""

    silence_id: str
    matchers: Mapping[str, str]
    starts_at: float
    ends_at: float
    said_by: str = ""
    comment: str = ""

    def active(self, now: float) -> bool:
        """Whether it holds at `now`."""
        return self.starts_at <= now < self.ends_at

    def matches(self, alert: _Labelled) -> bool:
        """Whether it is about that alert."""
        return matches(self.matchers, alert)


def matches(matchers: Mapping[str, str], alert: _Labelled) -> bool:
    """Whether all matchers, and one at least, fit an alert: `rule`, `severity` or a label, and its exact value, or `~`
    and an expression. A label that it does not have is empty. An expression that is none fits nothing.
    """
    known = {**alert.labels, "rule": alert.rule, "severity": alert.severity}
    return bool(matchers) and all(_fits(wanted, known.get(name, "")) for name, wanted in matchers.items())


def _fits(wanted: str, value: str) -> bool:
    if not wanted.startswith(EXPRESSION):
        return wanted == value
    try:
        return fits(wanted[1:], value)
    except ExpressionError:
        return False


def silence(
    matchers: Mapping[str, str], ends_at: float, said_by: str, comment: str = "", starts_at: float | None = None
) -> Word:
    """A new silence, from now on unless `starts_at` says otherwise; its id sorts as silences are made."""
    now = math.floor(time.time() * 1000) / 1000  # rounded up, it would begin a moment later
    name = f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    begins = now if starts_at is None else starts_at
    return Word(
        subject=name, ts=now, action="silence", said_by=said_by, matchers=dict(matchers),
        starts_at=round(begins, 3), ends_at=round(ends_at, 3), comment=comment,
    )  # fmt: skip


def say(action: str, subject: str, said_by: str, comment: str = "") -> Word:
    """`unsilence` of a silence's id; `acknowledge` or `unacknowledge` of an alert's."""
    return Word(subject=subject, ts=round(time.time(), 3), action=action, said_by=said_by, comment=comment)


def objection(word: Word) -> str:
    """Why a word cannot be said, '' when it can."""
    if word.action not in ACTIONS:
        return f"{word.action!r} is no word: {', '.join(ACTIONS)}"
    if not word.subject:
        return "say of which " + ("silence" if word.action in SILENCING else "alert") + ", by its id"
    if len(word.comment) > LONGEST_TEXT:
        return f"a comment has at most {LONGEST_TEXT} characters"
    return _unsilent(word) if word.action == "silence" else ""


def _unsilent(word: Word) -> str:
    if not word.matchers:
        return "a silence needs a matcher, as rule=gpu-hot or host=~gpu-00.*: one without would silence everything"
    if len(word.matchers) > MATCHERS:
        return f"a silence has at most {MATCHERS} matchers"
    for name, wanted in word.matchers.items():
        if why := unmatchable(name, wanted):
            return why
    if not word.HasField("ends_at") or not math.isfinite(word.ends_at):
        return "say when the silence ends"
    if (word.HasField("starts_at") and word.starts_at < KEPT[0]) or word.ends_at >= KEPT[1]:
        return "a silence begins after 2020 and ends before 2100: the store takes no other times"
    if word.ends_at <= max(word.starts_at, word.ts):
        return "the silence ends before it begins"
    if word.ends_at - max(word.starts_at, word.ts) > LONGEST_S:
        return "a silence lasts a year at most; a rule that is never to be heard is switched off in [[alerts.rules]]"
    return ""


def unmatchable(name: str, wanted: str) -> str:
    """Why a matcher cannot be used, '' when it can."""
    if not name or len(wanted) > LONGEST_TEXT:
        return "a matcher is a label's name and its value, or ~ and an expression"
    try:
        f"{name}{wanted}".encode()
    except UnicodeEncodeError:
        return f"a matcher has a character that is none: {name!r} = {wanted!r}"
    if wanted.startswith(EXPRESSION):
        try:
            compiled(wanted[1:])
        except ExpressionError as error:
            return f"{name}: {wanted[1:]!r} is no expression: {error}"
    return ""


class Words:
    """All that was said, by subject; `hear` each word, in any order."""

    def __init__(self) -> None:
        self._silences: dict[str, Word] = {}
        self._care: dict[str, Word] = {}

    def hear(self, word: Word) -> bool:
        """Take a word; whether it is news. One that cannot be meant is passed over."""
        if objection(word):
            return False
        kept = self._silences if word.action in SILENCING else self._care
        before = kept.get(word.subject)
        if before is not None and (before.ts, before.action) >= (word.ts, word.action):
            return False
        if word.action == "unsilence" and before is not None:
            ended = Word()
            ended.CopyFrom(before)
            ended.ts, ended.action = word.ts, word.action
            word = ended
        kept[word.subject] = word
        return True

    def silences(self, now: float) -> Iterator[Silence]:
        """Those that hold at `now`."""
        for word in self._silences.values():
            if word.action == "silence" and (found := as_silence(word)).active(now):
                yield found

    def silencing(self, alert: Alert, now: float) -> str:
        """The id of a silence that holds now and is about the alert, '' where there is none."""
        return next((each.silence_id for each in self.silences(now) if each.matches(alert)), "")

    def carer(self, alert_id: str) -> str:
        """Who takes care of an alert, '' when nobody does."""
        word = self._care.get(alert_id)
        return word.said_by or "somebody" if word is not None and word.action == "acknowledge" else ""


def as_silence(word: Word) -> Silence:
    """The silence that a word sets."""
    return Silence(
        word.subject, dict(word.matchers), word.starts_at if word.HasField("starts_at") else word.ts, word.ends_at,
        word.said_by, word.comment,
    )  # fmt: skip
