"""The ledger as a file, for a broker that keeps no commit metadata (the embedded one).

One process at a time holds it, by a lock; every write replaces the file whole and is on disk when it returns.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from warpmeter.consumers.ledger import (
    Declared,
    Done,
    Entry,
    Foreign,
    LedgerError,
    LedgerFolderError,
    Outcome,
    Retry,
    Settled,
    decode,
    encode,
)
from warpmeter.consumers.span import Partition
from warpmeter.filelock import locked

VERSION: Final = 1
LOCK_WITHIN_S: Final = 0.5
"""Who asks whether the ledger is held has it for an instant, which must not refuse an ingest that starts."""


def ledger_path(folder: Path, group: str) -> Path:
    """The file of a group's ledger; reading it needs no lock, for it is replaced whole."""
    return folder / f"ledger-{group}.json"


def _lock_path(folder: Path, group: str) -> Path:
    return folder / f"ledger-{group}.lock"


def is_held(folder: Path, group: str) -> bool:
    """Whether a process holds the ledger of a group now. Raises LedgerError when that cannot be told."""
    try:
        with _lock_path(folder, group).open() as file:
            return not locked(file)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LedgerFolderError(
            f"cannot read the ledger in {folder}: {error.strerror}; let this user read it"
        ) from error


def _record(entry: object) -> tuple[Partition, tuple[int, str]]:
    """One record of the file; raises ValueError for what `encode` never wrote, as nobody else writes here."""
    match entry:
        case [str(topic), int(number), int(offset), str(text)] if number >= 0 and offset >= 0:
            where = Partition(topic, number)
        case _:
            raise ValueError(f"record {str(entry)[:200]} is not [topic, partition, offset, metadata]")
    found = decode(where, offset, text)
    if isinstance(found, Foreign):
        raise ValueError(f"record of {where} at offset {offset}: {found.why}")
    return where, (offset, text)


def read_records(path: Path) -> dict[Partition, tuple[int, str]]:
    """The records of a ledger's file, none where there is no file; raises LedgerError for one that is damaged."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(stored["version"], int) and stored["version"] > VERSION:
            raise LedgerError(f"{path} is of version {stored['version']}: written by a newer warpmeter")
        if stored["version"] != VERSION:
            raise ValueError(f"version {stored['version']!r}")
        return dict(_record(entry) for entry in stored["records"])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror}; let this user read it") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = "restore it, or empty the tables together with it: without it rows would be lost or doubled"
        raise LedgerError(f"{path} is damaged ({error!r}); {what}") from error


class FileLedger:
    """Records of `group` in `folder/ledger-<group>.json`.

    Raises LedgerError when another process holds it, when the file is not one, or the folder cannot be used.
    """

    def __init__(self, folder: Path, group: str) -> None:
        self._path = ledger_path(folder, group)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock_path(folder, group).open("w")
            held = not locked(self._lock, LOCK_WITHIN_S)
        except OSError as error:
            what = "let this user write there, or set ingest.ledger_dir to another folder"
            why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
            raise LedgerFolderError(f"cannot keep the ledger in {folder}: {why}; {what}") from error
        if held:
            self._lock.close()
            raise LedgerError(f"another ingest process holds {self._path}: stop it first")
        self._records = read_records(self._path)

    def close(self) -> None:
        """Let another process have it."""
        self._lock.close()

    def recall(self, partitions: Iterable[Partition]) -> Mapping[Partition, Entry]:
        return {where: decode(where, *self._records[where]) for where in partitions if where in self._records}

    def declare(self, entries: Sequence[Declared]) -> Outcome:
        return self._write(entries)

    def settle(self, entries: Sequence[Settled]) -> Outcome:
        return self._write(entries)

    def _write(self, entries: Sequence[Declared | Settled]) -> Outcome:
        records = self._records | {entry.where: encode(entry) for entry in entries}
        try:
            self._replace(json.dumps({"version": VERSION, "records": [[*w, *r] for w, r in sorted(records.items())]}))
        except OSError as error:
            return Retry(f"cannot write {self._path}: {error.strerror}; free some space")
        self._records = records
        return Done()

    def _replace(self, text: str) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
