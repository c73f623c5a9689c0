"""Secrets of a target: in the settings, or in a file of their own, read at each use so that they can be changed."""

from pathlib import Path


class SecretError(Exception):
    """A secret cannot be read; the message says which and what to do."""


def read(value: str, file: Path | None, key: str) -> str:
    """The value, else what stands in the file, without white space around it. Raises SecretError."""
    if file is None:
        return value
    try:
        found = file.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SecretError(f"{key} {file} cannot be read: {why}; let the scheduler's user read it") from error
    if not found:
        raise SecretError(f"{key} {file} is empty")
    return found
