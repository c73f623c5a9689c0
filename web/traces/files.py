"""Traces in the trace store, as files that can be read in parts. What lies outside of the store is never opened.

The store is a folder, or any URL that fsspec knows; what is asked for is named by capture events alone, and even they
can name nothing beyond `traces.url`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import fsspec
from fsspec.core import url_to_fs

from warpmeter.settings import Traces

CHUNK: Final = 1 << 20
BLOCK: Final = 4 << 20
"""Read ahead, of a store behind a URL."""
RANGE: Final = re.compile(r"bytes=([0-9]{0,40})-([0-9]{0,40})")
"""Longer numbers Python would refuse to read, and no file has such a byte."""

CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
SUM: Final = re.compile(r"[0-9a-z]{1,128}")
"""What an ETag may be made of: anybody who may write events can say that something is a sum."""


class NoFileError(Exception):
    """The trace cannot be had; the message says why and what to do."""


class NoRangeError(Exception):
    """The bytes that are asked for are not there."""


@dataclass(frozen=True)
class Stored:
    """A trace of `size` bytes, by its URL. `sha256` is '' where nobody has said it."""

    url: str
    size: int
    sha256: str
    _files: Any
    _path: str

    @property
    def name(self) -> str:
        """Of the file alone."""
        return self._path.rstrip("/").rpartition("/")[2]

    @property
    def etag(self) -> str:
        """A strong one: what it is a sum of never changes."""
        return f'"{self.sha256}"' if self.sha256 else ""

    def read(self, first: int, last: int) -> Iterator[bytes]:
        """Bytes `first` to `last`, in pieces. Raises NoFileError at once where it cannot be read."""
        pieces = self._pieces(first, last)
        try:
            begun = next(pieces, b"")
        except Exception as error:  # every store has its own ways to fail
            raise NoFileError(_refused(error)) from error
        return chain((begun,), pieces)

    def _pieces(self, first: int, last: int) -> Iterator[bytes]:
        with self._files.open(self._path, "rb", block_size=BLOCK) as file:
            file.seek(first)
            left = last - first + 1
            while left > 0 and (piece := file.read(min(CHUNK, left))):
                left -= len(piece)
                yield piece


def stored(traces: Traces, url: str, sha256: str = "") -> Stored:
    """The file of a URL that a capture event names. Raises NoFileError where it is not in the store, or not there."""
    if CONTROL.search(url):
        raise NoFileError("its name has a control character, which no trace's has, so it is not given out")
    files, root = url_to_fs(_url(traces.url), **traces.options)
    try:
        path = str(files._strip_protocol(_url(url)))
        inside = _inside(files, path, str(root), url, traces.url)
        found = files.info(path) if inside else {}
    except FileNotFoundError:
        raise NoFileError(_missing(traces)) from None
    except Exception as error:  # every store has its own ways to fail, and a folder links that lead in a circle
        raise NoFileError(_refused(error)) from error
    if not inside:
        raise NoFileError(f"it lies outside of the trace store ({traces.url}), so it is not given out")
    if found["type"] != "file":
        raise NoFileError(_missing(traces))
    return Stored(url, int(found["size"]), sha256 if SUM.fullmatch(sha256) else "", files, path)


def _url(url: str) -> str:
    return url if "://" in url else f"file://{url}"


def _inside(files: Any, path: str, root: str, url: str, store: str) -> bool:
    """Below the store, and reached by no `..` and no link."""
    same = fsspec.utils.get_protocol(_url(url)) == fsspec.utils.get_protocol(_url(store))
    if not same or ".." in path.split("/"):
        return False
    if getattr(files, "local_file", False):
        return Path(path).resolve().is_relative_to(Path(root).resolve())
    return path.startswith(root.rstrip("/") + "/")


def _refused(error: Exception) -> str:
    todo = "; the web's user must be able to read what agents store" if isinstance(error, PermissionError) else ""
    return f"the trace store does not give it: {error}{todo}"


def _missing(traces: Traces) -> str:
    if "://" in traces.url and not traces.url.startswith("file://"):
        return "it is not in the trace store any more: traces.keep_days and traces.keep_bytes say how long they stay"
    return (
        f"it is not in {traces.url} here: it is older than traces.keep_days, or lies on its own host; set traces.url "
        "of all agents and of the web to a folder that they share, or to a URL such as s3://bucket/traces"
    )


def asked(text: str, size: int) -> tuple[int, int] | None:
    """First and last byte of a Range header (RFC 9110, 14.2), None for all: also for what is no single range of bytes.

    Raises NoRangeError for a range that begins behind the end.
    """
    found = RANGE.fullmatch(text.replace(" ", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        first, last = max(0, size - int(found[2])), size - 1
        if not int(found[2]):
            raise NoRangeError
    else:
        first, last = int(found[1]), min(int(found[2] or size - 1), size - 1)
        if found[2] and int(found[2]) < int(found[1]):
            return None
    if first >= size:
        raise NoRangeError
    return first, last
