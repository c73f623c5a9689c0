"""A condition on jobs (`where`), before it is part of a statement: it may name columns of the view `jobs` and functions
that only reckon, so that it can ask nothing of the store but what jobs are like.

What cannot be read with certainty is refused: the store never has to be asked what a condition might mean. Where a
token ends is the shared lexer's to say, and of what it reads only the plain is taken: no comment but `--`, no string
but in single quotes, no number with a prefix or a `_`, nothing beyond ASCII outside of strings and comments.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from warpmeter.lexer import Lexeme, LexError, Token, lexemes

VIEW: Final = "jobs"
COLUMNS: Final = frozenset({
    "job_id", "name", "command", "user", "scheduler", "state", "hosts", "hosts_lost", "pids", "gpu_uuids", "gpus",
    "world_size", "started_at", "ended_at", "last_seen_at", "duration_s", "processes", "cpu_cores", "rss_bytes",
    "gpu_memory_bytes", "rss_bytes_max", "cpu_core_seconds", "read_bytes", "written_bytes", "labels", "tree_id",
    "ranks", "account",
})  # fmt: skip
"""Of the view `jobs`; tests/real/test_scheduler_resolving.py holds it against the view."""
FUNCTIONS: Final = frozenset({
    "xor", "equals", "notequals", "less", "lessorequals", "greater", "greaterorequals", "if", "multiif", "coalesce",
    "ifnull", "nullif", "isnull", "isnotnull", "assumenotnull", "greatest", "least", "plus", "minus", "multiply",
    "divide", "intdiv", "modulo", "abs", "negate", "round", "floor", "ceil", "lower", "upper", "lowerutf8",
    "upperutf8", "length", "lengthutf8", "empty", "notempty", "concat", "substring", "left", "right", "trim",
    "trimleft", "trimright", "replace", "replaceall", "replaceone", "replaceregexpone", "replaceregexpall",
    "reverse", "tostring", "startswith", "endswith", "position", "positioncaseinsensitive", "locate", "like",
    "notlike", "ilike", "notilike", "match", "multisearchany", "multimatchany", "extract", "splitbychar",
    "splitbystring", "has", "hasany", "hasall", "indexof", "arrayelement", "arrayexists", "arrayall", "arraycount",
    "arrayfilter", "array", "tuple", "map", "mapcontains", "mapcontainskey", "mapkeys", "mapvalues", "now", "now64",
    "today", "yesterday", "todate", "todatetime", "todatetime64", "tounixtimestamp", "datediff", "addseconds",
    "addminutes", "addhours", "adddays", "addweeks", "subtractseconds", "subtractminutes", "subtracthours",
    "subtractdays", "subtractweeks", "tointervalsecond", "tointervalminute", "tointervalhour", "tointervalday",
    "tointervalweek", "tohour", "tominute", "tosecond", "todayofweek", "todayofmonth", "tomonth", "toyear",
    "tostartofminute", "tostartofhour", "tostartofday", "tostartofweek", "tostartofmonth", "touint8", "touint16",
    "touint32", "touint64", "toint8", "toint16", "toint32", "toint64", "tofloat32", "tofloat64", "touint64orzero",
    "toint64orzero", "tofloat64orzero", "touint64ornull", "toint64ornull", "tofloat64ornull",
})  # fmt: skip
"""Functions of their arguments alone, of no more than they are given; in lower case."""
_UNITS: Final = frozenset({
    "second", "seconds", "minute", "minutes", "hour", "hours", "day", "days", "week", "weeks",
})  # fmt: skip
WORDS: Final = _UNITS | {
    "and", "or", "not", "in", "like", "ilike", "between", "is", "null", "true", "false", "case", "when", "then",
    "else", "end", "interval", "div", "mod",
}  # fmt: skip
_BEGIN: Final = frozenset({"null", "true", "false", "case", "interval"})
_END: Final = _UNITS | {"null", "true", "false", "end"}
"""Words that a value begins with, or ends with."""
_AFTER_NOT: Final = frozenset({"in", "like", "ilike", "between"})
_AFTER_VALUE: Final = _AFTER_NOT | {"and", "or", "is", "div", "mod", "when", "then", "else", "end"}
_ALSO_CALLED: Final = _UNITS | {"not", "and", "or", "mod", "like", "ilike"}
"""Words that are functions as well."""
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
"""What ends a text for some, or cannot be sent."""
_BETWEEN: Final = re.compile(rb"(?:\s++|--[^\n]*+)*+")
_SPELT: Final = {
    Token.STRING: re.compile(rb"'.*", re.DOTALL),
    Token.NAME: re.compile(rb"`\w+`|\"\w+\""),
    Token.WORD: re.compile(rb"[A-Za-z_]\w*|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"),
    Token.SYMBOL: re.compile(rb"->|[<>=!]=|<>|\|\||[][()<>=,.+*%/-]"),
}
_TAKES: Final = ": it takes columns of the view jobs, functions of text, numbers, times and arrays, and after IN values"
_BRACKETS: Final = {"(": ")", "[": "]"}


class _Piece(NamedTuple):
    """A name, word, string or operator, or a number (its `kind` is None), and the byte where it begins."""

    kind: Token | None
    text: str
    at: int

    def is_(self, *symbols: str) -> bool:
        return self.kind is Token.SYMBOL and self.text in symbols

    def among(self, words: AbstractSet[str]) -> bool:
        return self.word in words

    @property
    def word(self) -> str:
        """In lower case, '' where it is none."""
        return self.text.lower() if self.kind is Token.WORD else ""

    @property
    def names(self) -> bool:
        """Whether something is called so: a column, say, or a function."""
        return self.kind is Token.NAME or (self.kind is Token.WORD and not self.among(WORDS))

    @property
    def is_view(self) -> bool:
        return self.names and self.text == VIEW

    @property
    def begins_value(self) -> bool:
        return self.kind in (Token.STRING, None) or self.names or self.among(_BEGIN)

    @property
    def ends_value(self) -> bool:
        return self.kind in (Token.STRING, None) or self.names or self.among(_END) or self.is_(")", "]")


_EDGE: Final = _Piece(Token.SYMBOL, "", 0)


class _Objected(Exception):  # noqa: N818 - what is looked for
    """What is wrong, in words that come before and after the place of it; `at` counts bytes."""

    def __init__(self, before: str, at: int, after: str = "") -> None:
        super().__init__(before, at, after)
        self.before, self.at, self.after = before, at, after


def objection(where: str) -> str:
    """Why a condition cannot be taken, with the place of what is wrong, from 1; '' when it can."""
    text = where.encode(errors="surrogatepass")
    try:
        if odd := _NO_TEXT.search(where):
            raise _unreadable(len(where[: odd.start()].encode()))
        pieces = list(_pieces(text))
        _Reader().read(pieces)
    except _Objected as found:
        at = len(text[: found.at].decode())
        return f"the condition {found.before} its character {at + 1}{found.after or f' on: {_short(where[at:])}'}"
    return "" if pieces else "the condition has nothing in it"


def _pieces(text: bytes) -> Iterator[_Piece]:
    done = 0
    try:
        for each in lexemes(text):
            if each.start >= done:
                _between(text, done, each.start)
                piece, done = _piece(text, each)
                yield piece
            elif each.end > done:  # so what was taken for a number or an operator is none
                raise _unreadable(each.start)
    except LexError as error:
        raise _unreadable(error.at) from error
    _between(text, done, len(text))


def _between(text: bytes, start: int, end: int) -> None:
    """What the lexer passes over: spaces are taken, and comments to the end of their line."""
    if not _BETWEEN.fullmatch(text, start, end):
        raise _unreadable(start)


def _piece(text: bytes, lexeme: Lexeme) -> tuple[_Piece, int]:
    """What begins with this token, and the byte where it ends: a number or an operator may be several."""
    whole = lexeme.token in (Token.STRING, Token.NAME)
    found = _SPELT[lexeme.token].match(text, lexeme.start, lexeme.end if whole else len(text))
    if not found or found.end() < lexeme.end:
        raise _unreadable(lexeme.start)
    kind = None if found.lastgroup == "number" else lexeme.token
    return _Piece(kind, lexeme.text if kind is Token.NAME else found[0].decode(), lexeme.start), found.end()


@dataclass
class _Bracket:
    """One that is open: what closes it, the word before it, whether that or one before it is IN, and what lambdas in it
    call their arguments.
    """

    at: int = 0
    closed_by: str = ""
    after: str = ""
    values: bool = False
    bound: list[str] = field(default_factory=list)


class _Reader:
    """Goes from left to right to the first piece that may not stand where it does, and raises _Objected there."""

    def __init__(self) -> None:
        self._open = [_Bracket()]
        self._bound: Counter[str] = Counter()

    def read(self, pieces: Sequence[_Piece]) -> None:
        """All of them."""
        around = [_EDGE, _EDGE, *pieces, _EDGE, _EDGE]
        for at, piece in enumerate(pieces):
            before, after = around[at + 1], around[at + 3]
            _follows(before, piece)
            self._brackets(before, piece)
            if piece.is_("->"):
                self._bind(before, piece)
            if not _in_place(around[at : at + 5]) and not self._is_unit_asked_for(before, piece, after):
                raise _refused(piece)
            if not self._known(before, piece, after):
                raise _refused(piece)
        if len(self._open) > 1:
            raise _Objected("opens a bracket at", self._open[-1].at, " that it does not close")

    def _brackets(self, before: _Piece, piece: _Piece) -> None:
        if piece.is_(*_BRACKETS):
            self._open.append(_Bracket(piece.at, _BRACKETS[piece.text], before.word, self._of_values(before)))
        elif piece.is_(")", "]"):
            self._unbind()
            if self._open.pop().closed_by != piece.text:
                raise _Objected("closes a bracket at", piece.at, " that it did not open")
        elif piece.is_(","):
            self._unbind()

    def _of_values(self, before: _Piece) -> bool:
        """Whether what comes stands to the right of an IN: a name there would be a table's."""
        return self._open[-1].values or before.word == "in"

    def _bind(self, name: _Piece, arrow: _Piece) -> None:
        """A lambda calls its argument so, until the lambda ends."""
        if name.kind is not Token.WORD or not name.names:
            raise _refused(arrow)
        self._open[-1].bound.append(name.text)
        self._bound[name.text] += 1

    def _unbind(self) -> None:
        self._bound.subtract(self._open[-1].bound)
        self._open[-1].bound.clear()

    def _is_unit_asked_for(self, before: _Piece, piece: _Piece, after: _Piece) -> bool:
        """Whether it is the first argument of dateDiff, which may be a bare word."""
        return piece.among(_UNITS) and self._open[-1].after == "datediff" and before.is_("(") and after.is_(",")

    def _known(self, before: _Piece, piece: _Piece, after: _Piece) -> bool:
        """Whether a name is one that may be asked for, and a dot in one."""
        if piece.is_("."):
            return before.is_view and after.names and after.text in COLUMNS
        if not piece.names:
            return True
        if after.is_("("):
            return piece.text.lower() in FUNCTIONS
        known = piece.text in COLUMNS or self._bound[piece.text] > 0 or (piece.is_view and after.is_("."))
        return (known or after.is_("->")) and not self._of_values(before)


