"""Real traces with reference figures, beside the checkout where somebody put them (`shared/traces`, README there)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

FOLDER: Final = Path(__file__).resolve().parents[2] / "shared" / "traces"

needs_traces = pytest.mark.skipif(not FOLDER.is_dir(), reason="no real traces beside the checkout")


def references() -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Each file with what it must give: an id, the path, the reference figures of its rank."""
    for path in sorted(FOLDER.glob("expected/*.json")):
        for rank, expected in msgspec.json.decode(path.read_bytes())["ranks"].items():
            yield f"{path.stem}-{rank}", FOLDER / expected["file"], {"rank": int(rank), **expected}
