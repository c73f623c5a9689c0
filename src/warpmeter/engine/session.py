"""The engine and its connections: one connection a request, made and thrown away.

Everything here blocks and is called from worker threads; chDB releases the interpreter lock while it works.
"""

import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import chdb

from warpmeter import tokens
from warpmeter.engine.access import reader_settings, refused_to_readers, write_configuration
from warpmeter.engine.errors import BAD_ARGUMENTS, NOT_ENOUGH_SPACE, EngineError, from_engine, refuse
from warpmeter.engine.lock import StartError
from warpmeter.engine.sqltext import Statement

_SETTING: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Figures:
    """What a query read and wrote, for `X-ClickHouse-Summary`. Rows, bytes, seconds."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    result_bytes: int = 0
    elapsed_s: float = 0.0

    def summary(self) -> str:
        """The JSON of the header; numbers are strings, as ClickHouse sends them."""
        return json.dumps(
            {
                "read_rows": str(self.read_rows),
                "read_bytes": str(self.read_bytes),
                "written_rows": str(self.written_rows),
                "written_bytes": str(self.written_bytes),
                "total_rows_to_read": "0",
                "result_rows": str(self.result_rows),
                "result_bytes": str(self.result_bytes),
                "elapsed_ns": str(int(self.elapsed_s * 1e9)),
            },
            separators=(",", ":"),
        )


@dataclass(frozen=True)
class Call:
    """What a request asks for besides its statement, and whether it may only read.

    `tag` marks the statement's text, so that it can be killed.
    """

    readonly: bool
    tag: str
    database: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)

    def mark(self) -> bytes:
        """The comment that ends the statement's text."""
        return b" /* " + self.tag.encode() + b" */"


def quoted(value: str, quote: str = "'") -> str:
    """A ClickHouse string literal, or with another quote a name."""
    return quote + value.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