def _follows(before: _Piece, piece: _Piece) -> None:
    """A value after a value would be a name for it, a `*` after none all columns, a bracket after one its arguments."""
    called = piece.is_("(") and before.ends_value and not (before.names or before.among(_UNITS))
    if called or (piece.begins_value and before.ends_value):
        raise _Objected(f"lacks an operator before {_short(piece.text)} at", piece.at, _TAKES)
    if piece.is_("*") and not before.ends_value:
        raise _refused(piece)


def _in_place(around: Sequence[_Piece]) -> bool:
    """Whether a word of WORDS, the third of five pieces, stands where it can be nothing else: elsewhere the store takes
    it for a name.
    """
    earlier, before, piece, after, later = around
    if piece.word == "not" and before.ends_value:
        return after.among(_AFTER_NOT)
    if piece.among(_AFTER_VALUE | _UNITS) and not before.ends_value:
        negated = before.word == "not" and earlier.ends_value and piece.among(_AFTER_NOT)
        called = after.is_("(") and piece.among(_ALSO_CALLED)
        return negated or called or (before.word, piece.word) == ("case", "when")
    if piece.word == "not":
        return after.begins_value or after.is_("(", "[", "-") or after.among(_ALSO_CALLED)
    if piece.word == "case":
        return after.begins_value or after.word == "when"
    if piece.word == "interval":
        return after.kind is Token.STRING or (after.begins_value and later.among(_UNITS))
    if piece.among(_UNITS):
        return earlier.word == "interval"
    return True


def _refused(piece: _Piece) -> _Objected:
    return _Objected(f"may not name {_short(piece.text)} at", piece.at, _TAKES)


def _unreadable(at: int) -> _Objected:
    return _Objected("cannot be read from", at)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
