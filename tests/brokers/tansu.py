"""The embedded broker, started as the product starts it."""

import subprocess
from pathlib import Path

from tests.brokers.process import free_ports, spawn, tail
from warpmeter import tansu


class Tansu:
    """One Tansu broker; everything in it is gone after `stop`."""

    name = "tansu"
    size = 1
    keeps_commit_metadata = False

    def __init__(self, folder: Path) -> None:
        """Start it and wait until it answers; raises TansuMissingError or TansuFailedError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "tansu.log"
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def bootstrap_servers(self) -> str:
        """The `bootstrap.servers` of a client."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it again on the same port, empty; a running one is left alone."""
        if self._process is not None:
            return
        cluster_id = tansu.new_cluster_id()
        self._process = spawn(tansu.command(self.port, cluster_id), self._log, tansu.environment())
        try:
            tansu.wait_ready(self._process, self.port, cluster_id, timeout_s=120)
        except tansu.TansuFailedError as error:
            self.close()
            raise tansu.TansuFailedError(f"{error}\n{tail(self._log)}") from error

    def stop(self) -> None:
        """End it; topics, messages and offsets are lost."""
        process, self._process = self._process, None
        if process is not None:
            tansu.stop(process)

    def close(self) -> None:
        """End it for good; idempotent."""
        self.stop()
