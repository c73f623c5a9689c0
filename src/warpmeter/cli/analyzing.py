"""`warpmeter analyze`: from files to a document, with a bar while it works; how it is printed is in `reporting`."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from warpmeter.analysis.capture import Document, Keep, Wanted, capture, compared, may_be_wanted
from warpmeter.analysis.read import TraceError, traces_in
from warpmeter.analysis.report import Options
from warpmeter.analysis.selection import Numbers, numbers
from warpmeter.analysis.words import percent, size
from warpmeter.cli import common, csvs, reporting
from warpmeter.terminal import printable

if TYPE_CHECKING:
    from warpmeter.loading import Target

Told = Callable[[int, int, int], None]
QUIET_S: Final = 10.0
"""Where no terminal is, so often at most a line."""


class AnalyzeError(Exception):
    """Why there is nothing to show, and what to do."""

    def __init__(self, message: str, exit_status: int = 1) -> None:
        super().__init__(message)
        self.exit_status = exit_status


@dataclass(frozen=True)
class Wish:
    """What the command was asked for."""

    files: Sequence[str]
    as_json: bool = False
    csv: Path | None = None
    html: Path | None = None
    step: str | None = None
    ranks: str | None = None
    diff: str | None = None
    device: str | None = None
    top: int = 10
    load: "Target | None" = None


def run(wish: Wish) -> int:
    """Analyse and show; the exit status: 1 where a file could not be analysed. Raises AnalyzeError."""
    wanted = Wanted(_numbers("--ranks", wish.ranks), Options(_numbers("--step", wish.step), wish.device))
    document = _captured(wish.files, wanted) if wish.load is None else _loaded(wish, wish.load, wanted)
    if wish.diff is not None:
        document = compared(_captured([wish.diff], wanted), document)
    _show(wish, document)
    return int(bool(document.failed))


def _numbers(option: str, text: str | None) -> Numbers | None:
    try:
        return None if text is None else numbers(text)
    except ValueError as error:
        raise AnalyzeError(f"{option} {error}", 2) from None


def _loaded(wish: Wish, target: "Target", wanted: Wanted) -> Document:
    """The same, and into the store. Raises what `loading` raises, too."""
    from warpmeter.loading import Loading, said

    if wish.step is not None:
        raise AnalyzeError("--load takes traces as they are: leave --step away", 2)
    with Loading(target) as loading:
        document = _captured(wish.files, wanted, loading.keep)
        landed = loading.load(document.findings, wish.files)
    common.err.print(said(landed), markup=False, highlight=False, soft_wrap=True)
    return document


def _captured(patterns: Sequence[str], wanted: Wanted, keep: Keep | None = None) -> Document:
    """What the patterns' files hold; raises AnalyzeError where that is nothing at all."""
    try:
        files = traces_in(patterns)
    except TraceError as error:
        raise AnalyzeError(str(error)) from None
    if not files:
        raise AnalyzeError(f"no trace (.json, .json.gz, .json.zst) in {' '.join(patterns)}")
    named = [file for file in files if may_be_wanted(file, wanted.ranks)]
    with _bar(named) as told:
        found = capture(named, wanted, told, keep)
    for each in found.failed:
        _tell_failed(each.why)
    if not found.ranks:
        if found.failed:
            raise typer.Exit(1)
        raise AnalyzeError(f"none of {len(files)} traces is of rank {wanted.ranks}")
    return found


def _tell_failed(why: str) -> None:
    common.err.print("[bold red]warpmeter:[/] ", end="")
    _tell(why)


@contextmanager
def _bar(files: Sequence[str]) -> Iterator[Told | None]:
    """A bar on a terminal; elsewhere, as in a job's log, a line every `QUIET_S`."""
    if not common.err.is_terminal:
        yield Lines(files).told
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=common.err, transient=True) as progress:
        yield Bars(progress, files).told


class Progressed:
    """Bytes read of some files."""

    def __init__(self, files: Sequence[str]) -> None:
        self._sizes = [_size(file) for file in files]
        self._done = [0] * len(files)

    def told(self, index: int, done: int, whole: int) -> None:
        """So many bytes of a file are read."""
        self._sizes[index], self._done[index] = whole, done

    @property
    def done(self) -> int:
        """Bytes read."""
        return sum(self._done)

    @property
    def whole(self) -> int:
        """Bytes in all, as far as they are known."""
        return sum(self._sizes)

    @property
    def what(self) -> str:
        """What is going on, in words."""
        read = sum(done >= size > 0 for done, size in zip(self._done, self._sizes, strict=True))
        if read == len(self._sizes):
            return "analysing"
        return f"read {read} of {len(self._sizes)} traces" if len(self._sizes) > 1 else "reading"


class Lines(Progressed):
    """A line on stderr now and then."""

    def __init__(self, files: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(files)
        self._clock, self._last = clock, clock()

    def told(self, index: int, done: int, whole: int) -> None:
        """So many bytes of a file are read."""
        super().told(index, done, whole)
        if self._clock() - self._last >= QUIET_S:
            self._last = self._clock()
            share = f", {percent(self.done / self.whole)} of {size(self.whole)}" if self.whole else ""
            common.err.print(f"{self.what}{share}", highlight=False, soft_wrap=True)


class Bars(Progressed):
    """One bar for all bytes; the description tells how many files are read."""

    def __init__(self, progress: Progress, files: Sequence[str]) -> None:
        super().__init__(files)
        self._progress = progress
        self._task: TaskID = progress.add_task(self.what, total=self.whole or None)

    def told(self, index: int, done: int, whole: int) -> None:
        """So many bytes of a file are read."""
        super().told(index, done, whole)
        self._progress.update(self._task, completed=self.done, total=self.whole, description=self.what)


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0


def _show(wish: Wish, document: Document) -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # µ where only ASCII can be shown
    if wish.csv is not None:
        written = _written(wish.csv, document)
        _tell(f"wrote {len(written)} files into {wish.csv}")
    if wish.html is not None:
        _page(wish.html, document)
    try:
        _print(wish, document)
    except BrokenPipeError:  # `| head` has seen enough
        raise
    except OSError as error:
        raise AnalyzeError(f"what was found cannot be printed: {error.strerror}") from error
    for rank in document.ranks if wish.as_json or wish.csv or wish.html else ():
        for note in rank.notes:
            _tell(f"! {rank.file}: {note}")


def _tell(text: str) -> None:
    """A line on stderr: what files are called is neither markup nor steers a terminal."""
    common.err.print(printable(text, keep=""), markup=False, highlight=False, soft_wrap=True)


def _print(wish: Wish, document: Document) -> None:
    if wish.as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
        sys.stdout.buffer.flush()
    if not (wish.as_json or wish.csv or wish.html):
        reporting.show(document, wish.top)


def _written(folder: Path, document: Document) -> Sequence[Path]:
    try:
        return csvs.write(document, folder)
    except OSError as error:
        raise AnalyzeError(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _page(path: Path, document: Document) -> None:
    from warpmeter.analysis.page import render

    try:
        _put(path, render(document).encode("utf-8", "replace"))
    except OSError as error:
        raise AnalyzeError(f"{path} cannot be written: {error.strerror}") from error
    _tell(f"wrote the report into {path}")


def _put(path: Path, data: bytes) -> None:
    """Whole or not at all: an earlier report stays where a later one has no room. OSError"""
    if path.exists() and not path.is_file():  # a pipe or the like
        path.write_bytes(data)
        return
    part = path.resolve().with_name(f".{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path.resolve())
    finally:
        part.unlink(missing_ok=True)
