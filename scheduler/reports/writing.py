"""A report's files in a folder: whole, or not there."""

import os
import shutil
import tempfile
from pathlib import Path

from warpmeter.scheduler.reports.kinds import Rendered


def write(rendered: Rendered, folder: Path) -> Path:
    """Write `files` into `folder`/`stem`, and give that path; raises OSError.

    They are written beside and renamed when all are there. What stood there from an earlier run is replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{rendered.stem}.", dir=folder))
    try:
        beside.chmod(0o755)
        for name, data in rendered.files.items():
            _write(beside / name, data)
        return _move(beside, folder / rendered.stem)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _move(beside: Path, target: Path) -> Path:
    """A folder that is not empty cannot be renamed over: what is there goes aside first, and back if that fails."""
    if not target.exists():
        return beside.rename(target)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    before = target.rename(aside / "before")
    try:
        return beside.rename(target)
    except OSError:
        before.rename(target)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
