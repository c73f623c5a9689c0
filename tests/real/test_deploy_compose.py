"""deploy/compose: Docker's own reader takes it, and what it says of warpmeter is so."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml  # type: ignore[import-untyped]

from tests.deployed import DEPLOY, loaded, parsed
from tests.deploytools import COMPOSE, found
from warpmeter.settings import Metrics, Web

pytestmark = pytest.mark.long
Services = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it, with its secrets made."""
    copy: Path = shutil.copytree(DEPLOY, tmp_path_factory.mktemp("compose") / "deploy")
    for _ in range(2):  # the second run changes nothing, and may be anybody's
        subprocess.run([copy / "compose" / "secrets.sh"], check=True, capture_output=True, timeout=60)
    return copy / "compose"


def configured(folder: Path, *files: str) -> dict[str, Any]:
    """The project as Docker understands it."""
    words = [word for file in files for word in ("-f", file)]
    line = [found(COMPOSE), *words, "--profile", "agent", "config", "--format", "json"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.fixture(scope="module")
def services(folder: Path) -> Services:
    """Its services."""
    read: Services = configured(folder, "compose.yaml")["services"]
    return read


@pytest.fixture
def ours(services: Services) -> Services:
    """Those that run warpmeter."""
    return {name: service for name, service in services.items() if service["image"].startswith("warpmeter-")}


def test_every_part_of_ours_runs_a_command_with_settings_that_hold(
    ours: Services, folder: Path, tmp_path: Path
) -> None:
    ran = {}
    for name, service in ours.items():
        ran[name] = parsed(service["command"] or ["agent"])
        settings = loaded(service["environment"], {"/run/secrets": folder / "secrets"}, tmp_path)
        assert settings.kafka.bootstrap_servers.split(":")[0] in ("kafka", "127.0.0.1")
        if "store_dsn" in str(service.get("secrets")):
            password = (folder / "secrets" / "store_password").read_text()
            assert settings.store.dsn == f"http://warpmeter:{password}@clickhouse:8123"
    assert ran == {
        "topics": "topics",
        "migrate": "migrate",
        "ingest": "ingest",
        "scheduler": "schedule",
        "web": "web",
        "agent": "agent",
    }


def test_no_secret_is_in_what_docker_shows(services: Services, folder: Path) -> None:
    shown = json.dumps(services)
    for file in (folder / "secrets").iterdir():
        assert file.read_text() not in shown
    assert (folder / "secrets").stat().st_mode & 0o077 == 0


def test_parts_start_in_the_order_that_they_need(services: Services) -> None:
    waits = {name: service.get("depends_on", {}) for name, service in services.items()}
    done, well = "service_completed_successfully", "service_healthy"
    assert waits["topics"]["kafka"]["condition"] == well
    assert (waits["migrate"]["clickhouse"]["condition"], waits["migrate"]["topics"]["condition"]) == (well, done)
    for name in ("ingest", "scheduler", "web"):
        assert waits[name]["migrate"]["condition"] == done
    for name in {one for each in waits.values() for one, how in each.items() if how["condition"] == well}:
        assert services[name]["healthcheck"]["test"][0] == "CMD"


def test_health_is_asked_where_parts_answer(services: Services) -> None:
    metrics, web = Metrics(), Web()
    asked = {name: services[name]["healthcheck"]["test"][-1] for name in ("ingest", "scheduler", "web")}
    assert asked == {
        "ingest": f"http://127.0.0.1:{metrics.ingest_port}/metrics",
        "scheduler": f"http://127.0.0.1:{metrics.scheduler_port}/metrics",
        "web": f"http://127.0.0.1:{web.port}/api/v1/health",
    }


def test_nothing_is_open_to_other_machines_unless_one_says_so(services: Services) -> None:
    for service in services.values():
        assert {port["host_ip"] for port in service.get("ports", ())} <= {"127.0.0.1"}


def test_nothing_of_ours_writes_its_root_or_may_more_than_it_needs(ours: Services) -> None:
    for name, service in ours.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "privileged" not in service, name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert ("cap_add" in service) == (name == "agent")
    root = next(volume for volume in ours["agent"]["volumes"] if volume["target"] == "/host")
    assert root["read_only"]


def test_with_gpus_the_agent_has_the_driver_and_nothing_to_compute_with(folder: Path) -> None:
    agent = configured(folder, "compose.yaml", "gpu.yaml")["services"]["agent"]
    assert agent["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["utility"]


def test_the_users_of_clickhouse_have_the_passwords_of_those_who_ask(folder: Path) -> None:
    secrets = folder / "secrets"
    users = ElementTree.fromstring((secrets / "clickhouse_users.xml").read_text())
    for user, file in (("warpmeter", "store_password"), ("reader", "reader_password")):
        expected = hashlib.sha256((secrets / file).read_bytes()).hexdigest()
        assert users.findtext(f"users/{user}/password_sha256_hex") == expected
    assert users.findtext("profiles/reader/readonly") == "2"
    assert f":{(secrets / 'reader_password').read_text()}@" in (secrets / "reader_dsn").read_text()


def test_grafana_finds_dashboards_and_store_where_they_are(services: Services) -> None:
    grafana, given = services["grafana"], DEPLOY / "grafana" / "provisioning"
    mounted = {volume["target"]: volume["source"] for volume in grafana["volumes"]}
    assert Path(mounted["/etc/grafana/provisioning"]).name == "provisioning"
    for file in (given / "dashboards").glob("*.yaml"):
        for provider in yaml.safe_load(file.read_text())["providers"]:
            assert Path(mounted[provider["options"]["path"]]).name == "dashboards"
    (store,) = (given / "datasources").glob("*.yaml")
    assert grafana["environment"]["GF_PLUGINS_PREINSTALL"] in store.read_text()
    told = {*grafana["environment"], *re.findall(r"(\w+)=\$", grafana["entrypoint"][-1])}
    values = re.sub(r"(?m)#.*", "", store.read_text())
    assert set(re.findall(r"\$(\w+)", values)) <= told


@pytest.fixture
def page() -> Iterator[str]:
    """The address of a server whose `/metrics` is there, and nothing else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_healthy_is_what_answers_with_200(page: str) -> None:
    def status(*urls: str) -> int:
        line = [sys.executable, str(DEPLOY / "docker" / "healthy.py"), *urls]
        return subprocess.run(line, timeout=60, env={"http_proxy": "http://127.0.0.1:1"}).returncode

    assert status("http://127.0.0.1:9/metrics", f"{page}/metrics") == 0
    assert status(f"{page}/api/v1/health") == 1
    assert status("http://127.0.0.1:9/metrics") == 1
