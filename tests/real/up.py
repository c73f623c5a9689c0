"""Drive a real `warpmeter up`: the command as a child process, on a folder and ports of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clickhouse_connect

from tests.brokers.process import free_ports
from tests.signals import tell
from tests.wait import until
from warpmeter.settings import Kafka

READY = "Ctrl-C stops."


def free_port() -> int:
    """A port that nobody listens on now, and that the kernel gives to no client meanwhile."""
    return free_ports(1)[0]


@dataclass
class Up:
    """A running `up`; `said` is its terminal."""

    process: subprocess.Popen[bytes]
    data: Path
    broker_port: int
    http_port: int
    said: Path
    kafka: Kafka
    web: int

    @property
    def parts(self) -> dict[str, int]:
        """Process ids of its parts now."""
        return dict(json.loads((self.data / "up.json").read_text())["parts"])

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query over HTTP, as a reader."""
        with clickhouse_connect.get_client(host="127.0.0.1", port=self.http_port, database="warpmeter") as client:
            return [tuple(row) for row in client.query(sql).result_rows]

    def value(self, sql: str) -> Any:
        """The one value of a query."""
        return self.query(sql)[0][0]

    def stop(self, within_s: float = 60.0) -> int:
        """Ctrl-C; its exit status."""
        tell(self.process, signal.SIGINT)
        return self.process.wait(within_s)


def warpmeter(*arguments: str) -> list[str]:
    """The command line of the command."""
    return [sys.executable, "-m", "warpmeter", *arguments]


def environment(bus: Kafka) -> dict[str, str]:
    """The variables with which `up`, and the commands that look at it, use a prefix and group of their own."""
    own = {"WARPMETER_KAFKA__TOPIC_PREFIX": bus.topic_prefix, "WARPMETER_INGEST__GROUP": f"{bus.topic_prefix}-ingest"}
    return {**os.environ, **own}


@contextmanager
def up(
    data: Path,
    options: Sequence[str] = (),
    ports: tuple[int, int] | None = None,
    kafka: Kafka | None = None,
    page: bool = False,
) -> Iterator[Up]:
    """`warpmeter up` on `data`, ready; ended when left, whatever happened.

    `kafka`: an existing broker in place of the embedded one. `page`: with the page, on port `web`.
    """
    broker, http = ports or (free_port(), free_port())
    bus = kafka or Kafka(bootstrap_servers=f"127.0.0.1:{broker}")
    web = free_port()
    options = [*options, *(["--web-port", str(web)] if page else ["--no-web"])]
    options = [*options, *(["--bootstrap-servers", bus.bootstrap_servers] if kafka else [])]
    data.mkdir(parents=True, exist_ok=True)
    said = data.parent / f"{data.name}.said"
    line = warpmeter("up", "--data", str(data), "--broker-port", str(broker), "--http-port", str(http), *options)
    with said.open("wb") as terminal:
        process = subprocess.Popen(line, stdout=terminal, stderr=terminal, env=environment(bus))
    running = Up(process, data, broker, http, said, bus, web)
    try:
        until(lambda: READY in said.read_text() or process.poll() is not None, "up to be ready", 180)
        assert process.poll() is None, said.read_text()
        yield running
    finally:
        if process.poll() is None:
            running.stop()
