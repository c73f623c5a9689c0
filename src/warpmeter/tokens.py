"""Before the embedded engine opens its folder: let it forget the tokens of inserts that it only began.

A table that is not replicated writes an insert's token into `deduplication_logs` and renames its part into place after
that. Killed in between, or when the renaming fails, it would know the token and not have the rows, and drop them when
they come again. And a record that was cut short there (a full disk) would make it forget all that come after it.

While the engine runs it keeps the tokens in memory, where nobody can mend them: its process must end.
"""

import fcntl
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from warpmeter import log

EXIT_AGAIN: Final = 75
"""EX_TEMPFAIL of sysexits.h: of a process that ended so that its next start puts the tokens right."""

SETTLES_WITHIN_S: Final = 2.0
"""An insert that goes well has its part in place within milliseconds of its token."""

TAIL_BYTES: Final = 1 << 20
"""What is looked at of a log: 15,000 records. Those that a kill left are its last."""

Parts = Mapping[bytes, Sequence[tuple[int, int]]]
"""By partition, the blocks (first, last) that each part on the disk holds."""

_RECORD: Final = re.compile(rb"([12])\t(\S+)\t(\S+)")
_PART: Final = re.compile(rb"([^_]+)_(\d+)_(\d+)_\d+(?:_\d+)?")


def forget_unlanded(folder: Path) -> int:
    """Put the logs of all tables under an engine's folder right; how many tokens were forgotten. Raises OSError."""
    return sum(_mend(logs) for logs in folder.glob("store/*/*/deduplication_logs"))


def forget_unless_open(folder: Path) -> None:
    """As `forget_unlanded`, unless a process has the folder open, this one among them. Raises OSError.

    The engine locks the file `status` in its folder for as long as it has it open.
    """
    if not (folder / "store").is_dir():
        return
    descriptor = os.open(folder / "status", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        forget_unlanded(folder)
    except BlockingIOError:
        pass
    finally:
        os.close(descriptor)


def end_if_in_doubt(folder: Path, since: float, name: str) -> None:
    """After a statement failed that began at `since` (seconds since the epoch): end this process with EXIT_AGAIN when
    the engine that it has open on `folder` knows a token whose rows are not there. `name`: the process's, for the log.

    To be called before the failure is told: who heard of it would send the same again, and be told that it landed.
    """
    lost = _lost(folder, since)
    deadline = time.monotonic() + SETTLES_WITHIN_S
    while lost and time.monotonic() < deadline:
        time.sleep(0.05)
        lost &= _lost(folder, since)
    if lost:
        why = "an insert failed after its token was written: only a new start forgets the token"
        log.get(name).error("ends, to be started again", why=why, tokens=len(lost))
        os._exit(EXIT_AGAIN)


def _lost(folder: Path, since: float) -> set[tuple[Path, bytes]]:
    """Tokens without rows in the logs that were written to since then; by the log's folder."""
    found = set()
    for logs in folder.glob("store/*/*/deduplication_logs"):
        try:
            newest = _newest(logs)
            if newest is not None and newest.stat().st_mtime >= since - 1:  # file systems keep coarser times
                found |= {(logs, token) for token in unlanded(_records(_tail(newest)), _parts(logs.parent))}
        except FileNotFoundError:  # a table, or a log, that was dropped meanwhile
            continue
    return found


def _newest(logs: Path) -> Path | None:
    return max(logs.glob("deduplication_log_*.txt"), key=lambda each: int(each.stem.rpartition("_")[2]), default=None)


def _mend(logs: Path) -> int:
    newest = _newest(logs)
    if newest is None:
        return 0
    _drop_what_is_cut(newest)
    lost = unlanded(_records(_tail(newest)), _parts(logs.parent))
    with newest.open("ab") as log:
        log.write(b"".join(b"2\t%b\t%b\n" % (part, token) for token, part in lost.items()))
    return len(lost)


def unlanded(
    records: Iterable[Sequence[bytes]], parts: Mapping[bytes, Sequence[tuple[int, int]]]
) -> dict[bytes, bytes]:
    """Tokens that are known, with the parts that they stand for, where no part on the disk holds that one's block."""
    known: dict[bytes, bytes] = {}
    for operation, part, token in records:
        if operation == b"1":
            known.setdefault(token, part)
        else:
            known.pop(token, None)
    return {token: part for token, part in known.items() if not _there(part, parts)}


def _there(part: bytes, parts: Parts) -> bool:
    found = _PART.fullmatch(part)
    return found is None or any(first <= int(found[2]) <= last for first, last in parts.get(found[1], ()))


def _parts(table: Path) -> Parts:
    """What a table has; what is temporary has another name."""
    parts: dict[bytes, list[tuple[int, int]]] = {}
    for each in os.scandir(table):
        if each.is_dir() and (found := _PART.fullmatch(os.fsencode(each.name))):
            parts.setdefault(found[1], []).append((int(found[2]), int(found[3])))
    return parts


def _records(lines: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    return (found.groups() for line in lines if (found := _RECORD.fullmatch(line)))


def _tail(log: Path) -> list[bytes]:
    """Its last lines, whole ones but for what was cut."""
    with log.open("rb") as file:
        at = max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES)
        file.seek(at)
        lines = file.read().split(b"\n")
    return lines[1:] if at else lines


def _drop_what_is_cut(log: Path) -> None:
    *whole, last = _tail(log)
    if not last and all(_RECORD.fullmatch(line) for line in whole):
        return
    kept = [line + b"\n" for line in log.read_bytes().split(b"\n") if _RECORD.fullmatch(line)]
    fresh = log.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(b"".join(kept))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(log)
