"""warpmeter: fleet-wide GPU performance observability on Kafka and ClickHouse."""

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    from warpmeter.frames import Frames

__version__ = "0.1.0"


def connect(where: "str | Path" = "", *, database: str = "", token: str = "", tz: "str | tzinfo" = "UTC") -> "Frames":
    """pandas' frames of a store: `warpmeter.frames.connect`, which is loaded when it is asked for.

    Every host's agent imports this package, and none of them pandas.
    """
    try:
        frames = importlib.import_module("warpmeter.frames")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "warpmeter":
            raise
        raise ImportError(f"frames need {error.name}: pip install 'warpmeter[pandas]'", name=error.name) from error
    return cast("Frames", frames.connect(where, database=database, token=token, tz=tz))
