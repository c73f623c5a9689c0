"""What is asked: a statement that reads, with the values of its parameters as ClickHouse takes them."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any, Final

from warpmeter.lexer import Lexeme, LexError, Token, lexemes
from warpmeter.queries import Statement

READING: Final = ("SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "FROM", "(")
USE: Final = re.compile(r"\{(\w+):\s*([^{}]+?)\s*\}")
"""A parameter in SQL: its name and ClickHouse's type."""
_AGO: Final = re.compile(r"-(\d+(?:\.\d+)?)([smhdw])")
_STEP: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class AskError(Exception):
    """It cannot be answered; the message says what is wrong with what, and what to do."""


def statement(sql: str, given: Mapping[str, Any], zone: tzinfo) -> Statement:
    """One statement that reads, and its parameters. Raises AskError.

    Times are datetimes, pandas' Timestamps, dates, or text as people say it (`-24h`, `now`, ISO); without an offset
    they are of `zone`.
    """
    types = dict(USE.findall(sql))
    if missing := [name for name in types if name not in given]:
        raise AskError(f"the statement has {{{missing[0]}:{types[missing[0]]}}}: give {missing[0]}=…")
    if unknown := [name for name in given if name not in types]:
        used = ", ".join(types) or "none"
        raise AskError(
            f"the statement has no parameter {unknown[0]}; it has {used} (they are written as {{name:Type}})"
        )
    return Statement(reading(sql), {name: value(name, types[name], given[name], zone) for name in types})


def reading(sql: str) -> str:
    """The statement without its semicolon; raises AskError where it is none, several, or does not only read."""
    text = sql.encode()
    try:
        tokens = list(lexemes(text))
    except LexError as error:
        raise AskError(str(error)) from error
    while tokens and _symbol(tokens[-1], ";"):
        tokens.pop()
    if not tokens or tokens[0].token is Token.STRING or tokens[0].text.upper() not in READING:
        first = tokens[0].text[:40] if tokens else "nothing"
        raise AskError(f"frames are of statements that read ({', '.join(READING[:7])}), not of {first}")
    if any(_symbol(each, ";") for each in tokens):
        raise AskError("there are several statements: give one at a time")
    if any(each.is_word("INTO") and after.is_word("OUTFILE") for each, after in pairwise(tokens)):
        raise AskError("INTO OUTFILE writes a file where the engine runs: take the frame, and write that")
    if len(tokens) > 1 and tokens[-2].is_word("FORMAT"):
        raise AskError("a frame has no FORMAT: leave it out")
    return text[: tokens[-1].end].decode()


def _symbol(lexeme: Lexeme, text: str) -> bool:
    return lexeme.token is Token.SYMBOL and lexeme.text == text


def value(name: str, kind: str, given: Any, zone: tzinfo) -> Any:
    """A parameter's value as ClickHouse takes it for a type; raises AskError."""
    if given is None:
        if kind.startswith("Nullable("):
            return None
        raise AskError(f"{name} is None, which {kind} cannot be: leave the condition out, or write Nullable({kind})")
    bare = kind.removeprefix("Nullable(")
    if bare.startswith("DateTime"):
        stamp = moment(given, zone).timestamp()
        return f"{stamp:.6f}" if bare.startswith("DateTime64") else str(int(stamp))
    if bare.startswith("Date"):
        return given.isoformat() if type(given) is date else moment(given, zone).astimezone(zone).date().isoformat()
    if isinstance(given, bool):
        return str(int(given)) if bare != "Bool" else str(given).lower()
    if isinstance(given, Sequence) and not isinstance(given, str):
        return list(given)
    return given if isinstance(given, str | Mapping) else str(given)


def moment(said: Any, zone: tzinfo) -> datetime:
    """A time as people say it, a datetime, Timestamp or date; without an offset of `zone`. Raises AskError."""
    try:
        return _moment(said, zone)
    except (OverflowError, ValueError) as error:  # NaN, infinity, a million days
        raise AskError(f"{said!r} is no time: {error}") from None


def _moment(said: Any, zone: tzinfo) -> datetime:
    if isinstance(said, str):
        return _spoken(said, zone)
    if isinstance(said, timedelta):
        return datetime.now(UTC) - abs(said)
    if isinstance(said, date) and not isinstance(said, datetime):
        return datetime(said.year, said.month, said.day, tzinfo=zone)
    if isinstance(said, int | float) and not isinstance(said, bool):
        return datetime.fromtimestamp(said, UTC)
    found = said.to_pydatetime(warn=False) if hasattr(said, "to_pydatetime") else said
    if not isinstance(found, datetime) or found != found:  # NaT is a datetime, and equals nothing
        raise AskError(f"{said!r} is no time: give a datetime, or text such as '-24h' or '2026-01-31 12:00'")
    return found if found.tzinfo else found.replace(tzinfo=zone)


def _spoken(said: str, zone: tzinfo) -> datetime:
    if said == "now":
        return datetime.now(UTC)
    if ago := _AGO.fullmatch(said):
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: float(ago[1])})
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        raise AskError(f"{said!r} is no time: write now, -24h, or 2026-01-31 12:00:00") from None
    return found if found.tzinfo else found.replace(tzinfo=zone)


def seconds(step: Any) -> int:
    """A step in whole seconds: a number of them, a timedelta, or `15m`. Raises AskError."""
    if isinstance(step, str) and (told := _STEP.fullmatch(step)):
        step = timedelta(**{_UNITS[told[2]]: float(told[1])})
    length = step.total_seconds() if isinstance(step, timedelta) else step
    if (
        isinstance(length, bool)
        or not isinstance(length, int | float)
        or not 1 <= length < 1e10
        or length != int(length)
    ):
        raise AskError(f"{step!r} is no step: give whole seconds (300), a timedelta, or '15m'")
    return int(length)


def inlined(asked: Statement) -> str:
    """The statement with its values written into it, for what takes none beside it."""
    return USE.sub(lambda use: _literal(use[2], asked.values[use[1]]), asked.sql)


def _literal(kind: str, given: Any) -> str:
    if kind == "Identifier":
        return f"`{_escaped(str(given), '`')}`"
    if given is None:
        return f"CAST(NULL, {_quoted(kind)})"
    if isinstance(given, list):
        inner = ", ".join(_quoted(each) if isinstance(each, str) else str(each) for each in given)
        return f"CAST([{inner}], {_quoted(kind)})"
    return f"CAST({_quoted(str(given))}, {_quoted(kind)})"


def _quoted(text: str) -> str:
    return f"'{_escaped(text, chr(39))}'"


def _escaped(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, f"\\{quote}")
