"""Retention of the trace store, by age and size: what is named as a trace goes, the oldest first, and no other file.

A folder is kept by the agents that write it, a URL by the schedulers: each removal may be done by several, or twice.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, Final, Protocol

from warpmeter import log
from warpmeter.settings import Traces

NAME: Final = re.compile(r"[A-Za-z0-9._-]+_(\d{8}T\d{6}Z)\.json\.(?:gz|zst)(\.part)?")
"""`host_rank0_4711_1_20260131T120000Z.json.gz`; with `.part` while it is written."""
DEPTH: Final = 2
"""job/capture/name."""
PART_S: Final = 86_400.0
"""What was begun so long ago and is not whole never will be."""
FIRST_S: Final = 5.0
EVERY_S: Final = 3600.0


@dataclass(frozen=True)
class Kept:
    """A trace in the store. `at`: when it was to start, by its name, seconds since the epoch."""

    path: str
    at: float
    bytes: int
    part: bool = False


class Files(Protocol):
    """A store to be kept."""

    def traces(self) -> Iterable[Kept]:
        """All of them. Raises what the store raises."""

    def remove(self, path: str) -> None:
        """Remove one, and folders that it leaves empty; one that is gone already is well."""


def kept(path: str, size: int) -> Kept | None:
    """A file as a trace, None for any other."""
    found = NAME.fullmatch(path.rpartition("/")[2])
    if found is None:
        return None
    with suppress(ValueError):
        at = datetime.strptime(found[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        return Kept(path, at, size, bool(found[2]))
    return None


def expired(found: Iterable[Kept], now: float, traces: Traces) -> list[Kept]:
    """Those that are to go, the oldest first: too old, or more than fit beside those that are newer."""
    gone, room = [], traces.keep_bytes or float("inf")
    age_s = traces.keep_days * 86_400.0 or float("inf")
    for each in sorted(found, key=lambda each: (each.at, each.path), reverse=True):
        if each.part:
            gone += [each] if now - each.at > PART_S else []
            continue
        room -= each.bytes
        if now - each.at > age_s or room < 0:
            gone.append(each)
    return gone[::-1]


class Folder:
    """A folder. Links are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def traces(self) -> Iterator[Kept]:
        """All of them."""
        for folder, below, names in os.walk(self._root):
            if len(Path(folder).relative_to(self._root).parts) >= DEPTH:
                below.clear()
            for name in names:
                path = f"{folder}/{name}"
                with suppress(OSError):
                    found = kept(path, os.lstat(path).st_size)
                    if found is not None:
                        yield found

    def remove(self, path: str) -> None:
        """Remove it, and its folders where they are empty then."""
        Path(path).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            for folder in list(Path(path).parents)[:DEPTH]:
                if folder != self._root:
                    folder.rmdir()


class Remote:
    """A URL that fsspec knows."""

    def __init__(self, traces: Traces) -> None:
        """Raises what fsspec raises."""
        import fsspec

        self._files: Any
        self._files, self._root = fsspec.core.url_to_fs(traces.url, **traces.options)

    def traces(self) -> Iterator[Kept]:
        """All of them."""
        for path, about in self._files.find(self._root, detail=True).items():
            if (found := kept(str(path), int(about.get("size") or 0))) is not None:
                yield found

    def remove(self, path: str) -> None:
        """Remove it."""
        with suppress(FileNotFoundError):
            self._files.rm_file(path)


def is_folder(traces: Traces) -> bool:
    """Whether the store is a folder, of each host or shared."""
    return "://" not in traces.url or traces.url.startswith("file://")


def files(traces: Traces) -> Files:
    """The store of the settings. Raises what fsspec raises."""
    return Folder(Path(traces.url.removeprefix("file://"))) if is_folder(traces) else Remote(traces)


def sweep(traces: Traces, now: float) -> list[Kept]:
    """Remove what is to go; those that went. Raises what the store raises."""
    store = files(traces)
    gone = expired(store.traces(), now, traces)
    for each in gone:
        store.remove(each.path)
    return gone


def run(traces: Traces, stop: Event, now: Callable[[], float] = time.time, first_s: float = FIRST_S) -> None:
    """Sweep each hour until `stop`; a store that is away is asked again."""
    wait_s = first_s
    while not stop.wait(wait_s):
        wait_s = EVERY_S
        try:
            gone = sweep(traces, now())
        except Exception as error:  # noqa: BLE001 - every store has its own ways to fail
            log.get("traces").warning("the trace store cannot be kept in its limits", error=repr(error))
            continue
        if gone:
            size = sum(each.bytes for each in gone)
            log.get("traces").info("removed traces that were too old, or too many", count=len(gone), bytes=size)
