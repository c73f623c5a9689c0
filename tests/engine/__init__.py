"""A real engine process for the tests: `EngineServer` starts it as `warpmeter up` does."""

import subprocess
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import clickhouse_connect
from clickhouse_connect.driver.client import Client

from tests.brokers.process import free_ports, tail
from tests.signals import tell
from warpmeter import launch
from warpmeter.settings import Engine, Metrics, Settings

TOKEN: Final = "the-write-token"
WRITER: Final = "warpmeter_writer"
DATABASE: Final = "warpmeter"


class EngineServer:
    """`python -m warpmeter.engine` on a folder; ready when the constructor returns. Close it."""

    def __init__(self, data: Path, threads: int = 4, port: int = 0) -> None:
        self.data = data
        self.port = port or free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = data.with_name(f"{data.name}.log")
        self._threads = threads
        self.start()

    def start(self) -> None:
        """Start it, also again after `kill`, on its folder and port; ready when it returns."""
        self.process = spawn(self.data, self.port, self.log, self._threads)
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/ping", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"the engine did not come up: {tail(self.log)}")

    def client(self, write: bool = False, **options: Any) -> Client:
        """clickhouse-connect over HTTP, with its ordinary DSN."""
        user = f"{WRITER}:{TOKEN}@" if write else ""
        found: Client = clickhouse_connect.get_client(
            dsn=f"http://{user}127.0.0.1:{self.port}/", database=options.pop("database", DATABASE), **options
        )
        return found

    def make_database(self) -> None:
        """Create the database that requests use when they name none."""
        with self.client(write=True, database="system") as client:
            client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def close(self) -> int:
        """End it as an operator would; returns its exit status."""
        if self.process.poll() is None:
            tell(self.process)
        return self.process.wait(timeout=60)


def spawn(data: Path, port: int, log: Path, threads: int = 4) -> subprocess.Popen[bytes]:
    """Start the process and do not wait for it."""
    settings = replace(
        Settings(),
        engine=Engine(data=data, port=port, write_token=TOKEN, threads=threads),
        metrics=Metrics(engine_port=0),
    )
    with log.open("ab") as output:
        return launch.spawn("warpmeter.engine", settings, log=output)
