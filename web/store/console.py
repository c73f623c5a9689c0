"""SQL that an operator wrote, against a store that lets it only read, and within limits that it cannot lift.

Three things stand between the text and the store, each for itself: this module takes one statement of a kind that
reads, and none that sets settings; the request runs with `readonly`, where the store has not set that itself; and the
store's user should have no other rights (docs/web.md). The engine that lives in this process knows no readers, so
there is no console on it.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import msgspec

from warpmeter import store
from warpmeter.lexer import Lexeme, LexError, Token, lexemes
from warpmeter.web.store.reads import FORMAT, Reads, TooLongError

BYTE_ORDER_MARK: Final = "\ufeff"
AT_ONCE: Final = 4
"""Statements that run at once: the page must not wait for an operator's."""
READING: Final = ("SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS", "(")
POSITION: Final = re.compile(r"failed at position (\d+).*?\(line (\d+), col (\d+)\)", re.DOTALL)
LIMITS: Final = {159: "web.sql_s", 241: "web.query_memory", 396: "web.sql_bytes"}
"""ClickHouse's codes, and the limit of ours that was reached."""


class StatementError(Exception):
    """A statement cannot be answered; `line` and `column`, from 1, say where, as far as that is known."""

    def __init__(self, why: str, status: int = 400, line: int | None = None, column: int | None = None) -> None:
        super().__init__(why)
        self.why, self.status, self.line, self.column = why, status, line, column


@dataclass(frozen=True)
class Console:
    """Runs one statement for whoever may; at most `AT_ONCE` go on."""

    reads: Reads
    _turns: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))

    def run(self, sql: str, rows: int, form: str, exact: bool = False) -> bytes:
        """What a statement answers in one of ClickHouse's formats, of its rows `rows`. Raises StatementError.

        `exact`: integers of 64 bits as strings.
        """
        statement = checked(sql)
        if store.folder(self.reads.store) is not None or self.reads.store.dsn.startswith("chdb://"):
            raise StatementError("the engine in this process knows no readers: use `warpmeter engine`, or `up`", 403)
        if not self._turns.acquire(blocking=False):
            raise StatementError(f"{AT_ONCE} statements run already: ask again", 429)
        try:
            settings = {**self._bounds(rows), **FORMAT, "output_format_json_quote_64bit_integers": int(exact)}
            settings |= _read_only(self.reads)
            return self.reads.bounded(statement, form, settings, self.reads.limits.sql_bytes, self.reads.limits.sql_s)
        except TooLongError as error:
            raise StatementError(over("web.sql_bytes")) from error
        except store.ClickHouseError as error:
            raise explained(error, statement) from error
        finally:
            self._turns.release()

    def _bounds(self, rows: int) -> dict[str, float]:
        web = self.reads.limits
        return self.reads.within(
            {
                "max_execution_time": web.sql_s,
                "max_memory_usage": web.query_memory,
                "max_result_bytes": web.sql_bytes,
                "limit": rows,
            }
        )


def checked(sql: str) -> str:
    """One statement that reads, without its semicolon. Raises StatementError; the store checks the rest of it."""
    text = sql.removeprefix(BYTE_ORDER_MARK).encode()
    try:
        tokens = list(lexemes(text))
    except LexError as error:
        raise StatementError(str(error)) from error
    while tokens and tokens[-1].text == ";" and tokens[-1].token is Token.SYMBOL:
        tokens.pop()
    if not tokens:
        raise StatementError("there is no statement")
    if tokens[0].token is Token.STRING or tokens[0].text.upper() not in READING:
        raise StatementError(f"the console reads: it takes {', '.join(READING[:-1])}, not {tokens[0].text[:40]}")
    if found := _setting(tokens):
        line, column = _place(sql, len(text[: found.start].decode()) + len(sql) - len(text.decode()))
        why = "no SETTINGS: the console's limits are fixed (web.sql_…); what is called so goes in backquotes"
        raise StatementError(why, line=line, column=column)
    return text[: tokens[-1].end].decode()


def _setting(tokens: Sequence[Lexeme]) -> Lexeme | None:
    """The word SETTINGS where it may begin settings: not as the part of a name, and not what SHOW shows."""
    shown = 2 if len(tokens) > 1 and tokens[1].is_word("CHANGED") else 1
    for at, each in enumerate(tokens):
        if each.is_word("SETTINGS") and not (at == shown and tokens[0].is_word("SHOW")) and not _of_name(tokens, at):
            return each
    return None


def _of_name(tokens: Sequence[Lexeme], at: int) -> bool:
    """A token after a name and a dot, such as `system.settings`; after a number and a dot it is a word of its own."""
    if at < 2 or tokens[at - 1].text != "." or tokens[at - 1].token is not Token.SYMBOL:
        return False
    before = tokens[at - 2]
    return before.token is Token.NAME or (before.token is Token.WORD and not before.text[0].isdigit())


def over(limit: str) -> str:
    """What is said of a statement that reached a limit."""
    return f"stopped: it went over {limit}"


def explained(error: store.ClickHouseError, statement: str) -> StatementError:
    """A store's error as one of the statement, where it is one; else 503."""
    code, said = store.code(error), store.cause(error)
    if code is None:
        return StatementError(store.reason(error), 503)
    if code in LIMITS:
        return StatementError(over(LIMITS[code]))
    found = POSITION.search(said)
    if found is None:
        return StatementError(said)
    if int(found[1]) > len(statement.encode()):
        return StatementError("it ends too early, or has FORMAT or INTO OUTFILE, which the console adds itself")
    line, column = int(found[2]), int(found[3])
    near = statement.splitlines()[line - 1][column - 1 :][:30]
    return StatementError(f"syntax error at line {line}, column {column}: {near}", line=line, column=column)


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


@cache
def _read_only(reads: Reads) -> dict[str, int]:
    """The setting that makes a request read-only and its limits fast, unless the store's user is bound already.

    It comes last among the settings of a request, for it closes the door behind itself.
    """
    sql = "SELECT value FROM system.settings WHERE name = 'readonly'"
    ((value,),) = msgspec.json.decode(reads.whole(sql, {}, "JSONCompact", {}))["data"]
    return {"readonly": 1} if value == "0" else {}
