"""Sessions of people who logged in: a cookie that says who and until when, signed, so that nothing is kept here.

The cookie holds the name of a token, not the token. Its key comes of the token as well: who changes or removes a token
ends the sessions that began with it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from warpmeter.clock import Clock, SystemClock
from warpmeter.web.request.access import Caller

COOKIE: Final = "warpmeter_session"


@dataclass(frozen=True)
class Known:
    """A token in force."""

    caller: Caller
    token: str = field(repr=False)


@dataclass(frozen=True)
class Sessions:
    """Makes and reads cookies. `key` signs them; `tokens` are those in force, by name."""

    tokens: Mapping[str, Known] = field(repr=False)
    good_for_s: float
    key: bytes = field(repr=False)
    clock: Clock = field(default_factory=SystemClock)

    def begin(self, name: str) -> str:
        """The cookie of a session that begins now; KeyError when no token has that name."""
        said = f"{int(self.clock.now() + self.good_for_s)}.{name}"
        return f"{said}.{self._signature(self.tokens[name], said)}"

    def read(self, cookie: str) -> Caller | None:
        """Who that is; None for a cookie that is not ours, is over, or whose token is no more."""
        said, _, signature = cookie.rpartition(".")
        until, _, name = said.partition(".")
        known = self.tokens.get(name)
        if known is None or not hmac.compare_digest(self._signature(known, said).encode(), signature.encode()):
            return None
        return known.caller if int(until) > self.clock.now() else None

    def csrf(self, caller: Caller) -> str:
        """What a page of ours sends along with a write, and a page of another site cannot know."""
        return self._mac(b"csrf", caller.key.encode())

    def _signature(self, known: Known, said: str) -> str:
        return self._mac(b"session", hashlib.sha256(known.token.encode()).digest() + said.encode())

    def _mac(self, use: bytes, what: bytes) -> str:
        return hmac.new(self.key, use + b"\0" + what, hashlib.sha256).hexdigest()
