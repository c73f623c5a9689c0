"""A full disk: a clear message, nothing corrupt, and once there is room everything is in once."""

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path

import pytest

from tests.brokers import Tansu
from tests.engine import EngineServer, spawn
from tests.ingest_process import Feed, IngestProcess, Table, make_topics, migrated, settings_for
from tests.real.test_up import await_numbers, numbered
from tests.real.up import up, warpmeter
from tests.wait import until
from warpmeter.engine.lock import LOW_DISK_BYTES

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
NO_ROOM_YET = 75


@dataclass(frozen=True)
class Disk:
    """A small file system of its own at `root`."""

    root: Path

    def fill(self) -> None:
        """Take all of it."""
        with (self.root / "fill").open("wb", buffering=0) as file:
            until(lambda: self._is_full(file), "the disk to be full")  # whoever works on it may give some of it back

    def _is_full(self, file: FileIO) -> bool:
        try:
            while file.write(bytes(1 << 20)):
                pass
        except OSError:
            pass
        return os.statvfs(self.root).f_bavail == 0

    def free(self) -> None:
        """Give it back."""
        (self.root / "fill").unlink()


@contextmanager
def mounted(folder: Path, mebibytes: int) -> Iterator[Disk]:
    folder.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", f"warpmeter-{secrets.token_hex(4)}", str(folder)]
    try:
        refused = subprocess.run(line, capture_output=True, text=True, check=False).stderr
    except FileNotFoundError as error:
        refused = str(error)
    if refused:
        pytest.skip(f"needs a small disk, which takes root and `mount -t tmpfs`: {refused.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Disk]]:
    """Makes a disk of so many MiB, gone after the test."""
    with ExitStack() as stack:

        def make(mebibytes: int) -> Disk:
            return stack.enter_context(mounted(tmp_path / "disk", mebibytes))

        yield make


def test_the_engine_over_http(tansu: Tansu, disk: Callable[[int], Disk], topic_prefix: str, tmp_path: Path) -> None:
    small = disk(LOW_DISK_BYTES * 2 >> 20)
    data = small.root / "data"
    server = migrated(EngineServer(data))
    settings = settings_for(tansu, server, topic_prefix, tmp_path)
    make_topics(settings)
    feed, table = Feed(settings, topic_prefix), Table(server, topic_prefix)
    with closing(IngestProcess(settings, tmp_path / "ingest.log")) as process:
        feed.good(50)
        table.reaches(feed.sent, process.ready())
        small.fill()
        feed.good(50)
        until(lambda: "cannot insert now" in process.said(), "ingest to meet the full disk")
        assert table.rows() == table.distinct() == 200  # readers go on
        why = json.loads(next(line for line in process.said().splitlines() if "cannot insert now" in line))["why"]
        assert all(each in why for each in ("NOT_ENOUGH_SPACE", f"{data} has 0 MiB left", "make room")), why
        assert "Traceback" not in server.log.read_text()
        server.kill()
        feed.good(50)
        log = tmp_path / "again.log"
        assert spawn(data, server.port, log).wait(120) == NO_ROOM_YET
        assert f"{data} has 0 MiB left and needs 64: make room" in log.read_text()
        small.free()
        with closing(EngineServer(data, port=server.port)):
            table.reaches(feed.sent, process)
            assert process.stop() == 0
            assert (table.rows(), table.distinct(), table.rolled_up()) == (feed.sent,) * 3
    assert process.said().count("cannot insert now") == 1  # and a word a minute


def test_the_engine_in_the_consumers_process(tansu: Tansu, disk: Callable[[int], Disk], topic_prefix: str) -> None:
    small = disk(LOW_DISK_BYTES * 2 >> 20)
    data = small.root / "data"
    with closing(EngineServer(data)) as server:
        settings = settings_for(tansu, migrated(server), topic_prefix, small.root)  # the ledger lies there as well
    inside = replace(settings, store=replace(settings.store, dsn=f"chdb://{data}"))
    make_topics(inside)
    feed = Feed(inside, topic_prefix)
    with closing(IngestProcess(inside, small.root / "ingest.log")) as process:
        feed.good(50)
        until(lambda: _settled(settings.ingest.ledger_dir, 50), "the first spans to be settled")
        small.fill()
        feed.good(50)
        time.sleep(3.0)  # its log is on the full disk: nothing can be waited for
        assert process.process.poll() is None
        small.free()
        feed.good(50)
        until(lambda: _settled(settings.ingest.ledger_dir, 150), "all to be settled")
        assert process.stop() == 0
    with closing(EngineServer(data)) as server:
        table = Table(server, topic_prefix)
        assert (table.rows(), table.distinct(), table.rolled_up()) == (feed.sent,) * 3


def _settled(folder: Path | None, messages: int) -> bool:
    """The ledger says that so many have landed, and nothing is declared."""
    assert folder is not None
    records = [record for file in folder.glob("ledger-*.json") for record in json.loads(file.read_text())["records"]]
    gpus = [(offset, text) for topic, _, offset, text in records if topic.endswith(".gpu-samples")]
    return sum(offset for offset, _ in gpus) == messages and not any('"upto"' in text for _, text in gpus)


def test_up_waits_for_room(disk: Callable[[int], Disk]) -> None:
    small = disk(640)
    with up(small.root / "data") as running:
        numbered(running.kafka, 0, 200)
        await_numbers(running, 0, 200)
        small.fill()
        numbered(running.kafka, 200, 200)
        line = warpmeter("status", "--json", "--data", str(running.data))

        def told() -> bool:
            done = subprocess.run(line, capture_output=True, text=True, timeout=60)
            assert "Traceback" not in done.stderr
            status = json.loads(done.stdout)
            return status["ingest"]["state"] == "failing" and any("0 MiB left" in each for each in status["problems"])

        until(told, "status to say that the disk is full")
        os.kill(running.parts["engine"], signal.SIGKILL)
        until(lambda: "needs 64: make room" in running.said.read_text(), "up to say why the engine is not back")
        small.free()
        await_numbers(running, 0, 400)
        said = running.said.read_text()
        assert said.count("make room") == 1
        assert "Traceback" not in said
        assert running.stop() == 0
