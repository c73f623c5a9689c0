"""Reading of trace files: `read` one into a `Trace`, `traces_in` for those that a command line means."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from warpmeter.analysis.read.build import build
from warpmeter.analysis.read.files import File, Progress, TraceError, traces_in
from warpmeter.analysis.read.reader import ALONE, Document, Reader, Share, UnsoundError
from warpmeter.analysis.read.second import Second, worthwhile
from warpmeter.analysis.read.tables import Tables
from warpmeter.analysis.read.text import Window
from warpmeter.analysis.trace import Trace

__all__ = ["TraceError", "read", "traces_in"]


def read(path: str, progress: Progress | None = None, *, processes: int | None = None) -> Trace:
    """Decodes one file, a path or a URL that fsspec knows; plain, gzip or zstd by what it begins with.

    `progress(done, total)` is told bytes of the file. What is broken or odd is left out and told in `Trace.notes`;
    `TraceError` is for what cannot be read, holds nothing or is no trace. A long local file is decoded by two processes
    unless `processes` is 1; 2 asks for them whatever the length.
    """
    with _uncollected():
        return _read(path, progress, processes)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without cyclic garbage collection: millions of objects come and go here, and none is in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(path: str, progress: Progress | None, processes: int | None) -> Trace:
    if processes == 2 or (processes is None and worthwhile(path)):
        try:
            with Second(path) as second:
                first, document = _decoded(path, progress, Share(0, 2))
                half = second.tables()
                if half.chunks != first.chunks:  # the file grew, or was another one, in between
                    raise UnsoundError
                return _built(path, [first, half], document)
        except UnsoundError:
            pass  # only from its beginning, by one, can it be told what is whole
    tables, document = _decoded(path, progress, ALONE)
    return _built(path, [tables], document)


def _built(path: str, parts: list[Tables], document: Document) -> Trace:
    if not any(part.events for part in parts) and (document.notes or any(part.odd for part in parts)):
        raise TraceError(f"{path} is not a trace: its list holds no whole event")
    return build(path, parts, document)


def _decoded(path: str, progress: Progress | None, share: Share) -> tuple[Tables, Document]:
    file, tables = File(path, progress), Tables()
    try:
        document = Reader(path, Window(file.blocks()), tables, share).run()
    except TraceError as error:
        if file.damage:
            raise TraceError(f"{error}: {file.damage}") from error
        raise
    finally:
        file.close()
    if file.damage:
        document.notes.append(file.damage)
    return tables, document
