"""`warpmeter sql` and `warpmeter queries`: ask the store, print what it says in any of its formats."""

import re
import shutil
import sys
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from io import IOBase
from itertools import pairwise
from pathlib import Path
from typing import Final

from warpmeter import queries, store
from warpmeter.cli.common import err, out, print_json, print_table
from warpmeter.lexer import Lexeme, LexError, Token, lexemes
from warpmeter.settings import Settings
from warpmeter.terminal import printable

CHUNK: Final = 1 << 20
TEXT: Final = "PrettyCompactMonoBlock"
READS: Final = re.compile(
    r"(\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|show|desc|describe|explain|exists|from)\b", re.I | re.S
)
OWN_FORMAT: Final = re.compile(r"\bformat\s+\w+\s*$", re.I)


def parameters(pairs: Sequence[str]) -> dict[str, str]:
    """`NAME=VALUE` options as a mapping; raises ValueError for one without '='."""
    for pair in pairs:
        if "=" not in pair:
            raise ValueError(f"--param {pair}: write it as NAME=VALUE; the query reads it as {{NAME:Type}}")
    return dict(pair.split("=", 1) for pair in pairs)


def statement(text: str | None, file: Path | None) -> str:
    """The SQL to run: the argument, the file, or standard input (`-`); raises ValueError when there is none."""
    if file is not None:
        return file.read_text()
    if text == "-":
        text = sys.stdin.read()
    if not text or not text.strip():
        raise ValueError('nothing to run; give a statement, e.g. warpmeter sql "SELECT * FROM gpus", or --file')
    return text


def one(sql: str) -> str:
    """The one statement of a text, without its semicolon.

    Raises ValueError where it is none or several (the engine in this process would run them all, whatever the first one
    is), and where it would write or read a file in the engine's place.
    """
    text = sql.encode()
    try:
        tokens = list(lexemes(text))
    except LexError as error:
        raise ValueError(str(error)) from error
    while tokens and _is_semicolon(tokens[-1]):
        tokens.pop()
    if not tokens:
        raise ValueError("there is no statement")
    if tokens[0].is_word("INSERT"):  # its data may be anything
        return sql.strip().rstrip(";")
    if any(map(_is_semicolon, tokens)):
        raise ValueError("there are several statements: run them one at a time")
    for first, second in pairwise(tokens):
        if first.is_word("INTO") and second.is_word("OUTFILE"):
            raise ValueError("INTO OUTFILE would write where the engine runs: write `… --format CSV > file` instead")
    return text[tokens[0].start : tokens[-1].end].decode()


def _is_semicolon(lexeme: Lexeme) -> bool:
    return lexeme.token is Token.SYMBOL and lexeme.text == ";"


def run(settings: Settings, sql: str, chosen: str | None, values: Mapping[str, str]) -> None:
    """Run one statement and stream its result to stdout.

    `chosen`: a ClickHouse output format; a text table by default. Raises ValueError where it is none or several, and
    ClickHouseError as the store says it.
    """
    text = one(sql)
    client = store.connect(settings.store)
    if not READS.match(text):
        client.command(text, parameters=dict(values) or None)
        return
    own = None if OWN_FORMAT.search(text) and chosen is None else chosen or TEXT
    with client.raw_stream(text, parameters=dict(values) or None, settings=_display(), fmt=own) as stream:
        some = (_told if sys.stdout.isatty() else _copied)(stream)
    if not some:
        err.print("no rows", highlight=False)


def _copied(stream: IOBase) -> bool:
    """To stdout as it is; whether there was anything."""
    first = stream.read(CHUNK)
    sys.stdout.buffer.write(first)
    shutil.copyfileobj(stream, sys.stdout.buffer, CHUNK)
    sys.stdout.buffer.flush()
    return bool(first)


def _told(stream: IOBase) -> bool:
    """To a terminal, which no name in it steers; whether there was anything."""
    text, some = getincrementaldecoder("utf-8")("backslashreplace"), False
    while chunk := stream.read(CHUNK):
        some = True
        sys.stdout.buffer.write(printable(text.decode(chunk), keep="\n\t").encode())
    sys.stdout.buffer.write(text.decode(b"", final=True).encode())
    sys.stdout.buffer.flush()
    return some


def _display() -> dict[str, int]:
    """No colours: they could not be told from those that a name asks for."""
    return {
        "output_format_pretty_color": 0,
        "output_format_pretty_max_rows": 10_000,
        "output_format_pretty_row_numbers": 0,
    }


def list_queries(as_json: bool) -> None:
    """What the named queries answer, and what they take."""
    if as_json:
        print_json(queries.every())
        return
    rows = [(each.name, each.question, " ".join(map(_signature, each.parameters))) for each in queries.every()]
    print_table("", ("query", "answers", "parameters"), rows)


def _signature(parameter: queries.Parameter) -> str:
    return parameter.name if parameter.default is None else f"{parameter.name}={parameter.default}"


def shown(query: queries.Query, given: Mapping[str, str]) -> str:
    """A query as it is run: what it answers, its SQL, and each parameter's value, those that follow from others too.

    Where what it needs is not given, the SQL alone. Raises QueryError for what is given and wrong.
    """
    missing = [each.name for each in query.parameters if each.default is None and each.name not in given]
    asked = queries.Statement(query.sql, {}) if missing else query.statement(given)
    lines = [f"-- param_{name}={value}" for name, value in asked.values.items()]
    return "\n".join([f"-- {query.description}", *lines, asked.sql])


def run_query(settings: Settings, name: str, chosen: str | None, pairs: Sequence[str], show: bool) -> None:
    """Run a named query, or `show` its SQL; raises QueryError, ValueError and ClickHouseError."""
    query = queries.get(name)
    if show:
        out.print(shown(query, parameters(pairs)), markup=False, highlight=False, soft_wrap=True)
        return
    asked = query.statement(parameters(pairs))
    run(settings, asked.sql, chosen, asked.values)
