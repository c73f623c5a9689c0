"""A Python with PyTorch (CPU), made once: the wheel is large, and nothing else of warpmeter needs it.

`python -m tests.torchpython` makes it ahead of the tests.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

WANTED: Final = "torch>=2.9"
INDEX: Final = "https://download.pytorch.org/whl/cpu"
FOLDER: Final = Path(os.environ.get("WARPMETER_CACHE") or Path.home() / ".cache" / "warpmeter") / "torch"


def torch_python() -> str:
    """The interpreter: $TORCH_PYTHON, else our own, made when it is missing; skips where that cannot be."""
    if given := os.environ.get("TORCH_PYTHON"):
        return given
    try:
        return made()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no PyTorch: {error}; `python -m tests.torchpython` makes it, TORCH_PYTHON names another")


def made() -> str:
    """Our own, made when it is missing. Raises OSError and CalledProcessError."""
    python = FOLDER / "bin" / "python"
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _has_torch(python):
            _make(python)
    return str(python)


def _has_torch(python: Path) -> bool:
    return python.exists() and bool(list(FOLDER.glob("lib/python*/site-packages/torch/__init__.py")))


def _make(python: Path) -> None:
    """From PyTorch's own index (200 MB), else from PyPI."""
    subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    first = subprocess.run([*pip, WANTED, "--index-url", INDEX], check=False)
    if first.returncode:
        subprocess.run([*pip, WANTED], check=True)


if __name__ == "__main__":
    print(made())
