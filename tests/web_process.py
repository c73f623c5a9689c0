"""The process of API and pages, as `warpmeter web` starts it."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from tests.engine import DATABASE
from tests.engine.template import with_tables
from tests.ingest_process import store_settings
from tests.real.up import free_port
from tests.signals import tell
from tests.wait import until
from warpmeter import launch
from warpmeter.settings import Log, Metrics, Settings, Store, Web
from warpmeter.store import Client, connect


class WebProcess:
    """Starts at once; `ready` waits until it answers. `url` is its address. Close it."""

    def __init__(self, folder: Path, web: Web | None = None, settings: Settings | None = None) -> None:
        web = replace(web or Web(), port=free_port())
        away = settings or Settings(store=Store(dsn="http://127.0.0.1:1"))
        self.metrics = free_port()
        chosen = replace(away, web=web, metrics=Metrics(web_port=self.metrics), log=Log(format="json"))
        self.url, self.port = web.address, web.port
        self.log = folder / f"web-{web.port}.log"
        with self.log.open("wb") as output:
            self.process = launch.spawn("warpmeter.web", chosen, log=output)

    def ready(self) -> "WebProcess":
        """Once it answers; fails with its log when it ends instead."""
        until(lambda: self.process.poll() is not None or self._answers(), "the page to be up", 180)
        assert self.process.poll() is None, self.log.read_text()
        return self

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/login").status_code in (200, 303)
        except httpx.HTTPError:
            return False

    @property
    def said(self) -> list[dict[str, Any]]:
        """Its log; every line is JSON, but for the one that it may be writing."""
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def stop(self, within_s: float = 30.0) -> int:
        """SIGTERM; its exit status."""
        if self.process.poll() is None:
            tell(self.process, signal.SIGTERM)
        return self.process.wait(within_s)

    def close(self) -> None:
        """End it, whatever it does."""
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def page_over(folder: Path, land: Callable[[Client, Store], object]) -> Iterator[str]:
    """The page over an engine of its own, of which `land` has filled the tables; its address."""
    with closing(with_tables(folder / "engine")) as engine:
        writing = store_settings(engine)
        with connect(writing) as client:
            land(client, writing)
        settings = Settings(store=Store(dsn=engine.url, database=DATABASE))
        with closing(WebProcess(folder, settings=settings)) as process:
            yield process.ready().url
