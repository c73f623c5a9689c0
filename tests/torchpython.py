"""A Python with PyTorch (CPU), made once: the wheel is large, and nothing else of warpmeter needs it."""

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
    """The interpreter, made when it is missing; skips the test where that cannot be."""
    python = FOLDER / "bin" / "python"
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _has_torch(python):
            try:
                _make(python)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"no PyTorch: {error}")
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
