"""Just enough of ClickHouse's lexer to know what a statement is and where its format and its data stand.

Nothing here decides who may do what to a table: the engine does (`access`). What is decided here is what the engine
does *before* any check of rights, in its client half: writing and reading files by `INTO OUTFILE` and
`FROM INFILE`, and several statements in one text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import Final

from warpmeter import lexer
from warpmeter.engine.errors import INTO_OUTFILE_NOT_ALLOWED, SYNTAX_ERROR, refuse
from warpmeter.lexer import Lexeme as Lexeme
from warpmeter.lexer import LexError
from warpmeter.lexer import Token as Token


class Kind(Enum):
    """How a statement is run: `SELECT` streams out, `INSERT` takes data, all else answers at once."""

    SELECT = auto()
    INSERT = auto()
    OTHER = auto()


@dataclass(frozen=True)
class Statement:
    """A statement cut where the endpoint needs it: `head` before `FORMAT`, `tail` its `SETTINGS` that stand apart.

    In a `SELECT` they follow the format's name, in an `INSERT` they stand before `FORMAT`. The head of `OTHER` is the
    whole text; its format is only known, not cut. `tokens` are all of its lexemes, those of an `INSERT` up to its data.
    """

    kind: Kind
    head: bytes
    format: str | None
    tail: bytes = b""
    data: bytes = b""
    tokens: Sequence[Lexeme] = field(default=(), compare=False, repr=False)


_DATA_START: Final = re.compile(rb"[ \t\f]*(?:\r?\n)?")
_STREAMED: Final = ("SELECT", "WITH", "FROM")


def lexemes(text: bytes) -> Iterator[Lexeme]:
    """The tokens of `text` in order, comments left out; lazily, so that data after a statement is never read.

    Raises EngineError (SYNTAX_ERROR) where `warpmeter.lexer` raises LexError.
    """
    try:
        yield from lexer.lexemes(text)
    except LexError as error:
        raise refuse(SYNTAX_ERROR, str(error)) from error


def inserts(text: bytes) -> bool:
    """Whether the first word is `INSERT`. Raises EngineError as `lexemes` does."""
    first = next(lexemes(text), None)
    return first is not None and first.is_word("INSERT")


def parse(text: bytes) -> Statement:
    """Cut one statement; for an `INSERT` with data of its own in the text, `data` is what follows.

    Raises EngineError when there is none, when there are several, or when it reads or writes files.
    """
    found = lexemes(text)
    first = next(found, None)
    if first is None or first.text == ";":
        raise refuse(SYNTAX_ERROR, "Syntax error: Empty query.")
    if first.is_word("INSERT"):
        return _insert(text, first, found)
    tokens = _one_statement([first, *found])
    _no_files(tokens)
    cut = _select(text, tokens)
    if (first.is_word(*_STREAMED) or first.text == "(") and not _writes(tokens):
        return cut
    return Statement(Kind.OTHER, text[: tokens[-1].end], cut.format, tokens=tokens)


def _one_statement(tokens: list[Lexeme]) -> list[Lexeme]:
    while tokens[-1].text == ";" and tokens[-1].token is Token.SYMBOL:
        tokens.pop()
    if any(each.text == ";" and each.token is Token.SYMBOL for each in tokens):
        raise refuse(SYNTAX_ERROR, "Syntax error: Multi-statements are not allowed.")
    return tokens


def _no_files(tokens: list[Lexeme]) -> None:
    for one, two in pairwise(tokens):
        if (one.is_word("INTO") and two.is_word("OUTFILE")) or (one.is_word("FROM") and two.is_word("INFILE")):
            raise refuse(INTO_OUTFILE_NOT_ALLOWED, f"{one.text} {two.text} is not allowed over HTTP.")


def _writes(tokens: list[Lexeme]) -> bool:
    return any(one.is_word("INSERT") and two.is_word("INTO") for one, two in pairwise(tokens))


def _select(text: bytes, tokens: list[Lexeme]) -> Statement:
    for at in range(len(tokens) - 2, 0, -1):
        last = at + 2 == len(tokens)
        if (
            tokens[at].is_word("FORMAT")
            and tokens[at + 1].token is not Token.SYMBOL
            and (last or tokens[at + 2].is_word("SETTINGS"))
        ):
            tail = b"" if last else text[tokens[at + 2].start : tokens[-1].end]
            return Statement(Kind.SELECT, text[: tokens[at - 1].end], tokens[at + 1].text, tail, tokens=tokens)
    return Statement(Kind.SELECT, text[: tokens[-1].end], None, tokens=tokens)


def _insert(text: bytes, first: Lexeme, rest: Iterator[Lexeme]) -> Statement:
    depth = 0
    settings: int | None = None
    tokens = [first]
    for each in rest:
        tokens.append(each)
        depth += {"(": 1, ")": -1}.get(each.text, 0) if each.token is Token.SYMBOL else 0
        past_table = len(tokens) - (3 if tokens[1].is_word("INTO") else 2)
        if depth or past_table < 1 or tokens[-2].text == ".":
            continue
        named = each.token in (Token.WORD, Token.NAME) and past_table > 1 and tokens[-3].text != "."
        if named and tokens[-2].is_word("FORMAT"):
            return _with_data(text, tokens, tokens[:-2], settings, each.text)
        if each.is_word("VALUES"):
            return _with_data(text, tokens, tokens[:-1], settings, "Values")
        if each.is_word("SELECT", "WITH"):
            break
        if each.is_word("SETTINGS"):
            settings = len(tokens) - 1
    tokens = _one_statement([*tokens, *rest])
    _no_files(tokens)
    return Statement(Kind.OTHER, text[: tokens[-1].end], None, tokens=tokens)


def _with_data(text: bytes, tokens: list[Lexeme], kept: list[Lexeme], settings: int | None, name: str) -> Statement:
    _no_files(tokens)
    skipped = _DATA_START.match(text, tokens[-1].end)
    assert skipped is not None
    data = text[skipped.end() :]
    if settings is None:
        return Statement(Kind.INSERT, text[: kept[-1].end], name, data=data, tokens=tokens)
    tail = text[tokens[settings].start : kept[-1].end]
    return Statement(Kind.INSERT, text[: tokens[settings - 1].end], name, tail, data, tokens)
