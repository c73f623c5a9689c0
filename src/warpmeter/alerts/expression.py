"""Expressions of matchers, in RE2's syntax, as Prometheus and Alertmanager take them.

Whoever may silence writes them, and the scheduler matches them. The time that RE2 takes grows with the length of both
alone, where `re` takes years for `(a+)+b` and thirty letters, and holds the whole process meanwhile.
"""

from functools import lru_cache
from typing import Any, Final

import re2

QUIET: Final = re2.Options()
QUIET.log_errors = False


class ExpressionError(Exception):
    """It is none; the message says why."""


@lru_cache(512)
def compiled(expression: str) -> Any:
    """RE2's pattern; raises ExpressionError."""
    try:
        return re2.compile(expression, QUIET)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise ExpressionError(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from error
    except UnicodeEncodeError as error:
        raise ExpressionError("it has a character that is none") from error


def fits(expression: str, value: str) -> bool:
    """Whether it matches the whole value; raises ExpressionError."""
    return compiled(expression).fullmatch(value) is not None
