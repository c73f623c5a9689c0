"""No secret of the settings is told: not by what commands print, not in logs, pages, command lines or environments.

Every field that is a secret has a word of its own, and each part is started with all of them against a broker and a
store that are away, at the most talkative level, so that every error has them at hand.
"""

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.brokers.process import free_ports
from tests.real.up import warpmeter
from tests.signals import tell
from tests.wait import until
from warpmeter import config
from warpmeter.cli.app import app
from warpmeter.config import LISTED, TABLES
from warpmeter.settings import Settings

pytestmark = pytest.mark.long

MARK: Final = "geheim"
"""Each secret begins with it, so any of them is found by it."""
AWAY: Final = "127.0.0.1:9"
SCRAM: Final = {
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann",
    "sasl.password": f"{MARK}-of-the-broker",
}  # fmt: skip
VARIABLES: Final = {
    "WARPMETER_KAFKA__OPTIONS": json.dumps(SCRAM),
    "WARPMETER_STORE__DSN": f"http://ann:{MARK}-of-the-store@{AWAY}",
}
"""As variables, for what a process was started with is there for all of its user to see."""
TOML: Final = f"""
[kafka]
bootstrap_servers = "{AWAY}"
schema_registry_url = "http://ann:{MARK}-of-the-registry@{AWAY}"
[log]
level = "debug"
format = "json"
[metrics]
agent_port = {{agent}}
ingest_port = {{ingest}}
scheduler_port = {{schedule}}
engine_port = {{engine}}
web_port = {{web}}
[agent]
outputs = ["kafka", "otlp", "prometheus"]
otlp_url = "http://ann:{MARK}-of-the-collector@{AWAY}"
otlp_headers = {{{{ authorization = "Bearer {MARK}-of-otlp" }}}}
otlp_interval_s = 1.0
rpc_token = "{MARK}-of-rpc-0123456789"
spool_dir = "{{folder}}/spool"
kineto = false
rpc = false
stacks = false
[engine]
data = "{{folder}}/engine"
port = {{port}}
write_token = "{MARK}-of-the-engine"
[traces]
url = "{{folder}}/traces"
options = {{{{ secret = "{MARK}-of-the-traces" }}}}
[scheduler]
data = "{{folder}}/scheduler"
[web]
port = {{page}}
session_secret = "{MARK}-of-the-sessions"
[[web.tokens]]
name = "ann"
role = "operator"
token = "{MARK}-of-the-page-0123456789"
[reports]
url = "{{folder}}/reports"
options = {{{{ secret = "{MARK}-of-the-reports" }}}}
[[reports.targets]]
name = "hook"
kind = "webhook"
url = "http://{AWAY}/{MARK}-of-the-path"
token = "{MARK}-of-the-hook"
secret = "{MARK}-of-the-signature"
headers = {{{{ "X-Key" = "{MARK}-of-a-header" }}}}
[[reports.targets]]
name = "mail"
kind = "mail"
host = "127.0.0.1"
port = 9
username = "ann"
password = "{MARK}-of-the-mail"
sender = "a@example.com"
to = ["b@example.com"]
[[reports.targets]]
name = "bucket"
kind = "folder"
url = "{{folder}}/bucket"
options = {{{{ secret = "{MARK}-of-the-bucket" }}}}
[[alerts.receivers]]
name = "hook"
kind = "webhook"
url = "http://{AWAY}/{MARK}-of-another-path"
token = "{MARK}-of-another-hook"
secret = "{MARK}-of-another-signature"
headers = {{{{ "X-Key" = "{MARK}-of-another-header" }}}}
[[alerts.receivers]]
name = "mail"
kind = "mail"
host = "127.0.0.1"
port = 9
username = "ann"
password = "{MARK}-of-another-mail"
sender = "a@example.com"
to = ["b@example.com"]
"""
PARTS: Final = ("agent", "ingest", "schedule", "web", "engine")
WAITS: Final = ("schedule", "web")
"""They have no metrics before they have a broker, or were asked for something."""
ELSEWHERE: Final = {"store.shards", "scheduler.jobs_url", "kafka.schema_registry_token"}
"""Of a cluster, of a database of others, in place of a password: how they are shown is held, no part has them."""