class Engine:
    """chDB open on a folder. Safe to use from any thread; close it once, when no call runs."""

    def __init__(self, folder: Path, configuration_folder: Path, database: str) -> None:
        """Open it; `database` is used where a request names none. Raises StartError."""
        self._address = f"{folder}?config-file={write_configuration(configuration_folder)}"
        self._folder = folder
        self._database = database
        self._known = False
        self._as_reader = reader_settings()
        try:
            self._keeper = chdb.connect(self._address)
            found = self._keeper.query("SELECT version(), timezone(), displayName()", "TSV").bytes().decode()
            functions = self._keeper.query("SELECT name FROM system.table_functions", "TSV").bytes().decode()
        except RuntimeError as error:
            raise StartError(f"the engine cannot open {folder}: {from_engine(error)}") from error
        self.version, self.timezone, self.name = found.rstrip("\n").split("\t")
        self.refused_to_readers = refused_to_readers(functions.split())

    def close(self) -> None:
        """Close the engine: what is in memory is written, and the folder is free."""
        self._keeper.close()

    @contextmanager
    def _connection(self, call: Call) -> Iterator[Any]:
        connection, since = chdb.connect(self._address + "&readonly=2" * call.readonly), time.time()
        try:
            if call.readonly:
                connection.query(self._as_reader, "TSV")
            self._enter(connection, call)
            yield connection
        except (RuntimeError, UnicodeDecodeError) as error:  # the latter: its message quotes bytes that are no text
            if not call.readonly:
                tokens.end_if_in_doubt(self._folder, since, "engine")
            raise self._with_room(from_engine(error, call.mark().decode())) from error
        finally:
            connection.close()

    def _with_room(self, error: EngineError) -> EngineError:
        """The engine does not say which disk is full, nor how full."""
        if error.code != NOT_ENOUGH_SPACE:
            return error
        return EngineError(error.code, f"{error.text} {self._room()}")

    def _room(self) -> str:
        return f"{self._folder} has {shutil.disk_usage(self._folder).free >> 20} MiB left: make room"

    @contextmanager
    def room_told(self) -> Iterator[None]:
        """Word what the system says of a full disk as the engine words it. Raises EngineError for it."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise refuse(NOT_ENOUGH_SPACE, f"No space left for temporary data: {self._room()}.") from error

    def _enter(self, connection: Any, call: Call) -> None:
        if call.database:
            connection.query(f"USE {quoted(call.database, '`')}", "TSV")
        else:  # chDB's `default` is an overlay over the file system, on which nobody has rights here
            self._known = self._known or self._exists(connection, self._database)
            connection.query(f"USE {quoted(self._database if self._known else 'system', '`')}", "TSV")
        for name in call.settings:
            if not _SETTING.fullmatch(name):
                raise refuse(BAD_ARGUMENTS, f"{name!r} is no name of a setting.")
        if call.settings:
            changes = ", ".join(f"{name} = {quoted(value)}" for name, value in call.settings.items())
            connection.query(f"SET {changes}", "TSV")

    @staticmethod
    def _exists(connection: Any, database: str) -> bool:
        return bool(connection.query(f"EXISTS DATABASE {quoted(database, '`')}", "TSV").bytes() == b"1\n")

    def select(self, call: Call, statement: Statement, into: int) -> Figures:
        """Run a query and write its result, in the statement's format, to the descriptor of a pipe, which stays open.

        Blocks while the pipe is full, so a slow reader slows the query; a closed pipe ends it. Raises EngineError.
        """
        text = b"%s\nINTO OUTFILE '/proc/self/fd/%d' APPEND FORMAT %s %s%s" % (
            statement.head, into, (statement.format or "TabSeparated").encode(), statement.tail, call.mark(),
        )  # fmt: skip
        with self._connection(call) as connection:
            return _figures(connection.query(text, "Null", params=dict(call.parameters)))

    def run(self, call: Call, statement: Statement, default_format: str) -> tuple[bytes, Figures]:
        """Run any other statement; its result is small and comes back whole. Raises EngineError."""
        with self._connection(call) as connection:
            text = statement.head + b"\n" + call.mark()
            result = connection.query(text, default_format, params=dict(call.parameters))
            return result.bytes() or b"", _figures(result)

    def insert(self, call: Call, statement: Statement, chunks: Iterable[bytes]) -> Figures:
        """Insert `chunks`, bytes in the statement's format, once all have come; nothing is committed unless all are.

        They wait in an unlinked file. Not chDB's own streaming insert: it answers success when a constraint is
        violated or a view throws. Raises EngineError, and whatever `chunks` raises.
        """
        with tempfile.TemporaryFile(dir=self._folder) as body:
            for chunk in chunks:
                body.write(chunk)
            body.flush()
            text = b"%s FROM INFILE '/proc/self/fd/%d' %s FORMAT %s %s" % (
                statement.head, body.fileno(), statement.tail, (statement.format or "Values").encode(), call.mark(),
            )  # fmt: skip
            with self._connection(call) as connection:
                done = connection.query(text, "Null")
        written, size = done.rows_written(), done.bytes_written()
        return Figures(
            written_rows=written, written_bytes=size, elapsed_s=done.elapsed(),
            read_rows=written, read_bytes=size, result_rows=written, result_bytes=size,
        )  # fmt: skip

    def kill(self, tag: str) -> None:
        """Ask the engine to end the query of this tag; returns at once, also when there is none."""
        connection = chdb.connect(self._address)
        try:
            connection.query(f"KILL QUERY WHERE endsWith(query, {quoted(f'/* {tag} */')}) ASYNC", "Null")
        finally:
            connection.close()


def _figures(result: Any) -> Figures:
    return Figures(
        read_rows=result.storage_rows_read(),
        read_bytes=result.storage_bytes_read(),
        written_rows=result.rows_written(),
        written_bytes=result.bytes_written(),
        result_rows=result.rows_read(),
        result_bytes=result.bytes_read(),
        elapsed_s=result.elapsed(),
    )


def pipe(size: int) -> tuple[int, int]:
    """A pipe to read and to write, `size` bytes deep where the system allows it."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    with suppress(PermissionError):  # past the user's share of pipe memory: the pipe is shallower, nothing else
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, size)
    return reading, writing
