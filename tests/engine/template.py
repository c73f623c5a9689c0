"""An engine's folder with all tables and views, made once a run: a copy of it costs a fifth of making them."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from warpmeter import filelock, migrate
from warpmeter.settings import Store
from warpmeter.store import connect

SHARED: Final = "shared"
"""The database that they are in."""
MADE: Final = "made"
ROOT: Final = Path(__file__).parents[2]


def copy(folders: pytest.TempPathFactory, into: Path) -> None:
    """Copy the folder `into` one that is not there yet; whoever of the run asks first makes it."""
    base = folders.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    held = filelock.hold(run / "template.lock", within_s=300)
    try:
        if not (run / MADE).exists():
            command = [sys.executable, "-m", "tests.engine.template", str(run / "template")]
            subprocess.run(command, check=True, cwd=ROOT)  # wherever a test has gone
            (run / MADE).touch()
    finally:
        os.close(held)
    shutil.copytree(run / "template", into, symlinks=True)


def make(folder: Path) -> None:
    """In a process of its own, for a process can have one engine."""
    store = Store(dsn=f"chdb://{folder}", database=SHARED)
    with closing(connect(store, database="default")) as client:
        migrate.apply(client, store)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
