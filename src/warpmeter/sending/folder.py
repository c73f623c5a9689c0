"""A message as files in a folder or in any store that fsspec knows: there as a whole, or not at all.

In a folder of this machine the files are written beside, and the folder gets its name at the end. An object store has
no such step: there `manifest.json` is written last, and what has none is not there. The manifest has the message's id,
and size and SHA-256 of each file.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from warpmeter.sending.limits import Late, bounded
from warpmeter.sending.message import File, Message
from warpmeter.sending.outcome import Outcome, Refused, Sent, TryAgain
from warpmeter.settings import Target

MANIFEST: Final = "manifest.json"
PART: Final = ".part"
OLD: Final = ".old"
UNSAFE: Final = re.compile(r"[^A-Za-z0-9._+@-]+")
NAME_MAX: Final = 150


def safe(text: str) -> str:
    """A plain name: no '/', no '..', nothing hidden, not too long; what differed still does."""
    plain = UNSAFE.sub("-", text).strip(".-")[:NAME_MAX]
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def write(target: Target, message: Message) -> Outcome:
    """Into `url/place`. A message that lies there already, by its id, is Sent; another one is replaced."""
    return put(target.url, target.options, message, target.timeout_s)


def put(url: str, options: Mapping[str, str], message: Message, timeout_s: float) -> Outcome:
    """The same without a target. `url` of the outcome: the folder of the message."""
    try:
        return Sent(url=bounded(timeout_s, lambda: _put(url, options, message)))
    except Late:
        return TryAgain(f"{named(url)} was not written within {timeout_s:g} s")
    except (PermissionError, NotADirectoryError) as error:
        return Refused(f"{named(url)} cannot be written: {error.strerror or error}; let the scheduler's user write it")
    except (ImportError, ValueError, TypeError) as error:  # of a kind of URL that is not known, or its options
        return Refused(f"{named(url)} cannot be used: {error}")
    except OSError as error:
        return TryAgain(f"{named(url)} could not be written: {error.strerror or type(error).__name__}")
    except Exception as error:  # noqa: BLE001 - every store has its own errors
        return TryAgain(f"{named(url)} could not be written: {type(error).__name__}")


def named(url: str) -> str:
    """A URL as it may be told: without user and password."""
    return re.sub(r"://[^/@]*@", "://", url)


def local(url: str) -> Path | None:
    """The folder of this machine that a URL means, None for another store."""
    scheme, found, path = url.partition("://")
    return Path(url) if not found else Path(path) if scheme == "file" else None


def manifest(message: Message) -> bytes:
    """What is there, as JSON."""
    told = [
        {"name": file.name, "media_type": file.media_type, "bytes": len(file.data),
         "sha256": hashlib.sha256(file.data).hexdigest()}
        for file in message.files
    ]  # fmt: skip
    about: dict[str, Any] = {"id": message.id, "title": message.title, "text": message.text, **message.facts}
    return json.dumps({**about, "files": told}, ensure_ascii=False, indent=1, default=str).encode()


def _put(url: str, options: Mapping[str, str], message: Message) -> str:
    steps = (message.place or message.id).split("/")
    if not all(steps):  # the folder above, with all that is in it, would be replaced
        raise ValueError(f"{message.place or message.id!r} cannot be a place there: a part of it is empty")
    place = "/".join(safe(step) for step in steps)
    for file in message.files:
        if file.name == MANIFEST or any(step != safe(step) or not step for step in file.name.split("/")):
            raise ValueError(f"{file.name!r} cannot be the name of a file there")
    root, files = local(url), [*message.files, File(MANIFEST, "application/json", manifest(message))]
    if root is None:
        return _put_remote(url, options, place, files, message.id)
    return _put_local(root / place, files, message.id)


def _is(data: bytes, message_id: str) -> bool:
    try:
        return bool(json.loads(data)["id"] == message_id)
    except (ValueError, KeyError, TypeError):
        return False


def _put_local(final: Path, files: list[File], message_id: str) -> str:
    known = final / MANIFEST
    if known.is_file() and _is(known.read_bytes(), message_id):
        return str(final)
    part = final.with_name(f".{final.name}.{os.getpid()}{PART}")
    final.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(mode=0o750)
        for file in files:
            _write(part / file.name, file.data)
        _sync(part)
        if final.exists():
            old = final.with_name(f".{final.name}{OLD}")
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
            part.rename(final)
            shutil.rmtree(old, ignore_errors=True)
        else:
            part.rename(final)
        _sync(final.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return str(final)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    with os.fdopen(descriptor, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_remote(url: str, options: Mapping[str, str], place: str, files: list[File], message_id: str) -> str:
    import fsspec

    store, root = fsspec.core.url_to_fs(url, **options)
    final = f"{str(root).rstrip('/')}/{place}"
    known = f"{final}/{MANIFEST}"
    if store.exists(known):
        if _is(store.cat_file(known), message_id):
            return str(store.unstrip_protocol(final))
        store.rm(known)
    store.makedirs(final, exist_ok=True)
    for file in files:
        path = f"{final}/{file.name}"
        store.makedirs(path.rpartition("/")[0], exist_ok=True)
        store.pipe_file(path, file.data)
    return str(store.unstrip_protocol(final))


class ReadError(Exception):
    """A store cannot be read; the message says why."""


def read(url: str, options: Mapping[str, str], path: str, timeout_s: float) -> bytes | None:
    """A file that `put` has written, by its message's place and its name; None when there is none. Raises ReadError.

    Whatever the path holds, it leads nowhere but below `url`.
    """
    below = "/".join(safe(step) for step in path.split("/"))
    try:
        return bounded(timeout_s, lambda: _read(url, options, below))
    except Late as late:
        raise ReadError(f"{named(url)} was not read within {timeout_s:g} s") from late
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except Exception as error:  # every store has its own errors
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ReadError(f"{named(url)} cannot be read: {why}") from error


def _read(url: str, options: Mapping[str, str], below: str) -> bytes:
    root = local(url)
    if root is not None:
        return (root / below).read_bytes()
    import fsspec

    store, base = fsspec.core.url_to_fs(url, **options)
    found: bytes = store.cat_file(f"{str(base).rstrip('/')}/{below}")
    return found


def prune(url: str, options: Mapping[str, str], before: float) -> int:
    """Remove what `put` wrote before a time (seconds since the epoch), known by its manifest; how many folders went.

    Raises what a store raises.
    """
    root = local(url)
    if root is None:
        return _prune_remote(url, options, before)
    old = [path.parent for path in root.rglob(MANIFEST) if path.stat().st_mtime < before]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent != root:
            with suppress(OSError):  # another report is in it
                folder.parent.rmdir()
    return len(old)


def _prune_remote(url: str, options: Mapping[str, str], before: float) -> int:
    import fsspec

    store, root = fsspec.core.url_to_fs(url, **options)
    found = store.find(root, detail=True).items() if store.exists(root) else ()
    old = [name.rpartition("/")[0] for name, info in found if name.endswith(f"/{MANIFEST}") and _at(info) < before]
    for folder in old:
        store.rm(f"{folder}/{MANIFEST}")  # first: without it the rest is not there
        store.rm(folder, recursive=True)
    return len(old)


def _at(info: Mapping[str, Any]) -> float:
    """When an object was written; each store names it otherwise, and one that does not tell keeps it."""
    for key in ("LastModified", "last_modified", "updated", "mtime", "created"):
        at = info.get(key)
        if isinstance(at, str):
            at = datetime.fromisoformat(at)
        if isinstance(at, datetime):
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        if isinstance(at, (int, float)):
            return float(at)
    return float("inf")
