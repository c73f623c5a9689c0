"""The parts as deploy/compose runs them, but for the container: a root that cannot be written, the capabilities and the
folders that the file gives, no others, and its environment with other addresses alone. Needs root and namespaces."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from clickhouse_connect import get_client

from tests.brokers import Tansu
from tests.brokers.process import free_ports
from tests.deployed import DEPLOY
from tests.deploytools import COMPOSE, found
from tests.engine import TOKEN, WRITER, EngineServer
from tests.signals import tell
from tests.wait import until

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
ROOM: Final = """set -eu
mount --make-rprivate /
mount --rbind / /mnt
mount --make-rslave /mnt
mount -o remount,bind,ro /mnt
mount -t tmpfs -o mode=0755 tmpfs /var/lib
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p /var/lib/warpmeter /run/secrets /run/warpmeter
cp "$SECRETS_HERE"/* /run/secrets/
chown 65532:65532 /var/lib/warpmeter
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
if [ ! -d "$CHECKOUT" ]; then
  mkdir -p "$CHECKOUT"
  mount --bind "/mnt$CHECKOUT" "$CHECKOUT"
  mount -o remount,bind,ro "$CHECKOUT"
fi
mount -o remount,bind,ro /
cd /
unset SECRETS_HERE CHECKOUT
exec "$@"
"""
"""What Docker makes of `read_only`, `tmpfs`, `secrets` and volumes; the host's / is at /mnt, which every host has. A
checkout below one of the folders that are covered is let through, to be read."""
IMAGE: Final = {
    "PATH": f"{sysconfig.get_path('scripts')}:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HOME": "/tmp",
    "MPLCONFIGDIR": "/tmp/matplotlib",
}
"""ENV of the images."""


def user() -> str:
    """That of the images, where it may read this Python; else root, which without capabilities may no more."""
    again = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'pass'])"
    line = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", sys.executable, "-c", again]
    return "65532" if subprocess.run(line, capture_output=True, timeout=60).returncode == 0 else "0"


@pytest.fixture(scope="module", autouse=True)
def able() -> None:
    """Skip where nobody can make such a room."""
    line = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt && setpriv --bounding-set=-all true"]
    if os.geteuid() or subprocess.run(line, capture_output=True, timeout=60).returncode:
        pytest.skip("a container's room needs root and mount namespaces (util-linux: unshare, setpriv)")


@dataclass
class Stack:
    """The services, and what stands for Kafka and ClickHouse."""

    services: dict[str, dict[str, Any]]
    secrets: Path
    addresses: dict[str, str]
    folder: Path
    running: ExitStack

    def start(self, name: str) -> tuple[subprocess.Popen[bytes], Path]:
        """One service, and its log."""
        service = self.services[name]
        given = {key: value.replace("/host", "/mnt") for key, value in service["environment"].items()}
        environment = {**IMAGE, **given, **self.addresses, "SECRETS_HERE": str(self.secrets)}
        environment["CHECKOUT"] = str(DEPLOY.parent)
        kept = "".join(f",+{each.lower()}" for each in service.get("cap_add", ()))
        who = "0" if name == "agent" else user()
        confined = ["setpriv", f"--reuid={who}", "--regid=65532", "--clear-groups", "--inh-caps=-all"]
        confined += [f"--bounding-set=-all{kept}", "--no-new-privs"]
        line = ["unshare", "--mount", "sh", "-c", ROOM, "sh", *confined]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            words = [*line, "warpmeter", *(service["command"] or ["agent"])]
            process = subprocess.Popen(words, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self.running.callback(end, process)
        return process, log

    def once(self, name: str) -> None:
        """A service that ends."""
        process, log = self.start(name)
        assert process.wait(300) == 0, log.read_text()


def end(process: subprocess.Popen[bytes]) -> None:
    """As Docker does: SIGTERM, and when that was in vain SIGKILL."""
    if process.poll() is None:
        tell(process, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def stack(tansu: Tansu, topic_prefix: str, tmp_path: Path) -> Iterator[Stack]:
    """The compose file's services over the embedded broker and engine, with ports of this test's own."""
    copy = shutil.copytree(DEPLOY, tmp_path / "deploy") / "compose"
    subprocess.run([copy / "secrets.sh"], check=True, capture_output=True, timeout=60)
    line = [found(COMPOSE), "--profile", "agent", "config", "--format", "json"]
    read = subprocess.run(line, cwd=copy, check=True, capture_output=True, timeout=120).stdout
    ports = dict(zip(("ingest", "scheduler", "web", "agent", "page"), map(str, free_ports(5)), strict=True))
    with closing(EngineServer(tmp_path / "engine")) as engine, ExitStack() as running:
        for file, who in (("store_dsn", f"{WRITER}:{TOKEN}@"), ("reader_dsn", "")):
            (copy / "secrets" / file).unlink()
            (copy / "secrets" / file).write_text(f"http://{who}127.0.0.1:{engine.port}")
        addresses = {
            "WARPMETER_KAFKA__BOOTSTRAP_SERVERS": tansu.bootstrap_servers,
            "WARPMETER_KAFKA__TOPIC_PREFIX": topic_prefix,
            "WARPMETER_KAFKA__PARTITIONS": "1",
            "WARPMETER_INGEST__LEDGER_DIR": "/tmp/ledger",  # of a broker that keeps no metadata
            "WARPMETER_INGEST__GROUP": topic_prefix,
            "WARPMETER_INGEST__SESSION_TIMEOUT_S": "6",
            "WARPMETER_INGEST__BATCH_AGE_S": "0.5",
            "WARPMETER_SCHEDULER__GROUP": f"{topic_prefix}-scheduler",
            "WARPMETER_AGENT__HOST": topic_prefix,
            "WARPMETER_WEB__PORT": ports["page"],
            **{f"WARPMETER_METRICS__{part.upper()}_PORT": port for part, port in ports.items() if part != "page"},
        }
        yield Stack(json.loads(read)["services"], copy / "secrets", addresses, tmp_path, running)


def test_every_part_does_its_work_in_the_room_that_it_is_given(stack: Stack, topic_prefix: str) -> None:
    stack.once("topics")
    stack.once("migrate")
    job(stack, topic_prefix)
    logs = {name: stack.start(name) for name in ("ingest", "scheduler", "web", "agent")}
    health = {name: stack.services[name]["healthcheck"]["test"][-1] for name in ("ingest", "scheduler", "web")}
    moved = {"9702": "METRICS__INGEST_PORT", "9704": "METRICS__SCHEDULER_PORT", "8080": "WEB__PORT"}

    def well(name: str) -> bool:
        url = health[name]
        for port, key in moved.items():
            url = url.replace(f":{port}/", f":{stack.addresses[f'WARPMETER_{key}']}/")
        process, log = logs[name]
        assert process.poll() is None, log.read_text()
        line = [sys.executable, str(DEPLOY / "docker" / "healthy.py"), url]
        return subprocess.run(line, timeout=60).returncode == 0

    for name in health:
        until(partial(well, name), f"{name} to be healthy", 240, every_s=1)
    page = f"http://127.0.0.1:{stack.addresses['WARPMETER_WEB__PORT']}"
    assert httpx.get(f"{page}/favicon.ico").status_code == 200, "what Kubernetes asks whether the page lives"
    assert not sick((stack.secrets / "reader_dsn").read_text(), topic_prefix) & {"host", "devices", "mounts"}
    for name, (process, log) in logs.items():
        end(process)
        assert "Read-only file system" not in log.read_text(), name
        assert process.returncode == 0, log.read_text()


def job(stack: Stack, name: str) -> None:
    """A process of another user, whose environment alone says that it is job `name`."""
    variables = {"TORCHELASTIC_RUN_ID": name, "RANK": "0", "WORLD_SIZE": "1", "PATH": IMAGE["PATH"]}
    line = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "900"]
    process = subprocess.Popen(line, env=variables, stdin=subprocess.DEVNULL)
    stack.running.callback(process.wait)
    stack.running.callback(process.kill)


def sick(engine: str, host: str) -> set[str]:
    """Sources of that host that are not well, once rows of it have landed, the job of that name among them."""
    with get_client(dsn=engine, database="warpmeter") as client:

        def landed(table: str, more: str = "") -> bool:
            sql = f"SELECT count() FROM {table} WHERE host = {{host:String}} {more}"
            return bool(client.query(sql, {"host": host}).result_rows[0][0])

        for table in ("host_samples", "device_samples", "source_health"):
            until(partial(landed, table), f"rows of {table}", 240, every_s=0.5)
        until(partial(landed, "job_events", "AND job_id = host"), "the job of another user", 240, every_s=0.5)
        rows = client.query(
            "SELECT source FROM source_health_now WHERE host = {host:String} AND state IN ('failed', 'denied')",
            {"host": host},
        ).result_rows
    return {str(source) for (source,) in rows}
