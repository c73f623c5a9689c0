"""An engine's folder with all tables and views, made once a run: a copy of it costs a fifth of making them."""

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.engine import DATABASE, EngineServer
from warpmeter import filelock, migrate
from warpmeter.settings import Store
from warpmeter.store import connect

SHARED: Final = "shared"
"""The database that they are in for engines in the tests' own process; processes have them in `DATABASE`."""
ROOT: Final = Path(__file__).parents[2]
_run: list[Path] = []


def kept_in(folders: pytest.TempPathFactory) -> None:
    """Keep the templates of this run beside its other files; all workers of a run share them."""
    base = folders.getbasetemp()
    _run[:] = [base.parent if "PYTEST_XDIST_WORKER" in os.environ else base]


def with_tables(data: Path, threads: int = 4) -> EngineServer:
    """An engine on a folder that is empty or not there yet, with all tables in `DATABASE`. Close it."""
    copy(data, DATABASE)
    return EngineServer(data, threads)


def copy(into: Path, database: str = SHARED) -> None:
    """Copy the folder `into` one that is empty or not there yet; whoever of the run asks first makes it."""
    (run,) = _run
    made = run / f"template-{database}"
    held = filelock.hold(run / f"{made.name}.lock", within_s=300)
    try:
        if not made.exists():
            making = made.with_suffix(".new")
            command = [sys.executable, "-m", "tests.engine.template", str(making), database]
            subprocess.run(command, check=True, cwd=ROOT)  # wherever a test has gone
            making.rename(made)
    finally:
        os.close(held)
    shutil.copytree(made, into, symlinks=True, dirs_exist_ok=True)


def make(folder: Path, database: str) -> None:
    """In a process of its own, for a process can have one engine."""
    store = Store(dsn=f"chdb://{folder}", database=database)
    with closing(connect(store, database="default")) as client:
        migrate.apply(client, store)


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2])
