"""Reading of trace files: `read` one into a `Trace`, `traces_in` for those that a command line means."""

from warpmeter.analysis.read.build import build
from warpmeter.analysis.read.files import File, Progress, TraceError, traces_in
from warpmeter.analysis.read.reader import Reader
from warpmeter.analysis.read.tables import Tables
from warpmeter.analysis.read.text import Window
from warpmeter.analysis.trace import Trace

__all__ = ["TraceError", "read", "traces_in"]


def read(path: str, progress: Progress | None = None) -> Trace:
    """Decodes one file, a path or a URL that fsspec knows; plain, gzip or zstd by what it begins with.

    `progress(done, total)` is told bytes of the file. What is broken or odd is left out and told in `Trace.notes`;
    `TraceError` is for what cannot be read, holds nothing or is no trace.
    """
    file = File(path, progress)
    try:
        tables = Tables()
        document = Reader(path, Window(file.blocks()), tables).run()
        if file.damage:
            document.notes.append(file.damage)
        return build(path, [tables], document)
    finally:
        file.close()