@dataclasses.dataclass
class World:
    """A folder with the settings, and the ports that are in them."""

    folder: Path
    ports: dict[str, int]

    def said(self, part: str) -> Path:
        """What a part's terminal has."""
        return self.folder / f"{part}.said"

    @property
    def environment(self) -> dict[str, str]:
        """With the secrets that come as variables."""
        return {**os.environ, **VARIABLES, "WARPMETER_CONFIG": str(self.folder / "warpmeter.toml")}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The settings in a file."""
    folder = tmp_path_factory.mktemp("secrets")
    ports = dict(zip((*PARTS, "port", "page"), free_ports(7), strict=True))
    (folder / "warpmeter.toml").write_text(TOML.format(folder=folder, **ports))
    return World(folder, ports)


def _paths(prefix: str, kind: type[Any]) -> Iterator[str]:
    yield from (f"{prefix}.{field.name}" for field in dataclasses.fields(kind) if field.metadata.get("secret"))


def _filled(settings: Settings) -> Iterator[str]:
    for table in TABLES:
        part = getattr(settings, table)
        for path in _paths(table, type(part)):
            if MARK in repr(getattr(part, path.rpartition(".")[2])):
                yield path
        for name, kind in LISTED.items():
            for each in getattr(part, name.rpartition(".")[2], ()) if name.startswith(f"{table}.") else ():
                yield from (path for path in _paths(name, kind) if MARK in str(getattr(each, path.rpartition(".")[2])))


def test_every_secret_there_is_has_its_word_here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    settings = config.load(world.folder / "warpmeter.toml")
    every = {path for table in TABLES for path in _paths(table, type(getattr(settings, table)))}
    every |= {path for name, kind in LISTED.items() for path in _paths(name, kind)}
    assert set(_filled(settings)) == every - ELSEWHERE
    jobs = dataclasses.replace(settings.scheduler, jobs_url=f"postgresql://ann:{MARK}@{AWAY}/jobs")
    store = dataclasses.replace(settings.store, shards=(f"http://ann:{MARK}@{AWAY}",))
    kafka = dataclasses.replace(settings.kafka, schema_registry_token=MARK)
    shown = config.shown(dataclasses.replace(settings, scheduler=jobs, store=store, kafka=kafka))
    assert MARK not in json.dumps(shown, default=str)


@pytest.mark.parametrize(
    "line",
    [
        "config", "config --json", "doctor --json", "status --json", "check --json", "sql 'SELECT 1'", "topics",
        "migrate --check", "alerts receivers", "alerts test hook", "alerts test mail", "reports list",
        "reports check hook", "reports check mail", "tail gpu-samples",
    ],
)  # fmt: skip
def test_no_command_prints_one(world: World, line: str, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    with suppress(SystemExit):
        app(shlex.split(line), standalone_mode=False)
    said = capfd.readouterr()
    assert MARK not in said.out + said.err
    assert said.out + said.err


def _of(process: int) -> str:
    """What the kernel shows of it and all below it: command lines and environments."""
    told = ""
    for name in ("cmdline", "environ"):
        told += Path(f"/proc/{process}/{name}").read_text(errors="replace")
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return told + "".join(_of(int(each)) for each in children)


def _answer(url: str, **headers: str) -> str:
    """A page's text, whatever its status; '' where nobody listens yet."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.headers) + error.read().decode()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def parts(world: World) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Each part by itself, its terminal in a file of its name."""
    found = {}
    for part in PARTS:
        with world.said(part).open("wb") as terminal:
            found[part] = subprocess.Popen(
                warpmeter(part), stdout=terminal, stderr=terminal, env=world.environment, cwd=world.folder
            )
    yield found
    for process in found.values():
        if process.poll() is None:
            tell(process, signal.SIGTERM)
    for process in found.values():
        process.wait(120)


@pytest.mark.parametrize("part", PARTS)
def test_no_part_tells_one(world: World, parts: dict[str, subprocess.Popen[bytes]], part: str) -> None:
    process, metrics = parts[part], f"http://127.0.0.1:{world.ports[part]}/metrics"
    until(
        lambda: (
            process.poll() is not None or world.said(part).read_text()
            if part in WAITS
            else "# HELP" in _answer(metrics)
        ),
        f"{part} to run",
    )
    assert process.poll() is None, world.said(part).read_text()
    assert MARK not in _of(process.pid)
    assert MARK not in _answer(metrics)
    assert MARK not in world.said(part).read_text()


@pytest.mark.usefixtures("parts")
def test_no_answer_of_the_api_tells_one(world: World) -> None:
    page = f"http://127.0.0.1:{world.ports['page']}"
    until(lambda: _answer(f"{page}/api/v1/hosts"), "the page")
    known = {"authorization": f"Bearer {MARK}-of-the-page-0123456789"}
    for path in ("hosts", "jobs", "captures", "alerts", "alerts/receivers", "reports", "reports/targets", "schedules"):
        for headers in ({}, known, {"authorization": f"Bearer {MARK}-of-nobody"}):
            assert MARK not in (said := _answer(f"{page}/api/v1/{path}", **headers)), path
            assert said
    assert "# HELP" in (metrics := _answer(f"http://127.0.0.1:{world.ports['web']}/metrics"))
    assert MARK not in metrics + world.said("web").read_text()


def test_when_they_end_they_have_told_none(world: World, parts: dict[str, subprocess.Popen[bytes]]) -> None:
    for process in parts.values():
        if process.poll() is None:
            tell(process, signal.SIGTERM)
    for part, process in parts.items():
        process.wait(120)
        assert MARK not in world.said(part).read_text(errors="replace"), part
