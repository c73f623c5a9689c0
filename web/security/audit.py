"""Who did what: a structured line in this process's log for everything that may change something, and for refusals.

No line has a token, a cookie, or the part of an address behind `?`.
"""

from warpmeter import log
from warpmeter.web.request.access import Caller

_LONGEST = 500


def record(who: Caller, action: str, **what: object) -> None:
    """One line: the caller, who vouches for them, their role, what they did, and to what; long texts are cut."""
    told = {"by": who.kind, **what}
    log.get("web").info("audit", who=who.name, role=who.role, action=action, **{k: _short(v) for k, v in told.items()})


def refused(who: Caller | None, status: int, why: str, **what: object) -> None:
    """One line for what was not allowed."""
    told = {"who": who.name if who else "", "by": who.kind if who else "nobody", **what}
    log.get("web").warning("refused", status=status, why=why, **{k: _short(v) for k, v in told.items()})


def _short(value: object) -> object:
    return value if not isinstance(value, str) or len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
