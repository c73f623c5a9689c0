"""What the settings of several parts speak of."""

import os
from pathlib import Path
from typing import Final

SECRET: Final = {"secret": True}
PATH: Final = {"secret": "path"}
"""An address whose path is a secret, as that of an incoming webhook is."""
LOOPBACK: Final = ("127.", "::1", "localhost")


def default_data() -> Path:
    """Where `warpmeter up` keeps its data: `$XDG_DATA_HOME/warpmeter`, else `~/.local/share/warpmeter`."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "warpmeter"
