"""The bytes that a Schema Registry asks for in front of each value, learned without holding anything up."""

from collections.abc import Mapping
from threading import Event, Thread
from typing import Final

from warpmeter import log
from warpmeter.acls import AGENT_WRITES
from warpmeter.registry import RegistryError, configured
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka

AGAIN_S: Final = 10.0
"""Pause before a registry that is away is asked again."""


class Framing:
    """Frames of all topics that the agent writes; empty ones at once where no registry is configured.

    `frames` is None while the registry has not answered for every topic; `why` says why. A registry's failure is no
    error: what is measured meanwhile waits.
    """

    def __init__(self, kafka: Kafka) -> None:
        """Raises RegistryError when the URL is none."""
        self.frames: Mapping[str, bytes] | None = None
        self.why = ""
        self._stop = Event()
        if (registry := configured(kafka)) is None:
            self.frames = dict.fromkeys(TOPICS, b"")
            return
        self.why = "the Schema Registry has not answered yet"
        self._registry = registry
        Thread(target=self._learn, name="registry", daemon=True).start()

    def close(self) -> None:
        """Stop asking."""
        self._stop.set()

    def _learn(self) -> None:
        while self.frames is None:
            try:
                self.frames = {name: self._registry.frame(TOPICS[name]) for name in AGENT_WRITES}
            except RegistryError as error:
                self._tell(str(error))
                if self._stop.wait(AGAIN_S):
                    return

    def _tell(self, why: str) -> None:
        if why != self.why:
            self.why = why
            log.get("agent").warning("registry_unusable", error=why, next="samples wait in the spool until it answers")
