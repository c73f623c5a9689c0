"""The tokens of SQL as ClickHouse reads it, for who must know what is a word of it and what stands in quotes."""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, NamedTuple


class LexError(Exception):
    """A text could be read in two ways, or a quote or comment has no end; the message says which and where.

    `at` is the byte where that begins.
    """

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.at = at


class Token(Enum):
    """The classes of tokens that matter here."""

    WORD = auto()
    NAME = auto()
    STRING = auto()
    SYMBOL = auto()


class Lexeme(NamedTuple):
    """One token: `text` is the word as written, or the unquoted name, or the symbol."""

    token: Token
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these keywords (given in upper case)."""
        return self.token is Token.WORD and self.text.upper() in words


# The order matters: a token is the first alternative that matches. What the engine might read in another way than this
# is `odd` or `open`, and refused, so that nothing stands in a string here that is no string there: a comment in a
# comment, `$` after a number, a here-document without an end. Repetitions are possessive, and what has no end ends the
# lexing, so the time is linear in the text. No byte above ASCII means anything outside quotes: the engine takes some
# for spaces and refuses the rest.
_LEXER: Final = re.compile(
    rb"""
    (?P<space>(?:[\s\x00\x0b]|(?!\xe2\x80[\x98\x9c])[\x80-\xff])++
      | --[^\n]*+ | \#[!\ ][^\n]*+ | /\*(?:(?!/\*|\*/).)*+\*/)
  | (?P<odd>\d\w*+\$ | (?<=\.)\w++\$)
  | (?P<word>\w[\w$]*+)
  | (?P<string>'(?:[^'\\]++|\\.|'')*+' | \xe2\x80\x98.*?\xe2\x80\x99 | \$(?P<tag>[A-Za-z_]\w*+|)\$.*?\$(?P=tag)\$)
  | (?P<name>`(?:[^`\\]++|\\.|``)*+` | "(?:[^"\\]++|\\.|"")*+" | \xe2\x80\x9c.*?\xe2\x80\x9d)
  | (?P<open>['"`$]|/\*|\xe2\x80[\x98\x9c])
  | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)", re.DOTALL)


def _unquoted(raw: bytes) -> str:
    inner = raw[3:-3] if raw[:1] == b"\xe2" else raw[1:-1]
    text = inner.decode(errors="replace")
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2].replace("N", ""), text)


def lexemes(text: bytes) -> Iterator[Lexeme]:
    """The tokens of `text` in order, comments left out; lazily, so that data after a statement is never read.

    Raises LexError at a quote or comment without an end, and at what could be read in two ways.
    """
    for found in _LEXER.finditer(text):
        group, (start, end) = found.lastgroup, found.span()
        if group == "space":
            continue
        if group in ("open", "odd"):
            raise LexError(_unreadable(found[0].decode(errors="replace"), start), start)
        if group == "name":
            yield Lexeme(Token.NAME, _unquoted(found[0]), start, end)
        elif group == "word":
            yield Lexeme(Token.WORD, found[0].decode(), start, end)
        elif group == "symbol":
            yield Lexeme(Token.SYMBOL, chr(text[start]), start, end)
        else:
            yield Lexeme(Token.STRING, "", start, end)


def _unreadable(what: str, at: int) -> str:
    if what == "/*":
        return f"Syntax error: the comment at position {at + 1} has no end, or another comment in it."
    why = "put a name with $ in it in backquotes" if what.endswith("$") and what != "$" else "it has no end"
    return f"Syntax error: {what} at position {at + 1}: {why}."
