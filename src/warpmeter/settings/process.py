"""What every process has: its log and its metrics."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Log:
    """`format`: `auto` is `console` on a terminal and `json` elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


@dataclass(frozen=True)
class Metrics:
    """Where a process serves its own Prometheus metrics; port 0 takes none. Each part has its own port."""

    listen: str = "127.0.0.1"
    agent_port: int = 9701
    ingest_port: int = 9702
    engine_port: int = 9703
    scheduler_port: int = 9704
    web_port: int = 9705
