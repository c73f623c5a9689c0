"""What a request brings: its body, decompressed a piece at a time, and the statement, of a bounded length.

A small body may unpack to any size, so nothing here unpacks more than it is asked for.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from warpmeter.engine import sqltext
from warpmeter.engine.answer import Receive
from warpmeter.engine.compression import Decoder
from warpmeter.engine.errors import QUERY_IS_TOO_LARGE, ClientGoneError, EngineError, refuse
from warpmeter.engine.sqltext import Kind, Lexeme, Statement

Result = TypeVar("Result")

_HEAD: Final = 64 << 10
# One thread, so that the lexemes of one long text at a time are in memory, and the others' share of the interpreter
# stays large.
_LEXING: Final = ThreadPoolExecutor(1, thread_name_prefix="lexer")
_QUICK: Final = 16 << 10  # bytes of text that take less than a millisecond or few to lex


class Body:
    """The request's body as it comes; `gone` when the client left."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._more = True

    async def chunk(self) -> bytes:
        """The next bytes, b"" at the end. Raises ClientGoneError."""
        while self._more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            self._more = message.get("more_body", False)
            if body := message.get("body", b""):
                return bytes(body)
        return b""

    async def head(self, size: int) -> bytes:
        """The first `size` bytes or somewhat more, or all when there are fewer."""
        parts, have = [], 0
        while have < size and (chunk := await self.chunk()):
            parts.append(chunk)
            have += len(chunk)
        return b"".join(parts)

    async def drain(self) -> None:
        """Read the rest and forget it, so that the client hears the answer."""
        while await self.chunk():
            pass

    async def gone(self) -> None:
        """Return when the client leaves; only once the body is read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class PlainBody:
    """A body through its decoder, for as long as the event loop needs its text; `rest` is for a thread."""

    def __init__(self, body: Body, through: Decoder) -> None:
        self._body = body
        self._through = through
        self._pieces: Iterator[bytes] = iter(())
        self.ended = False

    async def upto(self, text: bytes, size: int) -> bytes:
        """`text` and what follows it, until that is `size` bytes or somewhat more, or the body ends."""
        parts, have = [text], len(text)
        while have < size and not self.ended:
            if (piece := next(self._pieces, None)) is None:
                await self._fill()
                continue
            parts.append(piece)
            have += len(piece)
        return b"".join(parts)

    async def _fill(self) -> None:
        if chunk := await self._body.chunk():
            self._pieces = self._through.pieces(chunk)
        else:
            self._through.end()
            self.ended = True

    def rest(self) -> Iterator[bytes]:
        """What has come and was not asked for yet."""
        return self._pieces


@dataclass(frozen=True)
class Rules:
    """What a statement must keep to: its length in bytes, an `INSERT`'s own data not counted, and a check of its words.

    `check` raises EngineError.
    """

    largest: int
    check: Callable[[Sequence[Lexeme]], None]


async def statement_of(query: bytes, body: PlainBody, rules: Rules) -> Statement:
    """The statement, checked: in the address (`query`), in the body, or begun in one and gone on in the other.

    Its lexemes are let go of, as they take a hundred times the memory of the text. Raises EngineError.
    """
    if not query:
        return await _in_the_body(body, rules)
    statement = await unless_quick(len(query), lambda: _parsed(query, rules))
    if statement.kind is Kind.INSERT:
        return statement
    text = await body.upto(query + b"\n", rules.largest + 1)
    return statement if not text[len(query) :].strip() else await unless_quick(len(text), lambda: _parsed(text, rules))


async def _in_the_body(body: PlainBody, rules: Rules) -> Statement:
    head = await body.upto(b"", _HEAD)
    if found := _inserting(head[:_QUICK], rules):  # the usual one, which need not wait for the lexer's thread
        return replace(found, data=found.data + head[_QUICK:])
    if not body.ended:
        if found := await unless_quick(len(head), lambda: _inserting(head, rules)):
            return found
        head = await body.upto(head, rules.largest + 1)
    return await unless_quick(len(head), lambda: _parsed(head, rules))


def _inserting(head: bytes, rules: Rules) -> Statement | None:
    """The `INSERT` that a body begins with, whose data goes on; None when the head is not enough to say so."""
    try:
        if not sqltext.inserts(head):
            return None
        statement = sqltext.parse(head)
    except EngineError:  # the head may end in the middle of a statement; more of it is parsed then
        return None
    return _checked(statement, rules) if statement.kind is Kind.INSERT and statement.data else None


def _parsed(text: bytes, rules: Rules) -> Statement:
    if len(text) <= rules.largest:
        return _checked(sqltext.parse(text), rules)
    statement = _inserting(text, rules)
    if statement is None or len(statement.head) + len(statement.tail) > rules.largest:
        raise refuse(QUERY_IS_TOO_LARGE, f"The statement is longer than {rules.largest} bytes.")
    return statement


def _checked(statement: Statement, rules: Rules) -> Statement:
    rules.check(statement.tokens)
    return replace(statement, tokens=())


async def unless_quick(size: int, work: Callable[[], Result]) -> Result:
    """Do the work on `size` bytes of text: here when it is quick, else in a thread, so that no other request waits."""
    return work() if size <= _QUICK else await asyncio.get_running_loop().run_in_executor(_LEXING, work)
