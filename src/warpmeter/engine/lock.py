"""One process a folder: chDB itself says only `Error initializing EmbeddedServer` to a second one."""

import os
import shutil
from pathlib import Path
from typing import Final

from warpmeter import filelock
from warpmeter.filelock import HeldError

LOW_DISK_BYTES: Final = 64 << 20


class StartError(Exception):
    """The engine cannot start; the message is one line that says why and what to do."""


class NoRoomError(StartError):
    """The disk is full: the same start succeeds once there is room."""


def prepare(folder: Path) -> Path:
    """Make the data folder and return its real path. Raises StartError when it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        real = folder.resolve(strict=True)
        free = shutil.disk_usage(real).free
    except OSError as error:
        raise StartError(f"cannot use the data folder {folder}: {error.strerror}; choose another one") from error
    if not os.access(real, os.R_OK | os.W_OK | os.X_OK):
        raise StartError(f"cannot write to the data folder {folder}; make it yours, or choose another one")
    if "?" in str(real):
        raise StartError(f"the data folder {folder} has a `?` in its name, which chDB cannot open; rename it")
    if free < LOW_DISK_BYTES:
        raise NoRoomError(f"{folder} has {free >> 20} MiB left and needs {LOW_DISK_BYTES >> 20}: make room")
    return real


def hold(folder: Path) -> int:
    """Lock the folder until this process ends; returns the descriptor. Raises StartError naming the holder."""
    try:
        return filelock.hold(folder / "engine.lock")
    except OSError as error:
        raise StartError(f"cannot write to the data folder {folder}: {error.strerror}") from error
    except HeldError as error:
        raise StartError(
            f"another engine (pid {error.holder}) has the data folder {folder} open; stop it, or choose another folder"
        ) from error
