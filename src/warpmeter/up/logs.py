"""The logs of the parts: one file each, kept small, and the last words of each for messages and `status`."""

import json
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

MAX_BYTES: Final = 16 << 20
TAIL_BYTES: Final = 64 << 10
STARTING: Final = "starting"


def open_log(path: Path) -> BinaryIO:
    """Open for appending, with a line that a start begins; what is over `MAX_BYTES` is set aside first.

    On a full disk lines are lost, and nothing else.
    """
    trim(path)
    begin = {"event": STARTING, "level": "info", "timestamp": datetime.now(UTC).isoformat()}
    try:
        file = path.open("ab", buffering=0)
    except OSError:
        return Path(os.devnull).open("ab")
    with suppress(OSError):
        file.write(json.dumps(begin).encode() + b"\n")
    return file


def trim(path: Path) -> None:
    """Set a log aside (`.1`) once it is over `MAX_BYTES`; the writer goes on at the start of the same file.

    On a full disk no more of it is kept than there is room for.
    """
    if path.exists() and path.stat().st_size > MAX_BYTES:
        with suppress(OSError):
            shutil.copyfile(path, path.with_suffix(".log.1"))
        with path.open("r+b") as file:
            file.truncate(0)


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def worded(entry: dict[str, Any]) -> str:
    """One log line for a person: the event, then what it says of it."""
    details = [f"{key}={value}" for key, value in entry.items() if key not in ("event", "level", "timestamp", "part")]
    return " ".join([str(entry.get("event", "")), *details])


def problems(path: Path, last: int = 5) -> list[dict[str, Any]]:
    """The last warnings and errors of a log, oldest first."""
    entries = [entry for line in _tail(path) if (entry := _parsed(line))]
    return [entry for entry in entries if entry.get("level") in ("warning", "error", "critical")][-last:]


def last_words(path: Path) -> str:
    """Why a part ended: the last error since its start, else its last line."""
    lines: list[str] = []
    for line in _tail(path):
        entry = _parsed(line)
        if entry is not None and entry.get("event") == STARTING:
            lines = []
        elif line.strip():
            lines.append(line)
    if not lines:
        return f"it said nothing; see {path}"
    if (entry := _parsed(lines[-1])) is None:
        return lines[-1].strip()
    errors = [said for line in lines if (said := _parsed(line)) and said.get("level") in ("error", "critical")]
    return worded(errors[-1] if errors else entry)
