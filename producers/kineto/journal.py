"""What the agent has begun, on disk beside its spool: a restart goes on with it, and begins nothing twice."""

import base64
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from warpmeter import log
from warpmeter.producers.kineto.captures import Capture, CaptureCommand, Member

logger = log.get("kineto")
KEPT: Final = ("folder", "name", "offered_at", "phase", "traced")


def file_of(spool: Path) -> Path:
    """Where the agent with this spool keeps it."""
    return spool.with_name(f"{spool.name}-captures.json")


class Journal:
    """`handled`: commands that were carried out, and until when they might come again (UTC seconds)."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._complained = False
        self.handled: dict[str, float] = {}

    def load(self) -> list[Capture]:
        """What was under way; nothing when the file is missing or broken."""
        try:
            kept = json.loads(self._file.read_bytes())
            self.handled = {str(key): float(until) for key, until in kept["handled"].items()}
            return [_read(each) for each in kept["captures"]]
        except FileNotFoundError:
            return []
        except Exception as error:  # noqa: BLE001 - whatever stands there; captures under way are lost, and told as away
            logger.warning("the file of captures is broken and left out", file=str(self._file), error=repr(error))
            return []

    def save(self, captures: Mapping[str, Capture], now: float) -> None:
        """Replace it; a disk that does not take it is told once, and captures go on without."""
        self.handled = {key: until for key, until in self.handled.items() if until > now}
        text = json.dumps({"handled": self.handled, "captures": [_written(each) for each in captures.values()]})
        fresh = self._file.with_name(f"{self._file.name}.new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with fresh.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._file)
        except OSError as error:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            if not self._complained:
                logger.warning("captures would not survive a restart", file=str(self._file), error=error.strerror)
            self._complained = True


def _written(capture: Capture) -> dict[str, Any]:
    kept = {name: getattr(capture, name) for name in KEPT}
    command = base64.b64encode(capture.command.SerializeToString()).decode()
    return {"command": command, "member": asdict(capture.member), **kept}


def _read(kept: Mapping[str, Any]) -> Capture:
    command = CaptureCommand.FromString(base64.b64decode(kept["command"]))
    first = Capture(
        command, Member(**kept["member"]), str(kept["folder"]), str(kept["name"]), float(kept["offered_at"])
    )
    return replace(first, phase=kept["phase"], traced=bool(kept["traced"]))
